"""Pure ASGI middleware that projects the streams of an inner app: provider events in, the public stream out.

Only a 200 with `text/event-stream` is projected; every other response passes unchanged, and so do streams that this
project has written. Timeouts and heartbeats are the inner app's. A stream that is compressed cannot be read, and ends
with an error.
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
from projector.server.response import Projection, projection_of
from projector.server.streaming.response_writer import HEADERS
from projector.server.telemetry.reports import Observer
from projector.server.telemetry.request_facts import facts_of
from projector.server.telemetry.stream_stats import StreamStats

_REMOVED_HEADERS: Final = ("content-length", "content-encoding", "transfer-encoding")
"""Headers of the inner app that do not apply to our output."""


class ProjectingMiddleware:
    """Projects the streams of an app."""

    def __init__(self, app: ASGIApp, projection: Projection | None = None) -> None:
        self._app = app
        self._projection = projection_of(projection)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and project the response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        response = _Response(self._projection, scope, receive, send)
        try:
            await self._app(scope, response.receive, response.send)
        except Exception:
            await response.end(FAULTS["internal_error"])
            raise
        else:
            await response.end()
        finally:
            with anyio.CancelScope(shield=True):  # the stream is reported even if the client is gone
                await response.report()


class _Stream(NamedTuple):
    pipeline: Pipeline
    stats: StreamStats


class _Response:
    def __init__(self, projection: Projection, scope: Scope, receive: Receive, send: Send) -> None:
        self._projection = projection
        self._scope = scope
        self._facts = facts_of(scope)  # before the inner app may copy the scope
        self._receive = receive
        self._send = send
        self._stream: _Stream | None = None
        self._is_sent = False

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect" and self._stream is not None and not self._is_sent:
            self._stream.stats.is_client_gone = True
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            await self._start(message)
        elif self._stream is None:
            await self._send(message)
        elif not self._is_sent:
            pipeline = self._stream.pipeline
            output = pipeline.feed(message.get("body", b""))
            if not message.get("more_body", False):
                output += pipeline.close()
            await self._write(output, self._stream)

    async def end(self, fault: Fault | None = None) -> None:
        """End the stream if the inner app did not: it failed, or returned without its last message."""
        if self._stream is not None and not self._is_sent and not self._stream.stats.is_client_gone:
            await self._write(self._stream.pipeline.close(fault), self._stream)

    async def report(self) -> None:
        if self._stream is not None:
            pipeline, stats = self._stream
            pipeline.cancel()  # if the client is gone
            stats.dropped = pipeline.dropped
            await Observer(on_terminal=self._projection.on_terminal).report(stats)

    async def _start(self, message: Message) -> None:
        headers = MutableHeaders(raw=list(message.get("headers", ())))
        media_type = headers.get("content-type", "").lower()
        is_stream = message["status"] == HTTPStatus.OK and media_type.startswith("text/event-stream")
        if self._facts.is_projected or not is_stream:
            await self._send(message)
            return
        self._facts.is_projected = True
        self._stream = stream = _Stream(*self._projection.begin(self._scope))
        is_readable = headers.get("content-encoding", "identity").lower() == "identity"
        for name in _REMOVED_HEADERS:
            del headers[name]
        for field, value in (*HEADERS, *DIALECTS[stream.stats.dialect].headers):
            headers[field.decode()] = value.decode()
        headers["x-stream-id"] = stream.stats.stream_id
        await self._send({**message, "headers": headers.raw})
        if not is_readable:
            await self._write(stream.pipeline.close(FAULTS["internal_error"]), stream)

    async def _write(self, output: bytes, stream: _Stream) -> None:
        self._is_sent = stream.pipeline.ended
        if not output and not self._is_sent:
            return
        try:
            await self._send({"type": "http.response.body", "body": output, "more_body": not self._is_sent})
        except OSError:  # ASGI servers raise it after a disconnect
            stream.stats.is_client_gone = True
            raise
