"""Write calls of functions and MCP tools, and of the provider's own tools, with their input and output (D17 to D22).

A function is a tool of the page: its part is `tool-<name>`. MCP tools and the provider's tools run elsewhere, and the
page need not know them: their chunks have `providerExecuted` and `dynamic`. Input that is a text, not JSON, is written
as a JSON string, so that clients of every version can show it while it grows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from projector.contracts import codec
from projector.contracts.kinds import CLIENT_CALLS, ENDED_STATUSES
from projector.core.canonical import Frame
from projector.dialects.ai_sdk.ui_message import Call, Chunk, UiMessage, data_part, source_url, with_metadata
from projector.dialects.frame_writer import UNKNOWN, json_text
from projector.dialects.page_run import CALLED, COMPLETED, CUSTOM_CALL, NAMELESS, cut_members, is_shortened

INPUTS: Final[Mapping[str, tuple[str, ...]]] = {"web_search": ("query",), "file_search": ("queries",)}
"""Tool type -> members of `tool` that are its input."""
CONTEXT: Final = frozenset({"tool_type", "tool_call_id", "status", "query", "queries"})
"""Members of `tool` that are no result."""

NOT_JSON: Final = "The arguments are not a JSON object."
CUT_OFF: Final = "The call was cut off."
TOO_LONG: Final = "The arguments are longer than the server passes on."
FAILED: Final = "The tool failed."
ANSWERED: Final[Mapping[str, str]] = {"status": "answered"}
"""Output of a call that a later response has passed, without a word about its output."""

APPROVALS_LEVEL: Final = 6
"""First version whose clients know approvals."""


def on_call_added(ui: UiMessage, frame: Frame) -> list[Chunk]:
    """Add a call. Its first status has its name and ID."""
    ui.calls[frame["item_id"]] = Call(frame["item_id"], frame["item_type"], ui.branch, ui.responses[ui.branch])
    return []


def on_status(ui: UiMessage, frame: Frame) -> list[Chunk]:
    """Write the status of a tool."""
    call, tool = ui.calls[frame["item_id"]], frame["tool"]
    call.id = call.id or ui.call_ids.allocate(tool["tool_call_id"])
    if tool["tool_type"] not in CALLED:
        return _provider_tool_status(ui, call, tool)
    was_held, chunks = call.is_held, _call_status(ui, call, frame)
    if was_held and not call.is_held:
        ui.open_items.discard(call.item_id)
    return chunks


def on_output(ui: UiMessage, frame: Frame) -> list[Chunk]:
    """Keep an output until the status of its call is known: it shows whether the call failed."""
    ui.calls[frame["item_id"]].outputs.append(frame["output"])
    return []


def on_call_done(ui: UiMessage, frame: Frame) -> list[Chunk]:
    """Write the end of a call that was cut off, and a result that no status followed."""
    call = ui.calls[frame["item_id"]]
    is_known = call.has_input or call.is_shortened
    chunks = [] if is_known else [*_ensure_start(ui, call), *_invalid_input(call, None, CUT_OFF)]
    return chunks + _result(ui, call, frame["status"]) if call.outputs else chunks


def on_provider_tool_done(ui: UiMessage, frame: Frame) -> list[Chunk]:
    """Write the result of a tool of the provider."""
    call = ui.calls[frame["item_id"]]
    if not call.has_started:
        return []
    result = call.result | ({"outputs": call.outputs} if call.outputs else {})
    return answer(call, result) if frame["status"] == COMPLETED else _failure(call, FAILED)


# arguments


def on_sealed(ui: UiMessage, frame: Frame) -> list[Chunk]:
    """Keep what the client carries with a call for its complete input."""
    ui.calls[frame["item_id"]].sealed = frame["sealed"]
    return []


def on_arguments_delta(ui: UiMessage, frame: Frame) -> list[Chunk]:
    """Write a delta of the arguments, or hold it until the call has a name."""
    call = ui.calls[frame["item_id"]]
    chunks = _name(ui, call, frame["tool_name"])
    if not call.has_started:
        call.held.append(frame["delta"])
        return chunks
    return chunks + _input_delta(call, frame["delta"])


def on_arguments_done(ui: UiMessage, frame: Frame) -> list[Chunk]:
    """Write the complete arguments."""
    call = ui.calls[frame["item_id"]]
    return _name(ui, call, frame["tool_name"]) + _complete(ui, call, frame)


def on_code_delta(ui: UiMessage, frame: Frame) -> list[Chunk]:
    """Write a delta of the code, as the member `code` of the input."""
    call = ui.calls[frame["item_id"]]
    return _text_delta(call, '{"code":', frame["delta"]) if call.has_started else []


def on_code_done(ui: UiMessage, frame: Frame) -> list[Chunk]:
    """Write the complete code."""
    call = ui.calls[frame["item_id"]]
    if not call.has_started or call.has_input:
        return []
    return _text_end(call, '"}') + _input(call, {"code": frame["code"]})


# the end


def write_missing_results(ui: UiMessage, *, has_failed: bool) -> list[Chunk]:
    """Write a result for each call that nobody has to run or approve.

    Its input was cut, or a later response of a stream that did not fail has passed it.
    """
    chunks: list[Chunk] = []
    for call in ui.calls.values():
        if call.is_answered:
            continue
        if call.is_held:
            chunks += _invalid_input(call, json_text(call.shortened), TOO_LONG)
        elif call.has_input and not has_failed and not ui.is_last(call):
            chunks += answer(call, ANSWERED)
    ui.open_items.clear()
    return chunks


def has_pending_calls(ui: UiMessage) -> bool:
    """Return whether calls wait for the client: for an output or for an approval."""
    return any(call.has_input and not call.is_answered for call in ui.calls.values())


# calls of functions and MCP tools


def _call_status(ui: UiMessage, call: Call, frame: Frame) -> list[Chunk]:
    tool = frame["tool"]
    call.server_label = tool.get("server_label", call.server_label)
    chunks = _name(ui, call, tool.get("name", tool.get("tool_name", UNKNOWN)))
    if "arguments_text" in tool and not call.has_input:
        chunks += _complete(ui, call, frame)
    is_asked = tool["status"] == "awaiting_approval" and not call.is_awaiting
    is_over = tool["status"] in ENDED_STATUSES and not call.is_answered
    if (is_asked or is_over) and not call.has_input:
        chunks += [*_ensure_start(ui, call), *_input(call, call.shortened)]
    if is_asked:
        call.is_awaiting = True
        chunks += _approval(ui, call)
    if is_over:
        chunks += _result(ui, call, tool["status"])
    return chunks


def _approval(ui: UiMessage, call: Call) -> list[Chunk]:
    if ui.level >= APPROVALS_LEVEL:
        return [{"type": "tool-approval-request", "approvalId": call.item_id, "toolCallId": call.id}]
    data = {"approval_id": call.item_id, "tool_call_id": call.id, "tool_name": call.name}
    return [data_part("approval", {**data, "server_label": call.server_label}, call.item_id)]


def _name(ui: UiMessage, call: Call, name: str) -> list[Chunk]:
    """Name a call, and start it as soon as the name is known."""
    call.name = name
    return [] if call.has_started or name in NAMELESS else _start(ui, call)


def _ensure_start(ui: UiMessage, call: Call) -> list[Chunk]:
    """Start a call that was never named."""
    return [] if call.has_started else _start(ui, call)


def _start(ui: UiMessage, call: Call) -> list[Chunk]:
    call.name = call.name or UNKNOWN
    call.has_started = True
    chunk = _chunk(call, "tool-input-start", toolName=call.name, **_executed(call))
    if ui.level >= APPROVALS_LEVEL:
        with_metadata(chunk, server_label=call.server_label)
    held, call.held = "".join(call.held), []
    return [chunk, *_input_delta(call, held)]


def _input_delta(call: Call, delta: str) -> list[Chunk]:
    if not delta:
        return []
    if call.item_type == CUSTOM_CALL:
        return _text_delta(call, "", delta)
    return [_chunk(call, "tool-input-delta", inputTextDelta=delta)]


def _text_delta(call: Call, before: str, delta: str) -> list[Chunk]:
    """Write a delta of a text as part of a JSON string."""
    text = codec.dumps(delta).decode()[1:-1]
    if not call.is_open:
        call.is_open = True
        text = f'{before}"{text}'
    return [_chunk(call, "tool-input-delta", inputTextDelta=text)]


def _text_end(call: Call, end: str) -> list[Chunk]:
    if not call.is_open:
        return []
    call.is_open = False
    return [_chunk(call, "tool-input-delta", inputTextDelta=end)]


def _complete(ui: UiMessage, call: Call, frame: Frame) -> list[Chunk]:
    """Write the complete input, or that the arguments are not JSON.

    Clients run a call as soon as they have its input. One that was cut waits until the host has answered the call, or
    is an error at the end.
    """
    chunks, members, cut = _ensure_start(ui, call), frame.get("tool", frame), cut_members(frame)
    value: Any = members["arguments_text"]
    call.is_shortened = is_shortened(call.item_type, frame)
    if call.item_type == CUSTOM_CALL:
        chunks += _text_end(call, '"')
    elif "arguments_json" in members:
        is_whole = "arguments_json" not in cut or "arguments_text" in cut
        value = members["arguments_json"] if is_whole else codec.loads(members["arguments_text"])
    elif members["arguments_text"].strip():
        return chunks + _invalid_input(call, value, NOT_JSON)
    else:
        value = {}
    if call.is_shortened:
        call.shortened = value
        return chunks
    return chunks + _input(call, value)


def _input(call: Call, value: object) -> list[Chunk]:
    call.has_input = True
    chunk = _chunk(call, "tool-input-available", toolName=call.name, input=accepted(value), **_executed(call))
    return [with_metadata(chunk, encrypted_content=call.sealed)]


def _invalid_input(call: Call, text: str | None, error: str) -> list[Chunk]:
    """Write that the input of a call is unusable. No client runs such a call."""
    call.has_input = call.is_answered = True
    return [_chunk(call, "tool-input-error", toolName=call.name, input=text, errorText=error, **_executed(call))]


def _result(ui: UiMessage, call: Call, status: str) -> list[Chunk]:
    """Write the result of a call: its output, or that it failed."""
    ui.has_answer = ui.has_answer or call.item_type in CLIENT_CALLS
    outputs, call.outputs = call.outputs, []
    output = outputs[-1] if outputs else ""
    if status != "failed":
        return answer(call, output)
    return _failure(call, json_text(output) or FAILED)


def answer(call: Call, output: object, *, is_preliminary: bool = False) -> list[Chunk]:
    """Write an output of a call, which another one replaces if it is preliminary."""
    chunks = [] if call.has_input else _input(call, call.shortened)
    chunk = _chunk(call, "tool-output-available", output=accepted(output), **_executed(call))
    if is_preliminary:
        return [*chunks, chunk | {"preliminary": True}]
    call.is_answered = True
    return [*chunks, chunk]


def _failure(call: Call, text: str) -> list[Chunk]:
    chunks = [] if call.has_input else _input(call, call.shortened)
    call.is_answered = True
    return [*chunks, _chunk(call, "tool-output-error", errorText=text, **_executed(call))]


def _chunk(call: Call, kind: str, **members: object) -> Chunk:
    return {"type": kind, "toolCallId": call.id, **members}


def _executed(call: Call) -> dict[str, bool]:
    """Return the members that keep a client from running a call."""
    return {} if call.item_type in CLIENT_CALLS else {"providerExecuted": True, "dynamic": True}


# tools of the provider


def _provider_tool_status(ui: UiMessage, call: Call, tool: Mapping[str, Any]) -> list[Chunk]:
    """Write the status of a tool of the provider, its input once it is known, and new sources."""
    chunks = _name(ui, call, tool["tool_type"])
    status = {"item_id": call.item_id, "tool_call_id": call.id, "tool_type": call.name, "status": tool["status"]}
    chunks.append(data_part("tool-status", status, call.item_id))
    given = {name: tool[name] for name in INPUTS.get(call.name, ()) if name in tool}
    if given and not call.has_input:
        chunks += _input(call, given)
    call.result |= {name: value for name, value in tool.items() if name not in CONTEXT}
    return chunks + _sources(call, tool.get("sources", ()))


def _sources(call: Call, addresses: object) -> list[Chunk]:
    """Return the sources of a search that were not written before."""
    new = [one for one in dict.fromkeys(addresses) if one not in call.sources] if isinstance(addresses, list) else []
    first = len(call.sources) + 1
    call.sources.update(new)
    web = [(number, one) for number, one in enumerate(new, first) if one.startswith(("http://", "https://"))]
    return [source_url(f"{call.item_id}:source:{number}", one) for number, one in web]


def accepted(value: object) -> object:
    """Return a tree without the members that the client refuses: it ends the message at such a chunk.

    They are `__proto__`, and a `constructor` with a `prototype`.
    """
    if isinstance(value, dict):
        return {name: accepted(member) for name, member in value.items() if not _is_refused(name, member)}
    return [accepted(each) for each in value] if isinstance(value, list) else value


def _is_refused(name: str, member: object) -> bool:
    return name == "__proto__" or (name == "constructor" and isinstance(member, dict) and "prototype" in member)
