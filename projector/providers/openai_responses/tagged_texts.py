"""Reasoning that a model writes between tags in the texts of a Responses stream (CONTRACT D46).

Some servers with the Responses API do not read the tags of a model's template. The reasoning becomes an item of its
own, without an output index, and the texts of events, finished items and the final snapshot are those without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter, is_
from typing import Any, Final, TypeAlias

from projector.contracts.limits import ITEMS_MAX
from projector.core import canonical as read
from projector.core.canonical import CanonicalEvent
from projector.core.faults import Fault
from projector.core.handlers.responses import END_STATUS
from projector.core.lane import TEXT_DELTA
from projector.core.sse import TOO_MANY_TEXTS
from projector.providers.stage_parts import moved
from projector.providers.think import LONE_TAG, Operation, Tags, ThinkMode, ThinkSplitter

Place: TypeAlias = tuple[int | str | None, int]
"""Output index or item ID, and content index."""

TEXTS_MAX: Final = 4 * ITEMS_MAX
"""Texts that are followed at a time; a stream with as many items has ended before."""
ID_PREFIX: Final = "rs_think_"


@dataclass(slots=True, eq=False)
class _Text:
    """One text while it arrives."""

    splitter: ThinkSplitter
    item_id: str
    """ID of the item of its reasoning."""
    place: tuple[object, ...]
    """Values of the members `PLACE` of its first event."""
    is_over: bool = False
    has_dropped: bool = False
    """Whether a closing tag without its opening one was dropped from what had been shown."""
    received: int = 0
    shown: int = 0

    @property
    def is_plain(self) -> bool:
        """Whether all of it is text: no reasoning was before, and none can follow."""
        return self.splitter.is_outside and not self.removed

    @property
    def delta(self) -> dict[str, object]:
        """The event of a delta without its text."""
        place = {name: value for name, value in zip(PLACE, self.place, strict=True) if value is not None}
        return {"type": TEXT_DELTA, **place}

    @property
    def removed(self) -> int:
        """Characters before the end that are no part of the answer."""
        return self.received - self.shown


class TaggedTexts:
    """Separates reasoning from the texts of one response; `dropped` counts what is not read."""

    def __init__(self, mode: ThinkMode, tags: tuple[Tags, ...], dropped: Counter[str]) -> None:
        self._dropped = dropped
        self._mode: ThinkMode = mode
        self._tags = tags
        self._unread = ThinkSplitter(mode, tags)
        """A splitter that reads nothing: it tells which texts need not be read."""
        self._texts: dict[Place, _Text] = {}
        self._open: list[_Text] = []
        """Texts since the end of a response; another end does not end those before it again."""
        self._count = 0
        self._last_splitter = self._unread
        """The splitter of the last text that has nothing but text to come and no reasoning."""
        self.stops = self._unread.stops
        """The characters that a delta must not contain to be nothing but text."""
        self._readers = _READERS if mode != "off" else {}

    def read(self, event: dict[str, Any]) -> list[CanonicalEvent | Fault]:
        """Return the events of an event: itself, changed or not, and those of reasoning before it."""
        name = event["type"]
        reader = self._readers.get(name) if type(name) is str else None
        return [event] if reader is None else [*reader(self, event)]

    def is_plain(self, event: Mapping[str, object]) -> bool:
        """Return whether further deltas of the text of an event are nothing but text."""
        text = self._texts.get(_place(event))
        return not self._readers or (text is not None and text.is_plain)

    def skip(self, texts: Sequence[str]) -> None:
        """Record deltas of the last text that were read without this object."""
        self._last_splitter.pass_over(texts)

    def close(self) -> list[CanonicalEvent]:
        """Return what was held back, because the stream has ended."""
        open_texts, self._open = self._open, []
        return [said for text in open_texts for said in self._end(text)]

    def on_delta(self, event: dict[str, Any]) -> list[CanonicalEvent]:
        """Separate a delta."""
        delta = event.get("delta")
        if type(delta) is not str:
            return [event]
        text = self._texts.get(place := _place(event))
        released: list[CanonicalEvent] = []
        if text is None:
            if len(self._texts) >= TEXTS_MAX:
                self._dropped[TOO_MANY_TEXTS] += 1
                return []
            released = self._release(place[0])
            text = self._begin(event, place)
        splitter = text.splitter
        if not text.received and not self.stops and splitter.skips(delta):
            splitter.is_plain = True
        if not text.removed and splitter.passes(delta):  # nearly every delta
            self._last_splitter = splitter
            return [*released, event]
        text.received += len(delta)
        operations = [Operation("text", delta)] if splitter.is_plain else splitter.push(delta)
        return released + self._said(text, operations, event)

    def on_added(self, event: dict[str, Any]) -> list[CanonicalEvent]:
        """Forget the text of an item that has ended: another one has its place or ID."""
        if not self._texts:
            return [event]
        place = {**event, "item_id": read.mapping_or_empty(event, "item").get("id")}
        for known in (_place(place), _by_id(place)):
            if (text := self._texts.get(known)) is not None and text.is_over:
                del self._texts[known]
        return [event]

    def on_text_done(self, event: dict[str, Any]) -> list[CanonicalEvent]:
        """End a text."""
        whole = event.get("text")
        if type(whole) is not str:
            return [event]
        said, answer, removed = self._complete(event, whole)
        return [*said, {**event, "text": answer} if removed else event]

    def on_annotation(self, event: dict[str, Any]) -> list[CanonicalEvent]:
        """Move the positions of a citation to the text without reasoning."""
        text, annotation = self._texts.get(_place(event)), event.get("annotation")
        if text is None or not text.removed or not read.is_mapping(annotation):
            return [event]
        return [{**event, "annotation": moved(annotation, -text.removed)}]

    def on_item_done(self, event: dict[str, Any]) -> list[CanonicalEvent]:
        """Separate the texts of a finished item."""
        item = read.mapping_or_empty(event, "item")
        said, clean = self._item(item, event.get("output_index"))
        index, item_id = event.get("output_index"), item.get("id")
        for text in self._open:  # of parts that the item does not repeat
            if not text.is_over and (text.place[0] == index if index is not None else text.place[1] == item_id):
                said += self._end(text)
        return [*said, event if clean is item else {**event, "item": clean}]

    def on_end(self, event: dict[str, Any]) -> list[CanonicalEvent]:
        """End all texts, and separate those of the final snapshot."""
        response = read.mapping_or_empty(event, "response")
        output = response.get("output")
        said = self.close()
        if not isinstance(output, list):
            return [*said, event]
        items: list[object] = []
        for at, item in enumerate(output):
            more, clean = self._item(item, at) if read.is_mapping(item) else ([], item)
            said += more
            items.append(clean)
        if all(map(is_, items, output)):
            return [*said, event]
        return [*said, {**event, "response": {**response, "output": items}}]

    def _item(self, item: Mapping[str, object], index: object) -> tuple[list[CanonicalEvent], Mapping[str, object]]:
        """Return the events of reasoning that no delta contained, and the item without reasoning."""
        content = item.get("content")
        if item.get("type") != "message" or not isinstance(content, list):
            return [], item
        said: list[CanonicalEvent] = []
        parts: list[object] = []
        for at, part in enumerate(content):
            whole = part.get("text") if read.is_mapping(part) and part.get("type") == "output_text" else None
            if type(whole) is not str:
                parts.append(part)
                continue
            place = {"output_index": index, "item_id": item.get("id"), "content_index": at}
            more, answer, removed = self._complete(place, whole)
            said += more
            parts.append(_without(part, answer, removed) if removed else part)
        return said, item if all(map(is_, parts, content)) else {**item, "content": parts}

    def _complete(self, event: Mapping[str, object], whole: str) -> tuple[list[CanonicalEvent], str, int]:
        """Read a text that is complete now, at the place of an event.

        Return the rest of it, or all of its reasoning if there were no deltas; the answer, and how many characters less
        that has.
        """
        text = self._texts.get(place := _place(event)) or self._texts.get(_by_id(event))
        answer, operations = whole, []
        if not self._unread.skips(whole):  # nearly none
            splitter = ThinkSplitter(self._mode, self._tags)
            splitter.has_shown = text is not None and text.has_dropped
            operations = [*splitter.push(whole), *splitter.close()]
            answer = "".join(content for kind, content in operations if kind == "text")
        if text is not None:
            return self._end(text), answer, len(whole) - len(answer)
        text = self._begin(event, place)
        text.splitter.is_plain = text.is_over = True
        said = self._said(text, [one for one in operations if one.kind != "text"], {})
        return said, answer, len(whole) - len(answer)

    def _begin(self, event: Mapping[str, object], place: Place) -> _Text:
        """Add a text, at its output index and under the ID of its item: a snapshot may have either."""
        text = _Text(ThinkSplitter(self._mode, self._tags), self._new_id(), tuple(map(event.get, PLACE)))
        if len(self._texts) >= TEXTS_MAX:
            return text  # of a finished item, which is read once
        self._open.append(text)
        self._texts[place] = text
        by_id = _by_id(event)
        if by_id[0] is not None:
            self._texts.setdefault(by_id, text)
        return text

    def _release(self, item: int | str | None) -> list[CanonicalEvent]:
        """Return what the last part of a message holds, as the next part follows it: clients join the texts."""
        held = (text for text in self._open[-1:] if text.place[0] == item or text.place[1] == item)
        return [said for text in held for said in self._said(text, text.splitter.release(), text.delta)]

    def _end(self, text: _Text) -> list[CanonicalEvent]:
        if text.is_over:
            return []
        operations = text.splitter.close()
        text.splitter.is_plain = text.is_over = True
        return self._said(text, operations, text.delta) if operations else []

    def _said(self, text: _Text, operations: list[Operation], event: Mapping[str, object]) -> list[CanonicalEvent]:
        said: list[CanonicalEvent] = []
        for kind, group in groupby(operations, attrgetter("kind")):
            content = "".join([operation.text for operation in group])
            if kind == "text":
                text.shown += len(content)
                said.append({**event, "delta": content})
            elif kind == "drop":
                text.has_dropped = True
                self._dropped[LONE_TAG] += 1
            elif kind == "reasoning":
                said.append({"type": REASONING_DELTA, "item_id": text.item_id, "content_index": 0, "delta": content})
            else:
                item = {"type": "reasoning", "id": text.item_id, "status": "completed"}
                said.append({"type": ITEM_DONE, "item": item})
                text.item_id = self._new_id()
        return said

    def _new_id(self) -> str:
        self._count += 1
        return f"{ID_PREFIX}{self._count}"


def _place(event: Mapping[str, object]) -> Place:
    """Return the place of a text: its output index, or the ID of its item if it has none."""
    index = read.index_or_none(event, "output_index")
    return (_by_id(event)[0] if index is None else index), read.index_or_none(event, "content_index") or 0


def _by_id(event: Mapping[str, object]) -> Place:
    return read.text_or_none(event, "item_id"), read.index_or_none(event, "content_index") or 0


def _without(part: Mapping[str, object], answer: str, removed: int) -> dict[str, object]:
    """Return a part with the answer only, and its citations at their places in it."""
    clean = {**part, "text": answer}
    if isinstance(part.get("annotations"), list):
        clean["annotations"] = [moved(one, -removed) for one in read.mappings(part, "annotations")]
    return clean


PLACE: Final = ("output_index", "item_id", "content_index")
REASONING_DELTA: Final = "response.reasoning_text.delta"
ITEM_DONE: Final = "response.output_item.done"

_READERS: Final[Mapping[str, Callable[[TaggedTexts, dict[str, Any]], list[CanonicalEvent]]]] = {
    TEXT_DELTA: TaggedTexts.on_delta,
    "response.output_text.done": TaggedTexts.on_text_done,
    "response.output_text.annotation.added": TaggedTexts.on_annotation,
    "response.output_item.added": TaggedTexts.on_added,
    ITEM_DONE: TaggedTexts.on_item_done,
    **dict.fromkeys(END_STATUS, TaggedTexts.on_end),
}
