"""Arguments of a call that arrive as values at JSON paths, written as JSON text in the order of their arrival.

A path that leads back into a container that is closed already cannot be written at its place: its top-level member is
written again at the end, whole. In JSON, the last of two members with one name counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import takewhile
from typing import Any, Final, TypeAlias

from projector.contracts import codec
from projector.core import canonical as read
from projector.redaction.clean import Gathered

Steps: TypeAlias = tuple[str | int, ...]

DEPTH_MAX: Final = 60
"""Depth of arguments; the contract cuts deeper trees."""
GAP_MAX: Final = 16
"""Elements that an index may skip; they are null."""

_STEP: Final = re.compile(
    r"""\.(?P<name>[^.\[\]\s'"]+)|\[(?P<index>\d{1,6})\]|\[(?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]""",
    re.DOTALL,
)
_ESCAPED_QUOTE: Final = re.compile(r"\\(['/])")
_BARE_QUOTE: Final = re.compile(r'(?<!\\)((?:\\\\)*)"')

_OPENING: Final[Mapping[type, str]] = {str: "{", int: "["}
_CLOSING: Final[Mapping[type, str]] = {str: "}", int: "]"}


def steps_of(path: str) -> Steps | None:
    """Return the steps of a JSON path (RFC 9535) to one value; None if it is another one, or too deep."""
    if not path.startswith("$"):
        return None
    steps: list[str | int] = []
    at = 1
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None or len(steps) == DEPTH_MAX:
            return None
        at = found.end()
        if found["index"] is not None:
            steps.append(int(found["index"]))
        elif (name := found["name"] or _unquoted(found["quoted"])) is not None:
            steps.append(name)
        else:
            return None
    return tuple(steps) if steps and type(steps[0]) is str else None


def _unquoted(quoted: str) -> str | None:
    """Return the content of a quoted name, whose escapes are those of JSON, and of its quotes."""
    inner = quoted[1:-1]
    if quoted[0] == "'":
        inner = _BARE_QUOTE.sub(r'\1\\"', _ESCAPED_QUOTE.sub(r"\1", inner))
    try:
        value = codec.loads(f'"{inner}"')
    except codec.CodecError:
        return None
    return value if type(value) is str else None


class PartialArguments:
    """The text of one call's arguments. Methods return what is added to it."""

    def __init__(self) -> None:
        self._tree: dict[str, Any] = {}
        self._open: Steps = ()
        """Path of the last value: the containers on it are open in the text."""
        self._string: Gathered[str] | None = None
        """The string at this path, if it goes on."""
        self._late: dict[str, None] = {}
        """Top-level members that are written again at the end; once there is one, all values wait for the end."""

    def add(self, part: Mapping[str, object]) -> str | None:
        """Return the text of one of `partialArgs`; None if it cannot be read."""
        steps = steps_of(read.text_or_none(part, "jsonPath") or "")
        if steps is None:
            return None
        if type(text := part.get("stringValue")) is str:
            return self._add_string(steps, text, goes_on=part.get("willContinue") is True)
        values = [part[name] for name in ("numberValue", "boolValue") if type(part.get(name)) in {int, float, bool}]
        if not values and "nullValue" not in part:
            return None
        value = values[0] if values else None
        begun = self._begin(steps, value)
        return begun if begun is None or self._late else begun + _json(value)

    def close(self) -> str:
        """Return the rest of the text."""
        if not self._open:
            return "{}"
        text = self._end_string() + ("" if self._late else _closed(self._open[1:]))
        return "".join([text, *(f",{_json(name)}:{_json(self._tree[name])}" for name in self._late), "}"])

    def _add_string(self, steps: Steps, text: str, *, goes_on: bool) -> str | None:
        is_same = self._string is not None and steps == self._open
        begun = "" if is_same else self._begin(steps, "")
        if begun is None:
            return None
        self._string = self._string or Gathered()
        self._string.add(text)
        content = "" if self._late else ("" if is_same else '"') + _json(text)[1:-1]
        return begun + content + ("" if goes_on else self._end_string())

    def _end_string(self) -> str:
        string, self._string = self._string, None
        if string is None:
            return ""
        _put(self._tree, self._open, string.text)
        return "" if self._late else '"'

    def _begin(self, steps: Steps, value: object) -> str | None:
        """Put a value into the tree; return the text that leads to it, None if it has no place."""
        if not _fits(self._tree, steps):
            return None
        ended, before = self._end_string(), self._open
        common = _common(steps, before)
        holder = _at(self._tree, steps[:common])
        is_next = not before or (common < min(len(steps), len(before)) and not _has(holder, steps[common]))
        lead = ("," if holder else "") + _leading(steps[common:], holder) if is_next else ""
        _put(self._tree, steps, value)
        self._open = steps
        if self._late:
            self._late[str(steps[0])] = None
            return ""
        if is_next:
            return ended + ("" if before else "{") + _closed(before[common + 1 :]) + lead
        self._late[str(steps[0])] = None
        return ended + _closed(before[1:])


def _json(value: object) -> str:
    return codec.dumps(value).decode()


def _closed(steps: Steps) -> str:
    return "".join(_CLOSING[type(step)] for step in reversed(steps))


def _common(steps: Steps, others: Steps) -> int:
    """Return how many first steps are equal."""
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(steps, others, strict=False))
    return sum(1 for _ in pairs)


def _at(tree: Any, steps: Steps) -> Any:
    for step in steps:
        tree = tree[step] if _has(tree, step) else {}
    return tree


def _has(holder: Any, step: str | int) -> bool:
    if isinstance(step, int):
        return isinstance(holder, list) and step < len(holder)
    return isinstance(holder, dict) and step in holder


def _leading(steps: Steps, holder: Any) -> str:
    """Return the names, brackets and skipped elements before a value."""
    text: list[str] = []
    skipped = len(holder) if isinstance(holder, list) else 0
    for at, step in enumerate(steps):
        text.append(_OPENING[type(step)] if at else "")
        text.append(f"{_json(step)}:" if isinstance(step, str) else "null," * (step - skipped))
        skipped = 0
    return "".join(text)


def _fits(tree: Any, steps: Steps) -> bool:
    """Return whether no index skips too many elements."""
    for step in steps:
        if isinstance(step, int) and step - (len(tree) if isinstance(tree, list) else 0) > GAP_MAX:
            return False
        tree = tree[step] if _has(tree, step) else None
    return True


def _put(tree: Any, steps: Steps, value: object) -> None:
    """Put a value into a tree, with the containers on its way."""
    for step, following in zip(steps, (*steps[1:], None), strict=True):
        if isinstance(step, int):
            tree += [None] * (step + 1 - len(tree))
        if following is None:
            tree[step] = value
            return
        container = list if isinstance(following, int) else dict
        if not _has(tree, step) or not isinstance(tree[step], container):
            tree[step] = container()
        tree = tree[step]
