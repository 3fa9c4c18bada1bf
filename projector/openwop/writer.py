"""The writer of one stream as the log of one run: its tables of frame kinds and item types, and what is open.

That is the start and end of nodes, responses, branches and the run, handoffs and token usage (CONTRACT D9 to D14). A
node is a step of the workflow, or the whole run if the frame context names no step. It ends when its position moves on
to another step, when the workflow leaves the position, or with its branch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from projector.contracts import codec
from projector.contracts.kinds import RUNNING, TERMINAL_KINDS, TOOL_TYPES, VENDOR, Kind, PrivateKind
from projector.core.canonical import Frame
from projector.core.delta_frames import DeltaFrames
from projector.dialects.descriptor import DialectOptions, RepeatWriter
from projector.dialects.frame_writer import (
    LARGE,
    NUMBER_PLACE,
    TEXT_PLACE,
    UNKNOWN,
    FrameWriter,
    left_positions,
    literal,
    pattern_of,
    position_of,
    within_limit,
)
from projector.openwop import content, event_log
from projector.openwop.content import close_blocks, close_text, emit_final_text, resume, suspend
from projector.openwop.event_log import Event, Verbosity, present, shortened
from projector.openwop.log_state import BranchState, LogState, OpenNode, Position, ResponseState

NODE_ID: Final = "model"
TYPE_ID: Final = f"vendor.{VENDOR}.model"
"""Default node id and node type. `vendor.*` types may emit agent events (RFC 0023 section A)."""

COMPLETED: Final = "completed"
RESUMABLE_STATUSES: Final = frozenset({COMPLETED, "incomplete"})
"""Final statuses after which an approval can still be given."""

FINISH_REASONS: Final[Mapping[str, str]] = {
    "max_output_tokens": "length",
    "length": "length",
    "content_filter": "content_filter",
}
"""Reason of an incomplete response -> finish reason of the protocol, where there is one."""

OUTPUTS: Final[Mapping[str, str]] = {
    "response_text": "text",
    "refusal_text": "refusal",
    "structured_output": "structuredOutput",
    "attachments": "attachments",
}
"""Member of `final` -> member of the run's outputs; reasoning is not an output."""

TOKENS: Final[Mapping[str, str]] = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "total_tokens": "totalTokens",
    "cached_input_tokens": "cacheReadTokens",
}
"""Member of the usage -> member of `provider.usage`; the first two are required."""

FAILED_MESSAGE: Final = "The response failed."


def follow_context(state: LogState, frame: Frame) -> None:
    """Emit the node ends, handoffs and node starts that a changed context implies."""
    context = (state.branch_number, frame.get("workflow"), frame.get("agent"))
    if context == state.context:
        return
    state.context = context
    workflow = frame.get("workflow", {})
    workflow_position, name = position_of(workflow)
    name = name or state.options.node_id or NODE_ID
    position = state.branch_number or workflow_position
    for other in left_positions(state.nodes, position, name):
        leave_node(state, other, COMPLETED, {})
    node = state.nodes.get(position)
    node_id = state.node_id = _free_node_id(state, name) if node is None else node.id
    agent = frame.get("agent", workflow.get("step_agent"))
    state.agent_id = event_log.agent_id(agent) if agent else f"host:model:{node_id}"
    before = state.agents.follow(position, state.agent_id) if agent else None
    if before is not None:
        state.emit("agent.handoff", {"fromAgentId": before, "toAgentId": state.agent_id}, node_id=None)
    if node is None:
        state.nodes[position] = OpenNode(name, node_id)
        attempt = state.starts[node_id]
        state.starts[node_id] += 1
        payload = {"nodeId": node_id, "typeId": state.options.type_id or TYPE_ID}
        state.emit("node.started", payload | present(attempt=attempt or None))


def leave_node(state: LogState, position: Position, outcome: str, members: Mapping[str, object]) -> None:
    """Emit the end (`completed`, `failed` or `cancelled`) of the node at a position, if one is open."""
    if position not in state.nodes:
        return
    node_id = state.nodes.pop(position).id
    close_blocks(state, node_id)
    close_text(state, node_id)
    state.emit(f"node.{outcome}", {"nodeId": node_id, **members}, node_id=node_id)


def end_nodes(state: LogState, outcome: str, members: Mapping[str, object]) -> None:
    """Emit the end of every open node."""
    for position in list(state.nodes):
        leave_node(state, position, outcome, members)


def _free_node_id(state: LogState, name: str) -> str:
    """Return an unused node id: the name of the step, numbered if it is taken."""
    taken = {node.id for node in state.nodes.values()}
    node_id, number = shortened(name), 1
    while node_id in taken:
        number += 1
        node_id = shortened(f"{name}~{number}")
    return node_id


def on_meta(state: LogState, frame: Frame) -> None:
    """Record the model."""
    state.branch.model = frame.get("model", state.branch.model)


def on_usage(state: LogState, frame: Frame) -> None:
    """Emit the usage of a model call that ended, if the provider reported input and output tokens."""
    if frame.get("is_cut"):
        return
    tokens = {name: frame["usage"][member] for member, name in TOKENS.items() if member in frame["usage"]}
    if tokens.keys() >= {"inputTokens", "outputTokens"}:
        source = {"provider": state.options.provider or UNKNOWN, "model": state.branch.model or UNKNOWN}
        state.emit("provider.usage", {**source, **tokens, "nodeId": state.node_id})


def on_lifecycle(state: LogState, frame: Frame) -> None:
    """Emit the end of the text of a response that has ended, and its suspensions."""
    status, response = frame["status"], state.branch.response
    if status in RUNNING:
        return
    response.has_ended = True
    response.has_failed = status == "failed"
    if "reason" in frame:
        state.reasons[status] = response.reason = frame["reason"]
    close_text(state, state.node_id, _finish_reason(response, status))
    if status in RESUMABLE_STATUSES:
        suspend(state)


def on_final(state: LogState, frame: Frame) -> None:
    """Emit the end of the run by its status; a run with a pending interrupt does not complete."""
    final, status = frame["final"], frame["final"]["status"]
    text = final.get("response_text", "")
    if text and state.nodes and not state.has_text:
        emit_final_text(state, text)
        close_text(state, state.node_id)
    if status == "cancelled":
        end_nodes(state, "cancelled", {"reason": status})
        state.emit("run.cancelled", {"reason": status}, node_id=None)
    elif status == "failed":
        _fail(state, _failure(state.reasons.get(status)), frame)
    elif not state.is_waiting:
        outputs = {name: final[member] for member, name in OUTPUTS.items() if member in final}
        if status != COMPLETED:
            outputs |= present(status=status, reason=state.reasons.get(status))
        end_nodes(state, COMPLETED, {})
        state.emit("run.completed", {"outputs": outputs}, node_id=None, notices=frame.get("notices"))


def on_error(state: LogState, frame: Frame) -> None:
    """Emit the failure of the run."""
    error = frame["error"]
    payload = {"code": error["code"] or UNKNOWN, "message": error["message"] or FAILED_MESSAGE}
    details = {f"{VENDOR}.source": error["source"]}
    _fail(state, {**payload, "retryable": error["is_retryable"], "details": details}, frame)


def on_branch(state: LogState, frame: Frame) -> None:
    """Switch to another branch, or emit the end of the node of an ended branch without pending interrupts."""
    if not frame["is_over"]:
        state.branch_number = frame["branch"]
        state.branch = state.branches.setdefault(state.branch_number, BranchState())
        return
    state.agents.leave(state.branch_number)
    if state.branch.response.has_failed:
        error = _failure(state.branch.response.reason)
        leave_node(state, state.branch_number, "failed", {"error": error})
    elif not state.branch.suspended:
        leave_node(state, state.branch_number, COMPLETED, {})


def _failure(code: str | None) -> dict[str, Any]:
    """Return the error of a failed response: its code, without the provider's message."""
    return {"code": code or "failed", "message": FAILED_MESSAGE}


def _fail(state: LogState, error: Mapping[str, Any], frame: Frame) -> None:
    end_nodes(state, "failed", {"error": error})
    payload = present(error=error, failedNodeId=state.node_id or None)
    state.emit("run.failed", payload, node_id=None, notices=frame.get("notices"))


def _finish_reason(response: ResponseState, status: str) -> str | None:
    if status == COMPLETED:
        return "tool_calls" if response.pending else "stop"
    return FINISH_REASONS.get(response.reason or "") if status == "incomplete" else None


# the tables, and the writer

FrameHandler: TypeAlias = Callable[[LogState, Frame], None]

NODELESS_KINDS: Final = TERMINAL_KINDS | {PrivateKind.BRANCH}
"""Kinds that belong to no step: the end of the run, and the switch between branches."""

HIDDEN_TOOLS: Final = ("computer_call", "local_shell_call", "shell_call", "apply_patch_call", "tool_search_call")
"""Item types of calls without a public tool type."""
ITEMS: Final[Mapping[str, tuple[FrameHandler, FrameHandler]]] = {
    "reasoning": (content.on_reasoning_added, content.on_reasoning_done),
    **dict.fromkeys((*TOOL_TYPES, *HIDDEN_TOOLS), (content.on_call_added, content.on_call_done)),
}
"""Item type -> handlers of its start and end. Messages are emitted by their text, outputs by their call; other item
types are internal to the provider."""


def on_item(state: LogState, frame: Frame) -> None:
    """Handle the start or the end of an item."""
    if (handlers := ITEMS.get(frame["item_type"])) is not None:
        begin, end = handlers
        (begin if frame["kind"] == Kind.OUTPUT_ITEM_ADDED else end)(state, frame)


HANDLED: Final[Mapping[str, FrameHandler]] = {
    Kind.LIFECYCLE: on_lifecycle,
    Kind.OUTPUT_ITEM_ADDED: on_item,
    Kind.OUTPUT_ITEM_DONE: on_item,
    Kind.MESSAGE_DELTA: content.on_text_delta,
    Kind.MESSAGE_CITATION: content.on_citation,
    Kind.REASONING_SUMMARY_DELTA: partial(content.on_reasoning_delta, "summary", "summary_index"),
    Kind.REFUSAL_DELTA: content.on_refusal_delta,
    Kind.TOOL_STATUS: content.on_status,
    Kind.TOOL_ARGUMENTS_DONE: content.on_arguments_done,
    Kind.TOOL_CODE_DONE: content.on_code_done,
    Kind.TOOL_OUTPUT: content.on_output,
    Kind.CHUNK_DELTA: content.on_image,
    Kind.CHUNK_DONE: content.on_image,
    Kind.ERROR: on_error,
    Kind.FINAL: on_final,
    PrivateKind.BRANCH: on_branch,
    PrivateKind.RESPONSE_META: on_meta,
    PrivateKind.RESPONSE_USAGE: on_usage,
    PrivateKind.REASONING_DELTA: partial(content.on_reasoning_delta, "full", "content_index"),
}
"""Frame kind -> handler."""

DROPPED: Final[Mapping[str, str]] = {
    Kind.REFUSAL_DONE: "the deltas carry the text",
    Kind.TOOL_ARGUMENTS_DELTA: "a call is emitted when its arguments are complete",
    Kind.TOOL_CODE_DELTA: "a call is emitted when its code is complete",
    **dict.fromkeys((PrivateKind.ITEM_DETAILS, PrivateKind.ITEM_MEMBERS), "a log of a run has the public members"),
    PrivateKind.FILE_PATH: "citations are the public ones",
    PrivateKind.RESPONSE_ERROR: "`error` or `lifecycle` reports the failure",
    PrivateKind.REASONING_DONE: "the deltas carry the text, and the end of the item closes the block",
    PrivateKind.REASONING_ENCRYPTED: "only the provider can read it",
    PrivateKind.CALL_SEALED: "only the server can read it",
    PrivateKind.LATE_TEXTS: "the outputs of the run have them",
}
"""Frame kind -> why nothing is emitted."""


class OpenWopWriter(FrameWriter[FrameHandler]):
    """Writer of the log of one run from the frames of one stream; `verbosity` is that of the policy (CONTRACT D36).

    If a frame cannot be written, its partial events are discarded and the set of open nodes is unknown: after it only
    `run.failed` is emitted. Readers detect the gap in the sequence numbers.
    """

    _name_member = "type"

    def __init__(self, verbosity: Verbosity, options: DialectOptions) -> None:
        super().__init__(HANDLED)
        self._state = LogState(verbosity, options)
        self._has_begun = False

    def _write(self, handler: FrameHandler, frame: Frame) -> list[Event]:
        state, kind = self._state, frame["kind"]
        state.events = []
        state.timestamp = frame["server_timestamp"]
        if self._has_failed:
            state.nodes.clear()
        else:
            if not self._has_begun:
                self._has_begun = True
                state.begin(frame)
            is_active = kind == Kind.LIFECYCLE and frame["status"] in RUNNING
            if state.branch.response.has_ended and (is_active or kind == Kind.OUTPUT_ITEM_ADDED):
                state.branch.response = ResponseState()
                resume(state)
            if kind not in NODELESS_KINDS or (kind in TERMINAL_KINDS and not state.starts):
                follow_context(state, frame)
        handler(state, within_limit(frame, {"reasoning_summary_text"}) if kind in LARGE else frame)
        return state.events

    def _repeat(self, _frame: Frame) -> RepeatWriter:
        state = self._state
        event = state.events[-1]
        event_id = literal(codec.dumps(event["eventId"].rpartition(":")[0] + ":")[:-1]) + NUMBER_PLACE + b'"'
        payload = pattern_of(event["payload"], {"chunk": TEXT_PLACE})
        places = {"eventId": event_id, "payload": payload, "timestamp": TEXT_PLACE, "sequence": NUMBER_PLACE}
        pattern = pattern_of(event, places)

        def write(deltas: DeltaFrames) -> list[bytes]:
            state.timestamp, first = deltas.timestamp, state.log.sequence
            state.log.sequence += len(deltas.encoded)
            time = state.timestamp.encode()
            return [pattern % (number, text, time, number) for number, text in enumerate(deltas.encoded, first)]

        return RepeatWriter(event["type"], write)
