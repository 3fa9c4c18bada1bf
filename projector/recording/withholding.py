"""The lines of a recording, redacted: secrets in strings are replaced, and the shape of each value stays (ADR 12).

A line is the data of a message of a provider's stream, as one JSON value or a fixed text. It has no SSE event name: if
the name matters, it becomes a member of the value (`RecordingShape.name_event`). Every event is copied, and its strings
are collected by channel (`projector.providers.recording_shape`). At the end of the stream each channel is searched as
one text, and the secrets are replaced in the strings.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from projector.contracts import codec, limits
from projector.contracts.kinds import REDACTED
from projector.core.faults import FAULTS, Fault
from projector.core.input_formats import InputFormat, decoder_for
from projector.core.sse import DONE, SseMessage, is_comment
from projector.providers import PROVIDERS
from projector.providers.recording_shape import ALONE, Path, RecordingShape, keys_of
from projector.redaction.whole_values import Finder, Span, without

ERROR: Final = "error"
NO_JSON: Final = b"(no JSON: withheld)"
"""Replaces a payload that cannot be searched. It ends a stream as the payload does."""
_READ_BYTES: Final = 65_536
_TOO_DEEP: Final = "(too deep: withheld)"
_LONG_DIGITS: Final = re.compile(rb"\d{19}")


class FixedLine(NamedTuple):
    """Fixed text in place of a line that is not JSON."""

    text: bytes


class StreamLines(NamedTuple):
    """The values of a stream's lines, and the fault at its end, if a line cannot express it."""

    values: list[Any]
    fault: Fault | None = None


def read_lines(
    provider: str, data: bytes, input_format: InputFormat = "sse", pause: Callable[[], None] = lambda: None
) -> StreamLines:
    """Decode a stream, message by message. Comments and blank messages are skipped.

    `pause`: see `whole_values.Finder`.
    """
    shape = shape_of(provider)
    row = PROVIDERS.get(provider)
    fields, is_bare = (row.message_fields, row.has_bare_json) if row is not None else ((), False)
    decoder = decoder_for(input_format, limits.EVENT_MAX_BYTES, fields, has_bare_json=is_bare)
    values: list[Any] = []
    messages: list[SseMessage | Fault] = []
    for at in range(0, len(data), _READ_BYTES):
        pause()
        messages += decoder.feed(data[at : at + _READ_BYTES])
    for item in [*messages, *decoder.close()]:
        pause()
        if not isinstance(item, Fault):
            values += _values(shape, item)
        elif item is FAULTS["upstream_malformed"]:
            values.append(FixedLine(NO_JSON))
        else:
            return StreamLines(values, item)
    return StreamLines(values)


def shape_of(provider: str) -> RecordingShape:
    """Return how a provider's streams are recorded; the generic shape for an unknown provider."""
    return PROVIDERS[provider].recording() if provider in PROVIDERS else RecordingShape()


def encode_line(value: Any) -> bytes:
    """Return the line of a value, without its newline."""
    return value.text if isinstance(value, FixedLine) else codec.dumps_exact(value)


def _values(shape: RecordingShape, message: SseMessage) -> list[Any]:
    text = message.data.strip()
    if is_comment(text):
        return []
    if text == DONE:
        return [FixedLine(DONE)]
    try:
        value = _loads(message.data)
    except codec.TooDeepError:
        return [_TOO_DEEP]
    except codec.CodecError:
        is_error = shape.has_text_errors and message.event == ERROR
        return [{ERROR: text.decode("utf-8", "replace")}] if is_error else [FixedLine(NO_JSON)]
    return [shape.name_event(value, message.event) if isinstance(value, dict) else value]


def _loads(data: bytes) -> Any:
    """Parse JSON without rounding large integers, as most parsers do."""
    if _LONG_DIGITS.search(data):
        with suppress(codec.CodecError):
            return codec.loads_exact(data.decode("utf-8", "replace"))
    return codec.loads(data)


# redaction


PLACEHOLDER_PREFIX: Final = "redacted_"

IDS: Final = frozenset(
    {
        "id", "item_id", "call_id", "response_id", "previous_response_id", "conversation_id", "approval_request_id",
        "tool_call_id", "container_id", "file_id", "object_id",
    }
)  # fmt: skip
"""Members that correlate events. They are never pieces; one that looks like a credential gets a placeholder."""

POSITIONS: Final = frozenset(
    {
        "sequence_number", "output_index", "content_index", "summary_index", "annotation_index", "command_index",
        "partial_image_index", "index", "start_index", "end_index", "created", "created_at", "completed_at",
    }
)  # fmt: skip
"""Numbers that are never secret, although a registered value may be equal to one."""

EMPTIED: Final = frozenset({"logprobs", "prompt_text", "prompt_token_ids", "prompt_logprobs"})
"""Members with token-by-token copies of texts, or with prompts that a server echoes."""

ENCRYPTED: Final[Mapping[str, str | None]] = {
    "encrypted_content": None,
    "signature": None,
    "thought_signature": None,
    "data": "reasoning.encrypted",
}
"""Member that only the provider can read -> the type of its object, if only that type has it; None: of any type."""

RESPONSE_KEPT: Final = frozenset(
    {
        "id", "object", "status", "model", "output", "usage", "tool_usage", "error", "incomplete_details",
        "service_tier", "previous_response_id", "conversation",
    }
)  # fmt: skip
"""Members of the response object that belong to the answer. Of the others, numbers and booleans are kept."""

_MAX_DEPTH: Final = 128
"""Maximum depth, twice that of the public stream; deeper values are withheld."""


class Withheld(NamedTuple):
    """The redacted values of a stream, and the number of changed strings, numbers and keys."""

    values: list[Any]
    changed: int


def withhold(provider: str, values: Iterable[Any], finder: Finder) -> Withheld:
    """Return the values of a stream, as `read_lines` returns them, without secrets and configuration."""
    redaction = _StreamRedaction(finder, shape_of(provider))
    kept = [redaction.copy(value) for value in values]
    redaction.finish()
    return Withheld(kept, redaction.changed)


@dataclass(slots=True, eq=False)
class _Leaf:
    """One string and its position in a copy."""

    holder: Any
    name: Any
    text: str
    is_id: bool
    spans: list[Span] = field(default_factory=list)


class _StreamRedaction:
    def __init__(self, finder: Finder, shape: RecordingShape) -> None:
        self.changed = 0
        self._finder = finder
        self._shape = shape.channels()
        self._counts = shape.counts
        self._leaves: list[_Leaf] = []
        self._channels: defaultdict[Hashable, list[int]] = defaultdict(list)
        self._placeholders: dict[str, str] = {}
        self._spans_of: dict[str, list[Span]] = {}
        self._keys: dict[str, str] = {}
        """Key -> the redacted key: streams repeat a few."""

    def copy(self, value: Any) -> Any:
        """Copy a value. Its strings are final after `finish`."""
        if isinstance(value, FixedLine):
            return value
        self._finder.pause()
        event = value if isinstance(value, dict) else {}
        self._shape.begin(event)
        copy = [value]
        self._put(copy, 0, without_configuration(event) if event else value, ())
        return copy[0]

    def finish(self) -> None:
        """Search each channel as one text, and write what remains of each string."""
        groups = [[self._channels[name] for name in group] for group in self._shape.groups(self._channels)]
        merged = [sorted({at for channel in group for at in channel}) for group in groups]
        for leaves in {tuple(channel): None for channel in (*self._channels.values(), *merged)}:
            self._finder.pause()
            self._search(leaves)
        for leaf in self._leaves:
            if leaf.spans:
                text = self._placeholder(leaf.text) if leaf.is_id else without(leaf.text, leaf.spans)
                self.changed += text != leaf.text
                leaf.holder[leaf.name] = text

    def _put(self, holder: Any, name: Any, value: Any, path: Path, *, counts: bool = False) -> None:
        if isinstance(value, str):
            self._note(holder, name, value, path)
        elif isinstance(value, dict | list) and len(path) >= _MAX_DEPTH:
            self.changed += 1
            holder[name] = REDACTED
        elif isinstance(value, dict):
            copy: dict[str, Any] = {}
            holder[name] = copy
            counts = counts or keys_of(path) in self._counts
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
        self, copy: dict[str, Any], original: Mapping[str, Any], key: str, member: Any, path: Path, *, counts: bool
    ) -> None:
        kept = self._keys.get(key)
        if kept is None:
            kept = self._keys[key] = self._finder.key(key)
        self.changed += kept != key
        if key in EMPTIED:
            copy[kept] = _emptied(member)
        elif member and key in ENCRYPTED and ENCRYPTED[key] in (None, original.get("type")):
            copy[kept] = self._placeholder(str(member))
            self.changed += copy[kept] != member
        elif self._finder.hides(key, member) and not (counts and not isinstance(member, str)):
            self.changed += member != REDACTED
            copy[kept] = REDACTED
        else:
            self._put(copy, kept, member, (*path, key), counts=counts)

    def _note(self, holder: Any, name: Any, text: str, path: Path) -> None:
        holder[name] = text
        if not text:
            return
        leaf = _Leaf(holder, name, text, is_id=name in IDS)
        for channel in (ALONE,) if leaf.is_id else self._shape.channels(path):
            if channel == ALONE:
                self._finder.pause()
                leaf.spans += self._spans(text)
            else:
                self._channels[channel].append(len(self._leaves))
        self._leaves.append(leaf)

    def _number(self, name: Any, value: Any) -> Any:
        """Return a number, or the mark of a registered one."""
        if type(value) not in {int, float} or name in POSITIONS:
            return value
        mark = self._finder.mark_of(value)
        self.changed += mark is not None
        return value if mark is None else mark

    def _search(self, leaves: tuple[int, ...]) -> None:
        """Search strings as one text, and add to each its part of what was found."""
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
        """Return the secrets of a complete string. Most strings are repeated often."""
        if text not in self._spans_of:
            self._spans_of[text] = self._finder.spans(text)
        return self._spans_of[text]

    def _placeholder(self, text: str) -> str:
        """Return a placeholder, the same for equal texts."""
        return self._placeholders.setdefault(text, f"{PLACEHOLDER_PREFIX}{len(self._placeholders) + 1}")


def without_configuration(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event without the configuration in it: of its response, and lists of tools."""
    members = dict(event)
    for name, reduce in (("response", _response), ("item", _item)):
        if isinstance(event.get(name), dict):
            members[name] = reduce(event[name])
    return members


def _response(response: Mapping[str, Any]) -> dict[str, Any]:
    members = {
        name: value if name in RESPONSE_KEPT or isinstance(value, bool | int | float) else _emptied(value)
        for name, value in response.items()
    }
    if isinstance(output := response.get("output"), list):
        members["output"] = [_item(item) if isinstance(item, dict) else item for item in output]
    if isinstance(tools := response.get("tools"), list):
        interpreters = [tool for tool in tools if isinstance(tool, dict) and tool.get("type") == "code_interpreter"]
        members["tools"] = [  # whether the host made the container is public
            {"type": tool["type"], "container": _emptied(tool.get("container"))} for tool in interpreters
        ]
    if isinstance(text := response.get("text"), dict) and isinstance(form := text.get("format"), dict):
        members["text"] = {"format": {"type": form.get("type")}}
    return members


def _item(item: Mapping[str, Any]) -> dict[str, Any]:
    return {**item, "tools": []} if item.get("tools") else dict(item)


def _emptied(value: Any) -> Any:
    """Return an empty value of the same type."""
    return type(value)() if isinstance(value, str | list | dict) else None
