"""The OpenAI Responses API. Its stream events are the canonical vocabulary.

`stage` reads them, with `tagged_texts` for reasoning between tags; `request` writes requests and reads those of
callers; `recording` says which strings of a stream are one text.
"""

from __future__ import annotations

from typing import Final

from projector._registry import lazy
from projector.providers.descriptor import ModelLists, PassthroughRoute, Provider

PROVIDER: Final = Provider(
    title="OpenAI Responses",
    profile="projector.providers.openai_responses.stage:ResponsesProfile",
    stage=lazy("projector.providers.openai_responses.stage:OpenAIResponsesStage"),
    request_writer=lazy("projector.providers.openai_responses.request:write_request"),
    recording=lazy("projector.providers.openai_responses.recording:recording_shape"),
    telemetry_name="openai",
    base_url="https://api.openai.com/v1",
    request_path="/responses",
    content=("input",),
    models=ModelLists("/models"),
    compact_path="/responses/compact",
    passthrough=PassthroughRoute(
        "responses",
        "/v1/responses",
        "input",
        "Create a response (Responses API).",
        "responses",
        body_writer=lazy("projector.providers.openai_responses.request:forwarded_body"),
        request_reader=lazy("projector.providers.openai_responses.request:read_request"),
        carried=lazy("projector.providers.openai_responses.request:carried_state"),
        call_restorer=lazy("projector.providers.openai_responses.client_tools:restored_calls"),
    ),
    demo={
        "search": "chat-web-search",
        "file": "chat-file-search",
        "code": "chat-code-interpreter",
        "image": "chat-image-generation-partials",
        "approval": "chat-mcp-approval",
        "mcp": "chat-mcp-tool",
        "secret": "chat-split-secrets",
        "tool": "chat-function-tool",
        "refusal": "chat-refusal",
        "reasoning": "chat-reasoning-summary",
        "failure": "chat-provider-error",
        "length": "chat-incomplete",
        "truncated": "chat-truncated",
        "oversized": "chat-oversized-fields",
        "text": "chat-text-citations",
    },
)
