"""A pure ASGI middleware that projects what an inner app streams: provider events in, the public stream out.

Only a 200 with `text/event-stream` is projected; everything else passes as it is. Timers and heartbeats are the inner
app's. A stream that cannot be read (it is compressed) is ended with an error rather than shown as it is.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, NamedTuple

import anyio
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from projector import Pipeline
from projector.core.faults import FAULTS, Fault
from projector.dialects import DIALECTS
from projector.server.projection import Projection
from projector.server.streaming.response_writer import HEADERS
from projector.server.telemetry.observer import Observer
from projector.server.telemetry.stream_stats import StreamStats

_NOT_OURS: Final = ("content-length", "content-encoding", "transfer-encoding")
"""Headers of the inner app that are not true of what we say."""


class _Stream(NamedTuple):
    pipeline: Pipeline
    stats: StreamStats


class ProjectingMiddleware:
    """Project the streams of an app."""

    def __init__(self, app: ASGIApp, projection: Projection | None = None) -> None:
        self._app = app
        self._projection = projection or Projection()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and project its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(self._projection, scope, receive, send)
        try:
            await self._app(scope, answer.receive, answer.send)
        except Exception:
            await answer.end(FAULTS["internal_error"])
            raise
        else:
            await answer.end()
        finally:
            with anyio.CancelScope(shield=True):  # whoever left, what happened is told
                await answer.tell()


class _Answer:
    """One answer of the inner app."""

    def __init__(self, projection: Projection, scope: Scope, receive: Receive, send: Send) -> None:
        self._projection = projection
        self._scope = scope
        self._receive = receive
        self._send = send
        self._stream: _Stream | None = None
        self._is_sent = False

    async def receive(self) -> Message:
        """Give a message of the client."""
        message = await self._receive()
        if message["type"] == "http.disconnect" and self._stream is not None and not self._is_sent:
            self._stream.stats.is_client_gone = True
        return message

    async def send(self, message: Message) -> None:
        """Take a message of the inner app."""
        if message["type"] == "http.response.start":
            await self._start(message)
        elif self._stream is None:
            await self._send(message)
        elif not self._is_sent:
            pipeline = self._stream.pipeline
            said = pipeline.feed(message.get("body", b""))
            if not message.get("more_body", False):
                said += pipeline.close()
            await self._say(said, self._stream)

    async def end(self, fault: Fault | None = None) -> None:
        """Take the end of an inner app that did not say the end of its stream: it failed, or forgot."""
        if self._stream is not None and not self._is_sent and not self._stream.stats.is_client_gone:
            await self._say(self._stream.pipeline.close(fault), self._stream)

    async def tell(self) -> None:
        """Tell of the stream, if it was one."""
        if self._stream is not None:
            self._stream.pipeline.cancel()  # where the client left
            self._stream.stats.dropped = self._stream.pipeline.dropped
            observer = Observer(on_terminal=self._projection.on_terminal)
            await observer.tell(self._stream.stats)

    async def _start(self, message: Message) -> None:
        headers = MutableHeaders(raw=list(message.get("headers", ())))
        kind = headers.get("content-type", "").lower()
        if message["status"] != HTTPStatus.OK or not kind.startswith("text/event-stream"):
            await self._send(message)
            return
        self._stream = stream = self._begin()
        is_readable = headers.get("content-encoding", "identity").lower() == "identity"
        for name in _NOT_OURS:
            del headers[name]
        for field, value in (*HEADERS, *DIALECTS[stream.stats.dialect].headers):
            headers[field.decode()] = value.decode()
        headers["x-stream-id"] = stream.stats.stream_id
        await self._send({**message, "headers": headers.raw})
        if not is_readable:
            await self._say(stream.pipeline.close(FAULTS["internal_error"]), stream)

    def _begin(self) -> _Stream:
        return _Stream(*self._projection.begin(self._scope))

    async def _say(self, said: bytes, stream: _Stream) -> None:
        self._is_sent = stream.pipeline.ended
        if not said and not self._is_sent:
            return
        try:
            await self._send({"type": "http.response.body", "body": said, "more_body": not self._is_sent})
        except OSError:  # what ASGI servers raise when the client is gone
            stream.stats.is_client_gone = True
            raise
