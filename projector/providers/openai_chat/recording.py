"""Recording of Chat Completions streams: which strings of their chunks are pieces of one text."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

from projector.core import canonical as read
from projector.providers.openai_chat.chunk_fields import CHOICE_KNOWN, CHUNK_KNOWN, ERROR
from projector.providers.openai_chat.output import Calls, indexes_of
from projector.providers.recording_shape import ALONE, NO_ITEM, Channels, Event, Path, RecordingShape, keys_of
from projector.providers.stage_parts import CALL_SHAPES, index_of

_COUNTS: Final = frozenset({("usage",), ("choices", "usage"), ("x_groq", "usage")})
_HAS_PIECES: Final = frozenset({"delta", "text"})
_PIECES: Final[Mapping[tuple[str, ...], str]] = {
    ("delta", "content"): "content",
    ("delta", "content", "text"): "content",
    ("delta", "content", "refusal"): "refusal",
    ("delta", "content", "thinking"): "thinking",
    ("delta", "content", "thinking", "text"): "thinking",
    ("delta", "refusal"): "refusal",
    ("delta", "reasoning_content"): "reasoning_content",
    ("delta", "reasoning"): "reasoning",
    ("delta", "reasoning_details", "text"): "reasoning_details.text",
    ("delta", "reasoning_details", "summary"): "reasoning_details.summary",
    ("delta", "tool_calls", "function", "arguments"): "arguments",
    ("delta", "tool_calls", "custom", "input"): "input",
    ("delta", "function_call", "arguments"): "function_call",
    ("text",): "text",
}
"""Where a choice holds pieces -> the text that they are pieces of."""


class ChatChannels:
    """Channels of Chat Completions: pieces in the deltas of each choice, tool calls identified as in the stage."""

    def __init__(self) -> None:
        self._calls: dict[int, Calls] = {}
        self._choices: list[tuple[int, Mapping[str | int, Channels]]] = []

    def begin(self, event: Mapping[str, Any], /) -> None:
        """Start the next chunk."""
        choices = event.get("choices")
        self._choices = [self._choice(one) for one in choices] if isinstance(choices, list) else []

    def channels(self, path: Path, /) -> Channels:
        """Return the channels of a string of this chunk."""
        first, *inner = keys_of(path) or [""]
        keys = tuple(inner)
        match path:
            case ("choices", int(at), str(), *_):
                return self._in_choice(keys, path, *self._choices[at])
        return (ALONE,) if first in CHUNK_KNOWN else ((first, keys), ALONE)

    def groups(self, _channels: Iterable[Hashable], /) -> Iterable[Sequence[Hashable]]:
        """Return nothing: each piece of a call is in the channels of all its names."""
        return ()

    @staticmethod
    def _in_choice(keys: tuple[str, ...], path: Path, index: int, calls: Mapping[str | int, Channels]) -> Channels:
        if keys in _PIECES:
            items = calls.get(path[4], NO_ITEM) if keys[:2] == ("delta", "tool_calls") else NO_ITEM
            return tuple((index, _PIECES[keys], item) for item in items)
        is_complete = keys[0] not in _HAS_PIECES and keys[0] in CHOICE_KNOWN
        return (ALONE,) if is_complete else ((index, keys), ALONE)

    def _choice(self, choice: Any) -> tuple[int, Mapping[str | int, Channels]]:
        """Return the index of a choice, and the calls that the entries of its `tool_calls` belong to."""
        if not isinstance(choice, dict):
            return 0, {}
        index = index_of(choice) or 0
        entries = read.mapping_or_empty(choice, "delta").get("tool_calls")
        entries = entries if isinstance(entries, list) else []
        calls = self._calls.setdefault(index, Calls())
        places = [at for at, entry in enumerate(entries) if isinstance(entry, dict)]
        indexes = indexes_of([entries[at] for at in places])
        found: dict[str | int, Channels] = {
            at: _call(calls, entries[at], one) for at, one in zip(places, indexes, strict=True)
        }
        return index, found


def _call(calls: Calls, entry: Mapping[str, Any], index: int | None) -> Channels:
    """Return the names of the call that an entry of `tool_calls` continues: the call itself, and its index."""
    kind = "custom" if "custom" in entry else "function"
    body = read.mapping_or_empty(entry, kind)
    name, has_input = read.text_or_none(body, "name") or "", bool(body.get(CALL_SHAPES[kind].member))
    call = calls.find(index, read.text_or_none(entry, "id") or "", name, kind, has_input=has_input)
    return (("call", id(call)), *((("index", index),) if index is not None else ()))


def _with_error(chunk: Event, name: str) -> Event:
    """Return a chunk under the message name `error` with a member `error`."""
    return chunk if name != ERROR or chunk.get(ERROR) else {**chunk, ERROR: dict(chunk)}


def recording_shape() -> RecordingShape:
    """Return how Chat Completions streams are recorded."""
    return RecordingShape(channels=ChatChannels, name_event=_with_error, has_text_errors=True, counts=_COUNTS)
