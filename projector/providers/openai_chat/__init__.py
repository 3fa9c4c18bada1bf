"""Chat Completions of OpenAI and of the many servers with the same API.

`stage` reads chunks and their deltas, `chunk_fields` lists their members and how servers differ, `output` decides which
output item they belong to. `request` writes requests and reads those of callers, with `messages`; `recording` says
which strings of a stream are one text.
"""

from __future__ import annotations

from typing import Final

from projector._registry import lazy
from projector.providers.descriptor import ModelLists, PassthroughRoute, Provider

PROVIDER: Final = Provider(
    title="Chat Completions",
    stage=lazy("projector.providers.openai_chat.stage:OpenAIChatStage"),
    profile="projector.providers.openai_chat.chunk_fields:ChatProfile",
    request_writer=lazy("projector.providers.openai_chat.request:write_request"),
    recording=lazy("projector.providers.openai_chat.recording:recording_shape"),
    tables=lazy("projector.providers.openai_chat.chunk_fields:input_tables"),
    message_fields=("error",),
    telemetry_name="openai",
    base_url="https://api.openai.com/v1",
    request_path="/chat/completions",
    content=("messages",),
    models=ModelLists("/models"),
    wants_state="always",
    passthrough=PassthroughRoute(
        "chat_completions",
        "/v1/chat/completions",
        "messages",
        "Create a chat completion (Chat Completions API).",
        "chat_completions",
        lazy("projector.providers.openai_chat.request:forwarded_body"),
        lazy("projector.providers.openai_chat.request:read_request"),
        carried=lazy("projector.providers.openai_chat.messages:carried_state"),
    ),
    demo={
        "search": "chat-completions-annotations",
        "secret": "chat-completions-secret-arguments",
        "tool": "chat-completions-weather-run",
        "refusal": "chat-completions-refusal",
        "reasoning": "chat-completions-reasoning-content",
        "failure": "chat-completions-error-chunk",
        "length": "chat-completions-length",
        "truncated": "chat-completions-truncated",
        "text": "chat-completions-text",
    },
)
