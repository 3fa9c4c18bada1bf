"""Tool calls, their results, and the approvals they wait for (RFC 0002 section B; CONTRACT D15 to D22).

A call is emitted when its inputs are complete. Provider tools whose inputs arrive with their results are emitted at
once. The result of a call has the event of the call as its cause.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from projector.contracts.kinds import ENDED_STATUSES, TOOL_TYPES
from projector.core.canonical import Frame
from projector.openwop import event_log
from projector.openwop.dialect.log_state import COMPLETED, UNKNOWN, LogState, OpenCall, Suspension
from projector.openwop.event_log import present

TRANSPORTS: Final[Mapping[str, str]] = {"mcp": "mcp"}
"""Tool type -> transport, where the stream shows it."""

IMMEDIATE_TOOLS: Final = frozenset({"web_search", "file_search", "image_generation"})
"""Tool types emitted at once, because their inputs arrive with their results."""

NOT_OUTCOME: Final = frozenset(
    {"tool_type", "tool_call_id", "status", "name", "tool_name", "server_label", "arguments_text", "arguments_json"}
)
"""Members of a tool status that identify the call and are not part of its outcome."""

ERRORS: Final[Mapping[str, tuple[str, str]]] = {
    "failed": ("tool_failed", "The tool failed."),
    "incomplete": ("incomplete", "The call was cut off."),
}
"""Status of a call -> code and message of its error."""


def on_added(state: LogState, frame: Frame) -> None:
    """Record a call; a call without a public tool type is emitted now, with its type only."""
    item_type = frame["item_type"]
    tool_type = TOOL_TYPES.get(item_type, item_type)
    item_id = frame["item_id"]
    call = state.calls[item_id] = OpenCall(item_id, item_id, tool_type, tool_type, state.agent_id)
    call.notices.add(frame.get("notices"))
    if tool_type == "function":
        state.branch.response.pending.add(call.item_id)
    if item_type not in TOOL_TYPES:
        _emit_call(state, call)


def on_status(state: LogState, frame: Frame) -> None:
    """Update a call from its tool status; emit it if it is immediate, and its result if it has ended."""
    call, tool = state.calls[frame["item_id"]], frame["tool"]
    call.notices.add(frame.get("notices"))
    call.id = tool["tool_call_id"]
    _set_name(call, tool.get("name", tool.get("tool_name", call.name)))
    call.server_label = tool.get("server_label", call.server_label)
    call.members |= {name: value for name, value in tool.items() if name not in NOT_OUTCOME}
    if "arguments_text" in tool:
        _set_inputs(call, tool)
    if tool["status"] == "awaiting_approval":
        if not call.is_awaiting:
            state.branch.response.awaiting.append(call)
        call.is_awaiting = True
    elif tool["status"] in ENDED_STATUSES:
        _emit_result(state, call, tool["status"])
    elif call.tool_type in IMMEDIATE_TOOLS:
        _emit_call(state, call)


def on_arguments_done(state: LogState, frame: Frame) -> None:
    """Emit a call whose arguments are complete."""
    call = state.calls[frame["item_id"]]
    call.notices.add(frame.get("notices"))
    _set_name(call, frame["tool_name"])
    _set_inputs(call, frame)
    if not call.is_awaiting:
        _emit_call(state, call)


def on_code_done(state: LogState, frame: Frame) -> None:
    """Emit a code interpreter call whose code is complete."""
    call = state.calls[frame["item_id"]]
    call.notices.add(frame.get("notices"))
    call.inputs = {"inputs": {"code": frame["code"]}}
    _emit_call(state, call)


def on_output(state: LogState, frame: Frame) -> None:
    """Keep an output until the following status shows whether the call failed."""
    call = state.calls[frame["item_id"]]
    call.notices.add(frame.get("notices"))
    call.output = frame


def on_done(state: LogState, frame: Frame) -> None:
    """Emit the result of a provider tool; a function call stays open for its output."""
    call, status = state.calls[frame["item_id"]], frame["status"]
    call.is_cut_off = status == "incomplete"
    if call.is_awaiting or (call.is_cut_off and not call.event_id):
        return  # calls without complete inputs are not emitted
    if call.tool_type == "function" and call.output is None:
        _emit_call(state, call)
    else:
        _emit_result(state, call, status)


def suspend(state: LogState) -> None:
    """Emit `node.suspended` for each call that waits for approval."""
    for call in state.branch.response.awaiting:
        if not call.is_cut_off:
            _emit_suspension(state, call)
    state.branch.response.awaiting.clear()


def resume(state: LogState) -> None:
    """Emit `node.resumed` for each pending interrupt of the branch."""
    for node_id, interrupt_id, event_id in state.branch.suspended:
        payload = {"nodeId": node_id, "interruptId": interrupt_id}
        state.emit("node.resumed", payload, node_id=node_id, causation_id=event_id)
    state.branch.suspended.clear()


def _set_name(call: OpenCall, name: str) -> None:
    """Set the tool name; an emitted call keeps its name."""
    if not call.event_id:
        call.name = name or UNKNOWN


def _set_inputs(call: OpenCall, source: Mapping[str, Any]) -> None:
    """Set the inputs: parsed arguments, or their text unless it is empty."""
    call.inputs = present(inputs=source.get("arguments_json", source["arguments_text"] or None))


def _emit_call(state: LogState, call: OpenCall) -> None:
    if call.event_id:
        return
    details = present(transport=TRANSPORTS.get(call.tool_type), serverLabel=call.server_label or None)
    payload = event_log.tool_call(call.agent_id, call.name, call.id, **call.inputs, **details)
    call.event_id = state.emit("agent.toolCalled", payload, notices=call.notices.release())


def _emit_result(state: LogState, call: OpenCall, status: str) -> None:
    if call.is_returned:
        return
    _emit_call(state, call)
    call.is_returned = True
    state.branch.response.pending.discard(call.item_id)
    payload = event_log.tool_call(call.agent_id, call.name, call.id, **_result(call, status))
    state.emit("agent.toolReturned", payload, causation_id=call.event_id, notices=call.notices.release())


def _result(call: OpenCall, status: str) -> dict[str, Any]:
    """Return `outcome` or `error`: the output of a function or MCP server, the status members of a provider tool."""
    frame, call.output = call.output, None
    result: dict[str, Any] = {} if frame is None else {"output": frame["output"]}
    if call.tool_type not in {"function", "mcp"}:
        result = call.members | result
    if status != COMPLETED:
        code, message = ERRORS[status]
        return {"error": {"code": code, "message": message} | present(details=result or None)}
    if call.tool_type in {"function", "mcp"}:
        return {"outcome": result["output"]} if result else {}
    return {"outcome": result} if result else {}


def _emit_suspension(state: LogState, call: OpenCall) -> None:
    interrupt_id = f"int-{call.id}"
    payload = event_log.approval(
        state.node_id,
        interrupt_id,
        event_log.interrupt_key(state.log.run_id, state.node_id, state.next_interrupt()),
        call.agent_id,
        call_id=call.id,
        tool_name=call.name,
        details=present(serverLabel=call.server_label or None) | call.inputs,
    )
    event_id = state.emit("node.suspended", payload, notices=call.notices.release())
    state.emit("interrupt.requested", event_log.interrupt_request(payload), causation_id=event_id)
    state.branch.suspended.append(Suspension(state.node_id, interrupt_id, event_id))
