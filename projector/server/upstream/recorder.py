"""Keeps the provider streams of agents as cases, redacted, without getting in their way.

A stream is copied by reference while it is relayed, and handed over when it has ended; one thread redacts and writes,
one recording after another. What would take too much memory or room is not kept; what fails is logged. No stream waits
for any of it.
"""

from __future__ import annotations

import queue
import re
import threading
import time
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

import structlog
from anyio import to_thread

from projector.core.faults import FAULTS, Fault
from projector.recording import record, write
from projector.redaction.policy import Policy, RegisteredValue
from projector.redaction.spans import Finder
from projector.server.config.agent_settings import RecordSettings
from projector.server.config.settings import Settings
from projector.server.upstream.protocol import ProviderRequest, Upstream, UpstreamError

log: Final = structlog.get_logger()

_RUNNING_MAX_BYTES: Final = 64 * 1024 * 1024
"""What the copies of all running streams may hold; a stream that would go beyond is not kept."""
_WAITING_MAX: Final = 32
"""Ended streams that wait for the thread; more come only while the disk is slower than the providers."""
_CLOSE_S: Final = 5
"""What the thread gets at the end for what waits: as much as streams get for their last bytes."""
_WORK_S: Final = 0.0005
_REST_S: Final = 0.001
"""Of the recorder's thread: it takes a third of a core at most, and never a moment that a stream would notice."""
_STREAM_ID: Final = re.compile(r"stream_([0-9a-f]{32})")
_TOO_LARGE: Final = "too large"
_SECRET_MIN_CHARS: Final = 4  # of a registered value; a shorter key is none


class _Breath:
    """Lets other threads run, every now and then: one that only computes gives way when five milliseconds are over.

    With a stream of 3 MB beside it, the event loop was late by 5 ms half of the time, and is by 0.1 ms with this.
    """

    def __init__(self) -> None:
        self._since = 0.0

    def __call__(self) -> None:
        if time.perf_counter() - self._since > _WORK_S:
            time.sleep(_REST_S)
            self._since = time.perf_counter()


def secrets_of(settings: Settings) -> list[RegisteredValue]:
    """Give the keys of the configuration: what no recording may hold, whoever said them."""
    upstreams = settings.upstreams.values()
    keys = [key for key in (settings.api_key, *(upstream.api_key for upstream in upstreams)) if key is not None]
    return [RegisteredValue(value=key) for key in keys if len(key.get_secret_value().strip()) >= _SECRET_MIN_CHARS]


def finder_for(policy: Policy, secrets: Iterable[RegisteredValue]) -> Finder:
    """Give what a recording is searched with: what the policy looks for, and these."""
    return Finder(policy.model_copy(update={"registered": (*policy.registered, *secrets)}), _Breath())


class _Tape(NamedTuple):
    """What all recordings of one agent share."""

    agent: str
    settings: RecordSettings
    finder: Finder
    case: Mapping[str, object]


class _Take(NamedTuple):
    """One stream that has ended."""

    tape: _Tape
    provider: str
    name: str
    parts: list[bytes]
    fault: Fault | None


class Recorder:
    """Writes the recordings of one server."""

    def __init__(self, secrets: Iterable[RegisteredValue] = ()) -> None:
        self.running_bytes = 0
        """What the copies of running streams hold; only the event loop's thread changes it."""
        self._secrets = tuple(secrets)
        self._waiting: queue.Queue[_Take | None] = queue.Queue(_WAITING_MAX)
        self._thread: threading.Thread | None = None

    def upstream(
        self,
        agent: str,
        settings: RecordSettings,
        policy: Policy,
        inner: Upstream,
        profile: Mapping[str, object],
    ) -> RecordedUpstream:
        """Give an upstream whose answers to this agent are kept."""
        case = {"about": f"Recorded from the agent `{agent}`.", "profile": profile, "host_events": inner.is_recording}
        return RecordedUpstream(self, _Tape(agent, settings, finder_for(policy, self._secrets), case), inner)

    def keep(self, take: _Take) -> bool:
        """Take a stream that has ended; False where too many wait."""
        try:
            self._waiting.put_nowait(take)
        except queue.Full:
            log.warning("recording_skipped", agent=take.tape.agent, reason="too many wait")
            return False
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_all, name="recorder", daemon=True)
            self._thread.start()
        return True

    async def aclose(self) -> None:
        """Write what waits, as far as there is time."""
        thread, self._thread = self._thread, None
        if thread is not None:
            await to_thread.run_sync(self._finish, thread)

    def _finish(self, thread: threading.Thread) -> None:
        until = time.monotonic() + _CLOSE_S
        try:
            self._waiting.put(None, timeout=_CLOSE_S)
        except queue.Full:
            return
        thread.join(max(0, until - time.monotonic()))

    def _write_all(self) -> None:
        while (take := self._waiting.get()) is not None:
            try:
                _write(take)
            except Exception as error:  # noqa: BLE001 - whatever it is, the next recording may be written
                reason = error.strerror if isinstance(error, OSError) else None
                log.warning("recording_failed", agent=take.tape.agent, error_type=type(error).__name__, reason=reason)


class RecordedUpstream:
    """An upstream that keeps what it answers. A stream that was cancelled or timed out is not kept: it has no end."""

    def __init__(self, recorder: Recorder, tape: _Tape, inner: Upstream) -> None:
        self.providers = inner.providers
        self.is_recording = inner.is_recording
        self._recorder = recorder
        self._tape = tape
        self._inner = inner
        self._left = tape.settings.max_streams - _kept(tape.settings.folder, tape.agent)
        self._asked: Counter[str] = Counter()  # as many names as recordings, at most
        self._say_full()

    @asynccontextmanager
    async def open(self, request: ProviderRequest, /) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Give the bytes of the answer; see `Upstream`."""
        async with self._inner.open(request) as chunks:
            if self._left <= 0:
                yield chunks
                return
            copy = _Copy(chunks, self._recorder, self._tape.settings.max_stream_bytes)
            try:
                yield copy
            except UpstreamError as error:
                self._keep(request, copy, error.fault)
                raise
            else:
                self._keep(request, copy, None)
            finally:
                copy.release()

    async def aclose(self) -> None:
        """Close the connections that were kept."""
        await self._inner.aclose()

    def _keep(self, request: ProviderRequest, copy: _Copy, fault: Fault | None) -> None:
        if not copy.parts or self._left <= 0:
            if copy.is_over:
                log.warning("recording_skipped", agent=self._tape.agent, reason=_TOO_LARGE)
            return
        known = fault if fault is None or fault.code in FAULTS else None
        if self._recorder.keep(_Take(self._tape, request.provider, self._name(request), copy.parts, known)):
            self._left -= 1
            self._say_full()

    def _say_full(self) -> None:
        if self._left <= 0:
            log.warning("recording_full", agent=self._tape.agent, max_streams=self._tape.settings.max_streams)

    def _name(self, request: ProviderRequest) -> str:
        """Give the name of a new case: the agent, and the stream that asked; one stream may ask it several times."""
        named = _STREAM_ID.fullmatch(request.stream_id)
        stem = f"{self._tape.agent}.{named[1] if named else uuid.uuid4().hex}"
        self._asked[stem] += 1
        return stem if self._asked[stem] == 1 else f"{stem}-{self._asked[stem]}"


class _Copy:
    """The chunks of an answer, kept while they pass; none once they are too large."""

    def __init__(self, chunks: AsyncIterator[bytes], recorder: Recorder, max_bytes: int) -> None:
        self.parts: list[bytes] = []
        self.is_over = False
        self._chunks = chunks
        self._recorder = recorder
        self._left = max_bytes
        self._held = 0

    def __aiter__(self) -> _Copy:
        return self

    async def __anext__(self) -> bytes:
        chunk = await anext(self._chunks)
        if not self.is_over:
            self._add(chunk)
        return chunk

    def _add(self, chunk: bytes) -> None:
        self._left -= len(chunk)
        self._held += len(chunk)
        self._recorder.running_bytes += len(chunk)
        self.parts.append(chunk)
        if self._left < 0 or self._recorder.running_bytes > _RUNNING_MAX_BYTES:
            self.is_over = True
            self.parts = []
            self.release()

    def release(self) -> None:
        """Let others have the room."""
        self._recorder.running_bytes -= self._held
        self._held = 0


def _kept(folder: Path, agent: str) -> int:
    """Give how many recordings of an agent a folder holds; a point ends its name, which has none itself."""
    return sum(1 for _ in folder.glob(f"*/{agent}.*.ndjson"))


def _write(take: _Take) -> None:
    tape = take.tape
    recording = record(take.provider, b"".join(take.parts), tape.finder, fault=take.fault, settings=tape.case)
    if len(recording.data) > tape.settings.max_stream_bytes:  # a mark may be longer than what it stands for
        log.warning("recording_skipped", agent=tape.agent, reason=_TOO_LARGE)
        return
    write(tape.settings.folder, take.name, recording)
    log.info("recorded", agent=tape.agent, case=take.name, events=recording.events, withheld=recording.withheld)
