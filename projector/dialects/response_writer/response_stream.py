"""State of one stream: its `response` object, and its events with their numbers and size limit (CONTRACT D37).

Deltas are short. Only events that repeat a whole can be too large: the end of a part, an item or the response, and
tool outputs. Their long texts are truncated to one size; then items are dropped from the end of the output.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias

from projector.contracts import codec
from projector.contracts.kinds import VENDOR
from projector.core.canonical import Frame
from projector.core.delta_frames import DeltaFrames
from projector.core.truncation import SMALL_BYTES
from projector.dialects import frame_writer
from projector.dialects.answer_stream import ApiStream, seconds
from projector.dialects.descriptor import JsonAnswer, RepeatWriter
from projector.dialects.response_writer.output_items import TEXT, Item, ItemShape, PartKind
from projector.redaction import compose
from projector.redaction.clean import Notice, bounded, notice, render


def usage_of(usage: Mapping[str, int], input_details: Mapping[str, int]) -> dict[str, object]:
    """Return the usage with the members of the protocol. They are required, so an unknown count is 0."""
    read, written = usage.get("input_tokens", 0), usage.get("output_tokens", 0)
    cached, reasoning = usage.get("cached_input_tokens", 0), usage.get("reasoning_output_tokens", 0)
    return {
        "input_tokens": read,
        "output_tokens": written,
        "total_tokens": usage.get("total_tokens", read + written),
        "input_tokens_details": {"cached_tokens": cached, **input_details},
        "output_tokens_details": {"reasoning_tokens": reasoning},
    }


ENDS: Final[Mapping[str, tuple[str, str]]] = {
    "completed": ("response.completed", "completed"),
    "refused": ("response.completed", "completed"),
    "incomplete": ("response.incomplete", "incomplete"),
    "cancelled": ("response.incomplete", "incomplete"),
    "failed": ("response.failed", "failed"),
}
"""Status of `final` -> the last event and the status of its response."""


Path: TypeAlias = tuple[str | int, ...]

EVENT_MAX_BYTES: Final = 16 * 1024 * 1024
"""Limit of one event. A whole response object repeats all texts (D37)."""


def truncate_event(
    event: dict[str, Any], max_bytes: int, whole_members: frozenset[str] = frozenset()
) -> tuple[dict[str, Any], list[Notice]]:
    """Return a copy of an event within `max_bytes` of JSON, and notices of what was truncated.

    Args:
        event: the event.
        max_bytes: limit of its JSON.
        whole_members: members that are emptied instead of truncated.
    """
    places: list[tuple[Any, Path]] = []
    event = _copied(event, (), places)
    excess = codec.size(event) - max_bytes
    texts = [(holder, path, codec.size(holder[path[-1]])) for holder, path in places]
    long = [row for row in texts if row[2] > SMALL_BYTES]
    room = sum(size for _, _, size in long) - excess
    fitting = compose.greatest(lambda share: sum(min(size, share) for _, _, size in long) <= room, max_bytes)
    share = max(fitting, SMALL_BYTES)
    notices = []
    for holder, path, size in long:
        if size > share:
            name = path[-1]
            holder[name] = "" if name in whole_members else compose.shrink_text(holder[name], share).value
            notices.append(notice("truncated", render(path).removeprefix(".")))
    return event, list(bounded(notices + _drop_items(event, max_bytes)))


def _copied(value: Any, path: Path, places: list[tuple[Any, Path]]) -> Any:
    """Return a copy of a tree, in which no container stands twice; add container and path of each text to `places`."""
    if not isinstance(value, dict | list | tuple):
        return value
    copy: Any = dict(value) if isinstance(value, dict) else [*value]
    for step, member in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(member, str):
            places.append((copy, (*path, step)))
        else:
            copy[step] = _copied(member, (*path, step), places)
    return copy


def _drop_items(event: dict[str, Any], max_bytes: int) -> list[Notice]:
    """Drop as many items from the end of the output as necessary. Clients have received each of them before."""
    output = event.get("response", {}).get("output")
    excess = codec.size(event) - max_bytes
    if not output or excess <= 0:
        return []
    while output and excess > 0:
        excess -= codec.size(output.pop()) + 1
    return [notice("truncated", "response.output")]


TRANSLATED: Final = frame_writer.ENVELOPE | {"kind", "item_id", "output_index"}
"""Members of a frame that an event of our own does not copy."""


class ResponseStream(ApiStream):
    """The writer of one stream: one response object, even for a run of several responses.

    What differs between the protocols is in the members of their classes.

    Args:
        max_bytes: limit of one event.
        has_extensions: whether events of our own are written.
    """

    shapes: ClassVar[Mapping[str, ItemShape]]
    """Item types of the protocol."""
    dropped_items: ClassVar[Mapping[str, str]]
    """Item types that are not written, and why. All others are written under our own name."""
    roles: ClassVar[frozenset[str]]
    """Roles of messages; any other role becomes the assistant's."""
    citations: ClassVar[Mapping[str, Mapping[str, object]]]
    """Type of a citation -> its required members, with defaults."""
    reasoning: ClassVar[PartKind]
    """Part of full reasoning."""
    request_members: ClassVar[Mapping[str, object]]
    """Required members of the response that repeat the request, with fixed values, because no dialect receives the
    request (seed contract, section 7.2)."""
    input_details: ClassVar[Mapping[str, int]] = {}
    """Members of `usage.input_tokens_details` that no frame has."""
    ends: ClassVar[Mapping[str, tuple[str, str]]] = ENDS
    announces_failure: ClassVar[bool] = False
    """Whether an `error` event precedes the end of a response that the provider ended as failed."""
    whole_members: ClassVar[frozenset[str]] = frozenset()
    """Members of items that are dropped instead of truncated: a part of them is worthless."""

    def __init__(self, max_bytes: int = EVENT_MAX_BYTES, *, has_extensions: bool = False) -> None:
        super().__init__()
        self.has_extensions = has_extensions
        self.reason: str | None = None
        """Reason of the last response that did not complete."""
        self.items: dict[str, Item] = {}
        """ID -> item, without the items that are not written."""
        self.details: dict[str, Mapping[str, object]] = {}
        """ID -> members of an item that were known before its announcement."""
        self.output_ids = frame_writer.IdAllocator()
        """Allocates the IDs of outputs, which the provider does not announce."""
        self.last_delta: Mapping[str, Any] = {}
        """The event of the last delta of a text."""
        self._id = ""
        self._text: Mapping[str, object] = {}
        """The members for the text format, if it is known."""
        self._max_bytes = max_bytes
        self._sequence = 0
        self._output: list[Item] = []
        self._has_begun = False
        self._is_in_progress = False

    @abstractmethod
    def error_members(self, error: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the members of an `error` event, from a frame's error."""

    @abstractmethod
    def incomplete_details(self, reason: str | None) -> Mapping[str, str] | None:
        """Return why a response is incomplete."""

    def response_error(self, code: str, message: str) -> Mapping[str, Any]:
        """Return the `error` of a failed response."""
        return {"code": code, "message": message}

    def text_members(self, _text_format: Mapping[str, str]) -> Mapping[str, object]:
        """Return the members of a response for the text format in `response.meta`."""
        return {}

    def repeat(self, frame: Frame, /) -> RepeatWriter | None:
        """Return a writer of the further deltas of a text; None if their events may be too large."""
        pattern = frame_writer.pattern_of(self.last_delta, _PLACES)
        if len(pattern) + frame_writer.VALUES_MAX_BYTES > self._max_bytes:
            return None
        part = self.items[frame["item_id"]].parts[TEXT.type, frame[TEXT.index_member]]

        def write(deltas: DeltaFrames) -> list[bytes]:
            part.buffer.write("".join(deltas.texts))
            first = self._sequence
            self._sequence += len(deltas.encoded)
            return [pattern % values for values in enumerate(deltas.encoded, first)]

        return RepeatWriter(self.last_delta["type"], write)

    def on_meta(self, frame: Frame) -> None:
        """Keep what all APIs keep, and the text format."""
        super().on_meta(frame)
        if "text_format" in frame:
            self._text = self.text_members(frame["text_format"])

    def _response(self, status: str, output: Sequence[Any] = (), **members: Any) -> dict[str, Any]:
        """Return the current response as it is written."""
        usage = members.get("usage")
        return {
            "id": self._id,
            "object": "response",
            "created_at": self.created_at,
            "completed_at": members.get("completed_at"),
            "status": status,
            "incomplete_details": members.get("incomplete_details"),
            "model": self.model,
            "output": output,
            "error": members.get("error"),
            "usage": usage_of(usage, self.input_details) if usage else None,
            **self.request_members,
            **self.service_tier,
            **self._text,
        }

    def emit(self, name: str, members: Mapping[str, Any]) -> dict[str, Any]:
        """Write an event, and return it. If it is too large it is truncated, and notices of that are written first."""
        event = {"type": name, "sequence_number": self._sequence, **members}
        is_large = "response" in members and codec.size(event) > self._max_bytes  # it may have texts of megabytes
        data = b"" if is_large else codec.dumps(event)
        if is_large or len(data) > self._max_bytes:
            event["sequence_number"] += self.has_extensions
            truncated, notices = truncate_event(event, self._max_bytes, self.whole_members)
            self.emit_own("notices", {"about": name, "notices": [row._asdict() for row in notices]})
            data = codec.dumps(truncated)
        self.events.append((name, data))
        self._sequence += 1
        return event

    def emit_own(self, name: str, members: Mapping[str, Any]) -> None:
        """Write an event of our own, if the client accepts those."""
        if self.has_extensions:
            self.emit(f"{VENDOR}:{name}", members)

    def begin(self, frame: Frame, status: str = "in_progress") -> None:
        """Write the start of the response, once."""
        if self._has_begun:
            return
        self._has_begun = True
        self._id = frame.get("response_id") or frame["stream_id"]
        self.created_at = self.created_at or seconds(frame)
        self.emit("response.created", {"response": self._response(status)})
        if status == "queued":
            self.emit("response.queued", {"response": self._response(status)})

    def begin_work(self, frame: Frame) -> None:
        """Write that the response is in progress, once."""
        if self._is_in_progress:
            return
        self._is_in_progress = True
        self.begin(frame)
        self.emit("response.in_progress", {"response": self._response("in_progress")})

    def announce(self, item: Item) -> None:
        """Write the start of an item, at the end of the output."""
        item.index = len(self._output)
        item.position = {"item_id": item.id, "output_index": item.index}
        self._output.append(item)
        self.emit("response.output_item.added", {"output_index": item.index, "item": item.wire()})

    def finish(self, item: Item) -> None:
        """Write the end of an item."""
        self.emit("response.output_item.done", {"output_index": item.index, "item": item.wire()})

    def emit_extension(self, frame: Frame, item: Item) -> None:
        """Write an event of our own, with the members of the public event, if the protocol has none."""
        members = {name: value for name, value in frame.items() if name not in TRANSLATED}
        self.emit_own(frame["kind"], item.position | members)

    def emit_notices(self, frame: Frame) -> None:
        """Write the notices of a frame, if it has any."""
        if notices := frame.get("notices"):
            item = self.items.get(frame.get("item_id", ""))
            position = item.position if item is not None else {}
            self.emit_own("notices", {"about": frame["kind"], **position, "notices": notices})

    def end(self, event: str, status: str, **members: Any) -> None:
        """Write the end of the response, with its whole output."""
        output = [item.wire() for item in self._output]
        self.emit(event, {"response": self._response(status, output=output, **members)})


Writer: TypeAlias = Callable[[ResponseStream, Frame], None]

_PLACES: Final[Mapping[str, bytes]] = {"sequence_number": frame_writer.NUMBER_PLACE, "delta": frame_writer.TEXT_PLACE}
"""What differs within a run of deltas, in the order in which an event has it."""


ERROR_PREFIX: Final = b'{"type":"error",'
"""Start of the data of an `error` event, as it is encoded here."""

ENDED: Final = frozenset({"completed", "incomplete", "failed", "cancelled"})


class ResponseAssembly:
    """Builder of the JSON answer, from the error and the last event, which repeats everything before it.

    Args:
        status_of: returns the HTTP status of the `error` of an `error` event.
    """

    def __init__(self, status_of: Callable[[Mapping[str, Any]], int]) -> None:
        self._status_of = status_of
        self._error = b""
        self._last = b""

    @property
    def held_bytes(self) -> int:
        """Bytes kept for the answer so far."""
        return len(self._error) + len(self._last)

    def feed(self, event: bytes, /) -> None:
        """Add the data of an event."""
        if event.startswith(ERROR_PREFIX):
            self._error = event
        else:
            self._last = event

    def close(self) -> JsonAnswer:
        """Return the `response` object or `{"error": ...}`, or raise `ValueError` if the stream did not end."""
        if self._error:
            payload = codec.loads(self._error)["error"]
            return JsonAnswer(self._status_of(payload), {"error": payload})
        last = codec.loads(self._last) if self._last else {}
        if last.get("response", {}).get("status") not in ENDED:
            raise ValueError("expected a complete stream, but the last event does not end a response")
        return JsonAnswer(200, last["response"])
