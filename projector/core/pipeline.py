"""The whole middleware without I/O: provider bytes in, dialect bytes out, and the host's own door.

This is the composition root: the only place below the shell that knows a clock and makes ids, both by default only.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import Final, Literal, ParamSpec, TypeAlias

from pydantic import BaseModel

from projector._errors import UsageError, known_name
from projector.core.canonical import CanonicalEvent, Frame
from projector.core.context import BranchContext, StreamContext, Timestamps
from projector.core.faults import FAULTS, Fault
from projector.core.input_formats import InputFormat, MakeDecoder, decoder_for
from projector.core.intake import Intake, RecordedIntake, recorded_context
from projector.core.pipeline_branch import PipelineBranch
from projector.core.projector import PublicStreamProjector
from projector.core.sse import encode_events
from projector.dialects import DIALECTS
from projector.dialects.options import DialectOptions
from projector.providers import PROVIDERS, profile_of
from projector.providers.descriptor import Provider
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor

OutputFormat: TypeAlias = Literal["ndjson", "sse"]
OnFrame: TypeAlias = Callable[[Frame], None]

P = ParamSpec("P")


class Pipeline:
    """One stream from provider bytes to dialect bytes. Made by `build_pipeline`.

    Every method returns bytes to send, perhaps none. However the bytes are cut the output is the same, and however the
    stream ends its last event is exactly one terminal. After that every method returns nothing.
    """

    def __init__(
        self,
        *,
        provider: Provider,
        profile: BaseModel | None,
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
    ) -> None:
        self._provider = provider
        self._profile = profile
        self._max_event_bytes = redactor.policy.limits.event_max_bytes
        self._input_format = input_format
        self._output_format = output_format
        self._clock = clock
        self._timestamps = Timestamps()
        self._projector = PublicStreamProjector(redactor, context, is_run=run)
        self._dialect = DIALECTS[dialect].writer(redactor.policy, options)
        self._end_mark = DIALECTS[dialect].end_mark
        self._on_frame = on_frame
        self._intakes = [self._main_intake(is_recording=takes_host_events)]
        """One for each branch, the main one first."""

    @property
    def ended(self) -> bool:
        """Whether the terminal has been said."""
        return self._projector.ended

    @property
    def dropped(self) -> Counter[str]:
        """How often what was not said, by event type or reason (CONTRACT D30)."""
        return sum((intake.dropped for intake in self._intakes), self._projector.dropped.copy())

    def feed(self, data: bytes) -> bytes:
        """Take bytes of the provider, cut anywhere."""
        return self._say(self._intakes[0].feed, data)

    def close(self, fault: Fault | None = None) -> bytes:
        """Take the end: of the provider's bytes, of the host's run, or a fault of the transport.

        A fault loses nothing that came before it, and hides what it caused itself: half an event at the end. After a
        response has ended, a stream that is no run has its terminal already, and a late fault says nothing.
        """
        if fault is None:
            return self._say(lambda: self._end_upstreams() + self._projector.close())
        return self._say(lambda: self._end_upstreams(is_broken=True) + self._projector.fail_run(fault))

    def host(self, event: CanonicalEvent) -> bytes:
        """Take an event of the host: `projector.tool_output`, `projector.attachment`, `projector.context` (D35)."""
        return self._speak(self._intakes[0], self._projector.host, event)

    def next_response(self) -> bytes:
        """Begin a new upstream of the same run: its bytes are read from the start."""
        return self._say(self._intakes[0].next_response)

    def cancel(self) -> bytes:
        """End the stream with `final` cancelled and the text so far."""
        return self._speak(self._intakes[0], self._projector.cancel)

    def branch(
        self, context: BranchContext, *, provider: str | None = None, profile: Mapping[str, object] | None = None
    ) -> PipelineBranch:
        """Give a further branch of the run, for a response that streams beside others.

        Args:
            context: agent and step, and what its failure is to the run.
            provider: a name of `PROVIDERS`; that of the stream where it is None.
            profile: how its upstream differs from others of its kind.

        Raises:
            UsageError: the stream is no run, another open branch stands at the same place, or a name is not known.
        """
        intake = self._open(context, provider, profile)
        return PipelineBranch(intake, self._projector, partial(self._speak, intake))

    def _open(self, context: BranchContext, provider: str | None, profile: Mapping[str, object] | None) -> Intake:
        kind, said = self._provider, self._profile
        if provider is not None:
            kind = PROVIDERS[known_name("provider", provider, PROVIDERS)]
            said = profile_of(provider, profile or {})
        branch = self._projector.open_branch(context)
        self._intakes.append(Intake(self._projector, branch, self._decoders(kind), partial(kind.stage, said)))
        return self._intakes[-1]

    def _open_recorded(self, event: CanonicalEvent) -> Intake:
        provider, profile = event.get("provider"), event.get("profile")
        return self._open(
            recorded_context(event),
            provider if isinstance(provider, str) else None,
            profile if isinstance(profile, dict) else None,
        )

    def _main_intake(self, *, is_recording: bool) -> Intake:
        branch, decoder = self._projector.main, self._decoders(self._provider)
        stage = partial(self._provider.stage, self._profile)
        if is_recording:
            return RecordedIntake(self._projector, branch, decoder, stage, self._open_recorded)
        return Intake(self._projector, branch, decoder, stage)

    def _decoders(self, provider: Provider) -> MakeDecoder:
        return partial(decoder_for, self._input_format, self._max_event_bytes, provider.message_fields)

    def _say(self, work: Callable[P, list[Frame]], *arguments: P.args, **options: P.kwargs) -> bytes:
        """Do some work and write what it says; if a part of ours fails, the stream ends closed (D12)."""
        if self._projector.ended:
            return b""
        self._projector.tick(self._timestamps.write(self._clock()))
        self._projector.mark()
        try:
            said = self._write(work(*arguments, **options))
        except Exception:  # noqa: BLE001 - whatever failed, the page gets its terminal
            said = self._write(self._projector.collapse(FAULTS["internal_error"], is_unsent=True))
        if self._projector.ended:
            self._forget()
        return said

    def _forget(self) -> None:
        """Keep nothing of what an ended stream has said: who holds it may not let go at once."""
        for intake in self._intakes:
            intake.forget()
        self._projector.forget()
        del self._dialect

    def _speak(self, intake: Intake, work: Callable[P, list[Frame]], *arguments: P.args, **options: P.kwargs) -> bytes:
        return self._say(lambda: self._projector.enter(intake.branch) + work(*arguments, **options))

    def _end_upstreams(self, *, is_broken: bool = False) -> list[Frame]:
        said: list[Frame] = []
        for intake in self._intakes:
            said += intake.end(is_broken=is_broken)
        return said

    def _write(self, said: list[Frame]) -> bytes:
        wire = []
        write = self._dialect.feed
        if self._on_frame is not None:
            self._tell(self._on_frame, said)
        for frame in said:
            wire += write(frame)
        if said and self._projector.ended and self._end_mark is not None:
            wire.append((None, self._end_mark))
        if self._output_format == "ndjson":
            return b"".join([data + b"\n" for _, data in wire])
        return encode_events(wire)

    def _tell(self, on_frame: OnFrame, said: list[Frame]) -> None:
        """Tell the host's listener; one that fails ends the stream, and is not told of that."""
        self._on_frame = None
        for frame in said:
            on_frame(frame)
        self._on_frame = on_frame


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
) -> Pipeline:
    """Give a pipeline for one stream, without I/O.

    Args:
        provider: a name of `PROVIDERS`.
        dialect: a name of `DIALECTS`.
        policy: limits, redaction, images, reasoning; the contract's defaults where it is None.
        context: stream id, conversation, agent, workflow; an id is made where it has none (D2).
        run: whether responses follow each other until `close` (D12).
        profile: how this upstream differs from others of its kind, by the names of the provider's profile.
        input_format: what the bytes are; `auto` decides by the first character.
        output_format: what is written.
        takes_host_events: whether events of the host's door are taken from the bytes: for recordings only (D35).
        clock: gives seconds since 1970-01-01 UTC.
        redactor: a compiled policy, for hosts that open many streams with one policy; instead of `policy`.
        options: what the caller asked of the dialect; nothing where it is None.
        on_frame: is told each frame, clean and sealed, just before the dialect writes it, whatever the dialect makes of
            it: for logs, metrics and storing. It must not change a frame; if it raises, the stream ends closed.

    Raises:
        UsageError: a name that is not known, a profile that cannot be, or both policy and redactor.
    """
    known_name("provider", provider, PROVIDERS)
    known_name("dialect", dialect, DIALECTS)
    if redactor is not None and policy is not None:
        raise UsageError("expected a policy or a redactor, not both")
    context = context or StreamContext()
    if context.stream_id is None:
        context = replace(context, stream_id=f"stream_{uuid.uuid4().hex}")
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
        options=options or DialectOptions(),
        on_frame=on_frame,
    )


_compiled: Final = lru_cache(maxsize=32)(Redactor)
"""A policy is compiled once: that costs some tens of milliseconds, a stream nothing."""
