"""A reader of a stored stream: pages of its log in, the bytes of a dialect out. Readers do not know the producer.

What a server must remember of a stream to write it again is the `meta` of its head in the store, as JSON.

Every reader has a position of its own and no queue, so a slow one costs no memory. Its stream ends with the terminal,
whatever happens to the producer. If this server ends, or the store is away for too long, the connection is broken off
between two events, and the client goes on at another server.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from operator import itemgetter
from typing import Any, Final, NamedTuple

import anyio
from starlette.types import Receive, Scope, Send

from projector.contracts import codec
from projector.core.canonical import Frame
from projector.core.faults import Fault
from projector.core.pipeline import OutputFormat
from projector.core.replay import StreamReplay
from projector.dialects.descriptor import DEFAULT_OPTIONS, DialectOptions
from projector.redaction.policy import Policy
from projector.server.config.agent_settings import KeepingSettings
from projector.server.config.upstream_settings import Timeouts
from projector.server.http.problems import ClientLeftError, Problem, problem
from projector.server.streaming.clock import SideTasks, watch_client
from projector.server.streaming.memory import Account
from projector.server.streaming.response_writer import ResponseSession, ResponseWriter, Signal
from projector.server.telemetry.stream_stats import StreamStats
from projector.store.protocol import (
    LEASE_S,
    Page,
    Store,
    StoreUnavailableError,
    StreamHead,
    TrimmedError,
    UnknownStreamError,
    UnreadableError,
    reading,
)

_OPTIONS: Final = [(one.name, getattr(DEFAULT_OPTIONS, one.name)) for one in fields(DEFAULT_OPTIONS)]


_OF_REQUEST: Final = ("request_id", "route", "agent", "workflow", "upstream", "model")


class StoredStream(NamedTuple):
    """A stream as its readers need it. Of the policy, dialects read two values only: redaction is over."""

    dialect: str
    """Dialect of the first reader."""
    dialects: Sequence[str]
    """Dialects that a reader may select."""
    policy: Policy
    options: DialectOptions = DEFAULT_OPTIONS
    is_run: bool = False
    agent: str | None = None
    workflow: str | None = None
    conversation_id: str | None = None

    def head(self, stats: StreamStats, producer: str) -> StreamHead:
        """Return the head of a new log. Its `request` is what is known of a stream that its producer does not end."""
        values = self._asdict()
        values["request"] = {name: value for name in _OF_REQUEST if (value := getattr(stats, name))}
        values["policy"] = {
            "reasoning": self.policy.reasoning,
            "limits": {"frame_max_bytes": self.policy.limits.frame_max_bytes},
        }
        values["options"] = {
            name: sorted(value) if isinstance(value, frozenset) else value
            for name, default in (() if self.options is DEFAULT_OPTIONS else _OPTIONS)
            if (value := getattr(self.options, name)) != default
        }
        created_ms = int(time.time() * 1000)
        return StreamHead(stats.stream_id, stats.caller, producer, created_ms, codec.to_keep(codec.dumps(values)))

    @classmethod
    def of(cls, head: StreamHead) -> StoredStream:
        """Return the stream of a head, also of one that another version of this server has written."""
        with reading():
            values: dict[str, Any] = codec.loads(head.meta)
            values["policy"] = Policy.load(values["policy"])
            given = values.pop("options", {})
            options = {name: given[name] for name, _ in _OPTIONS if name in given}
            if "taken_ids" in options:
                options["taken_ids"] = frozenset(options["taken_ids"])
            values["options"] = DialectOptions(**options)
            return cls(**{name: value for name, value in values.items() if name in cls._fields})

    def replay(
        self,
        dialect: str | None = None,
        *,
        after: int = 0,
        options: Mapping[str, Any] | None = None,
        output_format: OutputFormat = "sse",
    ) -> StreamReplay:
        """Return a writer of the stream, by default as for its first reader.

        Args:
            dialect: a name of `dialects`.
            after: number of the last event that the reader has.
            options: members of `DialectOptions` that the reader's request sets.
            output_format: format of the output.
        """
        return StreamReplay(
            dialect=dialect or self.dialect,
            policy=self.policy,
            options=replace(self.options, **(options or {})),
            is_run=self.is_run,
            after=after,
            output_format=output_format,
        )


class Keeping(NamedTuple):
    """What a stream is stored as, and whether it survives a disconnect of its client."""

    stored: StoredStream | None = None
    """None: it has no log."""
    survives: bool = False

    @classmethod
    def of(cls, settings: KeepingSettings, stored: StoredStream) -> Keeping:
        """Return what is kept of a stream of an agent, workflow or passthrough route."""
        is_stored = settings.store != "none"
        return cls(stored if is_stored else None, survives=is_stored and settings.on_disconnect == "continue")


NOTHING: Final = Keeping()


_envelope: Final = itemgetter("stream_id", "event_id", "kind")


def stored_frames(stored: Iterable[bytes]) -> list[Frame]:
    """Return frames of a log; raise `UnreadableError` if one has no envelope."""
    with reading():
        frames: list[Frame] = [codec.loads(one) for one in stored]
        for frame in frames:
            _envelope(frame)
    return frames


def written(replay: StreamReplay, stored: Iterable[bytes]) -> bytes:
    """Return what a replay makes of frames of a log; raise `UnreadableError` if one is not as its kind requires."""
    with reading():
        return replay.feed(stored_frames(stored))


PAGE_BYTES: Final = 131_072
"""Frames that are read at once; a page takes a few milliseconds to write."""
BEHIND_S: Final = LEASE_S + 2.0
"""Seconds for a log to receive an event that its reader has, while its store was away; or to be sealed."""
AWAY_S: Final = 45.0
"""Seconds that a reader waits for a store that is away."""
_RETRY_S: Final = 0.25


class LogSession(ResponseSession):
    """One reader; `run` it once."""

    def __init__(
        self,
        store: Store,
        stats: StreamStats,
        replay: StreamReplay,
        account: Account,
        *,
        after: int,
        timeouts: Timeouts,
        heartbeat_s: float,
        headers: Sequence[tuple[bytes, bytes]],
        is_json: bool,
    ) -> None:
        super().__init__(stats, account, timeouts=timeouts, heartbeat_s=heartbeat_s, headers=headers, is_json=is_json)
        self._store = store
        self._replay = replay
        self._after = after
        self._read = 0
        self._first = b""

    is_upstream_open = False

    async def seek(self, receive: Receive) -> bool:
        """Read up to the position of the reader; return False if nothing can follow it.

        Raises:
            Problem: the stream has no such event, or the events after it are not kept.
            ClientLeftError: the client disconnected.
        """
        with anyio.CancelScope() as scope, SideTasks(lambda _: scope.cancel()) as beside:
            beside.start(watch_client, receive, scope.cancel)
            return await self._seek()
        raise ClientLeftError

    async def _seek(self) -> bool:
        since, is_interrupted = time.monotonic(), False
        while self._replay.position < self._after or not self._read:
            page = await self._next_page()
            self._first += self._write(page)
            is_interrupted = page.seal is not None and bool(page.seal.reason)
            if self._replay.ended:
                break
            if not page.frames:
                if self._replay.position >= self._after:
                    break
                if time.monotonic() - since > BEHIND_S:
                    raise problem("unknown_event")
                await self._wait(BEHIND_S)
        if self._replay.ended and self._replay.position < self._after:
            raise problem("events_gone" if is_interrupted else "unknown_event")
        return bool(self._first) or not self._replay.ended

    async def run(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what follows the position of the reader; raise `Problem` if nothing was sent."""
        await self._respond(scope, receive, send, self._produce, self._leave)
        if self._problem is not None:
            raise self._problem

    def cancel(self) -> None:
        """Do nothing: the producer is asked to cancel, and its terminal ends the reader too."""

    def fail(self, fault: Fault) -> None:  # noqa: ARG002 - a stream that is produced here would end with it
        """Break the connection off: the stream goes on elsewhere, or its log has its end."""
        self._leave()

    async def _produce(self, writer: ResponseWriter) -> None:
        try:
            await writer.write(self._first)
            self._first = b""
            while not self._replay.ended:
                page = await self._next_page()
                data = self._write(page)
                if data:
                    await writer.write(data)
                elif not page.frames and not self._replay.ended:
                    await self._wait(self._heartbeat_s)
            await writer.end(b"")
        except Problem as error:
            is_gone = error.code == "unknown_stream"  # deleted or expired; a log that was trimmed goes on
            if is_gone and self._state.is_committed:
                await writer.end(self._replay.interrupt(self.stats.stream_id, time.time()))
            elif self._state.apply(Signal.FAIL) and not self._state.is_committed:
                self._problem = error
        except StoreUnavailableError:
            if not self._state.is_committed:
                self._problem = problem("store_unavailable")

    async def _next_page(self) -> Page:
        """Return the next page; wait a while for a store that is away."""
        since = time.monotonic()
        while True:
            try:
                return await self._store.read(self.stats.stream_id, self._read, PAGE_BYTES)
            except UnknownStreamError:
                raise problem("unknown_stream") from None
            except TrimmedError:
                raise problem("events_gone") from None
            except StoreUnavailableError as error:
                is_over = isinstance(error, UnreadableError) or not self._state.is_committed
                if is_over or time.monotonic() - since > AWAY_S:
                    raise
                await anyio.sleep(_RETRY_S)

    async def _wait(self, timeout_s: float) -> None:
        try:
            await self._store.wait(self.stats.stream_id, self._read, timeout_s)
        except StoreUnavailableError:  # so is the next page, which has its own time limit
            await anyio.sleep(_RETRY_S)

    def _write(self, page: Page) -> bytes:
        """Return the bytes of a page, and of the end of a stream whose producer has stopped."""
        data = written(self._replay, page.frames)
        self._read = page.last
        if page.seal is not None and not self._replay.ended:
            data += self._replay.interrupt(self.stats.stream_id, page.seal.at_ms / 1000)
        return data

    def _leave(self) -> None:
        if self._state.apply(Signal.LEAVE):
            self.stats.is_client_gone = True
            self._scope.cancel()
