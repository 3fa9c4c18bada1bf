"""Format, parse and resolve the paths of notices (seed section 8, CONTRACT D26).

A path uses dots and brackets: `tool.results[2].text`, `arguments_json.a["x.y"]`. A key that is not a plain word is
written in brackets as a JSON string. The parser is more lenient: any run without `.` and `[` is a key.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from projector.contracts import codec

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_STEP: Final = re.compile(
    r"""
    \.? (?P<key> [^.\[]+ )
    | \[ (?P<index> 0 | [1-9][0-9]{0,8} ) \]
    | \[ (?P<quoted> " (?: [^"\\] | \\. )* " ) \]
    """,
    re.VERBOSE | re.DOTALL,
)


ABSENT: Final = object()
"""Result of `resolve` for a path that does not exist; equal to no JSON value."""


def join_key(path: str, key: str) -> str:
    """Return the path of a member; below the empty path it starts with a dot."""
    return f"{path}.{key}" if _PLAIN_KEY.fullmatch(key) else f"{path}[{codec.dumps(key).decode()}]"


def join_index(path: str, index: int) -> str:
    """Return the path of an array entry."""
    return f"{path}[{index}]"


@lru_cache(maxsize=256)
def steps(path: str) -> tuple[str | int, ...] | None:
    """Parse a path into keys and indexes; return None if it is not a path. Few paths are applied to every event."""
    found: list[str | int] = []
    end = 0
    while end < len(path):
        step = _STEP.match(path, end)
        if step is None or (step["key"] is not None and path[end].startswith(".") is (end == 0)):
            return None  # keys are separated by a dot, with none before the first
        end = step.end()
        try:
            found.append(_key(step))
        except codec.CodecError:
            return None
    return tuple(found) or None


def resolve(event: object, path: str) -> object:
    """Return the value at a path of an event, or `ABSENT` if the path is invalid or does not exist."""
    way = steps(path)
    if way is None:
        return ABSENT
    value = event
    for step in way:
        value = _enter(value, step)
    return value


def find(event: object, pattern: str) -> list[tuple[str, object]]:
    """Return the path and value of each match of a pattern, in order; `*` matches every entry or member."""
    way = steps(pattern)
    places = [] if way is None else [("", event)]
    for step in way or ():
        places = [place for path, value in places for place in _follow(path, value, step)]
    return [(path.removeprefix("."), value) for path, value in places]


def _follow(path: str, value: object, step: str | int) -> list[tuple[str, object]]:
    if step == "*" and isinstance(value, list):
        return [(join_index(path, index), entry) for index, entry in enumerate(value)]
    if step == "*" and isinstance(value, dict):
        return [(join_key(path, key), member) for key, member in value.items()]
    entered = _enter(value, step)
    here = join_index(path, step) if isinstance(step, int) else join_key(path, step)
    return [] if entered is ABSENT else [(here, entered)]


def _enter(value: object, step: str | int) -> object:
    if isinstance(step, int):
        return value[step] if isinstance(value, list) and step < len(value) else ABSENT
    return value.get(step, ABSENT) if isinstance(value, dict) else ABSENT


def _key(step: re.Match[str]) -> str | int:
    if step["index"] is not None:
        return int(step["index"])
    if step["quoted"] is not None:
        return str(codec.loads_exact(step["quoted"]))
    return step["key"]
