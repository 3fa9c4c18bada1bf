"""Output items: announcement and end, and what the finished item of each type adds (seed contract, section 9.2).

The members that a client needs to run a call, or to send an item back, and that no public frame has, travel in the
private `item.members`, for the dialects whose API has such items (D49). Each is cleaned as a tree.

An item closes once: by its own `done`, by the end of its response, or by the end of the stream (CONTRACT D7).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, get_args

from projector.contracts.kinds import CLIENT_CALLS, TOOL_TYPES, ItemStatus
from projector.core import canonical as read
from projector.core import frames
from projector.core.canonical import NO_TYPE, CanonicalEvent, Frame
from projector.core.handlers import messages, tool_calls, tool_outputs
from projector.core.handlers.text_channels import TextChannel
from projector.core.state import StreamState, family_of
from projector.core.transcript import PHASES, Item
from projector.redaction import compose
from projector.redaction.clean import Cleaned, CleanJson, CleanText

Finisher: TypeAlias = Callable[[StreamState, Item, Mapping[str, object]], list[Frame]]

FINISHERS: Final[Mapping[str, Finisher]] = {
    "message": messages.finish,
    "reasoning": messages.finish_reasoning,
    **dict.fromkeys(TOOL_TYPES, tool_outputs.finish),
    "function_call_output": tool_outputs.finish_output,
    "custom_tool_call_output": tool_outputs.finish_output,
}
"""Emits the content of a finished item that its deltas did not contain."""

ITEMS_ONLY: Final[Mapping[str, str]] = {
    "mcp_list_tools": "the tool list of a server is configuration",
    "mcp_approval_response": "the client itself sent the answer",
    "computer_call": "no public tool type",
    "computer_call_output": "no public tool type; screenshots may show anything",
    "local_shell_call": "no public tool type",
    "local_shell_call_output": "no public tool type",
    "shell_call": "no public tool type",
    "shell_call_output": "no public tool type",
    "apply_patch_call": "no public tool type",
    "apply_patch_call_output": "no public tool type",
    "tool_search_call": "no public tool type",
    "tool_search_output": "tools that a search found are configuration",
    "additional_tools": "tools are configuration",
    "program": "no public tool type",
    "program_output": "no public tool type",
    "compaction": "an encrypted summary of the conversation, readable by the provider only",
    "agent_message": "a message between agents of the provider, of its beta API",
    "multi_agent_call": "no public tool type; of the beta API of the provider",
    "multi_agent_call_output": "no public tool type; of the beta API of the provider",
    **dict.fromkeys(
        ("advisor_call", "container_upload", "fallback", "mcp_tool_listing", "server_tool_call"),
        "no public tool type; of the Messages API of Anthropic",
    ),
}
"""Item types of which only `output_item.*` is emitted, and why (D22); see `MEMBERS`."""

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
"""Item type -> its members that clients of APIs get."""

_KINDS: Final[Mapping[type, tuple[str, ...]]] = {
    str: ("call_id", "code", "created_by", "encrypted_content", "execution", "fingerprint", "namespace", "result"),
    dict: ("action", "caller", "environment", "operation"),
    list: ("actions", "output", "pending_safety_checks", "tools"),
}
MEMBER_TYPES: Final = {name: kind for kind, names in _KINDS.items() for name in names}
"""Member -> its type; one of another type is left out, like any field that is none (`core.canonical`)."""

OPAQUE_MEMBERS: Final = frozenset({"encrypted_content", "fingerprint"})
"""Members that only the provider reads. They are searched for registered values only, and never cut."""

CHANNELS: Final[Mapping[str, tuple[TextChannel, ...]]] = {
    "message": (messages.TEXT, messages.REFUSAL),
    "reasoning": (messages.SUMMARY, messages.REASONING),
    "code_interpreter_call": (tool_calls.CODE,),
}
"""The growing texts of an item type."""

ENCRYPTED_MEMBERS: Final = ("type", "id", "summary", "encrypted_content")
"""Members with which encrypted reasoning goes back."""

STATUSES: Final[frozenset[str]] = frozenset(get_args(ItemStatus))
"""Statuses of items; hosted tools report their progress in `tool.status` instead."""


def on_added(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Announce an item; repeating an open item or an ended call changes nothing.

    Another item at the index of an open one gets a slot of its own (CONTRACT D6). The open one ends then, unless both
    have ids by which their further events are told apart.
    """
    raw, index = read.mapping(event, "item"), read.index_or_none(event, "output_index")
    if not _is_known(state, read.text(raw, "type")):
        return []
    known = state.find(index, read.text_or_none(raw, "id"))
    output: list[Frame] = []
    if known is not None and known.open:
        if known.type == raw["type"] and not _is_another_call(state, known, raw):
            return []
        if not state.share(index, known, read.text_or_none(raw, "id")):
            output += close(state, known, {}, None)
    elif known is not None and _is_repeated_call(state, known, raw):
        raise read.UnreadableEvent("`response.output_item.added`: its item is closed")
    return output + _open(state, raw, index)[1]


def _is_another_call(state: StreamState, known: Item, raw: Mapping[str, object]) -> bool:
    """Return whether a call at the place of an open one has ids of its own; ids of items alone may rotate."""
    call_id, provider_id = read.text_or_none(raw, "call_id"), read.text_or_none(raw, "id")
    if call_id is None or provider_id is None or known.call is None or known.call.call_id == known.item_id:
        return False
    return state.calls.get(call_id) is not known and state.response.by_id.get(provider_id) is not known


def _is_repeated_call(state: StreamState, known: Item, raw: Mapping[str, object]) -> bool:
    """Return whether a call at the place of another one has its IDs: a client would execute it twice."""
    call_id, provider_id = read.text_or_none(raw, "call_id"), read.text_or_none(raw, "id")
    if not call_id or not provider_id or known.type != raw["type"]:
        return False
    return state.response.by_id.get(provider_id) is known and (known.call is None or state.calls.get(call_id) is known)


def on_done(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Emit content that only the finished item contains, then close the item."""
    raw, index = read.mapping(event, "item"), read.index_or_none(event, "output_index")
    if not _is_known(state, read.text(raw, "type")):
        return []
    item = state.find(index, read.text_or_none(raw, "id"))
    output: list[Frame] = []
    if item is not None and family_of(item.type) != family_of(read.text(raw, "type")):
        item, index = None, None  # of another item, which has the index, too
    if item is None:
        item, output = _open(state, raw, index)
    if not item.open:
        raise read.UnreadableEvent("`response.output_item.done`: its item is closed")
    return output + finish(state, item, raw)


def _answered_id(item: Item, raw: Mapping[str, object]) -> str | None:
    """Return the ID of a call that the client executes; a search for tools is one that is no public call."""
    if item.type == "tool_search_call" and raw.get("execution") == "client":
        return read.text_or_none(raw, "call_id")
    return item.call.call_id if item.call is not None and item.type in CLIENT_CALLS else None


def _call_sealed(item: Item, sealed: str | None) -> list[Frame]:
    """Emit what a client carries for a call. One that is no public call has no member for it."""
    if sealed is None or item.call is None:
        return []
    return [frames.call_sealed(item.place, compose.own_words(sealed))]


def finish(state: StreamState, item: Item, raw: Mapping[str, object]) -> list[Frame]:
    """Emit content that only the finished item contains, and close it with its status."""
    finisher = FINISHERS.get(item.type)
    call_id, sealed = _answered_id(item, raw), None
    if state.run.keep_opaque is not None:
        sealed = state.run.keep_opaque(item.type, call_id, _opaque(item.type, raw), is_done=True)
    output = _members(state, item, raw)
    if sealed is not None and call_id is not None:
        output += _call_sealed(item, sealed)
        sealed = None
    if item.phase is None and (phase := phase_of(raw)) is not None:
        output += _emit_phase(item, phase)
    if finisher is not None:
        output += finisher(state, item, raw)
    if sealed is not None:
        output.append(frames.reasoning_encrypted(item.place, compose.own_words(sealed)))
    elif item.type == "reasoning":
        output += messages.encrypted_reasoning(state, item, raw)
    return output + close(state, item, raw, "completed")


def _opaque(item_type: str, raw: Mapping[str, object]) -> object:
    """Return what the provider wants back with an item: its `opaque`, or reasoning that it has encrypted."""
    is_encrypted = item_type == "reasoning" and isinstance(raw.get("encrypted_content"), str)
    own = {name: raw[name] for name in ENCRYPTED_MEMBERS if name in raw} if is_encrypted else None
    return raw.get("opaque", own)


def emit_whole(state: StreamState, raw: Mapping[str, object]) -> list[Frame]:
    """Announce, finish and close an item that comes only with the end of its response."""
    if not _is_known(state, read.text_or_none(raw, "type") or NO_TYPE):
        return []
    item, output = _open(state, raw, None)
    return output + finish(state, item, raw)


def close(state: StreamState, item: Item, raw: Mapping[str, object], default: str | None) -> list[Frame]:
    """Emit the held text and `output_item.done`.

    The status is the provider's, else `default`, else `incomplete`: the item was cut off (D7).
    """
    output = [frame for channel in CHANNELS.get(item.type, ()) for frame in channel.flush(item)]
    output += tool_calls.flush_arguments(item)
    output += tool_outputs.close(item)
    if item.cited:
        output += tool_outputs.cite(state)
    item.open = False
    status = read.text_or_none(raw, "status")
    if status is None or status not in STATUSES or status == "in_progress":
        status = default or "incomplete"
    clean_status = compose.own_words(status)
    output.append(frames.output_item("done", item.place, item.type, item.role, clean_status))
    return output


def _is_known(state: StreamState, item_type: str) -> bool:
    """Check that an item type is known; an unknown one is counted, and marked at the end (D30, D49)."""
    known = item_type in FINISHERS or item_type in ITEMS_ONLY
    if not known:
        state.count(f"item:{read.type_name(item_type)}")
        state.run.has_unknown_items = True
    return known


def phase_of(raw: Mapping[str, object]) -> CleanText | None:
    """Return the phase of a message if it is known (D43)."""
    phase = read.text_or_none(raw, "phase")
    return compose.own_words(phase) if phase in PHASES else None


def _open(state: StreamState, raw: Mapping[str, object], index: int | None) -> tuple[Item, list[Frame]]:
    status = read.text_or_none(raw, "status")
    item, output = state.announce(
        read.text(raw, "type"),
        index=index,
        provider_id=read.text_or_none(raw, "id"),
        role=read.text_or_none(raw, "role"),
        status=status if status is not None and status in STATUSES else "in_progress",
    )
    if (phase := phase_of(raw)) is not None:
        output = _emit_phase(item, phase) + output  # the announcement of some dialects contains it
    output = _members(state, item, raw) + output
    begun = tool_calls.begin(state, item, raw)
    call_id = _answered_id(item, raw)
    if state.run.keep_opaque is not None and "opaque" in raw and call_id is not None:
        sealed = state.run.keep_opaque(item.type, call_id, raw["opaque"] or None, is_done=False)
        output += _call_sealed(item, sealed)
    return item, output + begun


def _emit_phase(item: Item, phase: CleanText) -> list[Frame]:
    """Set the phase of a message, and emit it for the dialects that have a member for it."""
    item.phase = phase
    return [frames.item_details(item.place, compose.record({"phase": Cleaned(phase)}))]


def _members(state: StreamState, item: Item, raw: Mapping[str, object]) -> list[Frame]:
    """Emit the members that an item has."""
    found = {
        name: value
        for name in MEMBERS.get(item.type, ())
        if (value := raw.get(name)) is not None and isinstance(value, MEMBER_TYPES.get(name, object))
    }
    if not found:
        return []
    clean = compose.record({name: _clean_member(state, item, name, value) for name, value in found.items()})
    return [frames.item_members(item.place, clean)]


def _clean_member(state: StreamState, item: Item, name: str, value: object) -> Cleaned[CleanJson] | Cleaned[CleanText]:
    if name in OPAQUE_MEMBERS and isinstance(value, str):
        stream = state.redactor.value_stream()
        return compose.joined(stream.feed(value), stream.close())
    limit = state.policy.limits.arguments_text_max_chars
    return state.redactor.json(value, string_max_chars=limit, tool=item.type)
