"""What the Responses API defines, as the models of OpenAI's SDKs have it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from projector.dialects.response_writer.output_items import PartKind
from projector.dialects.response_writer.protocol import WireProtocol
from projector.dialects.responses.item_shapes import CITATIONS, DROPPED_ITEMS, ITEMS
from projector.dialects.responses.response_errors import error_members, incomplete_details, response_error

REQUEST_MEMBERS: Final[Mapping[str, object]] = {
    "background": False,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": None,
    "safety_identifier": None,
    "service_tier": "default",
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": (),
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
"""Members that repeat the request: some SDKs require them."""

ENDS: Final[Mapping[str, tuple[str, str]]] = {
    "completed": ("response.completed", "completed"),
    "refused": ("response.completed", "completed"),
    "incomplete": ("response.incomplete", "incomplete"),
    "cancelled": ("response.incomplete", "cancelled"),  # the API has the status, but no event of that name
    "failed": ("response.failed", "failed"),
}
"""Status of `final` -> the last event and the status of its response."""


def text_members(text_format: Mapping[str, str]) -> dict[str, object]:
    """Return `text` for a structured format: clients parse the text only if it is there. Its schema is their own."""
    if text_format["type"] != "json_schema":
        return {"text": {"format": {"type": text_format["type"]}}}
    return {"text": {"format": {"type": "json_schema", "name": "response", "schema": {}}}}


PROTOCOL: Final = WireProtocol(
    items=ITEMS,
    dropped_items=DROPPED_ITEMS,
    has_own_items=False,
    roles=frozenset({"assistant"}),
    citations=CITATIONS,
    reasoning=PartKind("reasoning_text", "response.reasoning_text"),
    request_members=REQUEST_MEMBERS,
    text_members=text_members,
    usage_members={"input_tokens_details": {"cache_write_tokens": 0}},
    ends=ENDS,
    incomplete_details=incomplete_details,
    error_members=error_members,
    response_error=response_error,
    announces_failure=True,
    whole_members=frozenset({"result", "encrypted_content", "partial_image_b64", "url"}),
    has_extensions=False,
)
