"""Calls of functions and MCP tools, their results, and approvals that they wait for (CONTRACT D17, D18)."""

from __future__ import annotations

from typing import Final

from projector.contracts import codec
from projector.contracts.kinds import ENDED_STATUSES
from projector.core.canonical import Frame
from projector.dialects.ag_ui.items import Call
from projector.dialects.ag_ui.run import COMPLETED, Event, Run, metadata, unless_completed

FUNCTION_CALL: Final = "function_call"

UNKNOWN: Final = "unknown"
NAMELESS: Final = frozenset({UNKNOWN, ""})
"""The name of a call that the provider has not named (CONTRACT D7): a client could run nothing under it."""

ANSWERED: Final = "answered"
CUT_OFF: Final = "incomplete"

APPROVAL: Final = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["approved"],
}
"""What the answer to an approval looks like, as JSON Schema; `projector.dialects.ag_ui.requests` reads it."""

INTERRUPT_PREFIX: Final = "int-"


def on_added(run: Run, frame: Frame) -> list[Event]:
    """Remember the item; its first status has the name and the id of the call."""
    run.calls[frame["item_id"]] = Call(frame["item_id"], frame["item_type"], run.branch, run.voice.response)
    return []


def on_status(run: Run, frame: Frame) -> list[Event]:
    """Say that the call begins, or give its result now that it has ended."""
    call, tool = run.calls[frame["item_id"]], frame["tool"]
    call.server_label = tool.get("server_label", call.server_label)
    call.is_awaiting = tool["status"] == "awaiting_approval"
    call.id = call.id or run.call_ids.give(tool["tool_call_id"])
    call.notices.take(frame)
    said = _name(run, call, tool.get("name", tool.get("tool_name", UNKNOWN)))
    if not call.has_ended and "arguments_text" in tool:
        said += _complete(run, call, tool["arguments_text"])
    if tool["status"] in ENDED_STATUSES and not call.is_answered:
        said += _answer(run, call, tool["status"])
    return said


def on_arguments_delta(run: Run, frame: Frame) -> list[Event]:
    """Say more of the arguments; those of a call without a name wait for it."""
    call = run.calls[frame["item_id"]]
    notices = call.notices.take(frame)
    said = _name(run, call, frame["tool_name"])
    if call.has_started:
        return said + _arguments(run, call, frame["delta"], notices)
    call.held.append(frame["delta"])
    return said


def on_arguments_done(run: Run, frame: Frame) -> list[Event]:
    """Say the arguments if no delta did, and their end."""
    call = run.calls[frame["item_id"]]
    call.notices.take(frame)
    return _name(run, call, frame["tool_name"]) + _complete(run, call, frame["arguments_text"])


def on_output(run: Run, frame: Frame) -> list[Event]:
    """Keep an output until the status that follows it says whether the call failed."""
    run.calls[frame["item_id"]].output = frame
    return []


def on_done(run: Run, frame: Frame) -> list[Event]:
    """Say the end of the arguments, if they were cut off, and a result that no status followed."""
    call = run.calls[frame["item_id"]]
    call.is_cut_off = not call.has_ended and frame["status"] != COMPLETED
    said = _end(run, call, unless_completed(frame["status"]))
    return said + _answer(run, call, frame["status"]) if call.output is not None else said


def say_unanswered(run: Run) -> list[Event]:
    """Answer the calls that no client shall take for its own: cut off, or overtaken by a later response."""
    said: list[Event] = []
    for call in run.calls.values():
        if call.has_started and not call.is_answered and not _is_pending(call) and not waits(run, call):
            said += _answer(run, call, CUT_OFF if call.is_cut_off else ANSWERED)
    return said


def pending(run: Run) -> list[str]:
    """Give the calls that the client shall run."""
    return [call.id for call in run.calls.values() if _is_pending(call)]


def interrupts(run: Run) -> list[dict[str, object]]:
    """Give what waits for an approval."""
    return [
        {
            "id": INTERRUPT_PREFIX + call.id,
            "reason": "tool_call",
            "message": f"Approve the call of {call.name}?",
            "toolCallId": call.id,
            "responseSchema": APPROVAL,
        }
        for call in run.calls.values()
        if waits(run, call)
    ]


def waits(run: Run, call: Call) -> bool:
    """Tell whether a call waits for an approval; a run that went on without it has had its answer."""
    return call.is_awaiting and not call.is_cut_off and call.response == run.voices[call.branch].response - 1


def _is_pending(call: Call) -> bool:
    return call.item_type != "mcp_call" and not call.is_awaiting and not call.is_cut_off and not call.is_answered


def _name(run: Run, call: Call, name: str) -> list[Event]:
    """Say that a call begins, as soon as its name is known."""
    call.name = name
    return [] if call.has_started or name in NAMELESS else _start(run, call)


def _start(run: Run, call: Call) -> list[Event]:
    """Say that a call begins, and the arguments that waited."""
    call.has_started = True
    run.parent_id = run.parent_id or run.message_ids.give(call.item_id)
    about = metadata(
        item_type=call.item_type if call.item_type != FUNCTION_CALL else None, server_label=call.server_label
    )
    start = {"toolCallId": call.id, "toolCallName": call.name, "parentMessageId": run.parent_id, "metadata": about}
    held, call.held = "".join(call.held), []
    return [run.event("TOOL_CALL_START", **start), *_arguments(run, call, held, None)]


def _arguments(run: Run, call: Call, delta: str, notices: list[object] | None) -> list[Event]:
    if not delta:
        return []
    call.has_arguments = True
    return [run.event("TOOL_CALL_ARGS", toolCallId=call.id, delta=delta, metadata=metadata(notices=notices))]


def _complete(run: Run, call: Call, text: str) -> list[Event]:
    """Say arguments that are known as a whole, unless deltas have said them, and their end."""
    said = [] if call.has_started else _start(run, call)
    if not call.has_arguments:
        said += _arguments(run, call, text, None)
    return said + _end(run, call, None)


def _end(run: Run, call: Call, status: str | None) -> list[Event]:
    if call.has_ended:
        return []
    call.has_ended = True
    said = [] if call.has_started else _start(run, call)
    about = metadata(notices=call.notices.all, status=status)
    return [*said, run.event("TOOL_CALL_END", toolCallId=call.id, metadata=about)]


def _answer(run: Run, call: Call, status: str) -> list[Event]:
    """Say the result: text as it is, anything else as JSON; nothing where the tool gave nothing."""
    said = _end(run, call, None)
    frame, call.output = call.output or {}, None
    call.is_answered = True
    run.parent_id = None
    output = frame.get("output", "")
    result = {
        "messageId": run.message_ids.give(f"{call.id}:result"),
        "toolCallId": call.id,
        "content": output if isinstance(output, str) else codec.dumps(output).decode(),
        "role": "tool",
        "metadata": metadata(status=unless_completed(status), notices=frame.get("notices")),
    }
    return [*said, run.event("TOOL_CALL_RESULT", **result)]
