"""`DialectWriter.repeat` writes the bytes that `feed` writes, and leaves the writer in the same state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any, Final

import pytest

from projector.contracts import codec
from projector.contracts.kinds import Kind
from projector.core import frames
from projector.core.canonical import Frame, WireEvent
from projector.core.delta_frames import TEXT_MAX_CHARS, DeltaFrames
from projector.core.envelope import EnvelopeWriter
from projector.dialects import DIALECTS
from projector.dialects.descriptor import DialectOptions, DialectWriter
from projector.dialects.frame_writer import NUMBER_PLACE, TEXT_PLACE, pattern_of
from projector.dialects.openresponses.writer import OpenResponses
from projector.dialects.responses.writer import Responses
from projector.redaction.clean import Cleaned, CleanJson, CleanText, notice
from projector.redaction.compose import own_words
from projector.redaction.policy import Policy


def _writer(dialect: str, policy: Mapping[str, Any] | None = None, **options: Any) -> Callable[[], DialectWriter]:
    return lambda: DIALECTS[dialect].writer(Policy.load(policy or {}), DialectOptions(**options))


WRITERS: Final[Mapping[str, Callable[[], DialectWriter]]] = {
    **{name: _writer(name) for name in DIALECTS},
    "public_sse_v1 in small frames": _writer("public_sse_v1", {"limits": {"frame_max_bytes": 9_000}}),
    "public_sse_v1 in smaller frames": _writer("public_sse_v1", {"limits": {"frame_max_bytes": 6_000}}),
    "responses in small events": lambda: Responses(9_000, has_extensions=True),
    "responses in smaller events": lambda: Responses(6_000),
    "openresponses in small events": lambda: OpenResponses(9_000),
    "chat_completions with extensions": _writer("chat_completions", extensions=True, include_usage=False),
    "chat_completions of a run": _writer("chat_completions", is_run=True),
}
SEEDS: Final = 24
NAMES: Final = ("item", "100%", "%b %d", 'a "name"', "é\\漢 \U0001f600", "\n")
TEXTS: Final = ("a", " word", "é", "漢", "\U0001f600", '"', "\\", "%", "%d%b", "\n", "\r\n", "\0", "\u2028")
NOTICED: Final = (notice("redacted", "delta"),)
TIMES: Final = ("2025-12-15T12:00:00.000Z", "2025-12-15T12:00:00.123Z", "2025-12-15T12:01:00.000Z")
FAILED: Final = b"failed"
VARIABLE: Final = frozenset({"event_id", "server_timestamp", "provider_sequence_number", "delta"})


class DrawnFrames:
    """The frames of a random stream, in `frames`."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.frames: list[Frame] = []
        self._envelopes = EnvelopeWriter("stream_1", set())
        self._envelopes.tick(TIMES[0])
        self._context: dict[str, object] = {"response_id": "resp %s"}
        self._sequence = 0
        self._slots = 0
        self._branch = 0
        self._open: dict[int, list[tuple[int, CleanText, str]]] = {0: []}
        """Branch -> output index, ID and type of its open items."""
        self._texts: dict[int, dict[int, str]] = {}
        """Output index -> parts of the messages of the current response."""

    def play(self, steps: int) -> list[Frame]:
        """Return the frames of a stream with so many steps between its start and its end."""
        self._add(frames.lifecycle("in_progress"))
        if self.random.random() < 0.5:
            self._add(frames.response_meta(None, own_words("100% model"), 1_700_000_000))
        for _ in range(steps):
            self.random.choices(*zip(*self._steps(), strict=True))[0]()
        self._end()
        return self.frames

    def _steps(self) -> list[tuple[Callable[[], object], int]]:
        return [
            (self._deltas, 8),
            (lambda: self._announce("message"), 3),
            (self._delta_with_notice, 1),
            (self._other_delta, 2),
            (self._citation, 1),
            (self._close, 2),
            (self._change_context, 1),
            (self._next_branch, 1),
            (self._next_response, 1),
        ]

    def _item(self, item_type: str = "message") -> tuple[int, CleanText]:
        """Return the place of an open item of a type."""
        found = [place[:2] for place in self._open[self._branch] if place[2] == item_type]
        return self.random.choice(found) if found else self._announce(item_type)

    def _announce(self, item_type: str) -> tuple[int, CleanText]:
        place = (self._slots, own_words(f"{self.random.choice(NAMES)}{self._slots}"))
        self._slots += 1
        if item_type == "message" and self.random.random() < 0.2:
            phase = Cleaned(CleanJson({"phase": "commentary"}))
            self._add(frames.item_details(place, phase))
        self._add(frames.output_item("added", place, *map(own_words, (item_type, "assistant", "in_progress"))))
        self._open[self._branch].append((*place, item_type))
        return place

    def _deltas(self) -> None:
        """Add deltas of one text."""
        place, part = self._item(), self.random.choice((0, 0, 0, 1))
        for _ in range(self.random.choice((1, 2, 5, 40))):
            text = self._text()
            self._keep(place[0], part, text)
            self._add(frames.message_delta(place, part, Cleaned(own_words(text))))

    def _delta_with_notice(self) -> None:
        place, text = self._item(), self._text()
        self._keep(place[0], 0, text)
        self._add(frames.message_delta(place, 0, Cleaned(own_words(text), NOTICED)))

    def _other_delta(self) -> None:
        if self.random.random() < 0.5:
            self._add(frames.refusal_delta(self._item(), 0, Cleaned(own_words(self._text()))))
        else:
            self._add(frames.reasoning_summary_delta(self._item("reasoning"), 0, Cleaned(own_words(self._text()))))

    def _citation(self) -> None:
        positions = {"start_index": self.random.randrange(500), "end_index": 100_000}
        self._add(frames.message_citation(self._item(), 0, {"type": "url_citation", **positions}, {}))

    def _close(self) -> None:
        if self._open[self._branch]:
            index, item_id, item_type = self._open[self._branch].pop(0)
            members = map(own_words, (item_type, "assistant", "completed"))
            self._add(frames.output_item("done", (index, item_id), *members))

    def _change_context(self) -> None:
        name = self.random.choice(NAMES)
        self._context = {
            "response_id": "resp %s",
            "agent": name,
            "workflow": {"workflow_key": "k", "workflow_run_id": "r", "step_name": name},
        }

    def _next_branch(self) -> None:
        self._branch = self.random.randrange(3)
        self._open.setdefault(self._branch, [])
        self._add(frames.branch(self._branch))

    def _next_response(self) -> None:
        self._close_all()
        self._add(frames.lifecycle("completed"))
        self._texts.clear()
        self._add(frames.lifecycle("in_progress"))

    def _close_all(self) -> None:
        for branch in [one for one in self._open if self._open[one]]:
            if branch != self._branch:
                self._branch = branch
                self._add(frames.branch(branch))
            while self._open[branch]:
                self._close()

    def _end(self) -> None:
        if self.random.random() < 0.5:
            self._announce("message")  # it stays silent: the texts of `final` are compared with those that were sent
        self._close_all()
        if self.random.random() < 0.2:
            code, message = Cleaned(own_words("code")), Cleaned(own_words("It failed."))
            self._add(frames.error(code, message, "provider", is_retryable=False))
            return
        self._add(frames.lifecycle("completed"))
        texts = ["".join(text for _, text in sorted(parts.items())) for _, parts in sorted(self._texts.items())]
        if texts:
            whole = Cleaned(own_words("\n\n".join(texts)))
            self._add(frames.final("completed", {"response_text": whole}, None))
        else:
            self._add(frames.final("completed", {}, None))

    def _keep(self, index: int, part: int, text: str) -> None:
        parts = self._texts.setdefault(index, {})
        parts[part] = parts.get(part, "") + text

    def _text(self) -> str:
        piece = self.random.choice(TEXTS)
        return piece * self.random.choice((1, 1, 1, 3, TEXT_MAX_CHARS // len(piece)))

    def _add(self, frame: Frame) -> None:
        if self.random.random() < 0.1:
            self._envelopes.tick(self.random.choice(TIMES))
        self._sequence += self.random.choice((1, 1, 1, 7))
        event = {"sequence_number": self._sequence} if self.random.random() < 0.99 else {}
        self.frames += self._envelopes.wrap([frame], self._context, event)


def fed(writer: DialectWriter, stream: list[Frame]) -> list[WireEvent]:
    """Return the events of frames that are fed one by one."""
    return [event for frame in stream for event in _fed(writer, frame)]


def repeated(writer: DialectWriter, stream: list[Frame], random: Random) -> tuple[list[WireEvent], int]:
    """Return the events of frames of which some are repeated, and how many were."""
    events, repeats = [], 0
    for run in _runs(stream):
        at = 0
        while at < len(run):
            events += _fed(writer, run[at])
            at += 1
            repeat = writer.repeat(run[at - 1]) if at < len(run) and random.random() < 0.9 else None
            while repeat is not None and at < len(run) and random.random() < 0.8:
                deltas = _deltas_of(run[at : at + random.choice((1, 3, 100))])
                assert deltas.frames() == run[at : at + len(deltas.texts)]
                events += [(repeat.name, data) for data in repeat.write(deltas)]
                at += len(deltas.texts)
                repeats += len(deltas.texts)
    return events, repeats


def _fed(writer: DialectWriter, frame: Frame) -> list[WireEvent]:
    try:
        return writer.feed(frame)
    except KeyError:  # of an item that was not announced
        return [(None, FAILED)]


def _runs(stream: list[Frame]) -> Iterator[list[Frame]]:
    """Yield the frames in runs that may be repeated; any other frame is a run of its own."""
    run: list[Frame] = []
    for frame in stream:
        if run and not _may_follow(run[-1], frame):
            yield run
            run = []
        run.append(frame)
    yield run


def _may_follow(last: Frame, frame: Frame) -> bool:
    return (
        frame["kind"] == Kind.MESSAGE_DELTA
        and "notices" not in frame
        and [*last] == [*frame]
        and "provider_sequence_number" in frame
        and all(last[name] == frame[name] for name in frame if name not in VARIABLE)
    )


def _deltas_of(run: list[Frame]) -> DeltaFrames:
    """Return the frames at the beginning of a run that have one time."""
    first = run[0]
    same = [frame for frame in run if frame["server_timestamp"] == first["server_timestamp"]]
    same = [frame for at, frame in enumerate(same) if frame["event_id"] == first["event_id"] + at]
    texts = [frame["delta"] for frame in same]
    numbers = [frame["provider_sequence_number"] for frame in same]
    encoded = [codec.dumps(text)[1:-1] for text in texts]
    return DeltaFrames(first, first["event_id"], first["server_timestamp"], texts, encoded, numbers)


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("name", WRITERS)
def test_repeated_deltas_are_written_as_if_fed(name: str, seed: int) -> None:
    random = Random(f"{name} {seed}")
    stream = DrawnFrames(random).play(random.choice((5, 20, 60)))
    events, _ = repeated(WRITERS[name](), stream, random)
    assert (None, FAILED) not in events
    assert events == fed(WRITERS[name](), stream)


@pytest.mark.parametrize("name", WRITERS)
def test_a_failure_ends_repeats_too(name: str) -> None:
    random = Random(name)
    stream = DrawnFrames(random).play(40)
    frame = next(frame for frame in stream if frame["kind"] == Kind.MESSAGE_DELTA)
    broken = {**frame, "kind": Kind.REASONING_SUMMARY_DELTA.value, "item_id": "unknown", "summary_index": 0}
    stream.insert(stream.index(frame) + 1, broken)
    events, _ = repeated(WRITERS[name](), stream, random)
    assert events == fed(WRITERS[name](), stream)


def test_a_pattern_has_what_is_no_place_as_it_is() -> None:
    event = {"100%": "%d", "delta": "", "sequence": 0, "payload": {"%b": ['"', "%%"]}}
    pattern = pattern_of(event, {"delta": TEXT_PLACE, "sequence": NUMBER_PLACE})
    assert codec.loads(pattern % (b"\\n%", 7)) == {**event, "delta": "\n%", "sequence": 7}


@pytest.mark.parametrize("name", WRITERS)
def test_plain_deltas_are_repeated(name: str) -> None:
    counts = []
    for seed in range(3):
        random = Random(seed)
        counts.append(repeated(WRITERS[name](), DrawnFrames(random).play(40), random)[1])
    assert all(counts) is not name.endswith(("smaller frames", "smaller events"))
