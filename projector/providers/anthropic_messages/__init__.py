"""Anthropic Messages: the provider's own API, Vertex, Bedrock, and compatible servers.

`messages_stage` reads events, `output_blocks` turns blocks into items, `block_fields` lists their members.
`messages_request` writes requests, `messages_api` sends them, `messages_body` reads those of callers; `aws_frames`
reads the binary frames of Bedrock.
"""

from __future__ import annotations

from typing import Final

from projector._registry import lazy
from projector.providers.descriptor import ModelLists, PassthroughRoute, Provider, TokenCounting

PROVIDER: Final = Provider(
    title="Anthropic Messages",
    stage=lazy("projector.providers.anthropic_messages.messages_stage:AnthropicMessagesStage"),
    profile="projector.providers.anthropic_messages.messages_api:MessagesProfile",
    request_writer=lazy("projector.providers.anthropic_messages.messages_request:write_request"),
    tables=lazy("projector.providers.anthropic_messages.block_fields:input_tables"),
    telemetry_name="anthropic",
    base_url="https://api.anthropic.com/v1",
    headers=lazy("projector.providers.anthropic_messages.messages_api:headers"),
    request_path="/messages",
    outgoing=lazy("projector.providers.anthropic_messages.messages_api:outgoing"),
    header_members=lazy("projector.providers.anthropic_messages.messages_api:header_members"),
    body_readers={
        "application/vnd.amazon.eventstream": lazy("projector.providers.anthropic_messages.aws_frames:AwsFrames")
    },
    models=ModelLists(
        "/models", {"limit": "1000"}, lazy("projector.providers.anthropic_messages.messages_api:listed_models")
    ),
    counting=TokenCounting(
        "/v1/messages/count_tokens",
        "Count the tokens of a message's request (Messages API of Anthropic).",
        lazy("projector.providers.anthropic_messages.messages_api:counting"),
    ),
    passthrough=PassthroughRoute(
        "messages",
        "/v1/messages",
        "messages",
        "Create a message (Messages API of Anthropic).",
        "anthropic_messages",
        lazy("projector.providers.anthropic_messages.messages_body:forwarded_body"),
        lazy("projector.providers.anthropic_messages.messages_body:read_request"),
        lazy("projector.providers.anthropic_messages.messages_body:with_state"),
        lazy("projector.providers.anthropic_messages.messages_body:carried_state"),
        headers=("anthropic-beta", "anthropic-version"),
    ),
)
