"""Items appear and close (seed contract, section 9.2): what each type opens with, and what its finished form adds.

An item closes once: by its own `done`, by the end of its response, or by the end of the stream (CONTRACT D7).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from projector.contracts.kinds import Kind
from projector.core import canonical as read
from projector.core import frames
from projector.core.canonical import CanonicalEvent, Frame
from projector.core.handlers import messages, outputs, reasoning, tools
from projector.core.handlers import status as status_of
from projector.core.state import StreamState
from projector.core.transcript import Item

Finisher: TypeAlias = Callable[[StreamState, Item, Mapping[str, object]], list[Frame]]

FINISHERS: Final[Mapping[str, Finisher]] = {
    "message": messages.finish,
    "reasoning": reasoning.finish,
    "web_search_call": tools.finish,
    "file_search_call": tools.finish,
    "code_interpreter_call": tools.finish,
    "image_generation_call": tools.finish,
    "function_call": tools.finish,
    "custom_tool_call": tools.finish,
    "mcp_call": tools.finish,
    "mcp_approval_request": tools.finish,
    "function_call_output": outputs.finish,
    "custom_tool_call_output": outputs.finish,
}
"""What a finished item says that its deltas did not."""

ITEMS_ONLY: Final[Mapping[str, str]] = {
    "mcp_list_tools": "the tool list of a server is configuration",
    "mcp_approval_response": "the page itself gave the answer",
    "computer_call": "no public tool type",
    "computer_call_output": "no public tool type; screenshots may show anything",
    "local_shell_call": "no public tool type",
    "local_shell_call_output": "no public tool type",
    "shell_call": "no public tool type",
    "shell_call_output": "no public tool type",
    "apply_patch_call": "no public tool type",
    "apply_patch_call_output": "no public tool type",
    "tool_search_call": "no public tool type",
    "tool_search_output": "found tools are configuration",
    "additional_tools": "tools are configuration",
    "program": "no public tool type",
    "program_output": "no public tool type",
    "compaction": "an encrypted digest of the conversation, for the provider alone",
}
"""Item types of which only `output_item.*` is said, and why (D22)."""

ITEM_TYPE_MAX_CHARS: Final = 80
"""How much of an unknown item type is kept as its name in the counts."""

STATUSES: Final = frozenset({"in_progress", "completed", "incomplete", "failed"})
"""What an item may be said to be; hosted tools report their progress in `tool.status` instead."""


class Announced(NamedTuple):
    """An item as an event names it."""

    raw: Mapping[str, object]
    type: str
    place: int | None
    provider_id: str | None


def on_added(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Open an item at its slot; a repeated announcement of an open one changes nothing."""
    named = _read(state, event)
    if named is None:
        return []
    known = state.find(named.place, named.provider_id)
    said: list[Frame] = []
    if known is not None and known.open:
        if known.type == named.type:
            return []
        said += close(state, known, {}, None)
    return said + _open(state, named)[1]


def on_done(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Say what only the finished item holds, then close it."""
    named = _read(state, event)
    if named is None:
        return []
    item = state.find(named.place, named.provider_id)
    said: list[Frame] = []
    if item is None:
        item, said = _open(state, named)
    if not item.open:
        raise read.UnreadableEvent("`response.output_item.done`: its item is closed")
    return said + finish(state, item, named.raw)


def finish(state: StreamState, item: Item, raw: Mapping[str, object]) -> list[Frame]:
    """Say what the finished item adds, and close it with its status."""
    finisher = FINISHERS.get(item.type)
    said = finisher(state, item, raw) if finisher is not None else []
    return said + close(state, item, raw, "completed")


def say_whole(state: StreamState, raw: Mapping[str, object]) -> list[Frame]:
    """Say an item of which only the end of its response tells."""
    named = Announced(raw, read.text_or_none(raw, "type") or "(no type)", None, read.text_or_none(raw, "id"))
    if not _is_known(state, named.type):
        return []
    item, said = _open(state, named)
    return said + finish(state, item, raw)


def close(state: StreamState, item: Item, raw: Mapping[str, object], default: str | None) -> list[Frame]:
    """Say what was held back and `output_item.done`.

    The status is the provider's, else `default`; without one the item was cut off: `incomplete` (D7).
    """
    said = messages.flush(item) + reasoning.flush(item) + tools.conclude(item)
    if item.cited:
        said += tools.cite(state)
    item.open = False
    status = read.text_or_none(raw, "status")
    if status not in STATUSES or status == "in_progress":
        status = default or "incomplete"
    said.append(
        frames.output_item(
            Kind.OUTPUT_ITEM_DONE, item.slot, item.item_id, item.type, item.role, state.redactor.identifier(status)
        )
    )
    return said


def _read(state: StreamState, event: CanonicalEvent) -> Announced | None:
    """Read which item an event is about; None for one of an unknown type."""
    raw = read.mapping(event, "item")
    item_type = read.text(raw, "type")
    if not _is_known(state, item_type):
        return None
    return Announced(raw, item_type, read.index_or_none(event, "output_index"), read.text_or_none(raw, "id"))


def _is_known(state: StreamState, item_type: str) -> bool:
    """Say whether an item's type is known; an unknown one is counted (D30)."""
    known = item_type in FINISHERS or item_type in ITEMS_ONLY
    if not known:
        state.count(f"item:{item_type[:ITEM_TYPE_MAX_CHARS]}")
    return known


def _open(state: StreamState, named: Announced) -> tuple[Item, list[Frame]]:
    status = read.text_or_none(named.raw, "status")
    item, said = state.announce(
        named.type,
        index=named.place,
        provider_id=named.provider_id,
        role=read.text_or_none(named.raw, "role"),
        status=status if status in STATUSES else None,
    )
    return item, said + status_of.begin(state, item, named.raw)
