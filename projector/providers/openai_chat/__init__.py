"""Chat Completions streams, of OpenAI and of the many servers that speak alike, as canonical events.

`stage` reads chunks, `fields` names what they may hold, `answer` decides which item speaks, `items` writes the events;
`calls`, `citations` and `usage` know one matter each, `profile` what differs from server to server.
"""

from __future__ import annotations

from projector.providers.openai_chat.profile import ChatProfile
from projector.providers.openai_chat.stage import OpenAIChatStage

__all__ = ["ChatProfile", "OpenAIChatStage"]
