"""The pipeline, without I/O: provider bytes and host events in, dialect bytes out.

This is the composition root: it connects the stages, and has the default clock and id generator, both replaceable.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Final, Literal, TypeAlias, cast, get_args

from projector._errors import UsageError, check_argument, check_function, known_name
from projector.contracts import codec
from projector.contracts.kinds import Kind
from projector.core.canonical import CanonicalEvent, Frame, WireEvent
from projector.core.context import BranchContext, StreamContext, Timestamps
from projector.core.delta_frames import DeltaFrames, Output
from projector.core.faults import FAULTS, Fault, check_fault
from projector.core.input_formats import InputFormat, MakeDecoder, decoder_for
from projector.core.intake import MakeStage, PipelineBranch, RecordedBranches, as_bytes, recorded_context
from projector.core.projector import PublicStreamProjector
from projector.core.reported_errors import ProviderError
from projector.core.sse import LINES, encode_events, encode_numbered_events, framing_of
from projector.core.transcript import KeepOpaque
from projector.dialects import DIALECTS
from projector.dialects.descriptor import DEFAULT_OPTIONS, DialectOptions, FrameSender, RepeatWriter
from projector.providers import PROVIDERS, profile_of
from projector.providers.descriptor import Provider
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor

WIDE_BYTES: Final = 4
"""Bytes of a character in memory, if any character of its text is not in Latin-1."""
ITEM_BYTES: Final = 4_000
"""Memory of an item without its texts."""
_CHUNK_DELTA: Final = Kind.CHUNK_DELTA  # Python takes ten times as long to look up a member of an enumeration
_ITEM_ADDED: Final = Kind.OUTPUT_ITEM_ADDED

OutputFormat: TypeAlias = Literal["ndjson", "sse"]
OnFrame: TypeAlias = Callable[[Frame], None]
PUBLIC: Final = "public_sse_v1"
"""The dialect whose events are the frames."""

OnDeltas: TypeAlias = Callable[[DeltaFrames], None]
OnOutput: TypeAlias = Callable[[Sequence[Output], list[bytes | None]], None]
"""Receives the output of a step, and the JSON of each frame that is sent as it is, to keep; None for the others."""


class Pipeline:
    """One stream from provider bytes to dialect bytes; created by `build_pipeline`.

    Every method returns the bytes to send, which may be empty. The output does not depend on how the input bytes are
    cut, and however the stream ends, its last event is exactly one terminal. After that all methods return nothing.
    They raise `UsageError` while another one runs, in another thread or the one that called a hook.
    """

    def __init__(
        self,
        *,
        provider: Provider,
        profile: object,
        dialect: str,
        redactor: Redactor,
        context: StreamContext,
        run: bool,
        input_format: InputFormat,
        output_format: OutputFormat,
        takes_host_events: bool,
        clock: Callable[[], float],
        options: DialectOptions,
        on_frame: OnFrame | None,
        on_deltas: OnDeltas | None,
        on_output: OnOutput | None,
    ) -> None:
        self._provider = provider
        self._profile = profile
        self._max_event_bytes = redactor.policy.limits.event_max_bytes
        self._input_format = input_format
        self._output_format = output_format
        self._clock = clock
        self._timestamps = Timestamps()
        self._redactor = redactor
        self._projector = PublicStreamProjector(redactor, context, is_run=run)
        own = options if options.is_run == run else replace(options, is_run=run)
        self._dialect = DIALECTS[dialect].writer(redactor.policy, own)
        self._repeat = _NO_REPEAT
        """What writes the next deltas of the text of `_repeated`."""
        self._framing = LINES
        """The bytes before, between and after its events."""
        self._repeated: Frame | None = None
        """The frame of a delta of the text that was written last; None if there was another frame since."""
        self._public = cast("FrameSender", self._dialect) if dialect == PUBLIC else None
        """The writer, if it sends frames as they are."""
        self._end_mark = DIALECTS[dialect].end_mark
        self._on_frame = on_frame
        self._on_deltas = on_deltas
        self.on_output = on_output
        """See `build_pipeline`; it may be set before the first byte."""
        self.has_event_ids = False
        """Whether SSE messages have the number of the event as their `id`; it may be set before the first byte."""
        self._event_count = 0
        self._is_running = False
        """Whether a step is running."""
        self.ended = False
        """Whether the terminal event has been emitted."""
        self.kept_bytes = 0
        """Approximate size of what is kept until the stream ends, each text once."""
        self._main = self._main_branch(is_recording=takes_host_events)
        self._branches = [self._main]

    @property
    def redactor(self) -> Redactor:
        """What cleans an error response of the provider, which is no part of a stream."""
        return self._redactor

    @property
    def failure(self) -> Exception | None:
        """The exception that ended the stream with `internal_error` or `redaction_failed`: of a hook, or from a bug."""
        return self._projector.failure

    @property
    def provider_errors(self) -> list[ProviderError]:
        """Errors that providers reported, for the operator's log: redacted, and never with a message of ours."""
        return self._projector.provider_errors

    @property
    def dropped(self) -> Counter[str]:
        """Counts of input that was not emitted, by event type or reason (CONTRACT D30)."""
        dropped = self._projector.dropped.copy()
        for branch in self._branches:
            if branch.dropped:
                dropped += branch.dropped
        return dropped

    def feed(self, data: bytes) -> bytes:
        """Process bytes of the provider, cut anywhere; raise `UsageError` for anything else."""
        if not isinstance(data, bytes):
            data = as_bytes(data)
        if self.ended:
            self._main.read_late(data)
            return b""
        return self._run(self._main.read, data)

    def close(self, fault: Fault | None = None) -> bytes:
        """End the stream or run, with a fault if its transport failed.

        Everything received before the fault is still emitted, except an incomplete event at the end. If the terminal
        was already emitted, as after the response of a stream that is not a run, the fault is ignored.

        Raises:
            UsageError: the fault is no `Fault`.
        """
        if self.ended:
            self._main.read_late(None)
        if fault is None:
            return self._run(lambda: self._finish_branches() + self._projector.close())
        check_fault(fault)
        return self._run(lambda: self._finish_branches(is_broken=True) + self._projector.fail_run(fault))

    def host(self, event: CanonicalEvent) -> bytes:
        """Process a host event: `projector.tool_output`, `projector.attachment`, `projector.context` (D35).

        Raises:
            UsageError: the event is no mapping.
        """
        return self._main.host(event)

    def next_response(self) -> bytes:
        """Start another upstream of the same run; decoder and provider stage start anew. Otherwise it does nothing."""
        return self._main.next_response()

    def keep_opaque(self, keep: KeepOpaque) -> None:
        """Keep what the provider wants back with each item. No dialect contains it, but what the function returns."""
        self._projector.main.run.keep_opaque = keep

    def use_stage(self, make_stage: MakeStage) -> None:
        """Read the next response with another stage of the same provider; no byte of it may have been fed."""
        self._main.use_stage(make_stage)

    def cancel(self) -> bytes:
        """Cancel the stream with `final` `cancelled` and the text so far. Idempotent."""
        return self._run(lambda: self._main.enter() + self._projector.cancel())

    def branch(
        self,
        context: BranchContext,
        *,
        provider: str | None = None,
        profile: Mapping[str, object] | None = None,
    ) -> PipelineBranch:
        """Open a branch of the run, for a response that streams at the same time as others.

        Args:
            context: agent, step, and whether the run continues when the branch fails.
            provider: a name of `PROVIDERS`; that of the stream if None.
            profile: settings of its upstream, as in `build_pipeline`.

        Raises:
            UsageError: the context is no `BranchContext` or has a member of another type, the stream is not a run,
                another open branch has the same position in the workflow, or a name is unknown.
        """
        check_argument("context", "a `BranchContext`", holds=isinstance(context, BranchContext))
        row, settings = self._provider, self._profile
        if provider is not None:
            row = PROVIDERS[known_name("provider", provider, PROVIDERS)]
            settings = profile_of(provider, profile or {})
        state = self._projector.open_branch(context)
        stage = partial(row.stage, settings)
        self._branches.append(PipelineBranch(state, self._projector, self._make_decoder(row), stage, self._run))
        return self._branches[-1]

    def _open_recorded(self, event: CanonicalEvent) -> PipelineBranch:
        provider, profile = event.get("provider"), event.get("profile")
        return self.branch(
            recorded_context(event),
            provider=provider if isinstance(provider, str) else None,
            profile=profile if isinstance(profile, dict) else None,
        )

    def _main_branch(self, *, is_recording: bool) -> PipelineBranch:
        stage = partial(self._provider.stage, self._profile)
        parts = (self._projector.main, self._projector, self._make_decoder(self._provider), stage, self._run)
        return RecordedBranches(*parts, self._open_recorded) if is_recording else PipelineBranch(*parts)

    def _make_decoder(self, provider: Provider) -> MakeDecoder:
        fields, is_bare = provider.message_fields, provider.has_bare_json
        return partial(decoder_for, self._input_format, self._max_event_bytes, fields, has_bare_json=is_bare)

    def _run(self, step: Callable[..., Sequence[Output]], data: bytes | None = None) -> bytes:
        """Run a step and encode its frames; any exception ends the stream with its open items closed (D12)."""
        if self.ended:
            return b""
        if self._is_running:
            raise UsageError("expected one call at a time: another call of this pipeline is running")
        self._is_running = True
        try:
            self._projector.tick(self._timestamps.write(self._clock()))
            try:
                output = self._encode(step() if data is None else step(data))
            except Exception as error:  # noqa: BLE001 - after any failure the client gets a terminal
                self._projector.failure = error
                output = self._encode(self._projector.fail_closed(FAULTS["internal_error"], is_unsent=True))
            if self._projector.ended:
                self.ended = True
                self._release()
        finally:
            self._is_running = False
        return output

    def _release(self) -> None:
        """Release the content of an ended stream, because the caller may keep the object."""
        for branch in self._branches:
            branch.release()
        self._projector.release()
        self._on_frame = self._on_deltas = self.on_output = None  # they may refer to their owner, and it to this object
        self._repeat, self._repeated = _NO_REPEAT, None
        del self._dialect

    def _finish_branches(self, *, is_broken: bool = False) -> list[Frame]:
        return [frame for branch in self._branches for frame in branch.finish(is_broken=is_broken)]

    def _encode(self, output: Sequence[Output]) -> bytes:
        if self._on_frame is not None:
            self._report(self._on_frame, output)
        if len(output) == 1 and type(run := output[0]) is DeltaFrames and run.frame is self._repeated:
            rows = self._repeat.write(run)  # nearly every step
            whole = "".join(run.texts)
            self.kept_bytes += len(whole) if whole.isascii() else sum(map(_text_bytes, run.texts))
            if self.on_output is not None:
                self.on_output(output, [*rows] if self._public else [None] * len(rows))
            if self.has_event_ids:
                return self._joined([(self._repeat.name, data) for data in rows])
            head, between, end = self._framing
            return head + between.join(rows) + end
        wire: list[WireEvent] = []
        sent: list[bytes | None] = []
        for one in output:
            if type(one) is DeltaFrames:
                events = self._write_run(one)
                sent += [data for _, data in events] if self._public else [None] * len(one.texts)
            else:
                events = self._write(one)
                is_whole = events and self._public is not None and not self._public.has_cut
                sent.append(codec.to_keep(events[0][1]) if is_whole and self.on_output is not None else None)
            wire += events
        if output and self.on_output is not None:
            self.on_output(output, sent)
        if output and self._projector.ended and self._end_mark is not None:
            wire.append((None, self._end_mark))
        return self._joined(wire)

    def _joined(self, wire: Sequence[WireEvent]) -> bytes:
        if self._output_format == "ndjson":
            return b"".join([data + b"\n" for _, data in wire])
        if self.has_event_ids:
            self._event_count += len(wire)
            return encode_numbered_events(wire, self._event_count - len(wire) + 1)
        return encode_events(wire)

    def _write(self, frame: Frame) -> list[WireEvent]:
        self._repeated = None
        events = self._dialect.feed(frame)
        delta = frame.get("delta")
        self.kept_bytes += _kept(frame, events) if delta is None else _text_bytes(delta)
        return events

    def _write_run(self, deltas: DeltaFrames) -> list[WireEvent]:
        """Write deltas of one text: the first one of a run as a frame, the others without theirs."""
        events: list[WireEvent] = []
        if self._repeated is not deltas.frame:
            first, deltas = deltas.divided()
            events = self._write(first)
            is_known = self._public or "content_index" in first  # of arguments, other dialects write each frame
            repeat = self._dialect.repeat(first) if is_known else None
            if repeat is None:
                return events + [event for frame in deltas.frames() for event in self._write(frame)]
            self._repeat, self._repeated = repeat, deltas.frame
            self._framing = LINES if self._output_format == "ndjson" else framing_of(repeat.name)
        self.kept_bytes += sum(map(_text_bytes, deltas.texts))
        return events + [(self._repeat.name, data) for data in self._repeat.write(deltas)]

    def _report(self, on_frame: OnFrame, output: Sequence[Output]) -> None:
        """Pass the frames to the hooks. If one fails, the stream ends, and none is called again."""
        self._on_frame = None
        for one in output:
            if type(one) is not DeltaFrames:
                on_frame(one)
            elif self._on_deltas is not None:
                self._on_deltas(one)
            else:
                for frame in one.frames():
                    on_frame(frame)
        self._on_frame = on_frame


_NO_REPEAT: Final = RepeatWriter(None, lambda _: [])
"""The writer of deltas while no text is repeated."""


def _text_bytes(text: str) -> int:
    return len(text) if text.isascii() else WIDE_BYTES * len(text)


def _kept(frame: Frame, events: Iterable[WireEvent]) -> int:
    """Return how much of a frame without a delta is kept, by its encoded size."""
    size, kind = sum([len(data) for _, data in events]), frame["kind"]
    if kind == _CHUNK_DELTA:
        return 0 if size else len(frame["data"])  # it is kept if the dialect joins the chunks
    return ITEM_BYTES + size if kind == _ITEM_ADDED else size


def build_pipeline(
    *,
    provider: str,
    dialect: str,
    policy: Policy | None = None,
    context: StreamContext | None = None,
    run: bool = False,
    profile: Mapping[str, object] | None = None,
    input_format: InputFormat = "sse",
    output_format: OutputFormat = "sse",
    takes_host_events: bool = False,
    clock: Callable[[], float] = time.time,
    redactor: Redactor | None = None,
    options: DialectOptions | None = None,
    on_frame: OnFrame | None = None,
    on_deltas: OnDeltas | None = None,
    on_output: OnOutput | None = None,
) -> Pipeline:
    """Create the pipeline of one stream.

    Args:
        provider: a name of `PROVIDERS`.
        dialect: a name of `DIALECTS`.
        policy: limits, redaction, images, reasoning; the contract's defaults if None.
        context: stream id, conversation, agent, workflow; an id is generated if it has none (D2).
        run: whether responses follow each other until `close` (D12).
        profile: settings of this upstream; their names are those of the provider's profile.
        input_format: format of the provider's bytes; `auto` decides by the first character.
        output_format: format of the output.
        takes_host_events: whether host events are read from the bytes: for recordings only (D35).
        clock: returns seconds since 1970-01-01 UTC.
        redactor: a compiled policy, instead of `policy`.
        options: options of the dialect from the caller's request; the defaults if None.
        on_frame: called with each clean frame just before it is encoded, for logs, metrics and storage. It must not
            change the frame; if it raises, the stream ends with `internal_error`, and `failure` is what it raised.
        on_deltas: called with each run of deltas, instead of `on_frame` with their frames.
        on_output: called with the output of each step once it is encoded, so with exactly what is sent, and with the
            JSON of the frames that are sent as they are. It must not change them, and must not raise: `StreamReplay`
            writes the same stream from the frames again.

    Raises:
        UsageError: an unknown name, an invalid profile, an argument of another type, or a policy and a redactor.
    """
    context = _NO_CONTEXT if context is None else context
    check_arguments(provider, dialect, policy, context)
    known_name("input format", input_format, _INPUT_FORMATS)
    known_name("output format", output_format, _OUTPUT_FORMATS)
    check_argument("run", "True or False", holds=isinstance(run, bool))
    check_function("clock", "a function", clock)
    check_argument("redactor", "a `Redactor` or None", holds=isinstance(redactor, Redactor | None))
    check_argument("options", "`DialectOptions` or None", holds=isinstance(options, DialectOptions | None))
    for name, hook in (("on_frame", on_frame), ("on_deltas", on_deltas), ("on_output", on_output)):
        if hook is not None:
            check_function(name, "a function or None", hook)
    if redactor is not None and policy is not None:
        raise UsageError("expected a policy or a redactor, not both")
    if context.stream_id is None:
        context = replace(context, stream_id=f"stream_{os.urandom(16).hex()}")
    return Pipeline(
        provider=PROVIDERS[provider],
        profile=profile_of(provider, profile or {}),
        dialect=dialect,
        redactor=redactor or _compiled(policy or Policy()),
        context=context,
        run=run,
        input_format=input_format,
        output_format=output_format,
        takes_host_events=takes_host_events,
        clock=clock,
        options=options or DEFAULT_OPTIONS,
        on_frame=on_frame,
        on_deltas=on_deltas,
        on_output=on_output,
    )


def check_arguments(provider: str, dialect: str, policy: object, context: object) -> None:
    """Raise `UsageError` for an unknown name, something else than a `Policy` or None, or than a `StreamContext`."""
    known_name("provider", provider, PROVIDERS)
    known_name("dialect", dialect, DIALECTS)
    expected = "a `Policy`; `Policy.load` makes one of a table or a name"
    check_argument("policy", expected, holds=isinstance(policy, Policy | None))
    check_argument("context", "a `StreamContext`", holds=isinstance(context, StreamContext))


_NO_CONTEXT: Final = StreamContext()
_INPUT_FORMATS: Final = get_args(InputFormat)
_OUTPUT_FORMATS: Final = get_args(OutputFormat)
_compiled: Final = lru_cache(maxsize=32)(Redactor)
"""Makes a redactor once for equal content. Its rules are compiled by the first texts, for up to 0.3 s in all."""
