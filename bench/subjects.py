"""The subjects measured on an input: pipeline, bare loop, the SDK's objects, and the pipeline stage by stage."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

from openai import APIError

from bench import bare_loop, inputs, sdk_objects
from bench.inputs import Input
from projector import Policy, PublicStreamProjector, StreamContext, build_pipeline
from projector.core.canonical import Frame
from projector.core.pipeline import OutputFormat
from projector.core.sse import SseDecoder
from projector.providers import PROVIDERS, profile_of
from projector.providers.descriptor import ProviderStage
from projector.redaction.format_search import FormatSearch
from projector.redaction.redactor import Redactor
from projector.redaction.rules import shipped
from projector.redaction.search import Search

Written: TypeAlias = list[list[bytes]]
"""For each stream, the output after each read."""

PUBLIC: Final = "public_sse_v1"
REDACTOR: Final = Redactor(Policy())
TEXT_REDACTORS: Final = {
    "off": Redactor(Policy(text="off")),
    "credentials": REDACTOR,
    "all classes": Redactor(Policy(text={"credentials": "mask", **{row.name: "mask" for row in shipped().classes}})),
}
"""Policies of `text`, by name."""
FORMATS: Final = shipped().formats
CONTEXT: Final = StreamContext(stream_id=bare_loop.STREAM_ID)


def pipeline(
    subject: Input, dialect: str = PUBLIC, output_format: OutputFormat = "sse", redactor: Redactor = REDACTOR
) -> Written:
    """Run the whole pipeline over each stream, with one policy."""
    written = []
    for reads in subject.streams:
        stream = build_pipeline(
            provider=subject.provider,
            dialect=dialect,
            context=CONTEXT,
            redactor=redactor,
            output_format=output_format,
            clock=lambda: 1_765_800_000.0,  # `bare_loop.TIMESTAMP`
        )
        written.append([*map(stream.feed, reads), stream.close()])
    return written


def bare(subject: Input, frames: bare_loop.Frames) -> Written:
    """Run a bare loop over each stream."""
    return [bare_loop.run(frames, reads) for reads in subject.streams]


def bare_recorded(subject: Input) -> Callable[[], Written]:
    """Return the bare loop over recordings, with their frames, and one read each because it cannot join events."""
    known = [
        (bare_loop.recorded(frames), b"".join(reads))
        for reads, frames in zip(subject.streams, frames_of(subject), strict=True)
    ]
    return lambda: [bare_loop.run(frames, [whole]) for frames, whole in known]


def frames_of(subject: Input, redactor: Redactor = REDACTOR) -> list[list[Frame]]:
    """Return the frames that the pipeline writes for each stream."""
    written = pipeline(subject, output_format="ndjson", redactor=redactor)
    return [[json.loads(line) for line in b"".join(reads).splitlines()] for reads in written]


def sdk(subject: Input) -> None:
    """Build and drop the SDK's event objects; the SDK raises if a provider reports an error."""
    for reads in subject.streams:
        with suppress(APIError):
            deque(sdk_objects.objects(subject.provider, reads), maxlen=0)


def decoder(subject: Input) -> None:
    """Run the first stage alone: bytes to messages."""
    for reads in subject.streams:
        messages = SseDecoder()
        for read in reads:
            messages.feed(read)


def provider(subject: Input) -> None:
    """Run the first two stages: bytes to canonical events."""
    for reads in subject.streams:
        messages, stage = SseDecoder(), _stage(subject)
        for read in reads:
            for message in messages.feed(read):
                stage.feed(message)  # type: ignore[arg-type]  # these streams have no fault


def projector(subject: Input) -> None:
    """Run all stages but the last: bytes to frames with their envelope."""
    for reads in subject.streams:
        messages, stage = SseDecoder(), _stage(subject)
        frames = PublicStreamProjector(REDACTOR, CONTEXT)
        for read in reads:
            for message in messages.feed(read):
                for event in stage.feed(message):  # type: ignore[arg-type]  # these streams have no fault
                    frames.feed(event)  # type: ignore[arg-type]  # the same


def _stage(subject: Input) -> ProviderStage:
    return PROVIDERS[subject.provider].stage(profile_of(subject.provider, {}))


def clean_parts(count: int, chars: int) -> Iterator[str]:
    """Yield parts of a text without credentials and sensitive words, each with the character before it."""
    text = inputs.text(count * chars // 3).text.replace("tokens", "stream")
    return (text[at - 1 : at + chars] for at in range(1, count * chars, chars))


def detection(formats: int, parts: Sequence[str]) -> Callable[[], None]:
    """Return a search of the parts for some formats, evenly chosen, the last of which is that of sensitive words."""
    words = [word for word in Search(Policy()).keys.beginnings if word.isascii()]
    *others, of_words = FORMATS
    step = len(others) / (formats - 1)
    chosen = [others[int(at * step)] for at in range(formats - 1)]
    search = FormatSearch([*chosen, of_words], words, at_end=False)
    search.quick(" compiles it", 1)

    def run() -> None:
        for part in parts:
            search.quick(part, 1)

    return run


def word_starts(parts: Sequence[str]) -> None:
    """Search the parts for one expression that looks at each start of a word and never matches: the floor."""
    for part in parts:
        _WORD_START(part)


_WORD_START: Final = re.compile("[^0-9A-Za-z](?=[0-9A-Za-z])(?!)").search
