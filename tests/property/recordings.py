"""Search for leaks in a recording, and comparison of the content of two public streams."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from projector.recording import record
from projector.redaction.policy import Policy
from projector.redaction.whole_values import Finder, without
from tests.property.canaries import WINDOW_CHARS, Event, leaks_in, unescaped

FINDER: Final = Finder(Policy())
_PLACES: Final = ("item_id", "output_index", "content_index", "summary_index")


def lines_of(events: Iterable[object]) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def recorded(events: Iterable[object], provider: str = "openai_responses", finder: Finder = FINDER) -> bytes:
    return record(provider, lines_of(events), finder, input_format="ndjson").data


def leaks(data: bytes, secret: str, context: str = "", window_chars: int = WINDOW_CHARS) -> set[str]:
    """Return each piece of a secret in a recording, with its deltas joined in every way."""
    return leaks_in(everything(data), secret, context, window_chars)


def everything(data: bytes) -> str:
    """Return a recording as one text: unchanged, with its pieces joined, and both without escapes."""
    joined: dict[object, str] = defaultdict(str)
    for line in data.splitlines():
        event = json.loads(line) if line[:1] == b"{" else {}
        for place, text in pieces(event):
            joined[place] += text
    return unescaped("\0".join([data.decode(), *joined.values()]))


def pieces(event: Event) -> Iterator[tuple[object, str]]:
    """Return each string of an event that may be a piece, under each name that may join it to others."""
    for path, text in strings(event):
        names = tuple(step for step in path if isinstance(step, str))
        yield (event.get("type"), names), text
        for name in _PLACES:
            if name in event:
                yield (event.get("type"), names, name, event[name]), text


def strings(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict | list):
        for step, member in value.items() if isinstance(value, dict) else enumerate(value):
            yield from strings(member, (*path, step))


def essence(said: bytes, finder: Finder = FINDER, *, is_cut: bool = False) -> tuple[list[object], dict[object, str]]:
    """Return the content of a public stream without the cuts of its deltas: all other events, and the joined texts.

    What a recording withholds is withheld here, too; notices are left out, for the mark of a recording has none. In a
    stream that is cut off, a value at the end is held back, but its mark in a recording is not.
    """
    texts: dict[object, str] = defaultdict(str)
    others: list[object] = []
    for line in said.splitlines():
        frame = {name: value for name, value in json.loads(line).items() if name not in {"event_id", "notices"}}
        if "delta" in frame:
            texts[tuple(sorted((name, str(frame.get(name))) for name in ("kind", *_PLACES)))] += frame["delta"]
        else:
            others.append(clean(frame, finder))
    mark = '"<redacted>"' if is_cut else ""
    return others, {place: without(text, finder.spans(text)).removesuffix(mark) for place, text in texts.items()}


def clean(value: object, finder: Finder) -> object:
    if isinstance(value, str):
        return without(value, finder.spans(value))
    if isinstance(value, list):
        return [clean(entry, finder) for entry in value]
    if isinstance(value, Mapping):
        return {name: _member(name, member, finder) for name, member in value.items()}
    return value


def _member(name: Any, member: object, finder: Finder) -> object:
    is_count = name in {"input_tokens", "output_tokens", "total_tokens"}
    return "<redacted>" if finder.hides(name, member) and not is_count else clean(member, finder)
