"""Every cut of every recorded Messages stream into two reads, in every dialect.

`python -m tests.corpus.every_cut` compares all, `python -m tests.corpus.every_cut 2/3` the second third of the streams.

Playing 1.6 million cuts in 8 dialects takes days. A cut changes only what the reader (decoder and lane) passes on, and
when. So the real reader runs for each cut, before a stub that knows the messages: it fails if they are not the same
ones in the same order, and notes how they came. Cuts with equal notes cause the same calls of everything behind the
reader, so one of them is played. The notes of the real parts must be the same, and every dialect writes the steps.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from projector.contracts import codec
from projector.contracts.limits import EVENT_MAX_BYTES
from projector.core.context import StreamContext
from projector.core.delta_frames import Output
from projector.core.faults import Fault
from projector.core.input_formats import Decoder, decoder_for
from projector.core.intake import LANE_MIN, PipelineBranch
from projector.core.lane import Slots
from projector.core.pipeline import PUBLIC, OnOutput, Pipeline
from projector.core.projector import PublicStreamProjector
from projector.core.sse import SseMessage, encode_sse
from projector.dialects import DIALECTS
from projector.providers import PROVIDERS
from projector.providers.anthropic_messages.stage import AnthropicMessagesStage
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from tests.corpus import recorded
from tests.corpus.recorded import CORPUS

STREAMS: Final = sorted(CORPUS.glob("anthropic/*.ndjson"))
SHOWN: Final = Policy.load({"text": "off", "limits": {"arguments_text_max_chars": 1_000_000}})
CONTEXT: Final = StreamContext(stream_id="stream_of_the_corpus")
ROW: Final = PROVIDERS["anthropic_messages"]
REDACTOR: Final = Redactor(SHOWN)

Note = tuple[str, int]
"""What happened, and how many messages came before it."""
ENDS: Final = ("read", "end")
"""Notes of the reader itself."""


class Text:
    """A text that a message continued, as the reader sees it."""

    count = LANE_MIN

    def __init__(self, name: str) -> None:
        self.name = name


class Known(NamedTuple):
    """A message, and what the parts behind the reader say after it."""

    message: SseMessage
    delta: str | None
    text: Text | None
    slots: Slots | None


def decoder() -> Decoder:
    return decoder_for("sse", EVENT_MAX_BYTES, ROW.message_fields, has_bare_json=ROW.has_bare_json)


def bytes_of(path: Path) -> bytes:
    """Return a recording as the provider sends it."""
    events = [json.loads(line) for line in path.read_bytes().splitlines() if line.strip()]
    return b"".join(encode_sse(json.dumps(event).encode(), event["type"]) for event in events)


def known_of(data: bytes) -> list[Known]:
    """Return the messages of a stream, each with the answers of stage and projector after it."""
    stage, projector = AnthropicMessagesStage(), PublicStreamProjector(REDACTOR, CONTEXT, is_run=False)
    projector.tick("")
    found: list[Known] = []
    texts: dict[int, tuple[object, Text]] = {}
    for message in decoder().feed(data):
        assert isinstance(message, SseMessage)
        for event in stage.feed(message):
            projector.fail(event) if isinstance(event, Fault) else projector.feed(event)
        tree, own = codec.loads(message.data), projector.open_text
        text = None
        if own is not None and own.count >= LANE_MIN:
            text = texts.setdefault(id(own), (own, Text(own.name)))[1]  # kept, so that no other one gets its address
        slots = stage.slots(tree, message.event)
        found.append(Known(message, tree.get("delta", {}).get("text"), text, slots))
    return found


class Stub:
    """In place of stage and projector: knows which messages must come."""

    ended = False
    is_idle = False
    end = None

    def __init__(self, known: Sequence[Known]) -> None:
        self._known = known
        self.branch = self
        self.dropped: Counter[str] = Counter()
        self.count = 0
        self.notes: list[Note] = []

    @property
    def open_text(self) -> Text | None:
        return self._known[self.count - 1].text if self.count else None

    def slots(self, _message: object, _name: str) -> Slots | None:
        return self._known[self.count - 1].slots

    def feed(self, message: object) -> list[Any]:
        assert message == self._known[self.count].message
        self.count += 1
        return []

    def repeat(self, deltas: list[str], _encoded: object, _numbers: object) -> list[Any]:
        end = self.count + len(deltas)
        assert deltas == [known.delta for known in self._known[self.count : end]]
        self.notes.append(("run", self.count))
        self.count = end
        self.notes.append(("its end", end))
        return []

    def skip(self, _texts: object, _numbers: object) -> None:
        self.notes.append(("skip", self.count))

    def fail(self, fault: Fault) -> list[Any]:
        raise AssertionError(fault)

    def close(self) -> list[Any]:
        return []

    def enter(self, _state: object) -> list[Any]:
        return []


class Noted:
    """A stage as it is, with the notes of a stub."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._stage: Any = pipeline._main._stage
        self._repeat: Any = pipeline._projector.repeat
        self.dropped = self._stage.dropped
        self.count = 0
        self.notes: list[Note] = []
        pipeline._main._stage = self
        pipeline._projector.repeat = self.repeat  # type: ignore[method-assign]

    def slots(self, message: object, name: str) -> Any:
        return self._stage.slots(message, name)

    def feed(self, message: object) -> Any:
        self.count += 1
        return self._stage.feed(message)

    def repeat(self, deltas: list[str], encoded: list[bytes], numbers: list[int]) -> Any:
        self.notes.append(("run", self.count))
        self.count += len(deltas)
        self.notes.append(("its end", self.count))
        return self._repeat(deltas, encoded, numbers)

    def skip(self, texts: list[str], numbers: list[int]) -> None:
        self.notes.append(("skip", self.count))
        self._stage.skip(texts, numbers)

    def close(self) -> Any:
        return self._stage.close()


def notes_of(known: Sequence[Known], reads: Iterable[bytes]) -> tuple[Note, ...]:
    """Return how the messages of some reads come to the parts behind the reader."""
    stub: Any = Stub(known)
    branch = PipelineBranch(stub, stub, decoder, lambda: stub, _nothing)
    for data in reads:
        branch.read(data)
        stub.notes.append(("read", stub.count))
    branch.finish()
    assert stub.count == len(known)
    return (*stub.notes, ("end", stub.count))


def _nothing(*_step: object) -> bytes:
    return b""


def pipeline_of(dialect: str, on_output: OnOutput | None = None) -> Pipeline:
    return recorded.pipeline_of("anthropic_messages", dialect, REDACTOR, input_format="sse", on_output=on_output)


def played(reads: Iterable[bytes]) -> tuple[tuple[Note, ...], list[list[Output]]]:
    """Return how the messages came, and the output of each step before it is encoded."""
    steps: list[list[Output]] = []
    pipeline = pipeline_of(PUBLIC, lambda output, _: steps.append([*output]))
    noted = Noted(pipeline)
    for data in reads:
        pipeline.feed(data)
        noted.notes.append(("read", noted.count))
    pipeline.close()
    return (*noted.notes, ("end", noted.count)), steps


def written(dialect: str, steps: Iterable[Sequence[Output]]) -> bytes:
    """Return what a dialect writes for the output of steps."""
    pipeline = pipeline_of(dialect)
    return b"".join([pipeline._encode(step) for step in steps])


def differences(
    path: Path, cuts: Callable[[int], Iterable[int]], dialects: Sequence[str] = (*DIALECTS,)
) -> tuple[int, int, list[str]]:
    """Return the number of cuts and of ways to read them, and where one differs, given the length -> the cuts."""
    data = bytes_of(path)
    known = known_of(data)
    ways: dict[tuple[Note, ...], int] = {}
    count = 0
    for at in cuts(len(data)):
        count += 1
        ways.setdefault(notes_of(known, (data[:at], data[at:])), at)
    found: list[str] = []
    whole: dict[str, bytes] = {}
    for dialect in dialects:
        pipeline = pipeline_of(dialect)
        mark = DIALECTS[dialect].end_mark
        output = pipeline.feed(data) + pipeline.close()
        whole[dialect] = output if mark is None else output.removesuffix(mark + b"\n")
        assert whole[dialect] == written(dialect, played([data])[1])
    for notes, at in ways.items():
        came, steps = played((data[:at], data[at:]))
        read = came[-1][1]  # nothing is read behind the end of a stream
        expected = tuple((what, min(number, read)) for what, number in notes if number <= read or what in ENDS)
        found += [] if came == expected else [f"{path.stem} at {at}: {came} instead of {expected}"]
        outputs = ((dialect, written(dialect, steps)) for dialect in dialects)
        found += [f"{path.stem} at {at}: {one}" for one, output in outputs if whole[one] != output]
    return count, len(ways), found


def main(share: str = "1/1") -> int:
    """Compare all cuts of a share of the streams; return the exit code."""
    first, step = map(int, share.split("/"))
    streams = STREAMS[first - 1 :: step]
    total: Counter[str] = Counter()
    for path in streams:
        count, kinds, found = differences(path, partial(range, 1))
        total += Counter(cuts=count, played=kinds, different=len(found))
        sys.stdout.write("\n  ".join([f"{path.stem}: {count} cuts, {kinds} ways", *found[:9]]) + "\n")
        sys.stdout.flush()
    sys.stdout.write(f"{len(streams)} streams, {len(DIALECTS)} dialects: {dict(total)}\n")
    return bool(total["different"])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
