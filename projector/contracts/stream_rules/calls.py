"""Rules of tool calls: identity, status, order of events, deltas against wholes (seed sections 9.7 to 9.10)."""

from __future__ import annotations

from enum import IntEnum

from projector.contracts import codec
from projector.contracts import public_sse_v1 as events
from projector.contracts.kinds import ENDED_STATUSES, STATUS_RANKS
from projector.contracts.limits import ARGUMENTS_TEXT_MAX_CHARS
from projector.contracts.parts import AnyTool
from projector.contracts.paths import ABSENT
from projector.contracts.stream_rules.responses import StreamedText
from projector.contracts.stream_rules.table import Finding
from projector.contracts.stream_rules.values import is_truncated


class _Stage(IntEnum):
    """Progress of a call (D15)."""

    NEW = 0
    STATUS = 1
    INPUT = 2
    OUTPUT = 3
    ENDED = 4


class _Call:
    def __init__(self, call_id: str) -> None:
        self.call_id = call_id
        self.stage = _Stage.NEW
        self.last: AnyTool | None = None
        self.has_output = False
        self.arguments = StreamedText("arguments")
        self.code = StreamedText("code")


class CallRules:
    """Rules of each tool call, by the slot of its item."""

    def __init__(self) -> None:
        self._calls: dict[int, _Call] = {}
        self._slots: dict[str, int] = {}
        self._done: set[int] = set()
        """Slots of items that are done."""

    def check(self, event: events.PublicEvent, /) -> list[Finding]:
        """Check the next event."""
        if isinstance(event, events.OutputItemDone):
            self._done.add(event.output_index)
        if not isinstance(event, events.ToolStatus | events.CallEvent):
            return []
        call_id = event.tool.tool_call_id if isinstance(event, events.ToolStatus) else event.tool_call_id
        call = self._calls.setdefault(event.output_index, _Call(call_id))
        found = self._identity(call, call_id, event.output_index)
        if found:
            return found
        if isinstance(event, events.ToolStatus):
            return _status(call, event.tool, is_open=event.output_index not in self._done)
        return _payload(call, event)

    def _identity(self, call: _Call, call_id: str, slot: int) -> list[Finding]:
        if call.call_id != call_id:
            return [Finding("call_id", f"expected the `tool_call_id` of the first event of item {slot}")]
        if self._slots.setdefault(call_id, slot) != slot:
            return [Finding("call_id_unique", f"expected no `tool_call_id` of item {self._slots[call_id]}")]
        return []


def _status(call: _Call, tool: AnyTool, *, is_open: bool) -> list[Finding]:
    last, ranks = call.last, STATUS_RANKS[tool.tool_type]
    if last == tool:
        return [Finding("status_repeats", f"expected a changed member with status `{tool.status}`")]
    if last is not None and last.status != tool.status and ranks[tool.status] <= ranks[last.status]:
        return [Finding("status_order", f"expected no `{tool.status}` after `{last.status}`")]
    call.last = tool
    is_ended = tool.status in ENDED_STATUSES
    call.stage = max(call.stage, _Stage.ENDED if is_ended else _Stage.STATUS)
    if tool.tool_type == "function" and is_ended and is_open and not call.has_output:
        return [Finding("function_end", f"expected `tool.output` or `output_item.done` before `{tool.status}`")]
    return []


def _payload(call: _Call, event: events.CallEvent) -> list[Finding]:
    found = []
    stage = _Stage.OUTPUT if isinstance(event, events.ToolOutput) else _Stage.INPUT
    if call.stage is _Stage.NEW:
        found.append(Finding("call_order", "expected `tool.status` of the call first"))
    elif call.stage > stage and (stage is _Stage.OUTPUT or getattr(event, "tool_type", "") != "function"):
        found.append(Finding("call_order", f"expected no {stage.name.lower()} after {call.stage.name.lower()}"))
    call.stage = max(call.stage, stage)
    match event:
        case events.ToolArgumentsDelta():
            found += call.arguments.delta(event.delta, max_chars=ARGUMENTS_TEXT_MAX_CHARS)
        case events.ToolArgumentsDone():
            found += call.arguments.done(event.arguments_text)
            found += _parsed(event)
        case events.ToolCodeDelta():
            found += call.code.delta(event.delta)
        case events.ToolCodeDone():
            found += call.code.done(event.code, is_truncated=is_truncated(event, "code"))
        case _:
            call.has_output = True
    return found


def _parsed(event: events.ToolArgumentsDone) -> list[Finding]:
    """Compare the parsed object with the text unless one was truncated; empty text means no arguments (D24)."""
    if event.arguments_json is None or not event.arguments_text.strip() or is_truncated(event):
        return []
    try:  # as the codec writes it: long integers as strings, U+FFFD for lone surrogates
        tree = codec.loads(codec.dumps(codec.loads_exact(event.arguments_text)))
    except codec.CodecError:
        tree = ABSENT
    if tree != event.arguments_json:
        return [Finding("arguments_parsed", "expected `arguments_json` to be the parse of `arguments_text`")]
    return []
