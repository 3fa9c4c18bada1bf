"""Edits of a whole stream, so that it breaks one rule."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

Event: TypeAlias = dict[str, Any]
Edit: TypeAlias = Callable[[list[Event]], None]


def put(at: int, *path: str | int, value: object) -> Edit:
    """Return an edit that sets the value at a path of an event."""

    def edit(events: list[Event]) -> None:
        holder: Any = events[at]
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1]] = value

    return edit


def drop(at: int) -> Edit:
    return lambda events: events.__delitem__(at)


def move(at: int, to: int) -> Edit:
    return lambda events: events.insert(to, events.pop(at))


def repeat(at: int, to: int) -> Edit:
    return lambda events: events.insert(to, json.loads(json.dumps(events[at])))
