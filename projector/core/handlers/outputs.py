"""Outputs of tools (seed section 9.10, CONTRACT D15 to D18, D20)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from projector.core import canonical as read
from projector.core import frames
from projector.core.calls import ToolCall
from projector.core.canonical import Frame
from projector.core.handlers import status
from projector.core.state import StreamState
from projector.core.transcript import Item
from projector.redaction import compose
from projector.redaction.clean import Cleaned, CleanJson, CleanText

FAILED: Final = "failed"
COMPLETED: Final = "completed"


def settle(_state: StreamState, _item: Item, call: ToolCall, raw: Mapping[str, object]) -> list[Frame]:
    """Decide the last status of a finished call; a hosted tool has none for failure (D16)."""
    ended = read.text_or_none(raw, "status")
    has_failed = FAILED in {call.outcome, ended} or bool(raw.get("error"))
    if has_failed:
        call.outcome = FAILED if call.tool_type == "mcp" else None
    elif ended == "incomplete":
        call.outcome = None
    else:
        call.outcome = COMPLETED
    return []


def code_interpreter(state: StreamState, item: Item, call: ToolCall, raw: Mapping[str, object]) -> list[Frame]:
    """Say logs and files of the finished run (D20)."""
    shown = [_interpreter_output(state, output) for output in read.mappings(raw, "outputs")]
    if not shown:
        return []
    return say(state, item, call, compose.listed(shown, state.policy.limits.container_max_entries))


def mcp(state: StreamState, item: Item, call: ToolCall, raw: Mapping[str, object]) -> list[Frame]:
    """Say what the server answered, or its error."""
    output, error = raw.get("output"), raw.get("error")
    if output is not None:
        return say(state, item, call, clean_output(state, output))
    if error:
        return say(state, item, call, clean_output(state, {"error": error}))
    return []


def finish(state: StreamState, item: Item, raw: Mapping[str, object]) -> list[Frame]:
    """Say the output that an output item holds, on the call that it answers."""
    caller = state.calls.get(read.text_or_none(raw, "call_id") or "")
    if caller is None or caller.call is None or caller.call.tool_type != "function":
        state.count(f"{item.type} without its call")
        return []
    ended = FAILED if read.text_or_none(raw, "status") in {FAILED, "incomplete"} else COMPLETED
    return answer(state, caller, caller.call, raw.get("output"), ended)


def answer(state: StreamState, item: Item, call: ToolCall, output: object, ended: str) -> list[Frame]:
    """Say the output of a call that is executed elsewhere, then that it is over (D17)."""
    return say(state, item, call, clean_output(state, output)) + status.say_status(item, call, ended)


def say(state: StreamState, item: Item, call: ToolCall, output: Cleaned[CleanJson]) -> list[Frame]:
    """Say the output of a call, once: a second one would stand behind the call's end (D15)."""
    if call.output_said:
        state.count("output of a call that has one")
        return []
    call.output_said = True
    return [frames.tool_output(item.slot, item.item_id, call.call_id, call.tool_type, output)]


def clean_output(state: StreamState, output: object) -> Cleaned[CleanJson]:
    """Give an output of any type as it may be shown."""
    return state.redactor.json(output, string_max_chars=state.policy.limits.output_string_max_chars)


def _interpreter_output(state: StreamState, output: Mapping[str, object]) -> Cleaned[CleanJson]:
    """Give logs, an image's address or files, by allow-list."""
    logs, url = read.text_or_none(output, "logs"), read.text_or_none(output, "url")
    kind = read.text_or_none(output, "type")
    files = [
        compose.record({name: _label(state, file, name) for name in ("file_id", "filename", "mime_type")})
        for file in read.mappings(output, "files")
    ]
    return compose.record(
        {
            "type": state.redactor.label(kind) if kind else None,
            "logs": state.redactor.text(logs, state.policy.limits.output_string_max_chars) if logs else None,
            "url": state.redactor.url(url) if url else None,
            "files": compose.listed(files, state.policy.limits.container_max_entries) if files else None,
        }
    )


def _label(state: StreamState, source: Mapping[str, object], name: str) -> Cleaned[CleanText] | None:
    text = read.text_or_none(source, name)
    return state.redactor.label(text) if text else None
