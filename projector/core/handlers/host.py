"""What the host says through its own door: outputs, attachments, context (CONTRACT D9, D17, D35).

None of these types is taken from provider bytes: an upstream cannot forge them.
"""

from __future__ import annotations

from projector.core import canonical as read
from projector.core.canonical import CanonicalEvent, Frame
from projector.core.handlers import outputs
from projector.core.state import StreamState
from projector.redaction import compose
from projector.redaction.clean import Cleaned, CleanText

CONTEXT_MEMBERS = ("conversation_id", "agent", "workflow")


def on_tool_output(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Say the output of a call, named by `call_id` or `item_id`; `status` is `completed` or `failed`."""
    name = read.text_or_none(event, "call_id") or read.text(event, "item_id")
    item = state.calls.get(name)
    if item is None or item.call is None:
        raise read.UnreadableEvent("`projector.tool_output`: no call of this stream has that id")
    if not item.open and item.call.tool_type != "function":
        raise read.UnreadableEvent(
            "`projector.tool_output`: the call is closed; only functions are answered later (D15)"
        )
    ended = outputs.FAILED if event.get("status") == outputs.FAILED else outputs.COMPLETED
    return outputs.answer(state, item, item.call, event.get("output"), ended)


def on_attachment(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Keep an attachment for `final`."""
    attachment = read.mapping(event, "attachment")
    redactor = state.redactor
    shown: dict[str, Cleaned[CleanText] | None] = {
        "object_id": Cleaned(redactor.identifier(read.text(attachment, "object_id")))
    }
    for name in ("filename", "mime_type"):
        text = read.text_or_none(attachment, name)
        shown[name] = redactor.label(text) if text else None
    url = read.text_or_none(attachment, "url")
    shown["url"] = redactor.url(url) if url else None
    state.run.attachments.append(compose.record(shown))
    return []


def on_context(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Change conversation, agent or workflow for what is said from now on; null removes one."""
    state.set_context({name: event[name] for name in CONTEXT_MEMBERS if name in event})
    return []
