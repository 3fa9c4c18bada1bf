"""Events of the Interactions API as canonical events. Steps have an explicit start and end; `gemini_output` has items.

The names of the preview of 2025 (`interaction.start`, `content.delta`, ...) are read as those that followed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from projector.core import canonical as read
from projector.core.sse import NO_OBJECT, REPEATED_EVENT, SseMessage
from projector.providers.error_shapes import ReportedError, error_of, members_of
from projector.providers.gemini import gemini_fields as fields
from projector.providers.gemini.gemini_output import Output, action_of, file_result
from projector.providers.gemini.grounding import file_citation, url_citation
from projector.providers.stage_parts import Annotation, Call, Event, Events, HostedCall, JsonStage, index_of

QUEUED: Final = "queued"
KNOWN_MAX: Final = 4_096
"""IDs of events that are kept: a stream that is continued may repeat the last ones."""
BEGIN_EVENTS: Final = 2
"""One is not enough: a server may begin each response with the same event, and then continue."""


@dataclass(slots=True, eq=False)
class Step:
    """An open step."""

    kind: str
    given: Mapping[str, object]
    """Its `step`."""
    hosted: HostedCall | None = None
    arguments: Mapping[str, object] = field(default_factory=dict)
    """Arguments of a call of a tool of the provider."""
    names: Mapping[str, object] = field(default_factory=dict)
    """What has the names of an MCP tool and its server."""
    call: Call | None = None
    """The call of a function; others may be open at the same time."""
    has_arguments: bool = False
    """Whether a delta of its arguments has come."""
    result: Mapping[str, object] = field(default_factory=dict)
    """The delta with a result."""
    annotations: list[Mapping[str, object]] = field(default_factory=list)


class InteractionStage(JsonStage):
    """Translates one interaction."""

    def __init__(self) -> None:
        super().__init__(fields.INTERACTION_COUNTS)
        self._known: dict[str, int] = {}
        """ID of an event -> hash of the event."""
        self._begin: list[tuple[str, int]] = []
        """The first two events, so that a stream is recognized that begins again."""
        self._before: tuple[str, int] | None = None
        self._newest: str | None = None
        """ID of the event up to which a stream that began again repeats events; None for any other stream."""
        self._output = Output(self._dropped)
        self._steps: dict[int, Step | None] = {}
        """Open steps by index; None for one that is not read."""
        self._has_steps = False

    def read(self, event: object, message: SseMessage) -> Events:
        """Return the events of one event."""
        if not isinstance(event, dict):
            return self._dropped.drop(NO_OBJECT)
        if self._is_repeated(read.text_or_none(event, "event_id"), hash(message.data)):
            return self._dropped.drop(REPEATED_EVENT)
        name = read.text_or_none(event, "event_type") or message.event
        handle = EVENTS.get(PREVIEW_NAMES.get(name, name))
        if handle is None and "status" in event and ("steps" in event or "outputs" in event):
            event, handle = {"interaction": event}, InteractionStage.on_completed  # a whole answer, as JSON
        if handle is None:
            error = error_of(event, has_begun=bool(self._response))
            return self._dropped.drop(f"event.{name}") if error is None else self._stop([error.event()])
        events: list[Event] = []
        if not self._response and name != "error":
            events = self._identify(read.mapping_or_empty(event, "interaction"), message.data)
        self._note(event)
        return self._numbered(events) + handle(self, event)

    # events

    def on_status(self, event: Mapping[str, Any]) -> Events:
        """Emit a status before the end; that of an end is in the event that follows."""
        status = read.text_or_none(event, "status")
        shown = QUEUED if status in {QUEUED, "idle"} else "in_progress"
        response = {**self._response, "status": shown, "output": []}
        return self._numbered([{"type": f"response.{shown}", "response": response}])

    def on_step_start(self, event: Mapping[str, Any]) -> Events:
        """Begin a step."""
        given = read.mapping_or_empty(event, "step") or read.mapping_or_empty(event, "content")
        self._has_steps = True
        return self._numbered(self._begin_step(index_of(event) or 0, given))

    def on_delta(self, event: Mapping[str, Any]) -> Events:
        """Add a delta, by its own type."""
        step = self._steps.get(index_of(event) or 0)
        if step is None:
            return self._dropped.drop("delta of no step")
        return self._numbered(self._add(step, read.mapping_or_empty(event, "delta")))

    def on_step_stop(self, event: Mapping[str, Any]) -> Events:
        """End a step."""
        return self._numbered(self._end_step(index_of(event) or 0))

    def on_completed(self, event: Mapping[str, Any]) -> Events:
        """End the response."""
        interaction = read.mapping_or_empty(event, "interaction")
        status = read.text_or_none(interaction, "status") or "completed"
        end = fields.INTERACTION_ENDS.get(status, fields.OTHER)
        if status not in fields.INTERACTION_ENDS:
            self._dropped.note(f"status.{status}")
        events = [] if self._has_steps else self._whole(interaction)
        if end.status == "completed":
            events += [event for index in [*self._steps] for event in self._end_step(index)]
        cut_off = [step.call for step in self._steps.values() if step is not None and step.call is not None]
        events += [event for call in cut_off for event in call.flush()]
        events += self._output.end(end.status)
        error = members_of(interaction) if interaction.get("error") else ReportedError()
        reported = {"code": _code(error.code) or end.reason, "message": error.message}
        return self._finish(events, end.status, reason=end.reason, error=reported)

    def on_error(self, event: Mapping[str, Any]) -> Events:
        """End the stream with an error."""
        error = fields.error_members(event)
        return self._stop([error._replace(code=_code(error.code)).event()])

    # steps

    def nothing(self, _given: object) -> list[Any]:
        """Return nothing: the first event announces the response, and the deltas of a result are its item."""
        return []

    def begin_message(self, step: Step) -> list[Event]:
        """Begin a message with the content that its step begins with, if there is any; deltas follow."""
        parts = read.mappings(step.given, "content") or [step.given]
        return [event for part in parts if read.text_or_none(part, "type") in DELTAS for event in self._add(step, part)]

    def begin_thought(self, step: Step) -> list[Event]:
        """Begin reasoning; its signature may be all that there is."""
        texts = (read.text_or_none(part, "text") or "" for part in read.mappings(step.given, "summary"))
        return self._output.thought("".join(texts), read.text_or_none(step.given, "signature"))

    def begin_function(self, step: Step) -> list[Event]:
        """Begin a call of a function."""
        name, call_id, signature = (read.text_or_none(step.given, member) for member in ("name", "id", "signature"))
        events = self._output.call(name or "", call_id, signature or None, is_whole=True)
        step.call = self._output.take_call()
        return events

    def begin_tool(self, step: Step) -> list[Event]:
        """Begin a call of a tool of the provider, whose arguments follow; some are announced with their arguments."""
        item_type = CALLS[step.kind]
        step.arguments, step.names = read.mapping_or_empty(step.given, "arguments"), step.given
        if item_type in {fields.CODE, fields.MCP}:
            return []
        step.hosted = self._output.hosted(item_type, read.text_or_none(step.given, "id"))
        return self._output.begin(step.hosted)

    def end_thought(self, _step: Step) -> list[Event]:
        """Close the reasoning."""
        return self._output.end_reasoning()

    def end_message(self, step: Step) -> list[Event]:
        """Close the message with its citations, whose positions are known now."""
        annotations = [self._annotation(at, raw) for at, raw in enumerate(step.annotations)]
        events = self._output.cite([one for one in annotations if one is not None])
        return events + self._output.end_message("completed")

    def end_function(self, step: Step) -> list[Event]:
        """Close a call; its start may have all arguments."""
        rest = "" if step.has_arguments else self._dropped.input_of(step.given, "arguments", "step.arguments") or "{}"
        return [] if step.call is None else step.call.input(rest) + step.call.done("completed")

    def end_tool(self, step: Step) -> list[Event]:
        """Emit the arguments of a call of a tool of the provider; the result is a step of its own."""
        arguments, call_id = step.arguments, read.text_or_none(step.given, "id")
        call = step.hosted
        if call is None and CALLS[step.kind] == fields.MCP:
            return self._mcp_call(step, read.json_text(arguments), call_id)
        if call is None:
            return self._output.code(read.text_or_none(arguments, "code") or "", call_id)
        if call.item_type == fields.FILES:
            call.members["queries"] = read.texts(arguments, "queries")
            return []
        call.members["action"] = action_of(arguments, is_page=step.kind == "url_context_call")
        return [call.progress("response.web_search_call.searching")]

    def _mcp_call(self, step: Step, arguments: str, call_id: str | None) -> list[Event]:
        members = {
            "server_label": read.text_or_none(step.names, "server_name") or "",
            "name": read.text_or_none(step.names, "name") or "",
            "arguments": arguments,
        }
        call = self._output.hosted(fields.MCP, call_id, members)
        return [*self._output.begin(call), call.progress("response.mcp_call_arguments.done", arguments=arguments)]

    def end_result(self, step: Step) -> list[Event]:
        """End the call that a result belongs to."""
        result = step.result or step.given
        item_type, call_id = RESULTS[step.kind], read.text_or_none(step.given, "call_id")
        has_failed = result.get("is_error") is True
        if item_type == fields.CODE:
            return self._output.code_result(read.text_or_none(result, "result") or "", call_id, has_failed=has_failed)
        call = self._output.waiting(call_id, item_type)
        if call is None:
            return self._dropped.drop("result of no call")
        entries = read.mappings(result, "result")
        if item_type == fields.MCP:
            call.members["error" if has_failed else "output"] = _text(result.get("result"))
        elif item_type == fields.FILES:
            call.members["results"] = [file_result(entry) for entry in entries]
        elif step.kind == "url_context_result" and any(
            read.text_or_none(entry, "status") not in FETCHED for entry in entries
        ):
            has_failed = True
        return self._output.finish(call, "failed" if has_failed else "completed")

    # deltas

    def on_text(self, _step: Step, delta: Mapping[str, object]) -> list[Event]:
        """Add text of the answer."""
        return self._output.text(read.text_or_none(delta, "text") or "")

    def on_annotations(self, step: Step, delta: Mapping[str, object]) -> list[Event]:
        """Keep citations until the text is complete."""
        step.annotations += read.mappings(delta, "annotations")
        return []

    def on_summary(self, _step: Step, delta: Mapping[str, object]) -> list[Event]:
        """Add text of a summary of the reasoning."""
        return self._output.thought(read.text_or_none(read.mapping_or_empty(delta, "content"), "text") or "")

    def on_signature(self, _step: Step, delta: Mapping[str, object]) -> list[Event]:
        """Keep the signature of reasoning; it is repeated blank."""
        return self._output.thought("", read.text_or_none(delta, "signature"))

    def on_arguments(self, step: Step, delta: Mapping[str, object]) -> list[Event]:
        """Add text of the arguments of a function."""
        text = self._dropped.input_of(delta, "arguments", "delta.arguments")
        step.has_arguments = step.has_arguments or bool(text)
        return self._dropped.drop("arguments of no call") if step.call is None else step.call.input(text)

    def on_tool_arguments(self, step: Step, delta: Mapping[str, object]) -> list[Event]:
        """Keep the arguments of a call of a tool of the provider."""
        step.arguments = read.mapping_or_empty(delta, "arguments") or step.arguments
        step.names = delta if "name" in delta else step.names
        return []

    def on_result(self, step: Step, delta: Mapping[str, object]) -> list[Event]:
        """Keep a result."""
        step.result = delta
        return []

    def on_media(self, _step: Step, delta: Mapping[str, object]) -> list[Event]:
        """Add an image."""
        mime_type, data = read.text_or_none(delta, "mime_type") or "", read.text_or_none(delta, "data") or ""
        return self._output.media(mime_type, data)

    # parts

    def _identify(self, interaction: Mapping[str, object], data: bytes) -> list[Event]:
        interaction_id = read.text_or_none(interaction, "id")
        model = read.text_or_none(interaction, "model") or read.text_or_none(interaction, "agent")
        self._output.response_id = interaction_id or blake2b(data, digest_size=8).hexdigest()
        return self._announce(id=interaction_id, model=model)

    def _note(self, event: Mapping[str, object]) -> None:
        """Keep the usage of an event."""
        holders = [event, read.mapping_or_empty(event, "interaction"), read.mapping_or_empty(event, "metadata")]
        usages = [read.mapping_or_empty(one, name) for one in holders for name in ("total_usage", "usage")]
        is_step = "index" in event
        for usage in usages[2:] if is_step else usages:
            self._usage = dict(usage) if read.has_counts(usage) else self._usage

    def _is_repeated(self, event_id: str | None, digest: int) -> bool:
        """Return whether an event was read before: the same one under its ID (CONTRACT D52).

        A gateway that ignores `last_event_id` begins again. Then all up to the newest event was read, kept or not.
        """
        if self._newest is not None:
            self._newest = None if event_id == self._newest else self._newest
            return True
        if event_id is None or self._known.get(event_id) == digest:
            return event_id is not None
        one, before = (event_id, digest), self._before
        self._before = one
        if one in self._begin:
            if [before, one] == self._begin:
                self._newest = next(reversed(self._known))
            return True
        if len(self._begin) < BEGIN_EVENTS:
            self._begin.append(one)
        self._known[event_id] = digest
        if len(self._known) > KNOWN_MAX:
            del self._known[next(iter(self._known))]
        return False

    def _begin_step(self, index: int, given: Mapping[str, object]) -> list[Event]:
        before = self._steps.get(index)
        if before is not None and before.given == given and "id" in given:
            return self._dropped.drop(REPEATED_EVENT)
        kind = read.text_or_none(given, "type") or ""
        kind = PREVIEW_STEPS.get(kind, kind)
        events = self._end_step(index)
        if (shape := STEPS.get(kind)) is None:
            self._steps[index] = None
            self._dropped.note(f"step.{kind}")
            return events
        step = self._steps[index] = Step(kind, given)
        return events + shape.begin(self, step)

    def _add(self, step: Step, delta: Mapping[str, object]) -> list[Event]:
        kind = read.text_or_none(delta, "type") or ""
        add = DELTAS.get(kind)
        return self._dropped.drop(f"delta.{kind}") if add is None else add(self, step, delta)

    def _whole(self, interaction: Mapping[str, object]) -> list[Event]:
        """Return the steps of an interaction that came without events of their own."""
        steps = read.mappings(interaction, "steps") or read.mappings(interaction, "outputs")
        return [event for at, one in enumerate(steps) for event in (*self._begin_step(at, one), *self._end_step(at))]

    def _end_step(self, index: int) -> list[Event]:
        step = self._steps.pop(index, None)
        return [] if step is None else STEPS[step.kind].end(self, step)

    def _annotation(self, number: int, raw: Mapping[str, object]) -> Annotation | None:
        """Return a citation. Its positions are bytes of the text."""
        kind = read.text_or_none(raw, "type")
        first, last = (read.index_or_none(raw, name) or 0 for name in ("start_index", "end_index"))
        passages = self._output.passages
        span = passages[0].span(first, last, "") if passages else None
        if kind == "file_citation":
            return file_citation(number, read.text_or_none(raw, "file_name"), span)
        url = read.text_or_none(raw, "url")
        if kind not in {"url_citation", "place_citation"} or url is None:
            self._dropped.note(f"annotation.{kind}")
            return None
        return url_citation(url, read.text_or_none(raw, "title") or read.text_or_none(raw, "name"), span)

    def _stop(self, events: list[Any]) -> Events:
        self._steps.clear()
        return super()._stop(events)


def _code(code: str | None) -> str | None:
    """Return the code of an error, which is a URI here: its last part."""
    return None if code is None else code.rstrip("/").rpartition("/")[2].rpartition("#")[2].lower()


def _text(result: object) -> str:
    """Return the result of an MCP tool as text."""
    if isinstance(result, str):
        return result
    parts = [part for part in result if read.is_mapping(part)] if isinstance(result, list) else []
    texts = [text for part in parts if (text := read.text_or_none(part, "text")) is not None]
    return "\n".join(texts) if texts else read.json_text(result) if result is not None else ""


FETCHED: Final = frozenset({None, "success"})

CALLS: Final[Mapping[str, str]] = {
    "google_search_call": fields.WEB,
    "google_maps_call": fields.WEB,
    "url_context_call": fields.WEB,
    "file_search_call": fields.FILES,
    "code_execution_call": fields.CODE,
    "mcp_server_tool_call": fields.MCP,
}
"""Step with a call of a tool of the provider -> type of its item."""
RESULTS: Final[Mapping[str, str]] = {name.replace("_call", "_result"): item_type for name, item_type in CALLS.items()}
"""Step with its result -> the same."""


class StepShape(NamedTuple):
    """What begins and ends a step."""

    begin: Callable[[InteractionStage, Step], list[Event]]
    end: Callable[[InteractionStage, Step], list[Event]]


STEPS: Final[Mapping[str, StepShape]] = {
    "thought": StepShape(InteractionStage.begin_thought, InteractionStage.end_thought),
    "model_output": StepShape(InteractionStage.begin_message, InteractionStage.end_message),
    "function_call": StepShape(InteractionStage.begin_function, InteractionStage.end_function),
    **dict.fromkeys(CALLS, StepShape(InteractionStage.begin_tool, InteractionStage.end_tool)),
    **dict.fromkeys(RESULTS, StepShape(InteractionStage.nothing, InteractionStage.end_result)),
}
"""Type of a step -> what reads it."""

DELTAS: Final[Mapping[str, Callable[[InteractionStage, Step, Mapping[str, object]], list[Event]]]] = {
    "text": InteractionStage.on_text,
    **dict.fromkeys(("text_annotation_delta", "text_annotation"), InteractionStage.on_annotations),
    "thought_summary": InteractionStage.on_summary,
    "thought_signature": InteractionStage.on_signature,
    **dict.fromkeys(("arguments_delta", "function_call"), InteractionStage.on_arguments),
    **dict.fromkeys(CALLS, InteractionStage.on_tool_arguments),
    **dict.fromkeys(RESULTS, InteractionStage.on_result),
    **dict.fromkeys(("image", "audio", "video", "document"), InteractionStage.on_media),
}
"""Type of a delta -> what adds it."""

PREVIEW_NAMES: Final[Mapping[str, str]] = {
    "interaction.start": "interaction.created",
    "interaction.complete": "interaction.completed",
    "content.start": "step.start",
    "content.delta": "step.delta",
    "content.stop": "step.stop",
}
PREVIEW_STEPS: Final[Mapping[str, str]] = {"text": "model_output", "image": "model_output"}

EVENTS: Final[Mapping[str, Callable[[InteractionStage, Mapping[str, Any]], Events]]] = {
    "interaction.created": InteractionStage.nothing,
    "interaction.status_update": InteractionStage.on_status,
    "step.start": InteractionStage.on_step_start,
    "step.delta": InteractionStage.on_delta,
    "step.stop": InteractionStage.on_step_stop,
    "interaction.completed": InteractionStage.on_completed,
    "error": InteractionStage.on_error,
}
"""Type of an event -> what reads it."""
