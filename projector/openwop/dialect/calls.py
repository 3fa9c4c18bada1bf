"""Calls of tools, what they gave, and approvals that they wait for (RFC 0002 section B; CONTRACT D15 to D22).

A call is said when its inputs are whole; tools of the provider that get theirs only with their results are said at
once. What a tool gave names the event of its call as its cause.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from projector.contracts.kinds import ENDED_STATUSES
from projector.core.canonical import Frame
from projector.openwop import agents
from projector.openwop.dialect.items import Call, Suspension
from projector.openwop.dialect.run import COMPLETED, Run
from projector.openwop.log import present

TRANSPORTS: Final[Mapping[str, str]] = {"mcp": "mcp"}
"""Tool type -> how the tool is reached, where the stream tells."""

AT_ONCE: Final = frozenset({"web_search", "file_search", "image_generation"})
"""Tool types that are said at once, because their inputs come with their results."""

ITEM_TOOLS: Final[Mapping[str, str]] = {
    "mcp_approval_request": "mcp",
    "mcp_call": "mcp",
    "function_call": "function",
    "custom_tool_call": "function",
    "web_search_call": "web_search",
    "file_search_call": "file_search",
    "code_interpreter_call": "code_interpreter",
    "image_generation_call": "image_generation",
}
"""Item type -> tool type; a call without a public tool type goes by its item's type."""

NOT_OUTCOME: Final = frozenset(
    {"tool_type", "tool_call_id", "status", "name", "tool_name", "server_label", "arguments_text", "arguments_json"}
)
"""Members of a status that say which call it is, not what it gave."""

UNKNOWN: Final = "unknown"

ERRORS: Final[Mapping[str, tuple[str, str]]] = {
    "failed": ("tool_failed", "The tool failed."),
    "incomplete": ("incomplete", "The call was cut off."),
}
"""Status of a call -> code and message of its error."""


def on_added(run: Run, frame: Frame) -> None:
    """Remember the call; one of a tool without a public type is said now, with nothing but its type."""
    item_type = frame["item_type"]
    tool_type = ITEM_TOOLS.get(item_type, item_type)
    call = run.calls[frame["item_id"]] = Call(frame["item_id"], tool_type, run.agent_id)
    if tool_type == "function":
        run.voice.response.pending.add(call.item_id)
    if item_type not in ITEM_TOOLS:
        _call(run, call)


def on_status(run: Run, frame: Frame) -> None:
    """Say a call that is said at once, or what it gave now that it has ended."""
    call, tool = run.calls[frame["item_id"]], frame["tool"]
    call.notices.take(frame)
    call.id = tool["tool_call_id"]
    _take_name(call, tool.get("name", tool.get("tool_name", call.name)))
    call.server_label = tool.get("server_label", call.server_label)
    call.members |= {name: value for name, value in tool.items() if name not in NOT_OUTCOME}
    if "arguments_text" in tool:
        _take_arguments(call, tool)
    if tool["status"] == "awaiting_approval":
        if not call.is_awaiting:
            run.voice.response.awaiting.append(call)
        call.is_awaiting = True
    elif tool["status"] in ENDED_STATUSES:
        _return(run, call, tool["status"])
    elif call.tool_type in AT_ONCE:
        _call(run, call)


def on_arguments_done(run: Run, frame: Frame) -> None:
    """Say a call now that its arguments are whole."""
    call = run.calls[frame["item_id"]]
    call.notices.take(frame)
    _take_name(call, frame["tool_name"])
    _take_arguments(call, frame)
    if not call.is_awaiting:
        _call(run, call)


def on_code_done(run: Run, frame: Frame) -> None:
    """Say a call of the interpreter now that its code is whole."""
    call = run.calls[frame["item_id"]]
    call.notices.take(frame)
    call.inputs = {"inputs": {"code": frame["code"]}}
    _call(run, call)


def on_output(run: Run, frame: Frame) -> None:
    """Keep an output until the status that follows it says whether the call failed."""
    call = run.calls[frame["item_id"]]
    call.notices.take(frame)
    call.output = frame


def on_done(run: Run, frame: Frame) -> None:
    """Say how a tool of the provider ended; a function waits for its answer."""
    call, status = run.calls[frame["item_id"]], frame["status"]
    call.is_cut_off = status == "incomplete"
    if call.is_awaiting or (call.is_cut_off and not call.event_id):
        return  # a call that was never whole was never made
    if call.tool_type == "function" and call.output is None:
        _call(run, call)
    else:
        _return(run, call, status)


def suspend(run: Run) -> None:
    """Say of each call that waits for an approval that its node is suspended."""
    for call in run.voice.response.awaiting:
        if not call.is_cut_off:
            _suspend(run, call)
    run.voice.response.awaiting.clear()


def resume(run: Run) -> None:
    """Say that the run goes on: whatever it waited for has been answered."""
    for node_id, interrupt_id, event_id in run.voice.suspended:
        payload = {"nodeId": node_id, "interruptId": interrupt_id}
        run.say("node.resumed", payload, node_id=node_id, causation_id=event_id)
    run.voice.suspended.clear()


def _take_name(call: Call, name: str) -> None:
    """Take the name of the tool; the one under which the call was said stays."""
    if not call.event_id:
        call.name = name or UNKNOWN


def _take_arguments(call: Call, source: Mapping[str, Any]) -> None:
    """Take the parsed arguments, else their text, unless there are none."""
    inputs = source.get("arguments_json", source["arguments_text"] or None)
    call.inputs = present(inputs=inputs)


def _call(run: Run, call: Call) -> None:
    """Say the call, once."""
    if call.event_id:
        return
    about = present(transport=TRANSPORTS.get(call.tool_type), serverLabel=call.server_label or None)
    payload = agents.tool_called(call.agent_id, call.name, call.id, **call.inputs, **about)
    call.event_id = run.say("agent.toolCalled", payload, notices=call.notices.give())


def _return(run: Run, call: Call, status: str) -> None:
    """Say what the call gave, once."""
    if call.is_returned:
        return
    _call(run, call)
    call.is_returned = True
    run.voice.response.pending.discard(call.item_id)
    end = _end(call, status)
    payload = agents.tool_returned(call.agent_id, call.name, call.id, **end)
    run.say("agent.toolReturned", payload, causation_id=call.event_id, notices=call.notices.give())


def _end(call: Call, status: str) -> dict[str, Any]:
    """Give the outcome or the error of a call: what a function or server gave, what a tool of the provider told."""
    frame, call.output = call.output, None
    given: dict[str, Any] = {} if frame is None else {"output": frame["output"]}
    if call.tool_type not in {"function", "mcp"}:
        given = call.members | given
    if status != COMPLETED:
        code, message = ERRORS[status]
        return {"error": {"code": code, "message": message} | present(details=given or None)}
    if call.tool_type in {"function", "mcp"}:
        return {"outcome": given["output"]} if given else {}
    return {"outcome": given} if given else {}


def _suspend(run: Run, call: Call) -> None:
    number = run.next_interrupt()
    interrupt_id = f"int-{call.id}"
    payload = agents.approval(
        run.node_id,
        interrupt_id,
        agents.interrupt_key(run.log.run_id, run.node_id, number),
        call.agent_id,
        call_id=call.id,
        tool_name=call.name,
        about=present(serverLabel=call.server_label or None) | call.inputs,
    )
    event_id = run.say("node.suspended", payload, notices=call.notices.give())
    run.voice.suspended.append(Suspension(run.node_id, interrupt_id, event_id))
