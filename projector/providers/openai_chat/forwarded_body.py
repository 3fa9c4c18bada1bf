"""The body of a caller's own Chat Completions request, as it is forwarded to an upstream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from projector.conversation.model_request import Body, UnsupportedRequestError
from projector.providers.openai_chat.chat_profile import ChatProfile
from projector.providers.openai_chat.returned_state import without_shown_reasoning


def forwarded_body(body: Mapping[str, Any], profile: ChatProfile) -> Body:
    """Return the caller's body; it requests usage, which logs and metrics need, unless the upstream rejects that.

    Reasoning goes back only where the upstream wants it: many refuse a message that contains any.

    Raises:
        UnsupportedRequestError: it requests several choices, of which only one would be shown (CONTRACT D49).
    """
    count = body.get("n")
    if isinstance(count, int | float) and count > 1:
        raise UnsupportedRequestError("`n` must be 1: a response has one choice.", "n")
    sent = dict(body)
    if isinstance(body.get("messages"), list):
        sent["messages"] = without_shown_reasoning(body["messages"], profile)
    if not profile.takes_stream_options:
        return sent
    return {**sent, "stream_options": {**(body.get("stream_options") or {}), "include_usage": True}}
