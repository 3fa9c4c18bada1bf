"""Checker of the rules over a whole stream, without I/O. Bad input is a violation, not an exception.

The checker joins the stream as a client would: the joined deltas must equal what later events repeat. `StreamRules`
lists where the protocols differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from pydantic import ValidationError

from projector._validation import sentences
from projector.contracts import codec
from projector.contracts.kinds import VENDOR
from projector.contracts.stream_rules.table import Violation

Event: TypeAlias = Mapping[str, Any]

EXTENSION: Final = f"{VENDOR}:"
"""Prefix of our own names."""

BEGINNINGS: Final = ("response.created", "response.queued", "response.in_progress")

AFTER_AN_ERROR: Final = frozenset({"response.failed", "public-sse:notices"})

AFTER_THE_ITEM: Final = frozenset({"public-sse:tool.status", "public-sse:tool.output", "public-sse:notices"})
"""Events of an item that may follow its end: outputs of a function, and notices."""

LISTS: Final[Mapping[str, str]] = {"content_index": "content", "summary_index": "summary"}
"""Index member of an event -> the member of the item that lists the parts."""


TRUNCATED_MIN_BYTES: Final = 8 * 1024 * 1024
"""An event of this size may be truncated; smaller ones are whole unless a notice names their type."""


@dataclass(frozen=True, kw_only=True)
class StreamRules:
    """Where the rules of the protocols differ.

    Args:
        name: name of the rule in violations.
        parse_event: validates the JSON value of one event, or raises `pydantic.ValidationError`.
        end_mark: the data after the last event; None: there is none.
        ends: last event -> the statuses of its response, and the member that only this end has.
        has_details: whether an incomplete response always has `incomplete_details`.
        error_members: members of `error` that the failed response repeats.
        texts: item type -> the member that its deltas make.
        families: type of an event -> type of its item.
    """

    name: str
    parse_event: Callable[[object], object]
    end_mark: bytes | None
    ends: Mapping[str, tuple[frozenset[str], str]]
    has_details: bool
    error_members: tuple[str, ...]
    texts: Mapping[str, str]
    families: Mapping[str, str]


class ResponseStreamChecker:
    """Checker of one stream, given as the data of its events. Every violation is of one rule."""

    def __init__(self, rules: StreamRules) -> None:
        self._rules = rules
        self._line = 0
        self._count = 0
        self._output = _Output(rules)
        self._response_id: str | None = None
        self._begun: list[str] = []
        self._error: Event | None = None
        self._has_ended = False
        self._is_closed = False

    def feed(self, line_no: int, line: bytes | str, /) -> list[Violation]:
        """Check one event, or the end mark."""
        self._line = line_no
        self._count += 1
        return self._violations(self._check(line.encode() if isinstance(line, str) else line))

    def close(self) -> list[Violation]:
        """Check the end of the stream."""
        if self._rules.end_mark is None:
            return self._violations([] if self._has_ended else ["the end of the response"])
        return self._violations([] if self._is_closed else ["the end mark"])

    def _violations(self, expected: list[str]) -> list[Violation]:
        return [Violation(self._line, None, self._rules.name, "spec", f"expected {one}") for one in expected]

    def _check(self, data: bytes) -> list[str]:
        if data == self._rules.end_mark:
            is_right = self._has_ended and not self._is_closed
            self._is_closed = True
            return [] if is_right else ["one end mark, after the end of the response"]
        try:
            event = codec.loads(data)
            self._rules.parse_event(event)
        except codec.CodecError:
            return ["JSON"]
        except ValidationError as error:
            return [f"an event of the schema: {mistake}" for mistake in sentences(error, event, root="event")]
        return self._check_event(event, may_be_truncated=len(data) >= TRUNCATED_MIN_BYTES)

    def _check_event(self, event: Event, *, may_be_truncated: bool) -> list[str]:
        name = event["type"]
        if may_be_truncated:
            self._output.truncated.add(name)
        found = [] if event["sequence_number"] == self._count - 1 else ["`sequence_number` rising by one from 0"]
        if self._has_ended:
            return [*found, "nothing after the end of the response"]
        if self._error is not None and name not in AFTER_AN_ERROR:
            found.append("`response.failed` after an error")
        if name in BEGINNINGS:
            return found + self._begin(name, event["response"])
        if self._begun[-1:] != ["response.in_progress"]:
            found.append("`response.in_progress` before any other event")
        if name in self._rules.ends:
            return found + self._end(event)
        if name == "error":
            self._error = event["error"]
        return found + self._output.check(event)

    def _begin(self, name: str, response: Event) -> list[str]:
        self._begun.append(name)
        self._response_id = self._response_id or response["id"]
        ranks = [BEGINNINGS.index(begun) for begun in self._begun]
        is_right = ranks[0] == 0 and ranks == sorted(set(ranks)) and not response["output"] and not self._output.items
        found = [] if is_right else ["created, queued, in_progress, in order, each at most once, before any item"]
        return found + self._check_id(response)

    def _end(self, event: Event) -> list[str]:
        self._has_ended = True
        response = event["response"]
        statuses, own = self._rules.ends[event["type"]]
        members = [member for _, member in self._rules.ends.values() if response[member] is not None]
        is_optional = own == "incomplete_details" and not self._rules.has_details
        is_right = response["status"] in statuses and (members == [own] or (is_optional and not members))
        found = [] if is_right else [f"status {' or '.join(f'`{name}`' for name in sorted(statuses))} and `{own}`"]
        if self._error is not None:
            pairs = [(self._error[name], (response["error"] or {}).get(name)) for name in self._rules.error_members]
            if event["type"] != "response.failed" or any(one != other for one, other in pairs):
                found.append("a failed response with the error of the `error` event")
        return found + self._check_id(response) + self._output.check_end(event)

    def _check_id(self, response: Event) -> list[str]:
        return [] if response["id"] == self._response_id else ["one response ID"]


class _UnexpectedEventError(Exception):
    """An event that cannot be joined to the output. The message names what was expected instead."""


@dataclass
class _Part:
    """A part of an item, as a client would join it."""

    content: dict[str, Any]
    is_whole: bool = False
    is_done: bool = False


@dataclass
class _Item:
    """An item, as a client would join it."""

    index: int
    content: Event
    text: str = ""
    is_done: bool = False
    parts: Mapping[str, list[_Part]] = field(default_factory=lambda: {index: [] for index in LISTS})


class _Output:
    """The output of one response, as a client would join it. Checks return what was expected instead of the event."""

    def __init__(self, rules: StreamRules) -> None:
        self.items: list[_Item] = []
        self.truncated: set[str] = set()
        """Types of events that were truncated."""
        self._rules = rules
        self._by_id: dict[str, _Item] = {}

    def check(self, event: Event) -> list[str]:
        """Check the next event of an item."""
        try:
            rule = RULES.get(event["type"])
            if rule is None:
                rule = _Output.on_call_text if event["type"] in self._rules.families else _Output.on_other
            return rule(self, event)
        except _UnexpectedEventError as error:
            return [str(error)]

    def check_end(self, event: Event) -> list[str]:
        if not all(item.is_done for item in self.items):
            return ["all items done before the end"]
        if event["type"] in self.truncated:
            return []
        output, items = event["response"]["output"], [item.content for item in self.items]
        if [(one["type"], one["id"]) for one in output] != [(item["type"], item["id"]) for item in items]:
            return ["all items in the response, in order"]
        pairs = zip(items, output, strict=True)
        is_equal = all(item == one for item, one in pairs if not one["type"].startswith(EXTENSION))
        return [] if is_equal else ["each item in the response as it was when done"]

    def on_other(self, event: Event) -> list[str]:
        """Check the item of an event that adds nothing to the output."""
        if "item_id" in event:
            self._item(event)
        return []

    def on_added(self, event: Event) -> list[str]:
        content, index = event["item"], event["output_index"]
        found = []
        if index != len(self.items) or content["id"] in self._by_id:
            found.append("`output_index` rising by one from 0, and a new item ID")
        empty = ("content", "summary", "output", "result", self._rules.texts.get(content["type"], ""))
        is_output = content["type"].endswith("_output")  # an output of a call comes whole
        begins = {"in_progress", "incomplete"} if content["type"] == "program_output" else {"in_progress"}
        if content.get("status", "in_progress") not in begins or (any(map(content.get, empty)) and not is_output):
            found.append("an empty item with status `in_progress`")
        item = self._by_id[content["id"]] = _Item(index, content)
        self.items.append(item)
        return found

    def on_done(self, event: Event) -> list[str]:
        content = event["item"]
        item = self._by_id.get(content["id"])
        is_open = item is not None and not item.is_done and item.index == event["output_index"]
        if item is None or not is_open or item.content["type"] != content["type"]:
            return ["an open item"]
        item.is_done, item.content = True, content
        is_final = content.get("status") != "in_progress" or content["type"] == "apply_patch_call"  # if it is cut off
        found = [] if is_final else ["the final status of an item"]
        if not all(part.is_done for parts in item.parts.values() for part in parts):
            found.append("all parts done before their item")
        joined = {name: [part.content for part in item.parts[index]] for index, name in LISTS.items()}
        is_joined = all(content.get(name, []) == parts for name, parts in joined.items())
        if (member := self._rules.texts.get(content["type"])) is not None:
            is_joined = is_joined and content[member] == item.text
        if not is_joined and event["type"] not in self.truncated:
            found.append("an item equal to what its events contained")
        return found

    def on_part_added(self, event: Event) -> list[str]:
        index, part = _index_member(event), event["part"]
        parts = self._item(event).parts[index]
        is_empty = not any(value for name, value in part.items() if name != "type")
        is_next = event[index] == len(parts)
        parts.append(_Part(dict(part)))
        return [] if is_empty and is_next else [f"an empty part, and `{index}` rising by one from 0"]

    def on_part_done(self, event: Event) -> list[str]:
        part = self._part(event)
        part.is_done = True
        is_equal = event["part"] == part.content or event["type"] in self.truncated
        return [] if part.is_whole and is_equal else ["the end of a part after its text, with equal content"]

    def on_delta(self, event: Event) -> list[str]:
        part = self._part(event)
        if not part.is_whole:
            part.content[_text_member(event)] += event["delta"]
        return [] if not part.is_whole else ["no delta after the complete text"]

    def on_whole(self, event: Event) -> list[str]:
        part, name = self._part(event), _text_member(event)
        is_equal = event[name] == part.content[name] or event["type"] in self.truncated
        was_whole, part.is_whole = part.is_whole, True
        return [] if is_equal and not was_whole else ["the complete text once, equal to its deltas"]

    def on_annotation(self, event: Event) -> list[str]:
        content = self._part(event).content
        known = content["annotations"]
        content["annotations"] = [*known, event["annotation"]]
        return [] if event["annotation_index"] == len(known) else ["`annotation_index` rising by one from 0"]

    def on_call_text(self, event: Event) -> list[str]:
        """Check an event of one item type: a status, or a delta or the whole of its text."""
        item = self._item(event)
        family = self._rules.families[event["type"]]
        if item.content["type"] != family:
            return [f"an item of type `{family}`"]
        member = self._rules.texts.get(family, "")
        if "delta" in event:
            item.text += event["delta"]
        elif member in event and (item.text in {"", event[member]} or event["type"] in self.truncated):
            item.text = event[member]
        elif member in event:
            return [f"`{member}` equal to the deltas"]
        return []

    def on_notices(self, event: Event) -> list[str]:
        """Check notices, and remember which events are truncated."""
        if any(notice["type"] == "truncated" for notice in event["notices"]):
            self.truncated.add(event["about"])
        return self.on_other(event)

    def _item(self, event: Event) -> _Item:
        item = self._by_id.get(event["item_id"])
        if item is None or item.index != event["output_index"]:
            raise _UnexpectedEventError("the ID and index of an added item")
        if item.is_done and event["type"] not in AFTER_THE_ITEM:
            raise _UnexpectedEventError("no event of an item after its end")
        return item

    def _part(self, event: Event) -> _Part:
        index = _index_member(event)
        parts, at = self._item(event).parts[index], event[index]
        if at >= len(parts) or parts[at].is_done:
            raise _UnexpectedEventError("an open part")
        return parts[at]


def _index_member(event: Event) -> str:
    return next(name for name in LISTS if name in event)


def _text_member(event: Event) -> str:
    return "refusal" if event["type"].startswith("response.refusal.") else "text"


TEXTS: Final = ("output_text", "refusal", "reasoning", "reasoning_text", "reasoning_summary_text")
RULES: Final[Mapping[str, Callable[[_Output, Event], list[str]]]] = {
    "response.output_item.added": _Output.on_added,
    "response.output_item.done": _Output.on_done,
    "response.content_part.added": _Output.on_part_added,
    "response.content_part.done": _Output.on_part_done,
    "response.reasoning_summary_part.added": _Output.on_part_added,
    "response.reasoning_summary_part.done": _Output.on_part_done,
    **{f"response.{name}.delta": _Output.on_delta for name in TEXTS},
    **{f"response.{name}.done": _Output.on_whole for name in TEXTS},
    "response.output_text.annotation.added": _Output.on_annotation,
    "public-sse:notices": _Output.on_notices,
}
