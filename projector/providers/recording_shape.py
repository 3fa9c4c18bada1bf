"""Conversion of a provider's stream into the lines of a recording, and the channels of its strings.

A secret may be split over several deltas. So each string belongs to channels; the strings of one channel are joined in
order and searched as one text. A string in the channel `ALONE` is searched by itself. A string with several channels is
searched in each of them: if the ID of an item changes, a delta continues the text of the ID and that of the output
index, and a string of an unknown event may be complete or a piece.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from projector.core import canonical as read

Event: TypeAlias = dict[str, Any]
Path: TypeAlias = tuple[str | int, ...]
"""Keys and list positions that lead to a value of an event."""
Channels: TypeAlias = tuple[Hashable, ...]

ALONE: Final = "alone"
NO_ITEM: Final[Channels] = ("",)
"""Channels of an event that names no item."""

_ITEM_KEYS: Final = ("item_id", "output_index")
_PART_KEYS: Final = ("content_index", "summary_index", "command_index")


class TextChannels(Protocol):
    """The channels of one stream's strings. Depends on the events so far."""

    def begin(self, event: Mapping[str, Any], /) -> None:
        """Start the next event."""

    def channels(self, path: Path, /) -> Channels:
        """Return the channels of a string of this event."""

    def groups(self, channels: Iterable[Hashable], /) -> Iterable[Sequence[Hashable]]:
        """Return which of all channels of the stream are one text under several names."""


def keys_of(path: Path) -> tuple[str, ...]:
    """Return the keys of a path, without positions in lists."""
    return tuple(step for step in path if isinstance(step, str))


class _Channel(NamedTuple):
    """The text of one part of an item, at one path of events of one type."""

    event_type: str
    path: tuple[str, ...]
    part: str
    item: Hashable


class GenericChannels:
    """Channels of unknown events: each string is complete, or continues the one at the same path before it."""

    def __init__(self) -> None:
        self._type = ""
        self._part = ""
        self._items: Channels = ()
        self._latest: Channels = ()
        self._latest_of: dict[str, Channels] = {}
        self._aliases: dict[Hashable, Hashable] = {}
        """ID or index of an item -> another name of it, from an event with both; a chain ends at one name."""

    def begin(self, event: Mapping[str, Any], /) -> None:
        """Start the next event. One that names no item continues the latest item, of all events or of its type."""
        self._type = str(event.get("type"))
        self._part = repr([event.get(key) or 0 for key in _PART_KEYS])
        named = {**event, "item_id": event.get("item_id") or read.mapping_or_empty(event, "item").get("id")}
        items = tuple((key, named[key]) for key in _ITEM_KEYS if type(named.get(key)) in {str, int})
        if items:
            self._items = self._latest = self._latest_of[self._type] = items
            self._aliases[self._root(items[0])] = self._root(items[-1])
        else:
            of_type = self._latest_of.get(self._type, ())
            self._items = tuple(dict.fromkeys((*NO_ITEM, *self._latest, *of_type)))

    def channels(self, path: Path, /) -> Channels:
        """Return the channels of a string of this event."""
        return (*self.of_delta(self._type, path), ALONE)

    def groups(self, channels: Iterable[Hashable], /) -> Iterable[Sequence[Hashable]]:
        """Return the channels of each item that has several names."""
        found: defaultdict[Hashable, list[Hashable]] = defaultdict(list)
        for channel in channels:
            if isinstance(channel, _Channel):
                found[channel._replace(item=self._root(channel.item))].append(channel)
        return found.values()

    def of_delta(self, event_type: str, path: Path) -> Channels:
        """Return the channels that a delta of this type has at a path, for the items of this event."""
        return tuple(_Channel(event_type, keys_of(path), self._part, item) for item in self._items)

    def _root(self, item: Hashable) -> Hashable:
        """Return the last name in the chain of an item, and shorten the chain."""
        passed = []
        while (alias := self._aliases.get(item, item)) != item:
            passed.append(item)
            item = alias
        self._aliases.update(dict.fromkeys(passed, item))
        return item


@dataclass(frozen=True, kw_only=True)
class RecordingShape:
    """How a provider's stream is recorded.

    Args:
        channels: returns the channels of one stream.
        name_event: adds the name of an SSE message to its payload, if it has a meaning; lines have no names.
        has_text_errors: whether an SSE message `error` may hold plain text.
        counts: keys of the objects in which a key with `token` in it is a count; only texts are withheld in them.
    """

    channels: Callable[[], TextChannels] = GenericChannels
    name_event: Callable[[Event, str], Event] = lambda event, _name: event
    has_text_errors: bool = False
    counts: Collection[tuple[str, ...]] = frozenset({("usage",)})
