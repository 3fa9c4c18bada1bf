"""Finished tool calls: outputs, images, citations and the last status (seed sections 9.10, 9.11; D15 to D22, D30)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from projector.contracts.kinds import ChunkField
from projector.core import canonical as read
from projector.core import frames
from projector.core.canonical import CanonicalEvent, Frame
from projector.core.handlers import tool_calls, tool_fields
from projector.core.state import StreamState
from projector.core.transcript import NAME_FIELDS, Item, ToolCall
from projector.core.truncation import split_base64
from projector.redaction import compose
from projector.redaction.clean import TRUNCATED_HERE, Cleaned, CleanJson, CleanText

_DATA_URI: Final = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,")

DATA_URI_MAX_CHARS: Final = 4 * 1024 * 1024
"""Limit of an image that a program made. A plot has some 100 kB; the response object repeats each of them."""

FAILED: Final = "failed"
COMPLETED: Final = "completed"


def on_partial_image(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Emit the status and the bytes of a partial image."""
    part_index = read.index(event, "partial_image_index")
    data = read.text(event, "partial_image_b64")
    item, call, output = tool_calls.call_of(state, event, "image_generation_call")
    tool_fields.image_generation(state, item, call, event)
    output += tool_calls.emit_status(item, call, "partial_image")
    return output + _chunks(state, item, call, "partial_image_b64", part_index, data)


def finish(state: StreamState, item: Item, raw: Mapping[str, object]) -> list[Frame]:
    """Emit content that only the finished call contains, except its final status."""
    output = tool_calls.begin(state, item, raw)
    call = item.call
    if call is None:
        return output
    tool_calls.register(state, item, call, raw)
    name = read.text_or_none(raw, "name")
    if name is not None and call.tool_type in NAME_FIELDS:
        call.name = state.redactor.name(name)
    for step in STEPS[item.type]:
        output += step(state, item, call, raw)
    return output


def close(item: Item) -> list[Frame]:
    """Emit the last status of a call if it is known."""
    call = item.call
    return [] if call is None or call.outcome is None else tool_calls.emit_status(item, call, call.outcome)


def cite(state: StreamState) -> list[Frame]:
    """Add the URLs that a message cited to the only search of its response, at the end of the message, once (D19)."""
    item = state.response.only_search
    if item is None or item.open or not state.response.cited_urls:
        return []
    call = item.call
    if call is None or call.has_citations:
        return []
    call.has_citations = True
    tool_fields.add_cited(state, call, state.response.cited_urls)
    return tool_calls.emit_status(item, call, None)


def finish_output(state: StreamState, item: Item, raw: Mapping[str, object]) -> list[Frame]:
    """Emit an output item as the output of its call."""
    caller = state.calls.get(read.text_or_none(raw, "call_id") or "")
    if caller is None or caller.call is None or caller.call.tool_type != "function":
        state.count(f"{item.type} without its call")
        return []
    status = FAILED if read.text_or_none(raw, "status") in {FAILED, "incomplete"} else COMPLETED
    return answer(state, caller, caller.call, raw.get("output"), status)


def answer(state: StreamState, item: Item, call: ToolCall, output: object, status: str) -> list[Frame]:
    """Emit the output of a call that is executed elsewhere, then its final status (D17)."""
    return _emit_output(state, item, call, _clean(state, output)) + tool_calls.emit_status(item, call, status)


def _hold_outcome(_state: StreamState, _item: Item, call: ToolCall, raw: Mapping[str, object]) -> list[Frame]:
    """Decide the last status of a finished call; a hosted tool has none for failure (D16)."""
    status = read.text_or_none(raw, "status")
    has_failed = FAILED in {call.outcome, status} or bool(raw.get("error"))
    if has_failed:
        call.outcome = FAILED if call.tool_type == "mcp" else None
    elif status == "incomplete":
        call.outcome = None
    else:
        call.outcome = COMPLETED
    return []


def _finish_interpreter(state: StreamState, item: Item, call: ToolCall, raw: Mapping[str, object]) -> list[Frame]:
    """Emit logs and files of the code interpreter (D20)."""
    raw_outputs = read.mappings(raw, "outputs")
    if not raw_outputs:
        return []
    most = state.policy.limits.container_max_entries
    logs = _logs(state, raw_outputs)
    outputs = [_interpreter_output(state, *pair) for pair in zip(raw_outputs, logs, strict=True)]
    output = _emit_output(state, item, call, compose.listed(outputs, most))
    images = [_image(state, raw_output) for raw_output in raw_outputs[:most]]
    if output and any(images):
        shown = [_interpreter_output(state, *entry) for entry in zip(raw_outputs, logs, images, strict=False)]
        details = compose.record({"output": compose.listed(shown, most)})
        output.append(frames.item_details(item.place, details))
    return output


def _image(state: StreamState, output: Mapping[str, object]) -> Cleaned[CleanText] | None:
    """Return the image of an output as a data URI of a raster format; None if it has none, or a too large one."""
    url = read.text_or_none(output, "url") or ""
    found = _DATA_URI.match(url)
    if found is None or state.policy.images == "host" or len(url) > DATA_URI_MAX_CHARS:
        return None
    data = state.redactor.base64(url[found.end() :])
    return None if data is None else compose.joined(state.redactor.label(found[0]), Cleaned(data))


def _finish_mcp(state: StreamState, item: Item, call: ToolCall, raw: Mapping[str, object]) -> list[Frame]:
    """Emit the MCP server's output, or its error, after the ID of the approval request."""
    output: list[Frame] = []
    if request_id := read.text_or_none(raw, "approval_request_id"):
        details = compose.record({"approval_request_id": state.redactor.noted_identifier(request_id)})
        output.append(frames.item_details(item.place, details))
    result = raw.get("output")
    if result is None and raw.get("error"):
        result = {"error": raw["error"]}
    return output if result is None else output + _emit_output(state, item, call, _clean(state, result))


def _finish_image(state: StreamState, item: Item, call: ToolCall, raw: Mapping[str, object]) -> list[Frame]:
    """Emit the final image, unless the policy leaves images to the host."""
    data = read.text_or_none(raw, "result")
    if data is None or state.policy.images == "host":
        return []
    return _chunks(state, item, call, "image_b64", 0, data)


def _emit_output(state: StreamState, item: Item, call: ToolCall, output: Cleaned[CleanJson]) -> list[Frame]:
    """Emit the output of a call, once: a second one would follow the call's end (D15)."""
    if call.has_output:
        state.count("second output of a call")
        return []
    call.has_output = True
    return [frames.tool_output(item.place, call.call_id, call.tool_type, output)]


def _chunks(
    state: StreamState, item: Item, call: ToolCall, field: ChunkField, part_index: int, data: str
) -> list[Frame]:
    """Emit base64 data in chunks, once per target; data that is not base64 is left out with a notice."""
    if (field, part_index) in call.closed_chunks:
        state.count("chunk target is closed")
        return []
    call.closed_chunks.add((field, part_index))
    target = frames.chunk_target(call.call_id, field, part_index)
    clean = state.redactor.base64(data)
    if clean is None:
        return [frames.chunk_done(item.place, target, TRUNCATED_HERE)]
    pieces = split_base64(clean, state.policy.limits.image_chunk_max_chars)
    output = [frames.chunk_delta(item.place, target, at, piece) for at, piece in enumerate(pieces)]
    return [*output, frames.chunk_done(item.place, target)]


def _clean(state: StreamState, output: object) -> Cleaned[CleanJson]:
    return state.redactor.json(output, string_max_chars=state.policy.limits.output_string_max_chars)


def _logs(state: StreamState, outputs: Sequence[Mapping[str, object]]) -> list[Cleaned[CleanText] | None]:
    """Return the logs of each output; they are cleaned as one text, because a program may write a line in two."""
    texts = [read.text_or_none(output, "logs") for output in outputs]
    most = state.policy.limits.output_string_max_chars
    cleaned = iter(state.redactor.texts([text for text in texts if text is not None], most))
    return [None if text is None else next(cleaned) for text in texts]


def _interpreter_output(
    state: StreamState,
    output: Mapping[str, object],
    logs: Cleaned[CleanText] | None,
    image: Cleaned[CleanText] | None = None,
) -> Cleaned[CleanJson]:
    """Read logs, an image URL or files, by allow-list. `image` replaces the URL, in private frames only."""
    label = state.redactor.label
    files = [
        compose.record({name: read.cleaned(file, name, label) for name in ("file_id", "filename", "mime_type")})
        for file in read.mappings(output, "files")
    ]
    return compose.record(
        {
            "type": read.cleaned(output, "type", label),
            "logs": logs,
            "url": image or read.cleaned(output, "url", state.redactor.url),
            "files": compose.listed(files, state.policy.limits.container_max_entries) if files else None,
        }
    )


Step: TypeAlias = Callable[[StreamState, Item, ToolCall, Mapping[str, object]], list[Frame]]

STEPS: Final[Mapping[str, tuple[Step, ...]]] = {
    "web_search_call": (tool_fields.web_search, _hold_outcome),
    "file_search_call": (tool_fields.file_search, _hold_outcome),
    "code_interpreter_call": (
        tool_fields.code_interpreter,
        tool_calls.finish_code,
        _finish_interpreter,
        _hold_outcome,
    ),
    "image_generation_call": (tool_fields.image_generation, _finish_image, _hold_outcome),
    "function_call": (tool_calls.finish_arguments,),
    "custom_tool_call": (tool_calls.finish_arguments,),
    "mcp_call": (tool_calls.finish_arguments, _finish_mcp, _hold_outcome),
    "mcp_approval_request": (tool_fields.approval,),
}
"""Readers of a finished call, in the order of their output; the final status follows."""
