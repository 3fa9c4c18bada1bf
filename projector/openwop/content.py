"""Output of models: text, citations, images, reasoning blocks (RFC 0024; CONTRACT D36), and tool calls (RFC 0002).

A reasoning block is the output of one item with one verbosity (summary or full text); parts of the item are paragraphs
of the block. An agent has at most one open block in a node, because readers identify a block by these two: a further
one waits until the open one is closed. Deltas obey the limits of their block, so the closing text is always the deltas
joined.

A call is emitted when its inputs are complete. Provider tools whose inputs arrive with their results are emitted at
once. The result of a call has the event of the call as its cause.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from pydantic.alias_generators import to_camel

from projector.contracts.kinds import ENDED_STATUSES, TOOL_TYPES, VENDOR
from projector.contracts.limits import DELTA_MAX_CHARS
from projector.core.canonical import Frame
from projector.dialects.frame_writer import PARAGRAPH, UNKNOWN
from projector.openwop import event_log
from projector.openwop.event_log import SUMMARY_MAX_CHARS, Verbosity, present
from projector.openwop.log_state import LogState, OpenCall, ReasoningBlock, ReasoningItem
from projector.redaction.clean import TRUNCATED_HERE, cut_text

REFUSAL: Final = ":refusal"
"""Channel suffix of a refusal: text and refusal of one item are separate texts."""

IMAGE_MEMBERS: Final = ("target", "encoding", "chunk_index", "data")
"""Members of a frame that an event has, in camel case as all of its members."""

BLOCK_MAX_CHARS: Final[Mapping[str, int]] = {
    "summary": SUMMARY_MAX_CHARS,
    "full": 1_048_576,  # repeated by its closing event: as much as a frame with trees may hold (CONTRACT D37)
}
"""Verbosity -> length at which a block is truncated, with a notice."""

WAITING_MAX_CHARS: Final = 1_048_576
"""Length of the reasoning of one run that may wait for the end of other blocks: as much as the largest of them."""


def on_text_delta(state: LogState, frame: Frame) -> None:
    """Emit text, in the channel of its message."""
    state.has_text = True
    _emit_chunk(state, frame["delta"], frame["item_id"], frame.get("notices"))


def on_refusal_delta(state: LogState, frame: Frame) -> None:
    """Emit text of a refusal, in a channel of its own."""
    _emit_chunk(state, frame["delta"], frame["item_id"] + REFUSAL, frame.get("notices"))


def on_citation(state: LogState, frame: Frame) -> None:
    """Emit a citation, as an event type of our own."""
    position = {"nodeId": state.node_id, "channel": frame["item_id"], "contentIndex": frame["content_index"]}
    payload = {**position, "citation": frame["citation"]}
    state.emit(f"{VENDOR}.{frame['kind']}", payload, notices=frame.get("notices"))


def on_image(state: LogState, frame: Frame) -> None:
    """Emit a chunk or the end of an image, as an event type of our own."""
    members = {to_camel(name): frame[name] for name in IMAGE_MEMBERS if name in frame}
    payload = {"nodeId": state.node_id, "callId": state.calls[frame["item_id"]].id, **members}
    state.emit(f"{VENDOR}.{frame['kind']}", payload, notices=frame.get("notices"))


def emit_final_text(state: LogState, text: str) -> None:
    """Emit text that only the terminal frame contains (CONTRACT D13)."""
    for at in range(0, len(text), DELTA_MAX_CHARS):
        _emit_chunk(state, text[at : at + DELTA_MAX_CHARS], None)


def close_text(state: LogState, node_id: str, finish_reason: str | None = None) -> None:
    """Emit the last chunk of a model call, if the node has open text."""
    if node_id not in state.open_texts:
        return
    meta = present(finishReason=finish_reason, model=state.open_texts.pop(node_id))
    chunk = {"nodeId": node_id, "runId": state.log.run_id, "chunk": "", "isLast": True}
    state.emit("output.chunk", chunk | present(meta=meta or None), node_id=node_id)


def _emit_chunk(state: LogState, text: str, channel: str | None, notices: object = None) -> None:
    state.open_texts[state.node_id] = state.branch.model
    chunk = {"nodeId": state.node_id, "runId": state.log.run_id, "chunk": text, "isLast": False}
    if channel is not None:
        chunk["channel"] = channel
    state.emit("output.chunk", chunk, notices=notices)


def on_reasoning_added(state: LogState, frame: Frame) -> None:
    """Record the agent of a reasoning item."""
    state.reasoning[frame["item_id"]] = ReasoningItem(state.agent_id)


def on_reasoning_done(state: LogState, frame: Frame) -> None:
    """End the blocks of the item; an item without output gets an empty block unless reasoning is off."""
    item = state.reasoning[frame["item_id"]]
    if not item.blocks and state.verbosity != "off":
        _new_block(state, item, state.verbosity)
    for block in item.blocks.values():
        block.is_over = True
    for block in item.blocks.values():
        _advance(state, (block.agent_id, block.node_id))


def close_blocks(state: LogState, node_id: str) -> None:
    """Close all blocks of a node."""
    for place in [place for place in state.blocks if place[1] == node_id]:
        for block in state.blocks[place]:
            block.is_over = True
        _advance(state, place)


def on_reasoning_delta(verbosity: Verbosity, index: str, state: LogState, frame: Frame) -> None:
    """Emit text of a summary, or full text: its frames exist under the policy `full` only."""
    item, part = state.reasoning[frame["item_id"]], frame[index]
    block = item.blocks.get(verbosity)
    if block is None or block.is_over:
        block = _new_block(state, item, verbosity)
    delta = frame["delta"]
    if delta and part != block.part:
        delta = PARAGRAPH + delta if block.text else delta
        block.part = part
    notices = [*frame.get("notices", ())]
    is_open = state.blocks[block.agent_id, block.node_id][0] is block
    room = block.room if is_open else min(block.room, WAITING_MAX_CHARS - state.waiting_chars)
    if len(delta) > room:
        delta = cut_text(delta, room)
        notices += [notice._replace(path="delta")._asdict() for notice in TRUNCATED_HERE]
        block.room = len(delta)
    block.room -= len(delta)
    if delta:
        block.text.add(delta)
    block.notices.add(notices)
    if is_open:
        _emit_delta(state, block, delta, notices)
    else:
        state.waiting_chars += len(delta)


def _new_block(state: LogState, item: ReasoningItem, verbosity: Verbosity) -> ReasoningBlock:
    """Begin a block in the current node; it is open if no other block of the agent is."""
    block = ReasoningBlock(item.agent_id, state.node_id, verbosity, BLOCK_MAX_CHARS[verbosity])
    item.blocks[verbosity] = block
    state.blocks.setdefault((block.agent_id, block.node_id), deque()).append(block)
    return block


def _advance(state: LogState, place: tuple[str, str]) -> None:
    """Close the open block of a place if it is over, and open the next one, with the text that waited."""
    blocks = state.blocks.get(place)
    while blocks and blocks[0].is_over:
        block = blocks.popleft()
        payload = event_log.reasoned(block.agent_id, block.text.text, block.verbosity)
        state.emit("agent.reasoned", payload, node_id=block.node_id, notices=block.notices.release())
        if blocks:
            _emit_waiting(state, blocks[0])
    if not blocks:
        state.blocks.pop(place, None)


def _emit_waiting(state: LogState, block: ReasoningBlock) -> None:
    text = block.text.text
    state.waiting_chars -= len(text)
    for at in range(0, len(text), DELTA_MAX_CHARS):
        _emit_delta(state, block, text[at : at + DELTA_MAX_CHARS], [*block.notices] if at == 0 else [])


def _emit_delta(state: LogState, block: ReasoningBlock, delta: str, notices: list[object]) -> None:
    if delta and state.options.streams_reasoning:
        payload = event_log.reasoning_delta(block.agent_id, delta, block.sequence, block.verbosity)
        state.emit("agent.reasoning.delta", payload, node_id=block.node_id, notices=notices)
        block.sequence += 1


# tool calls (RFC 0002 section B; CONTRACT D15 to D22)

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


def on_call_added(state: LogState, frame: Frame) -> None:
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


def on_call_done(state: LogState, frame: Frame) -> None:
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
        if call.is_cut_off:
            continue
        interrupt_id = f"int-{call.id}"
        key = event_log.interrupt_key(state.log.run_id, state.node_id, state.interrupts)
        state.interrupts += 1
        public = {"toolName": call.name} | present(serverLabel=call.server_label or None) | call.inputs
        data = {
            "artifactId": call.id,
            "artifactType": f"{VENDOR}.tool-call",
            "title": f"Approve the call of {call.name}?",
            "artifactData": public,
            "actions": [*event_log.APPROVAL_ACTIONS],
        }
        members = {"agentId": call.agent_id, "resumeSchema": event_log.APPROVAL_SCHEMA, "data": data}
        payload = event_log.suspension(event_log.APPROVAL, state.node_id, interrupt_id, key, **members)
        event_id = state.emit("node.suspended", payload, notices=call.notices.release())
        state.emit("interrupt.requested", event_log.interrupt_request(payload), causation_id=event_id)
        state.branch.suspended.append((state.node_id, interrupt_id, event_id))
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
    details = present(transport="mcp" if call.tool_type == "mcp" else None, serverLabel=call.server_label or None)
    payload = event_log.tool_call(call.agent_id, call.name, call.id, call.inputs | details)
    call.event_id = state.emit("agent.toolCalled", payload, notices=call.notices.release())


def _emit_result(state: LogState, call: OpenCall, status: str) -> None:
    if call.is_returned:
        return
    _emit_call(state, call)
    call.is_returned = True
    state.branch.response.pending.discard(call.item_id)
    payload = event_log.tool_call(call.agent_id, call.name, call.id, _result(call, status))
    state.emit("agent.toolReturned", payload, causation_id=call.event_id, notices=call.notices.release())


def _result(call: OpenCall, status: str) -> dict[str, Any]:
    """Return `outcome` or `error`: the output of a function or MCP server, the status members of a provider tool."""
    frame, call.output = call.output, None
    result: dict[str, Any] = {} if frame is None else {"output": frame["output"]}
    if call.tool_type not in {"function", "mcp"}:
        result = call.members | result
    if status in ERRORS:
        code, message = ERRORS[status]
        return {"error": {"code": code, "message": message} | present(details=result or None)}
    if call.tool_type in {"function", "mcp"}:
        return {"outcome": result["output"]} if result else {}
    return {"outcome": result} if result else {}
