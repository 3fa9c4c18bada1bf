"""Host events: outputs of tools, attachments, changes of context (CONTRACT D9, D17, D35).

They are never accepted from provider bytes: an upstream cannot forge them.
"""

from __future__ import annotations

from projector.core import canonical as read
from projector.core.canonical import CanonicalEvent, Frame
from projector.core.context import CONTEXT_MEMBERS, unread_members
from projector.core.handlers import tool_outputs
from projector.core.state import StreamState
from projector.redaction import compose


def on_tool_output(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Emit the output of a call, named by `call_id` or `item_id`; `status` is `completed` or `failed`."""
    name = read.text_or_none(event, "call_id") or read.text(event, "item_id")
    item = state.calls.get(name)
    if item is None or item.call is None:
        raise read.UnreadableEvent("`projector.tool_output`: no call of this stream has that id")
    if not item.open and item.call.tool_type != "function":
        raise read.UnreadableEvent("`projector.tool_output`: the call is closed; only functions accept it later (D15)")
    status = tool_outputs.FAILED if event.get("status") == tool_outputs.FAILED else tool_outputs.COMPLETED
    return tool_outputs.answer(state, item, item.call, event.get("output"), status)


def on_attachment(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Store an attachment for `final`."""
    attachment = read.mapping(event, "attachment")
    object_id = state.redactor.noted_identifier(read.text(attachment, "object_id"))
    names = {name: read.cleaned(attachment, name, state.redactor.label) for name in ("filename", "mime_type")}
    url = read.cleaned(attachment, "url", state.redactor.url)
    state.run.attachments.append(compose.record({"object_id": object_id, **names, "url": url}))
    return []


def on_context(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Change conversation, agent or workflow of the following events; null removes one."""
    if unread := unread_members(event):
        state.count("projector.context", unread)
    state.set_context({name: event[name] for name in CONTEXT_MEMBERS if name in event})
    return []
