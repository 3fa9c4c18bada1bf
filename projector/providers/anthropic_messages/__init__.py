"""Anthropic Messages: the provider's own API, Vertex, Bedrock, and compatible servers.

`stage` reads events, `output_blocks` turns blocks into items, `block_fields` lists their members. `request` writes
requests and reads those of callers; `api` sends them, and reads the binary frames of Bedrock.
"""

from __future__ import annotations

from typing import Final

from projector._registry import lazy
from projector.providers.descriptor import ClientApi, ModelLists, PassthroughRoute, Provider, TokenCounting

PROVIDER: Final = Provider(
    title="Anthropic Messages",
    stage=lazy("projector.providers.anthropic_messages.stage:AnthropicMessagesStage"),
    profile="projector.providers.anthropic_messages.api:MessagesProfile",
    request_writer=lazy("projector.providers.anthropic_messages.request:write_request"),
    tables=lazy("projector.providers.anthropic_messages.block_fields:input_tables"),
    telemetry_name="anthropic",
    base_url="https://api.anthropic.com/v1",
    headers=lazy("projector.providers.anthropic_messages.api:headers"),
    request_path="/messages",
    content=("messages",),
    outgoing=lazy("projector.providers.anthropic_messages.api:outgoing"),
    caller_profile=lazy("projector.providers.anthropic_messages.api:caller_profile"),
    body_readers={"application/vnd.amazon.eventstream": lazy("projector.providers.anthropic_messages.api:AwsFrames")},
    models=ModelLists("/models", {"limit": "1000"}, lazy("projector.providers.anthropic_messages.api:listed_models")),
    counting=TokenCounting(
        "/v1/messages/count_tokens",
        "Count the tokens of a message's request (Messages API of Anthropic).",
        lazy("projector.providers.anthropic_messages.api:counting"),
    ),
    passthrough=PassthroughRoute(
        "messages",
        "/v1/messages",
        "messages",
        "Create a message (Messages API of Anthropic).",
        "anthropic_messages",
        lazy("projector.providers.anthropic_messages.request:forwarded_body"),
        lazy("projector.providers.anthropic_messages.request:read_request"),
        lazy("projector.providers.anthropic_messages.request:carried_state"),
        headers=("anthropic-beta", "anthropic-version"),
        client=ClientApi(
            "anthropic-version",
            "x-api-key",
            lazy("projector.providers.anthropic_messages.api:model_entry"),
            lazy("projector.providers.anthropic_messages.api:model_page"),
        ),
    ),
    demo={
        "search": "messages-web-search",
        "code": "messages-code-execution",
        "mcp": "messages-mcp",
        "secret": "messages-split-secret",
        "tool": "messages-parallel-tools",
        "refusal": "messages-refusal",
        "reasoning": "messages-thinking",
        "failure": "messages-error",
        "truncated": "messages-truncated",
        "text": "messages-citations",
    },
)
