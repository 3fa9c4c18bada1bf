"""Rules of tool calls: identity, status, and the order and sums of what they say (seed sections 9.7 to 9.10)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from projector.contracts import codec
from projector.contracts.kinds import ENDED_STATUSES, STATUS_RANKS
from projector.contracts.limits import ARGUMENTS_TEXT_MAX_CHARS
from projector.contracts.parts import AnyTool
from projector.contracts.paths import ABSENT
from projector.contracts.public_sse_v1 import (
    CallEvent,
    OutputItemDone,
    PublicEvent,
    ToolArgumentsDelta,
    ToolArgumentsDone,
    ToolCodeDelta,
    ToolCodeDone,
    ToolOutput,
    ToolStatus,
)
from projector.contracts.stream_rules.notices import is_cut
from projector.contracts.stream_rules.table import Breach
from projector.contracts.stream_rules.texts import StreamedText


class _Stage(IntEnum):
    """How far a call has come (D15)."""

    SILENT = 0
    STATUS = 1
    INPUT = 2
    OUTPUT = 3
    ENDED = 4


_INPUT: Final = (ToolArgumentsDelta, ToolArgumentsDone, ToolCodeDelta, ToolCodeDone)


class _Call:
    """What a call has said."""

    def __init__(self, call_id: str) -> None:
        self.call_id = call_id
        self.stage = _Stage.SILENT
        self.last: AnyTool | None = None
        self.has_output = False
        self.arguments = StreamedText("arguments")
        self.code = StreamedText("code")


class CallWatch:
    """Follows each tool call by the slot of its item."""

    def __init__(self) -> None:
        self._calls: dict[int, _Call] = {}
        self._slots: dict[str, int] = {}
        self._done: set[int] = set()
        """Slots of the items that are done."""

    def see(self, event: PublicEvent, /) -> list[Breach]:
        """Take the next event; return what it breaks."""
        match event:
            case OutputItemDone():
                self._done.add(event.output_index)
                return []
            case ToolStatus():
                call_id = event.tool.tool_call_id
            case ToolArgumentsDelta() | ToolArgumentsDone() | ToolOutput() | ToolCodeDelta() | ToolCodeDone():
                call_id = event.tool_call_id
            case _:
                return []
        call = self._calls.setdefault(event.output_index, _Call(call_id))
        found = self._identity(call, call_id, event.output_index)
        if found:
            return found
        if isinstance(event, ToolStatus):
            return _status(call, event.tool, is_open=event.output_index not in self._done)
        return _speech(call, event)

    def _identity(self, call: _Call, call_id: str, slot: int) -> list[Breach]:
        if call.call_id != call_id:
            return [Breach("call_id", f"expected the `tool_call_id` that item {slot} was said with")]
        if self._slots.setdefault(call_id, slot) != slot:
            return [Breach("call_id_unique", f"expected no `tool_call_id` of item {self._slots[call_id]}")]
        return []


def _status(call: _Call, tool: AnyTool, *, is_open: bool) -> list[Breach]:
    last, ranks = call.last, STATUS_RANKS[tool.tool_type]
    if last == tool:
        return [Breach("status_repeats", f"expected something new beside `{tool.status}`")]
    if last is not None and last.status != tool.status and ranks[tool.status] <= ranks[last.status]:
        return [Breach("status_order", f"expected no `{tool.status}` after `{last.status}`")]
    call.last = tool
    is_ended = tool.status in ENDED_STATUSES
    call.stage = max(call.stage, _Stage.ENDED if is_ended else _Stage.STATUS)
    if tool.tool_type == "function" and is_ended and is_open and not call.has_output:
        return [Breach("function_end", f"expected `tool.output` or `output_item.done` before `{tool.status}`")]
    return []


def _speech(call: _Call, event: CallEvent) -> list[Breach]:
    """Take arguments, code or output."""
    found = []
    stage = _Stage.INPUT if isinstance(event, _INPUT) else _Stage.OUTPUT
    if call.stage is _Stage.SILENT:
        found.append(Breach("call_order", "expected `tool.status` of the call first"))
    elif call.stage > stage and (stage is _Stage.OUTPUT or not _is_of_a_function(event)):
        found.append(Breach("call_order", f"expected no {stage.name.lower()} after {call.stage.name.lower()}"))
    call.stage = max(call.stage, stage)
    match event:
        case ToolArgumentsDelta():
            found += call.arguments.delta(event.delta, max_chars=ARGUMENTS_TEXT_MAX_CHARS)
        case ToolArgumentsDone():
            found += call.arguments.done(event.arguments_text)
            found += _parsed(event)
        case ToolCodeDelta():
            found += call.code.delta(event.delta)
        case ToolCodeDone():
            found += call.code.done(event.code, is_cut=is_cut(event, "code"))
        case _:
            call.has_output = True
    return found


def _is_of_a_function(event: CallEvent) -> bool:
    match event:
        case ToolArgumentsDelta(tool_type="function") | ToolArgumentsDone(tool_type="function"):
            return True
        case _:
            return False


def _parsed(event: ToolArgumentsDone) -> list[Breach]:
    """Compare the object with the text, where neither was cut; empty text is no arguments (D24)."""
    if event.arguments_json is None or not event.arguments_text.strip() or is_cut(event):
        return []
    if _parse(event.arguments_text) != event.arguments_json:
        return [Breach("arguments_parsed", "expected `arguments_json` to be the parse of `arguments_text`")]
    return []


def _parse(text: str) -> object:
    """Give the tree as our codec writes it: long integers as strings, U+FFFD for lone surrogates."""
    try:
        tree: object = codec.loads(codec.dumps(codec.loads_exact(text)))
    except codec.CodecError:
        return ABSENT
    return tree
