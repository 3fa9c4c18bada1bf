"""What a recording must not keep is taken out of its events, each left in its place and shape (ADR 12).

First every event is copied, and each of its strings is noted with the channels that it belongs to. At the end of the
stream each channel is searched as one text, and what is withheld is cut out of the strings that it stands in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from projector.contracts.kinds import REDACTED
from projector.recording import shapes
from projector.recording.places import ALONE, PLACES, Path, Places, UnknownPlaces, names
from projector.recording.reading import Words
from projector.redaction.spans import Finder, Span, without

_MAX_DEPTH: Final = 128
"""Twice what the public stream shows; what is deeper is withheld, since no parser needs to be able to read it."""


class Withheld(NamedTuple):
    """The values of a stream as they may be kept, and how many strings and numbers of them are not as they were."""

    values: list[Any]
    changed: int


def withhold(provider: str, values: Iterable[Any], finder: Finder) -> Withheld:
    """Give the values of a stream, as `reading.read` gives them, without what must not be kept."""
    work = _Work(finder, PLACES.get(provider, UnknownPlaces)())
    kept = [work.take(value) for value in values]
    work.finish()
    return Withheld(kept, work.count)


class _Leaf:
    """One string at its place in a copy."""

    __slots__ = ("holder", "is_id", "name", "spans", "text")

    def __init__(self, holder: Any, name: Any, text: str, *, is_id: bool) -> None:
        self.holder = holder
        self.name = name
        self.text = text
        self.is_id = is_id
        self.spans: list[Span] = []


class _Work:
    """One stream."""

    def __init__(self, finder: Finder, places: Places) -> None:
        self.count = 0
        self._finder = finder
        self._places = places
        self._leaves: list[_Leaf] = []
        self._channels: defaultdict[Hashable, list[int]] = defaultdict(list)
        self._alone: list[int] = []
        self._stand_ins: dict[str, str] = {}
        self._found: dict[str, list[Span]] = {}
        self._keys: dict[str, str] = {}
        """Each key as it may be said: streams repeat a few."""

    def take(self, value: Any) -> Any:
        """Copy a value; what must be known as a whole is decided in `finish`."""
        if isinstance(value, Words):
            return value
        self._finder.pause()
        event = value if isinstance(value, dict) else {}
        self._places.begin(event)
        copy = [value]
        self._put(copy, 0, shapes.reduced(event) if event else value, ())
        return copy[0]

    def finish(self) -> None:
        """Search each channel as one text, and write what is left of each string."""
        families = [[self._channels[name] for name in family] for family in self._places.families(self._channels)]
        merged = [sorted({at for channel in family for at in channel}) for family in families]
        for leaves in {tuple(channel): None for channel in (*self._channels.values(), *merged)}:
            self._finder.pause()
            self._search(leaves)
        for at in self._alone:
            self._finder.pause()
            leaf = self._leaves[at]
            leaf.spans += self._spans(leaf.text)
        for leaf in self._leaves:
            if leaf.spans:
                said = self._stand_in(leaf.text) if leaf.is_id else without(leaf.text, leaf.spans)
                self.count += said != leaf.text
                leaf.holder[leaf.name] = said

    def _put(self, holder: Any, name: Any, value: Any, path: Path, *, counts: bool = False) -> None:
        """Put a copy of a value under a name of its holder."""
        if isinstance(value, str):
            self._note(holder, name, value, path)
        elif isinstance(value, dict | list) and len(path) >= _MAX_DEPTH:
            self.count += 1
            holder[name] = REDACTED
        elif isinstance(value, dict):
            copy: dict[str, Any] = {}
            holder[name] = copy
            counts = counts or names(path) in shapes.COUNTS
            for key, member in value.items():
                self._put_member(copy, value, str(key), member, path, counts=counts)
        elif isinstance(value, list):
            entries: list[Any] = [None] * len(value)
            holder[name] = entries
            for at, entry in enumerate(value):
                self._put(entries, at, entry, (*path, at), counts=counts)
        else:
            holder[name] = value if counts else self._number(name, value)

    def _put_member(
        self, copy: dict[str, Any], owner: Mapping[str, Any], key: str, member: Any, path: Path, *, counts: bool
    ) -> None:
        said = self._keys.get(key)
        if said is None:
            said = self._keys[key] = self._finder.key(key)
        self.count += said != key
        if key in shapes.EMPTIED:
            copy[said] = shapes.emptied(member)
        elif shapes.is_sealed(owner, key) and member:
            copy[said] = self._stand_in(str(member))
            self.count += copy[said] != member
        elif self._finder.hides(key, member) and not (counts and not isinstance(member, str)):
            self.count += member != REDACTED
            copy[said] = REDACTED
        else:
            self._put(copy, said, member, (*path, key), counts=counts)

    def _note(self, holder: Any, name: Any, text: str, path: Path) -> None:
        holder[name] = text
        if not text:
            return
        is_id = name in shapes.IDS
        at = len(self._leaves)
        self._leaves.append(_Leaf(holder, name, text, is_id=is_id))
        for channel in (ALONE,) if is_id else self._places.channels(path):
            (self._alone if channel == ALONE else self._channels[channel]).append(at)

    def _number(self, name: Any, value: Any) -> Any:
        """Give a number, or the mark of one that is registered; positions are never secret."""
        if type(value) not in {int, float} or name in shapes.POSITIONS:
            return value
        mark = self._finder.mark_of(value)
        self.count += mark is not None
        return value if mark is None else mark

    def _search(self, leaves: tuple[int, ...]) -> None:
        """Search strings as one text, and give each its part of what was found."""
        pieces = [self._leaves[at] for at in leaves]
        found = iter(self._finder.spans("".join([leaf.text for leaf in pieces])))
        span = next(found, None)
        end = 0
        for leaf in pieces:
            start, end = end, end + len(leaf.text)
            while span is not None and span.start < end:
                mark = span.mark if span.start >= start else ""
                leaf.spans.append(Span(max(span.start, start) - start, min(span.end, end) - start, mark))
                if span.end > end:
                    break
                span = next(found, None)

    def _spans(self, text: str) -> list[Span]:
        """Give what is withheld of a whole string; most are said many times."""
        found = self._found.get(text)
        if found is None:
            found = self._found[text] = self._finder.spans(text)
        return found

    def _stand_in(self, text: str) -> str:
        """Give a placeholder, always the same for the same text."""
        return self._stand_ins.setdefault(text, f"{shapes.STAND_IN}{len(self._stand_ins) + 1}")
