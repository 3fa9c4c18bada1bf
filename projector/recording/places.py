"""Which strings of a stream are pieces of one text, by the shape of its provider's events.

A string belongs to channels. What stands in one channel is joined in order and searched as one text; `ALONE` stands for
a channel of its own. A string with several channels is searched in each: a delta whose item rotates its ids is a piece
of what its id names and of what its index names, and a string that nobody knows may be whole or a piece.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from projector.core import canonical as read
from projector.core.handlers import DROPPED, HANDLERS, HOST_HANDLERS
from projector.providers.openai_chat import fields as chat
from projector.providers.openai_chat.calls import Calls

Path: TypeAlias = tuple[str | int, ...]
"""Names and positions that lead to a value of an event."""

Channels: TypeAlias = tuple[Hashable, ...]

ALONE: Final = "alone"


class Places(Protocol):
    """The shape of one stream's events; it remembers what came before."""

    def begin(self, event: Mapping[str, Any], /) -> None:
        """Take the next event."""
        ...

    def channels(self, path: Path, /) -> Channels:
        """Give the channels of a string of this event."""
        ...

    def families(self, channels: Iterable[Hashable], /) -> Iterable[Sequence[Hashable]]:
        """Give those of all channels of a stream that are one text under several names."""
        ...


def names(path: Path) -> tuple[str, ...]:
    """Give the names of a path, without positions in lists."""
    return tuple(step for step in path if isinstance(step, str))


_NOBODY: Final[Channels] = ("",)
_OWNERS: Final = ("item_id", "output_index")
_PARTS: Final = ("content_index", "summary_index", "command_index")


class _Channel(NamedTuple):
    """The text of a part that one owner has at one place of events of one type."""

    kind: str
    path: tuple[str, ...]
    part: str
    owner: Hashable


class UnknownPlaces:
    """Events of which nothing is known: each string is whole, or a piece of what stands at its place."""

    def __init__(self) -> None:
        self._type = ""
        self._part = ""
        self._owners: Channels = ()
        self._latest: Channels = ()
        self._latest_of: dict[str, Channels] = {}
        self._ties: dict[Hashable, Hashable] = {}
        """Owner -> another name of it, as an event said that named both; a chain leads to one name for all."""

    def begin(self, event: Mapping[str, Any], /) -> None:
        """Take the next event. One that names nobody goes on with what spoke last, in general or of its type."""
        self._type = str(event.get("type"))
        self._part = repr([event.get(name) or 0 for name in _PARTS])
        named = {**event, "item_id": event.get("item_id") or read.mapping_or_empty(event, "item").get("id")}
        owners = tuple((name, named[name]) for name in _OWNERS if type(named.get(name)) in {str, int})
        if owners:
            self._owners = self._latest = self._latest_of[self._type] = owners
            self._ties[self._root(owners[0])] = self._root(owners[-1])
        else:
            of_type = self._latest_of.get(self._type, ())
            self._owners = tuple(dict.fromkeys((*_NOBODY, *self._latest, *of_type)))

    def channels(self, path: Path, /) -> Channels:
        """Give the channels of a string of this event."""
        return (*self._joined(self._type, path), ALONE)

    def families(self, channels: Iterable[Hashable], /) -> Iterable[Sequence[Hashable]]:
        """Give the channels whose owners are one."""
        found: defaultdict[Hashable, list[Hashable]] = defaultdict(list)
        for channel in channels:
            if isinstance(channel, _Channel):
                found[channel._replace(owner=self._root(channel.owner))].append(channel)
        return found.values()

    def _joined(self, kind: str, path: Path) -> Channels:
        return tuple(_Channel(kind, names(path), self._part, owner) for owner in self._owners)

    def _root(self, owner: Hashable) -> Hashable:
        """Give the one name of an owner, and have every name on the way know it."""
        way = []
        while (known := self._ties.get(owner, owner)) != owner:
            way.append(owner)
            owner = known
        self._ties.update(dict.fromkeys(way, owner))
        return owner


class ResponsesPlaces(UnknownPlaces):
    """Events of the Responses API: pieces in deltas, whole strings in every other event that is known."""

    def channels(self, path: Path, /) -> Channels:
        """Give the channels of a string of this event."""
        if self._type in DELTAS and path == _DELTA:
            return self._joined(self._type, path)
        if self._type not in _WHOLES:
            return super().channels(path)
        begun = _BEGINNINGS.get((self._type, *path), ())
        return (*(channel for delta in begun for channel in self._joined(delta, _DELTA)), ALONE)


DELTAS: Final = frozenset(
    {
        "response.output_text.delta",
        "response.refusal.delta",
        "response.reasoning_summary_text.delta",
        "response.reasoning_text.delta",
        "response.function_call_arguments.delta",
        "response.mcp_call_arguments.delta",
        "response.custom_tool_call_input.delta",
        "response.code_interpreter_call_code.delta",
        "response.audio.delta",
        "response.audio.transcript.delta",
        "response.shell_call_command.delta",
        "response.shell_call_output_content.delta",
        "response.apply_patch_call_operation_diff.delta",
    }
)
"""Events that say a piece of something, in `delta`."""

_DELTA: Final = ("delta",)
_BEGINNINGS: Final[Mapping[Path, tuple[str, ...]]] = {
    ("response.content_part.added", "part", "text"): ("response.output_text.delta",),
    ("response.content_part.added", "part", "refusal"): ("response.refusal.delta",),
    ("response.reasoning_summary_part.added", "part", "text"): ("response.reasoning_summary_text.delta",),
    ("response.output_item.added", "item", "arguments"): (
        "response.function_call_arguments.delta",
        "response.mcp_call_arguments.delta",
    ),
    ("response.output_item.added", "item", "input"): ("response.custom_tool_call_input.delta",),
    ("response.output_item.added", "item", "code"): ("response.code_interpreter_call_code.delta",),
}
"""Where an event may hold the beginning of what deltas go on with -> the deltas."""

_WHOLES: Final = (HANDLERS.keys() | DROPPED.keys() | HOST_HANDLERS.keys()) - DELTAS


class ChatPlaces:
    """Chunks of Chat Completions: pieces in the deltas of each choice; calls as the projector tells them apart."""

    def __init__(self) -> None:
        self._calls: dict[int, Calls] = {}
        self._choices: list[tuple[int, Mapping[str | int, Channels]]] = []

    def begin(self, event: Mapping[str, Any], /) -> None:
        """Take the next chunk."""
        choices = event.get("choices")
        self._choices = [self._choice(one) for one in choices] if isinstance(choices, list) else []

    def channels(self, path: Path, /) -> Channels:
        """Give the channels of a string of this chunk."""
        first, *inner = names(path) or [""]
        place = tuple(inner)
        match path:
            case ("choices", int(at), str(), *_):
                return self._in_choice(place, path, *self._choices[at])
        return (ALONE,) if first in chat.CHUNK_KNOWN else ((first, place), ALONE)

    def families(self, _channels: Iterable[Hashable], /) -> Iterable[Sequence[Hashable]]:
        """Give none: each piece of a call is in the channels of all its names."""
        return ()

    @staticmethod
    def _in_choice(place: tuple[str, ...], path: Path, index: int, calls: Mapping[str | int, Channels]) -> Channels:
        if place in _PIECES:
            owners = calls.get(path[4], _NOBODY) if place[:2] == ("delta", "tool_calls") else _NOBODY
            return tuple((index, _PIECES[place], owner) for owner in owners)
        is_whole = place[0] not in _HOLD_PIECES and place[0] in chat.CHOICE_KNOWN
        return (ALONE,) if is_whole else ((index, place), ALONE)

    def _choice(self, choice: Any) -> tuple[int, Mapping[str | int, Channels]]:
        """Give the index of a choice, and whose piece each entry of its `tool_calls` is."""
        if not isinstance(choice, dict):
            return 0, {}
        index = read.index_or_none(choice, "index") or 0
        entries = read.mapping_or_empty(choice, "delta").get("tool_calls")
        entries = entries if isinstance(entries, list) else []
        calls = self._calls.setdefault(index, Calls())
        return index, {at: _call(calls, entry) for at, entry in enumerate(entries) if isinstance(entry, dict)}


_HOLD_PIECES: Final = frozenset({"delta", "text"})
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


def _call(calls: Calls, entry: Mapping[str, Any]) -> Channels:
    """Give whose piece an entry of `tool_calls` is: that of the call which it continues, and of its index."""
    kind = "custom" if "custom" in entry else "function"
    index = read.index_or_none(entry, "index")
    name = read.text_or_none(read.mapping_or_empty(entry, kind), "name") or ""
    call = calls.find(index, read.text_or_none(entry, "id") or "", name, kind)
    return (("call", id(call)), *((("index", index),) if index is not None else ()))


PLACES: Final[Mapping[str, Callable[[], Places]]] = {
    "openai_responses": ResponsesPlaces,
    "openai_chat": ChatPlaces,
}
"""Provider -> the shape of its events; one without a row has `UnknownPlaces`."""
