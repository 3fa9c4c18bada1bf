"""Write calls of functions and MCP tools with their results, and activities for provider tools (D17 to D22)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from projector.contracts.kinds import ENDED_STATUSES, TOOL_TYPES
from projector.core.canonical import Frame
from projector.dialects.ag_ui.ag_ui_run import Activity, AgUiRun, Call, metadata
from projector.dialects.frame_writer import UNKNOWN, json_text
from projector.dialects.page_run import CALLED, COMPLETED, NAMELESS, Event, is_shortened, unless_completed

ANSWERED: Final = "answered"
CUT_OFF: Final = "incomplete"

APPROVAL: Final = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["approved"],
}
"""JSON Schema of the answer to an approval, which `projector.dialects.ag_ui.conversation` parses."""

INTERRUPT_PREFIX: Final = "int-"

NOT_CONTENT: Final = frozenset({"tool_type", "tool_call_id"})
"""Members of `tool` that identify the activity; all others are its content."""

CODE: Final = "code"


def on_status(run: AgUiRun, frame: Frame) -> list[Event]:
    """Write the status of a tool."""
    if frame["tool"]["tool_type"] in CALLED:
        return _call_status(run, frame)
    return _change(run, frame, {name: value for name, value in frame["tool"].items() if name not in NOT_CONTENT})


def on_output(run: AgUiRun, frame: Frame) -> list[Event]:
    """Write an output of an activity. Keep that of a call until its next status: it shows whether the call failed."""
    if frame["tool_type"] not in CALLED:
        return _append(run, frame, "outputs", frame["output"])
    run.calls[frame["item_id"]].output = frame
    return []


def on_call_added(run: AgUiRun, frame: Frame) -> list[Event]:
    """Add a call. Its first status has its name and ID."""
    call = run.calls[frame["item_id"]] = Call(
        frame["item_id"], frame["item_type"], run.branch, run.responses[run.branch]
    )
    call.notices.add(frame.get("notices"))
    return []


def on_sealed(run: AgUiRun, frame: Frame) -> list[Event]:
    """Write what the client carries with a call, once that has started."""
    call = run.calls[frame["item_id"]]
    call.sealed = frame["sealed"]
    return _sealed(run, call) if call.has_started else []


def _sealed(run: AgUiRun, call: Call) -> list[Event]:
    entity = {"subtype": "tool-call", "entityId": call.id, "encryptedValue": call.sealed}
    return [] if call.sealed is None else [run.event("REASONING_ENCRYPTED_VALUE", **entity)]


def on_arguments_delta(run: AgUiRun, frame: Frame) -> list[Event]:
    """Write a delta of the arguments, or hold it until the call has a name."""
    call = run.calls[frame["item_id"]]
    notices = call.notices.add(frame.get("notices"))
    events = _name(run, call, frame["tool_name"])
    if call.has_started:
        return events + _arguments(run, call, frame["delta"], notices)
    call.held.append(frame["delta"])
    return events


def on_arguments_done(run: AgUiRun, frame: Frame) -> list[Event]:
    """Write the arguments unless deltas did, and their end."""
    call = run.calls[frame["item_id"]]
    call.notices.add(frame.get("notices"))
    return _name(run, call, frame["tool_name"]) + _complete(run, call, frame)


def on_call_done(run: AgUiRun, frame: Frame) -> list[Event]:
    """Write the end of arguments that were cut off, and a result that no status followed."""
    call = run.calls[frame["item_id"]]
    call.is_cut_off = call.is_cut_off or (not call.has_ended and frame["status"] != COMPLETED)
    events = _end(run, call, unless_completed(frame["status"]))
    return events + _result(run, call, frame["status"]) if call.output is not None else events


def write_missing_results(run: AgUiRun) -> list[Event]:
    """Write a result for each call that the client must not run: cut off, or superseded by a later response."""
    events: list[Event] = []
    for call in run.calls.values():
        if call.has_started and not call.is_answered and not _is_pending(call) and not _is_waiting(run, call):
            events += _result(run, call, CUT_OFF if call.is_cut_off else ANSWERED)
    return events


def pending_calls(run: AgUiRun) -> list[str]:
    """Return the IDs of the calls that the client has to run."""
    return [call.id for call in run.calls.values() if _is_pending(call)]


def interrupts(run: AgUiRun) -> list[dict[str, object]]:
    """Return an interrupt for each call that waits for an approval."""
    return [
        {
            "id": INTERRUPT_PREFIX + call.id,
            "reason": "tool_call",
            "message": f"Approve the call of {call.name}?",
            "toolCallId": call.id,
            "responseSchema": APPROVAL,
        }
        for call in run.calls.values()
        if _is_waiting(run, call)
    ]


def _is_waiting(run: AgUiRun, call: Call) -> bool:
    """Return whether a call waits for an approval. If a later response followed, the run has had the answer."""
    return call.is_awaiting and not call.is_cut_off and run.is_last(call)


def _is_pending(call: Call) -> bool:
    return call.item_type != "mcp_call" and not call.is_awaiting and not call.is_cut_off and not call.is_answered


def _call_status(run: AgUiRun, frame: Frame) -> list[Event]:
    call, tool = run.calls[frame["item_id"]], frame["tool"]
    call.server_label = tool.get("server_label", call.server_label)
    call.is_awaiting = tool["status"] == "awaiting_approval"
    call.id = call.id or run.call_ids.allocate(tool["tool_call_id"])
    call.notices.add(frame.get("notices"))
    events = _name(run, call, tool.get("name", tool.get("tool_name", UNKNOWN)))
    if not call.has_ended and "arguments_text" in tool:
        events += _complete(run, call, frame)
    if tool["status"] in ENDED_STATUSES and not call.is_answered:
        events += _result(run, call, tool["status"])
    return events


def _name(run: AgUiRun, call: Call, name: str) -> list[Event]:
    """Name a call, and start it as soon as the name is known."""
    call.name = name
    return [] if call.has_started or name in NAMELESS else _start(run, call)


def _start(run: AgUiRun, call: Call) -> list[Event]:
    call.has_started = True
    run.parent_id = run.parent_id or run.message_ids.allocate(call.item_id)
    item_type = call.item_type if call.item_type != "function_call" else None
    about = metadata(item_type=item_type, server_label=call.server_label)
    start = {"toolCallId": call.id, "toolCallName": call.name, "parentMessageId": run.parent_id, "metadata": about}
    held, call.held = "".join(call.held), []
    return [run.event("TOOL_CALL_START", **start), *_sealed(run, call), *_arguments(run, call, held, None)]


def _arguments(run: AgUiRun, call: Call, delta: str, notices: list[object] | None) -> list[Event]:
    if not delta:
        return []
    call.has_arguments = True
    return [run.event("TOOL_CALL_ARGS", toolCallId=call.id, delta=delta, metadata=metadata(notices=notices))]


def _complete(run: AgUiRun, call: Call, frame: Frame) -> list[Event]:
    """Write the whole arguments unless deltas did, and their end."""
    call.is_cut_off = is_shortened(call.item_type, frame)
    events = [] if call.has_started else _start(run, call)
    whole = [] if call.has_arguments else _arguments(run, call, frame.get("tool", frame)["arguments_text"], None)
    return [*events, *whole, *_end(run, call, None)]


def _end(run: AgUiRun, call: Call, status: str | None) -> list[Event]:
    if call.has_ended:
        return []
    events = [] if call.has_started else _start(run, call)
    call.has_ended = True
    about = metadata(notices=call.notices.release(), status=status)
    return [*events, run.event("TOOL_CALL_END", toolCallId=call.id, metadata=about)]


def _result(run: AgUiRun, call: Call, status: str) -> list[Event]:
    """Write the result: text unchanged, anything else as JSON, and an empty text without an output."""
    events = _end(run, call, None)
    frame, call.output = call.output or {}, None
    call.is_answered = True
    run.parent_id = None
    content = json_text(frame.get("output", ""))
    result = {"messageId": run.message_ids.allocate(f"{call.id}:result"), "toolCallId": call.id, "content": content}
    about = metadata(status=unless_completed(status), notices=frame.get("notices"))
    return [*events, run.event("TOOL_CALL_RESULT", **result, role="tool", metadata=about)]


# activities


def on_activity_added(run: AgUiRun, frame: Frame) -> list[Event]:
    """Start an activity, with the public name of the tool, or with that of the item if it has none."""
    item_id, item_type, content = frame["item_id"], frame["item_type"], {"status": frame["status"]}
    activity = Activity(run.message_ids.allocate(item_id), TOOL_TYPES.get(item_type, item_type), content)
    run.activities[item_id], run.parent_id = activity, None
    snapshot = {"messageId": activity.id, "activityType": activity.type, "content": dict(content)}
    return [run.event("ACTIVITY_SNAPSHOT", **snapshot, metadata=metadata(notices=frame.get("notices")))]


def on_activity_done(run: AgUiRun, frame: Frame) -> list[Event]:
    """Write the final status unless `tool.status` did: after a failure, or without a public tool type."""
    return _change(run, frame, {"status": frame["status"]})


def on_code_delta(run: AgUiRun, frame: Frame) -> list[Event]:
    """Write a delta of the code."""
    return _append(run, frame, CODE, frame["delta"]) if frame["delta"] else []


def on_code_done(run: AgUiRun, frame: Frame) -> list[Event]:
    """Write the whole code unless deltas did."""
    is_sent = CODE in run.activities[frame["item_id"]].content
    return [] if is_sent or not frame["code"] else _append(run, frame, CODE, frame["code"])


def _change(run: AgUiRun, frame: Frame, members: Mapping[str, object]) -> list[Event]:
    content = run.activities[frame["item_id"]].content
    changed = {name: value for name, value in members.items() if content.get(name) != value}
    content.update(changed)
    return _patch(run, frame, {f"/{name}": value for name, value in changed.items()})


def _append(run: AgUiRun, frame: Frame, name: str, value: object) -> list[Event]:
    """Append an entry to a list. Texts are lists too: a patch of one text would repeat all of it each time."""
    content = run.activities[frame["item_id"]].content
    is_new = name not in content
    content[name] = ...
    return _patch(run, frame, {f"/{name}": [value]} if is_new else {f"/{name}/-": value})


def _patch(run: AgUiRun, frame: Frame, values: Mapping[str, Any]) -> list[Event]:
    activity = run.activities[frame["item_id"]]
    patch = [{"op": "add", "path": path, "value": value} for path, value in values.items()]
    if not patch:
        return []
    delta = {"messageId": activity.id, "activityType": activity.type, "patch": patch}
    return [run.event("ACTIVITY_DELTA", **delta, metadata=metadata(notices=frame.get("notices")))]
