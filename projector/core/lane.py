"""The lane: messages that continue a text, from the provider's bytes to what they show, without decoder and stage.

The deltas of a text come in hundreds of messages with the same bytes but for two or three members. A lane is made from
one message that was read as usual. Any decoder would read what it reads in the same way: the bytes between the variable
members are equal, and each of these is one JSON string or number. What it cannot read ends it, and goes the ordinary
way from the start of the message, as do deltas that the search cannot decide at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, cast

from projector.contracts import codec
from projector.core.delta_frames import TEXT_MAX_CHARS, Output
from projector.core.sse import SseMessage

Path: TypeAlias = tuple[str | int, ...]

MESSAGE_MAX_BYTES: Final = 16_384
"""Maximum size of a message that a lane reads."""
KEPT_MAX: Final = 256
"""Deltas after which the stage is told about them."""

_OTHER_END: Final = {b"\n\n": b"\r", b"\r\n\r\n": b"\n"}
"""The end of a message -> the first character of another line end."""
_QUOTE: Final = ord('"')
_BACKSLASH: Final = ord("\\")
_STRING: Final = rb'[^"\\\x00-\x1f%b]*+(?:\\.[^"\\\x00-\x1f%b]*+|)*+'
"""The content of a JSON string without some characters, except as escapes. It never goes back: no part is tried."""
_NUMBER: Final = rb"(?>0|[1-9][0-9]{0,14}+)"
"""A number that is exact in JavaScript."""
_CONTENT: Final = re.compile(_STRING % (b"", b""), re.DOTALL)
_DIGITS: Final = re.compile(_NUMBER)
_COLON: Final = re.compile(rb"\s*:\s*")
TEXT_DELTA: Final = "response.output_text.delta"
_OTHER_TEXT: Final = "another text"
_OTHER_NUMBER: Final = 907_060_501


class Slots(NamedTuple):
    """Members in which the messages of a text may differ."""

    text: Path
    """The delta."""
    number: tuple[str] | None = None
    """The sequence number; None if the API has none."""
    next_number: int = 0
    """The sequence number of the next event, if the API has none."""
    padding: Path | None = None
    """A text that nobody reads. A message need not have it."""
    stops: str = ""
    """Characters that the delta does not contain."""
    event: str = TEXT_DELTA
    """The type of the canonical event of each delta."""
    counts: tuple[Path, ...] = ()
    """Numbers above 0 of which the last ones count."""
    on_counts: Callable[[Sequence[int]], None] | None = None
    """Records the last values of `counts`, before the stage is used again."""


class ShapedStage(Protocol):
    """A provider stage that may be passed over for deltas of a text; any other one is fed each message."""

    def slots(self, message: Mapping[str, Any], name: str, /) -> Slots | None:
        """Return what may differ in further messages with a delta of the text that the last message continued.

        None if it was no such message, or these may mean more than their text.

        Args:
            message: the JSON of the last message.
            name: its event name.
        """

    def skip(self, texts: Sequence[str], numbers: Sequence[int], /) -> None:
        """Record deltas that were read without this stage, before it is used again.

        Args:
            texts: the deltas, at least one.
            numbers: their sequence numbers, which rise.
        """


def shaped(stage: object) -> ShapedStage | None:
    """Return a stage that may be passed over for deltas of a text; None for any other one."""
    is_shaped = hasattr(stage, "slots") and hasattr(stage, "skip")  # a check of a protocol takes 50 times as long
    return cast("ShapedStage", stage) if is_shaped else None


Repeat: TypeAlias = Callable[[list[str], list[bytes], list[int]], list[Output]]
"""Handles deltas of the text that the last event continued, each with the content of its JSON string and its number."""


class Lane:
    """The lane of one text, wherever its bytes are cut; created by `lane_of`.

    Args:
        constants: the bytes before, between and behind the variable members.
        members: the expressions of the variable members.
        text: group of the delta in the expression of both.
        number: group of the sequence number; 0 if there is none.
        counts: groups of the numbers of which the last ones count.
        last: the last sequence number.
        slots: what the stage said about the members.
        line_end: the line end of the event stream.
        stage: the stage that is passed over.
        owner: the text.
    """

    __slots__ = (
        *("_constants", "_counted", "_counts", "_end", "_find", "_last", "_number", "_numbers", "_on_counts"),
        *("_stage", "_stops", "_text", "_texts"),
        *("count", "owner", "rest", "unfinished"),
    )

    def __init__(
        self,
        constants: tuple[bytes, ...],
        members: tuple[bytes, ...],
        *,
        text: int,
        number: int,
        counts: Sequence[int],
        last: int,
        slots: Slots,
        line_end: bytes,
        stage: ShapedStage,
        owner: object,
    ) -> None:
        self._constants = constants
        self._find = _expression(tuple(map(len, constants)), members).findall
        self._text, self._number, self._counts = text, number, counts
        self._counted: list[bytes] = []
        """The numbers of the last message of which the last ones count."""
        self._on_counts = slots.on_counts
        self._end = line_end + line_end
        self._last = last
        self._stops = frozenset(slots.stops)
        """Characters that the delta does not contain."""
        self._stage = stage
        self._texts: list[str] = []
        self._numbers: list[int] = []
        """Deltas that the stage does not know yet, and their numbers."""
        self.owner = owner
        """The text."""
        self.unfinished = b""
        """The beginning of the next message."""
        self.rest = b""
        """The bytes from the start of a message of another shape, which ends the lane."""
        self.count = 0
        """Messages of which the stage was told."""

    def read(self, data: bytes, repeat: Repeat) -> list[Output]:
        """Handle the messages that the bytes complete, up to the first one of another shape, and return their output.

        The lane has ended if there is a `rest`.
        """
        if self.unfinished:
            data = self._completed(data)
        texts: list[str] = []
        encoded: list[bytes] = []
        numbers: list[int] = []
        constants, last, number_at, counts = self._constants, self._last, self._number, self._counts
        is_long = len(data) > MESSAGE_MAX_BYTES
        rows = self._find(data)
        for parts in rows:
            if parts[::2] != constants or (is_long and sum(map(len, parts)) > MESSAGE_MAX_BYTES):
                break
            raw = parts[self._text]
            try:
                text = raw.decode()
                if _BACKSLASH in raw:
                    text = _unescaped(raw, self._stops)
                    raw = codec.dumps(text)[1:-1]
            except (UnicodeError, codec.CodecError):
                break  # what any other decoder makes of it is not known here
            number = int(parts[number_at]) if number_at else last + 1
            is_next = 0 < len(text) <= TEXT_MAX_CHARS and number > last  # a number may be repeated (CONTRACT D52)
            if not is_next or (counts and not self._count(parts)):
                break
            last = number
            texts.append(text)
            encoded.append(raw)
            numbers.append(number)
        if len(texts) < len(rows):
            data = b"".join([part for parts in rows[len(texts) :] for part in parts])
            self.unfinished, self.rest = (data, b"") if self.may_begin(data) else (b"", data)
        self._last = last
        self._texts += texts
        self._numbers += numbers
        if len(self._texts) > KEPT_MAX:
            self._tell()
        return repeat(texts, encoded, numbers) if texts else []

    def _completed(self, data: bytes) -> bytes:
        """Return bytes with those before them; nothing as long as no message is complete: each is read once."""
        data = self.unfinished + data
        is_part = self._end not in data and self.may_begin(data)
        self.unfinished = data if is_part else b""
        return b"" if is_part else data

    def _count(self, parts: tuple[bytes, ...]) -> bool:
        """Keep the numbers of which the last ones count; return whether all are above 0."""
        numbers = [parts[place] for place in self._counts]
        if b"0" in numbers:
            return False
        self._counted = numbers
        return True

    def may_begin(self, data: bytes) -> bool:
        """Return whether bytes are the beginning of a message that this lane may read."""
        head = self._constants[0]
        if len(data) < len(head):
            return head.startswith(data)
        if not data.startswith(head) or len(data) >= MESSAGE_MAX_BYTES:
            return False
        end, at = self._end, data.find(self._end[:1], len(head))
        at = at if at >= 0 else len(data)
        is_open = len(data) - at < len(end) and end.startswith(data[at:])
        return is_open and data.find(_OTHER_END[end], len(head), at) < 0

    def end(self) -> bytes:
        """Tell the stage what was read, and return the bytes that were read and not handled."""
        self._tell()
        return self.unfinished or self.rest

    def _tell(self) -> None:
        """Tell the stage about the deltas that it does not know."""
        if self._texts:
            self.count += len(self._texts)
            self._stage.skip(self._texts, self._numbers)
            self._texts, self._numbers = [], []
            if self._on_counts is not None:
                self._on_counts([*map(int, self._counted)])


@lru_cache(maxsize=64)
def _expression(lengths: tuple[int, ...], members: tuple[bytes, ...]) -> re.Pattern[bytes]:
    """Return the expression of a message: constants of these lengths, and members between them; otherwise of the rest.

    It says nothing of the content of constants, so that few are compiled, for all streams together.
    """
    parts = zip(lengths, (*members, b"|(.+)"), strict=True)
    return re.compile(b"".join([b"(.{%d})%b" % (length, member) for length, member in parts]), re.DOTALL)


def lane_of(message: SseMessage, passed: object, owner: object, event: object, line_end: bytes) -> Lane | None:
    """Return the lane of a text whose last delta a message was.

    None if the stage cannot be passed over, or if the message's variable members cannot be told apart.

    Args:
        message: the message.
        passed: the stage that has read it.
        owner: the text.
        event: the type of the canonical events of its deltas.
        line_end: the line end of the event stream.
    """
    if (stage := shaped(passed)) is None:
        return None
    try:
        tree = codec.loads(message.data)
    except codec.CodecError:
        return None  # a message that nobody reads
    slots = stage.slots(tree, message.event) if type(tree) is dict else None
    if slots is None or slots.event != event:  # an event that nobody handled leaves an earlier text open
        return None
    data = message.data
    paths = [path for path in (slots.text, slots.number, slots.padding, *slots.counts) if path is not None]
    numbers = {slots.number, *slots.counts}
    found = ((path, _place(data, tree, path, is_number=path in numbers)) for path in paths)
    places = dict(sorted(((path, place) for path, place in found if place is not None), key=itemgetter(1)))
    is_complete = {slots.text, *numbers} - {None} <= places.keys()
    last = slots.next_number - 1 if slots.number is None else tree.get(slots.number[0])
    if not is_complete or len(data) > MESSAGE_MAX_BYTES or not _is_exact(data, tree, places):
        return None
    constants = [b"event: %b%bdata: " % (message.event.encode(), line_end) if message.event else b"data: "]
    members: list[bytes] = []
    at = 0
    groups: dict[Path | None, int] = {None: 0}
    for path, (start, end) in places.items():
        constants[-1] += data[at:start]
        groups[path] = 2 * len(members) + 1
        stops = re.escape(slots.stops.encode()) if path == slots.text else b""
        members.append(b"(%b)" % (_NUMBER if path in numbers else _STRING % (stops, stops)))
        constants.append(b"")
        at = end
    constants[-1] += data[at:] + line_end + line_end
    return Lane(
        tuple(constants),
        tuple(members),
        text=groups[slots.text],
        number=groups[slots.number],
        last=last,
        counts=[groups[path] for path in slots.counts],
        slots=slots,
        line_end=line_end,
        stage=stage,
        owner=owner,
    )


def _place(data: bytes, tree: Any, path: Path, *, is_number: bool) -> tuple[int, int] | None:
    """Return where a number is, or a text without its quotes; None if that is not clear, or it is neither."""
    try:
        for step in path:
            tree = tree[step]
    except (KeyError, IndexError, TypeError):
        return None
    name = b'"%b"' % str(path[-1]).encode()
    colon = _COLON.match(data, data.find(name) + len(name))
    if colon is None or data.count(name) != 1:
        return None
    start = colon.end()
    if type(tree) is str and not is_number and data[start] == _QUOTE:
        return start + 1, _end_of_string(data, start + 1)
    if type(tree) is int and is_number and (digits := _DIGITS.match(data, start)) is not None:
        return digits.span()
    return None


def _is_exact(data: bytes, tree: Any, places: dict[Path, tuple[int, int]]) -> bool:
    """Check with other values that the places, in order, are those of the members, and of nothing else.

    The tree of the data has the other values then.
    """
    for path, (start, end) in reversed(places.items()):
        holder = tree
        for step in path[:-1]:
            holder = holder[step]
        is_number = type(holder[path[-1]]) is int
        holder[path[-1]] = _OTHER_NUMBER if is_number else _OTHER_TEXT
        data = data[:start] + str(holder[path[-1]]).encode() + data[end:]
    try:
        return bool(codec.loads(data) == tree)
    except codec.CodecError:
        return False


def _end_of_string(data: bytes, start: int) -> int:
    """Return where the content of a JSON string ends."""
    found = _CONTENT.match(data, start)
    return found.end() if found is not None else start


def _unescaped(raw: bytes, stops: frozenset[str]) -> str:
    """Return the text of a JSON string with escapes, empty if it has a stop; raise `UnicodeError` for half a pair."""
    text: str = codec.loads(b'"%b"' % raw)
    text.encode()
    return text if not stops or stops.isdisjoint(text) else ""
