"""What a finished tool call adds, and how a call closes (CONTRACT D15 to D22, D30)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from projector.core import canonical as read
from projector.core.calls import NAME_FIELDS, ToolCall
from projector.core.canonical import Frame
from projector.core.handlers import arguments, code, fields, images, outputs, status
from projector.core.state import StreamState
from projector.core.transcript import Item

Step: TypeAlias = Callable[[StreamState, Item, ToolCall, Mapping[str, object]], list[Frame]]

STEPS: Final[Mapping[str, tuple[Step, ...]]] = {
    "web_search_call": (fields.web_search, outputs.settle),
    "file_search_call": (fields.file_search, outputs.settle),
    "code_interpreter_call": (fields.code_interpreter, code.finish, outputs.code_interpreter, outputs.settle),
    "image_generation_call": (fields.image_generation, images.finish, outputs.settle),
    "function_call": (arguments.finish,),
    "custom_tool_call": (arguments.finish,),
    "mcp_call": (arguments.finish, outputs.mcp, outputs.settle),
    "mcp_approval_request": (fields.approval,),
}
"""What is said of a finished call, in order, before its last status."""


def finish(state: StreamState, item: Item, raw: Mapping[str, object]) -> list[Frame]:
    """Say what the finished call adds, except its last status."""
    said = status.begin(state, item, raw)
    call = item.call
    if call is None:
        return said
    status.register(state, item, call, raw)
    name = read.text_or_none(raw, "name")
    if name is not None and call.tool_type in NAME_FIELDS:
        call.name = state.redactor.label(name).value
    for step in STEPS[item.type]:
        said += step(state, item, call, raw)
    return said


def conclude(item: Item) -> list[Frame]:
    """Say what was held back, and the last status of a call whose end is known."""
    call = item.call
    if call is None:
        return []
    return code.flush(item, call) + (status.say_status(item, call, call.outcome) if call.outcome is not None else [])


def cite(state: StreamState) -> list[Frame]:
    """Add what a message cited to the only search of its response, at the end of the message, at most once (D19)."""
    searches = [item for item in state.response.items if item.type == "web_search_call"]
    if len(searches) != 1 or searches[0].open or not state.response.cited_urls:
        return []
    item, call = searches[0], searches[0].call
    if call is None or call.cites_said:
        return []
    call.cites_said = True
    fields.add_cited(state, call, state.response.cited_urls)
    return status.say_status(item, call, None)
