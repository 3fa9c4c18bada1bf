"""Members of items that a client needs to run a call, or to send an item back, and no public frame has (D49).

They travel in the private `item.members`, for the dialects whose API has such items. Each is cleaned as a tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from projector.core import frames
from projector.core.canonical import Frame
from projector.core.state import StreamState
from projector.core.transcript import Item
from projector.redaction import compose
from projector.redaction.clean import Cleaned, CleanJson, CleanText

_CALL: Final = ("caller", "created_by")
_FUNCTION: Final = ("namespace", "caller", "async", "toolset_name")

MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "function_call": _FUNCTION,
    "custom_tool_call": _FUNCTION,
    "shell_call": ("call_id", "action", "environment", *_CALL),
    "shell_call_output": ("call_id", "output", "max_output_length", *_CALL),
    "local_shell_call": ("call_id", "action"),
    "apply_patch_call": ("call_id", "operation", *_CALL),
    "computer_call": ("call_id", "action", "actions", "pending_safety_checks"),
    "tool_search_call": ("call_id", "arguments", "execution", "created_by"),
    "tool_search_output": ("call_id", "tools", "execution", "created_by"),
    "program": ("call_id", "code", "fingerprint"),
    "program_output": ("call_id", "result"),
    "compaction": ("encrypted_content", "created_by"),
}
"""Item type -> its members."""

_KINDS: Final[Mapping[type, tuple[str, ...]]] = {
    str: ("call_id", "code", "created_by", "encrypted_content", "execution", "fingerprint", "namespace", "result"),
    dict: ("action", "caller", "environment", "operation"),
    list: ("actions", "output", "pending_safety_checks", "tools"),
}
TYPES: Final = {name: kind for kind, names in _KINDS.items() for name in names}
"""Member -> its type; one of another type is left out, like any field that is none (`core.canonical`)."""

OPAQUE: Final = frozenset({"encrypted_content", "fingerprint"})
"""Members that only the provider reads. They are searched for registered values only, and never cut."""


def emit(state: StreamState, item: Item, raw: Mapping[str, object]) -> list[Frame]:
    """Emit the members that an item has."""
    members = {name: raw.get(name) for name in MEMBERS.get(item.type, ())}
    found = {
        name: value
        for name, value in members.items()
        if value is not None and isinstance(value, TYPES.get(name, object))
    }
    if not found:
        return []
    clean = compose.record({name: _clean(state, item, name, value) for name, value in found.items()})
    return [frames.item_members(item.place, clean)]


def _clean(state: StreamState, item: Item, name: str, value: object) -> Cleaned[CleanJson] | Cleaned[CleanText]:
    if name in OPAQUE and isinstance(value, str):
        stream = state.redactor.value_stream()
        return compose.joined(stream.feed(value), stream.close())
    limit = state.policy.limits.arguments_text_max_chars
    return state.redactor.json(value, string_max_chars=limit, tool=item.type)
