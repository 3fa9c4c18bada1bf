"""The rules of items and their parts: a client that joins what it is told gets what it is told at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from projector.dialects.openresponses.item_models import EXTENSION

Event: TypeAlias = Mapping[str, Any]
Rule: TypeAlias = Callable[["OutputWatch", Event], list[str]]

LISTS: Final[Mapping[str, str]] = {"content_index": "content", "summary_index": "summary"}
"""What events call the place of a part -> the member of the item that lists it."""

BEHIND_THE_END: Final = frozenset({"public-sse:tool.status", "public-sse:tool.output", "public-sse:notices"})
"""Events of an item that may follow its end: what a function gave back, and what a message cites of a search."""


class Part:
    """A part of an item, as a client would join it."""

    def __init__(self, shape: Event) -> None:
        self.shape = dict(shape)
        self.is_whole = False
        self.is_done = False


class Item:
    """An item, as a client would build it."""

    def __init__(self, index: int, shape: Event) -> None:
        self.index = index
        self.shape = shape
        self.arguments = ""
        self.is_done = False
        self.parts: dict[str, list[Part]] = {index: [] for index in LISTS}


class OutputWatch:
    """The output of one response. `see` takes the events in order and gives what was expected instead."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._by_id: dict[str, Item] = {}
        self._cut: set[str] = set()
        """Types of events of which something was left out, by their notices."""

    def see(self, event: Event) -> list[str]:
        """Take the next event."""
        rule = RULES.get(event["type"])
        if rule is not None:
            return rule(self, event)
        return self._of_item(event)[1] if "item_id" in event else []

    def end(self, event: Event) -> list[str]:
        """Take the end of the response."""
        if not all(item.is_done for item in self.items):
            return ["every item done before the end"]
        if event["type"] in self._cut:
            return []
        output = event["response"]["output"]
        if [(item["type"], item["id"]) for item in output] != [(it.shape["type"], it.shape["id"]) for it in self.items]:
            return ["every item of the response in its place"]
        pairs = zip(self.items, output, strict=True)
        is_said = all(item.shape == said for item, said in pairs if not said["type"].startswith(EXTENSION))
        return [] if is_said else ["each item of the response as it was done"]

    def on_added(self, event: Event) -> list[str]:
        """Begin an item."""
        shape, index = event["item"], event["output_index"]
        found = []
        if index != len(self.items) or shape["id"] in self._by_id:
            found.append("items counted by `output_index`, each with an id of its own")
        if shape["status"] != "in_progress" or any(map(shape.get, ("content", "summary", "arguments", "output"))):
            found.append("an item that begins in progress, with nothing in it")
        item = self._by_id[shape["id"]] = Item(index, shape)
        self.items.append(item)
        return found

    def on_done(self, event: Event) -> list[str]:
        """End an item."""
        shape = event["item"]
        item = self._by_id.get(shape["id"])
        if item is None or item.is_done or item.index != event["output_index"] or item.shape["type"] != shape["type"]:
            return ["the end of an open item"]
        item.is_done, item.shape = True, shape
        found = [] if shape["status"] != "in_progress" else ["an item that ends"]
        if not all(part.is_done for parts in item.parts.values() for part in parts):
            found.append("every part done before its item")
        joined = {name: [part.shape for part in item.parts[index]] for index, name in LISTS.items()}
        is_joined = all(shape.get(name, []) == parts for name, parts in joined.items())
        if shape["type"] == "function_call":
            is_joined = is_joined and shape["arguments"] == item.arguments
        if not is_joined and event["type"] not in self._cut:
            found.append("an item that holds what its events made")
        return found

    def on_part_added(self, event: Event) -> list[str]:
        """Begin a part."""
        index, part = index_of(event), event["part"]
        item, found = self._of_item(event)
        if item is None:
            return found
        if event[index] != len(item.parts[index]) or any(value for name, value in part.items() if name != "type"):
            found.append(f"an empty part, counted by `{index}`")
        item.parts[index].append(Part(part))
        return found

    def on_part_done(self, event: Event) -> list[str]:
        """End a part."""
        part, found = self._of_part(event)
        if part is None:
            return found
        part.is_done = True
        if not part.is_whole or (event["part"] != part.shape and event["type"] not in self._cut):
            found.append("the end of a part behind its whole text, with what was said")
        return found

    def on_delta(self, event: Event) -> list[str]:
        """Take more of a text."""
        part, found = self._of_part(event)
        if part is None or part.is_whole:
            return found or ["no delta behind the whole text"]
        part.shape[member_of(event)] += event["delta"]
        return found

    def on_whole(self, event: Event) -> list[str]:
        """Take a text as a whole."""
        part, found = self._of_part(event)
        if part is None:
            return found
        name = member_of(event)
        if part.is_whole or (event[name] != part.shape[name] and event["type"] not in self._cut):
            found.append("the whole text once, as its deltas made it")
        part.is_whole = True
        return found

    def on_annotation(self, event: Event) -> list[str]:
        """Take a citation."""
        part, found = self._of_part(event)
        if part is None:
            return found
        known = part.shape["annotations"]
        if event["annotation_index"] != len(known):
            found.append("annotations counted by `annotation_index`")
        part.shape["annotations"] = [*known, event["annotation"]]
        return found

    def on_arguments(self, event: Event) -> list[str]:
        """Take arguments of a function call, a piece or the whole."""
        item, found = self._of_item(event)
        if item is None or item.shape["type"] != "function_call":
            return found or ["arguments of a function call"]
        if "delta" in event:
            item.arguments += event["delta"]
        elif item.arguments in {"", event["arguments"]} or event["type"] in self._cut:
            item.arguments = event["arguments"]
        else:
            found.append("arguments as their deltas made them")
        return found

    def on_notices(self, event: Event) -> list[str]:
        """Learn what was cut."""
        if any(notice["type"] == "truncated" for notice in event["notices"]):
            self._cut.add(event["about"])
        return self._of_item(event)[1] if "item_id" in event else []

    def _of_item(self, event: Event) -> tuple[Item | None, list[str]]:
        item = self._by_id.get(event["item_id"])
        if item is None or item.index != event["output_index"]:
            return None, ["an item that was added, at its place"]
        if item.is_done and event["type"] not in BEHIND_THE_END:
            return None, ["nothing of an item behind its end"]
        return item, []

    def _of_part(self, event: Event) -> tuple[Part | None, list[str]]:
        item, found = self._of_item(event)
        if item is None:
            return None, found
        index = index_of(event)
        parts = item.parts[index]
        if event[index] >= len(parts) or parts[event[index]].is_done:
            return None, ["a part that is open"]
        return parts[event[index]], []


def index_of(event: Event) -> str:
    """Give the name of the member that says the place of a part."""
    return next(name for name in LISTS if name in event)


def member_of(event: Event) -> str:
    """Give the name of the member that holds the text of a part."""
    return "refusal" if event["type"].startswith("response.refusal.") else "text"


TEXTS: Final = ("output_text", "refusal", "reasoning", "reasoning_summary_text")
RULES: Final[Mapping[str, Rule]] = {
    "response.output_item.added": OutputWatch.on_added,
    "response.output_item.done": OutputWatch.on_done,
    "response.content_part.added": OutputWatch.on_part_added,
    "response.content_part.done": OutputWatch.on_part_done,
    "response.reasoning_summary_part.added": OutputWatch.on_part_added,
    "response.reasoning_summary_part.done": OutputWatch.on_part_done,
    **{f"response.{name}.delta": OutputWatch.on_delta for name in TEXTS},
    **{f"response.{name}.done": OutputWatch.on_whole for name in TEXTS},
    "response.output_text.annotation.added": OutputWatch.on_annotation,
    "response.function_call_arguments.delta": OutputWatch.on_arguments,
    "response.function_call_arguments.done": OutputWatch.on_arguments,
    "public-sse:notices": OutputWatch.on_notices,
}
