"""Records the provider streams of agents as cases, redacted, without delaying them.

Chunks are kept by reference while a stream runs. When it has ended one thread redacts and writes them, one recording
after another. Streams that exceed the limits of memory or of the folder are skipped; failures are logged.
"""

from __future__ import annotations

import queue
import re
import threading
import time
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Final

from anyio import to_thread
from pydantic import SecretStr

from projector.core.faults import FAULTS, Fault
from projector.recording import Recording, record, write
from projector.redaction.policy import Policy, RegisteredValue
from projector.redaction.whole_values import Finder
from projector.server.config.agent_settings import RecordSettings
from projector.server.config.settings import Settings, secret_values
from projector.server.telemetry.logs import log
from projector.server.upstream.protocol import ProviderRequest, Upstream, UpstreamError

_RUNNING_MAX_BYTES: Final = 64 * 1024 * 1024
"""Maximum bytes of the copies of all running streams; a stream that would exceed it is not recorded."""
_WAITING_MAX: Final = 32
"""Maximum number of ended streams in the thread's queue. It fills only if the disk is slower than the providers."""
_CLOSE_S: Final = 5
"""Seconds at shutdown to write the queue, the same as streams get to send their last bytes."""
_WORK_S: Final = 0.0005
_REST_S: Final = 0.001
"""Seconds of work and of rest of the recorder's thread: at most a third of a core, in slices that delay no stream."""
_STREAM_ID: Final = re.compile(r"stream_([0-9a-f]{32})")
_TOO_LARGE: Final = "too large"
_SECRET_MIN_CHARS: Final = 4  # minimum length of a registered value; shorter keys are not treated as secrets


def secrets_of(settings: Settings) -> list[RegisteredValue]:
    """Return the keys of the configuration, which no recording may contain."""
    return [RegisteredValue(value=SecretStr(value)) for value in secret_values(settings, _SECRET_MIN_CHARS)]


def finder_for(policy: Policy, secrets: Iterable[RegisteredValue]) -> Finder:
    """Return the search for data that a recording must not contain: what the policy withholds, and secrets."""
    since = 0.0

    def pause() -> None:
        # Python switches threads every 5 ms: while a stream of 3 MB was recorded, the event loop was 5 ms late half of
        # the time. With this pause it is 0.1 ms late.
        nonlocal since
        if time.perf_counter() - since > _WORK_S:
            time.sleep(_REST_S)
            since = time.perf_counter()

    return Finder(policy.model_copy(update={"registered": (*policy.registered, *secrets)}), pause)


class Recorder:
    """Writes the recordings of one server, in a thread."""

    def __init__(self, secrets: Iterable[RegisteredValue] = ()) -> None:
        self.running_bytes = 0
        """Size of the copies of all running streams. Only the event loop's thread changes it."""
        self._secrets = tuple(secrets)
        self._waiting: queue.Queue[tuple[str, Callable[[], None]] | None] = queue.Queue(_WAITING_MAX)
        """The agent of each stream that has ended, and what writes its recording."""
        self._thread: threading.Thread | None = None

    def copies(self, agent: str, settings: RecordSettings, policy: Policy) -> AgentCopies:
        """Return what the upstreams of an agent share."""
        return AgentCopies(self, agent, settings, finder_for(policy, self._secrets))

    def keep(self, agent: str, write: Callable[[], None]) -> bool:
        """Queue a stream that has ended; return False if the queue is full."""
        try:
            self._waiting.put_nowait((agent, write))
        except queue.Full:
            log.warning("recording_skipped", agent=agent, reason="too many wait")
            return False
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_all, name="recorder", daemon=True)
            self._thread.start()
        return True

    async def aclose(self) -> None:
        """Write the queue, as far as there is time."""
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
        while (ended := self._waiting.get()) is not None:
            agent, write_it = ended
            try:
                write_it()
            except Exception as error:  # noqa: BLE001 - a failed recording must not stop the next one
                reason = error.strerror if isinstance(error, OSError) else None
                log.warning("recording_failed", agent=agent, error_type=type(error).__name__, reason=reason)


class AgentCopies:
    """The recordings of one agent: their number, and their names."""

    def __init__(self, recorder: Recorder, agent: str, settings: RecordSettings, finder: Finder) -> None:
        self.agent = agent
        self.settings = settings
        self.recorder = recorder
        self.finder = finder
        kept = settings.folder.glob(f"*/{agent}.*.ndjson")  # an agent's name has no dot
        self._left = settings.max_streams - sum(1 for _ in kept)
        self._names: Counter[str] = Counter()  # as many as recordings, at most
        self._warn_if_full()

    @property
    def is_full(self) -> bool:
        """Whether no more streams are recorded."""
        return self._left <= 0

    def upstream(self, inner: Upstream, profile: Mapping[str, object]) -> RecordedUpstream:
        """Return an upstream of the agent that records its responses."""
        case = {
            "about": f"Recorded from the agent `{self.agent}`.",
            "profile": profile,
            "host_events": inner.is_recording,
        }
        return RecordedUpstream(self, case, inner)

    def count(self) -> None:
        """Count a recording."""
        self._left -= 1
        self._warn_if_full()

    def name(self, request: ProviderRequest) -> str:
        """Return the name of a new case: the agent and the stream, which may send several requests."""
        match = _STREAM_ID.fullmatch(request.stream_id)
        stem = f"{self.agent}.{match[1] if match else uuid.uuid4().hex}"
        self._names[stem] += 1
        return stem if self._names[stem] == 1 else f"{stem}-{self._names[stem]}"

    def write(self, name: str, recording: Recording) -> None:
        """Write a recording, unless it is too large: a mark may be longer than the value that it replaces."""
        if len(recording.data) > self.settings.max_stream_bytes:
            log.warning("recording_skipped", agent=self.agent, reason=_TOO_LARGE)
            return
        write(self.settings.folder, name, recording)
        log.info("recorded", agent=self.agent, case=name, events=recording.events, withheld=recording.withheld)

    def _warn_if_full(self) -> None:
        if self.is_full:
            log.warning("recording_full", agent=self.agent, max_streams=self.settings.max_streams)


class RecordedUpstream:
    """An upstream that records its responses, except cancelled and timed-out ones, which have no end."""

    def __init__(self, copies: AgentCopies, case: Mapping[str, object], inner: Upstream) -> None:
        self.providers = inner.providers
        self.is_recording = inner.is_recording
        self.asks = getattr(inner, "asks", ())
        """What is beside the responses is not recorded."""
        self.models = getattr(inner, "models", None)
        self._copies = copies
        self._case = case
        self._inner = inner

    @asynccontextmanager
    async def open(self, request: ProviderRequest, /) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Yield the bytes of the response; see `Upstream`."""
        async with self._inner.open(request) as chunks:
            if self._copies.is_full or request.ask != "response":
                yield chunks
                return
            copy = _Copy(chunks, self._copies.recorder, self._copies.settings.max_stream_bytes)
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
        """Close the connections of the inner upstream."""
        await self._inner.aclose()

    def _keep(self, request: ProviderRequest, copy: _Copy, fault: Fault | None) -> None:
        if not copy.parts or self._copies.is_full:
            if copy.is_too_large:
                log.warning("recording_skipped", agent=self._copies.agent, reason=_TOO_LARGE)
            return
        known = fault if fault is None or fault.code in FAULTS else None
        copies, case, provider, parts = self._copies, self._case, request.provider, copy.parts
        name = copies.name(request)

        def write_it() -> None:
            copies.write(name, record(provider, b"".join(parts), copies.finder, fault=known, settings=case))

        if copies.recorder.keep(copies.agent, write_it):
            copies.count()


class _Copy:
    """Copies of the chunks of a response; dropped once they are too large."""

    def __init__(self, chunks: AsyncIterator[bytes], recorder: Recorder, max_bytes: int) -> None:
        self.parts: list[bytes] = []
        self.is_too_large = False
        self._chunks = chunks
        self._recorder = recorder
        self._max_bytes = max_bytes
        self._held_bytes = 0

    def __aiter__(self) -> _Copy:
        return self

    async def __anext__(self) -> bytes:
        chunk = await anext(self._chunks)
        if not self.is_too_large:
            self._held_bytes += len(chunk)
            self._recorder.running_bytes += len(chunk)
            self.parts.append(chunk)
            if self._held_bytes > self._max_bytes or self._recorder.running_bytes > _RUNNING_MAX_BYTES:
                self.is_too_large = True
                self.parts = []
                self.release()
        return chunk

    def release(self) -> None:
        self._recorder.running_bytes -= self._held_bytes
        self._held_bytes = 0
