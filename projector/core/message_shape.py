"""The shape of messages that differ only in a delta, a number and padding: read without lines and a JSON parser.

The deltas of a text come in hundreds of messages with the same bytes but for two or three members. A shape is made from
one message that was read as usual. Any decoder would read what it reads in the same way: the bytes between the variable
members are equal, and each of these is one JSON string or number.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

from projector.contracts import codec
from projector.core.delta_frames import TEXT_MAX_CHARS
from projector.core.sse import SseMessage

Path: TypeAlias = tuple[str | int, ...]

MESSAGE_MAX_BYTES: Final = 16_384
"""Maximum size of a message that a shape reads."""

_END: Final = b"\n\n"
_QUOTE: Final = ord('"')
_BACKSLASH: Final = ord("\\")
_STRING: Final = rb'[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+'
"""The content of a JSON string, without going back: a part of it is never tried."""
_NUMBER: Final = rb"(?>0|[1-9][0-9]{0,14}+)"
"""A number that is exact in JavaScript."""
_CONTENT: Final = re.compile(_STRING, re.DOTALL)
_DIGITS: Final = re.compile(_NUMBER)
_OTHER_TEXT: Final = "another text"
_OTHER_NUMBER: Final = 907_060_501


class Slots(NamedTuple):
    """Members in which the messages of a text may differ."""

    text: Path
    """The delta."""
    number: tuple[str] | None = None
    """The sequence number; None if the API has none."""
    padding: Path | None = None
    """A text that nobody reads. A message need not have it."""
    stops: str = ""
    """Characters that the delta does not contain."""


@runtime_checkable
class ShapedStage(Protocol):
    """A provider stage that may be passed over for deltas of a text; any other one is fed each message."""

    def slots(self, message: Mapping[str, Any], name: str, /) -> Slots | None:
        """Return what may differ in further messages with a delta of the text that the last message continued.

        None if it was no such message, or these may mean more than their text.

        Args:
            message: the JSON of the last message.
            name: its event name.
        """

    def skip(self, texts: Sequence[str], numbers: Sequence[int], /) -> Sequence[int]:
        """Record deltas that were read without this stage; return their sequence numbers if the API has none.

        Args:
            texts: the deltas.
            numbers: their sequence numbers, which rise; empty if the API has none.
        """


class Deltas(NamedTuple):
    """What was read of some bytes: the deltas of whole messages, and the bytes of other messages behind them."""

    texts: list[str]
    encoded: list[bytes]
    """Each delta as the content of a JSON string, without quotes, as `codec.dumps` writes it."""
    numbers: Sequence[int]
    """The sequence number of each delta; empty if messages have none."""
    rest: bytes
    """Bytes from the start of a message that this shape cannot read."""


class MessageShape:
    """Reads messages of one shape, wherever their bytes are cut; created by `shape_of`.

    Args:
        constants: the bytes before, between and behind the variable members.
        members: the expressions of the variable members.
        text: group of the delta in the expression of both.
        number: group of the sequence number; 0 if there is none.
        last: the last sequence number that was read.
        stops: characters that the delta does not contain.
    """

    __slots__ = ("_constants", "_last", "_match", "_number", "_stops", "_text", "count", "unfinished")

    def __init__(
        self, constants: tuple[bytes, ...], members: tuple[bytes, ...], *, text: int, number: int, last: int, stops: str
    ) -> None:
        self._constants = constants
        self._match = _expression(tuple(map(len, constants)), members).match
        self._text, self._number = text, number
        self._last = last
        self._stops = stops
        self.unfinished = b""
        """The beginning of the next message."""
        self.count = 0
        """Messages that were read."""

    def read(self, data: bytes) -> Deltas:
        """Read the messages that the bytes complete, up to the first one of another shape."""
        if self.unfinished:
            data = self.unfinished + data
            self.unfinished = b""
        texts: list[str] = []
        encoded: list[bytes] = []
        numbers: list[int] = []
        match, constants, at = self._match, self._constants, 0
        while (found := match(data, at)) is not None:
            parts = found.groups()
            if parts[::2] != constants:
                break
            raw = parts[self._text]
            text = _text(raw)
            if not text or found.end() - at > MESSAGE_MAX_BYTES or any(stop in text for stop in self._stops):
                break
            if self._number:
                number = int(parts[self._number])
                if number <= self._last:
                    break  # it may have been read before (CONTRACT D52)
                self._last = number
                numbers.append(number)
            texts.append(text)
            encoded.append(raw if _BACKSLASH not in raw else codec.dumps(text)[1:-1])
            at = found.end()
        self.count += len(texts)
        rest = data[at:]
        if self.may_begin(rest):
            self.unfinished, rest = rest, b""
        return Deltas(texts, encoded, numbers, rest)

    def may_begin(self, data: bytes) -> bool:
        """Return whether bytes are the beginning of a message that this shape may read."""
        head = self._constants[0]
        if len(data) < len(head):
            return head.startswith(data)
        return data.startswith(head) and _END not in data and len(data) < MESSAGE_MAX_BYTES


@lru_cache(maxsize=64)
def _expression(lengths: tuple[int, ...], members: tuple[bytes, ...]) -> re.Pattern[bytes]:
    """Return the expression of a message: constants of these lengths, and members between them.

    It says nothing of the content of constants, so that few are compiled, for all streams together.
    """
    parts = zip(lengths, (*members, b""), strict=True)
    return re.compile(b"".join([b"(.{%d})%b" % (length, member) for length, member in parts]), re.DOTALL)


def shape_of(message: SseMessage, tree: Any, slots: Slots) -> MessageShape | None:
    """Return the shape of a message; None if its variable members cannot be told apart. `tree` is its JSON."""
    data = message.data
    found = ((path, _place(data, tree, path, is_number=path == slots.number)) for path in slots[:3] if path is not None)
    places = dict(sorted(((path, place) for path, place in found if place is not None), key=itemgetter(1)))
    is_complete = slots.text in places and (slots.number is None or slots.number in places)
    if not is_complete or len(data) > MESSAGE_MAX_BYTES or not _is_exact(data, tree, places):
        return None
    constants = [b"event: %b\ndata: " % message.event.encode() if message.event else b"data: "]
    members: list[bytes] = []
    at = 0
    groups: dict[Path | None, int] = {None: 0}
    for path, (start, end) in places.items():
        constants[-1] += data[at:start]
        groups[path] = 2 * len(members) + 1
        members.append(b"(%b)" % (_NUMBER if path == slots.number else _STRING))
        constants.append(b"")
        at = end
    constants[-1] += data[at:] + _END
    last = tree[slots.number[0]] if slots.number is not None else -1
    text, number = groups[slots.text], groups[slots.number]
    return MessageShape(tuple(constants), tuple(members), text=text, number=number, last=last, stops=slots.stops)


def _place(data: bytes, tree: Any, path: Path, *, is_number: bool) -> tuple[int, int] | None:
    """Return where a number is, or a text without its quotes; None if that is not clear, or it is neither."""
    try:
        for step in path:
            tree = tree[step]
    except (KeyError, IndexError, TypeError):
        return None
    names = [*re.finditer(rb'"%b"\s*:\s*' % re.escape(str(path[-1]).encode()), data)]
    if len(names) != 1:
        return None
    start = names[0].end()
    if type(tree) is str and not is_number and data[start] == _QUOTE:
        return start + 1, _end_of_string(data, start + 1)
    if type(tree) is int and is_number and (digits := _DIGITS.match(data, start)) is not None:
        return digits.span()
    return None


def _is_exact(data: bytes, tree: Any, places: dict[Path, tuple[int, int]]) -> bool:
    """Check with other values that the places, in order, are those of the members, and of nothing else."""
    expected = copy.deepcopy(tree)
    for path, (start, end) in reversed(places.items()):
        holder = expected
        for step in path[:-1]:
            holder = holder[step]
        is_number = type(holder[path[-1]]) is int
        holder[path[-1]] = _OTHER_NUMBER if is_number else _OTHER_TEXT
        data = data[:start] + str(holder[path[-1]]).encode() + data[end:]
    try:
        return bool(codec.loads(data) == expected)
    except codec.CodecError:
        return False


def _end_of_string(data: bytes, start: int) -> int:
    """Return where the content of a JSON string ends."""
    found = _CONTENT.match(data, start)
    return found.end() if found is not None else start


def _text(raw: bytes) -> str:
    """Return the text of the content of a JSON string; empty if it is too long, or not valid Unicode."""
    try:
        if _BACKSLASH not in raw:
            text = raw.decode()
        else:
            text = str(codec.loads(b'"%b"' % raw))
            text.encode()  # without lone surrogates
    except (codec.CodecError, UnicodeError):
        return ""
    return text if len(text) <= TEXT_MAX_CHARS else ""
