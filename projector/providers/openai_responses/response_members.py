"""Members of a request of the Responses API, in both directions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from projector.conversation.given_members import NOT_SUPPORTED, Given
from projector.conversation.request_members import Member, Members

LOGPROBS: Final = "message.output_text.logprobs"

ENCRYPTED_REASONING: Final = "reasoning.encrypted_content"

FORMATS: Final = frozenset({"text", "json_object", "json_schema"})


def _logprobs(body: Given, name: str) -> object:
    """Return whether `include` asks for probabilities. The rest of what it can ask for is of this API only.

    Encrypted reasoning is how a client offers to carry what the provider wants back. Other providers have that kept or
    sealed without being asked, so nothing is missing in their answers.
    """
    for at, one in enumerate(body.values(name)):
        if one not in (LOGPROBS, ENCRYPTED_REASONING):
            body.refuse(f"{name}[{at}]", f"has a value that {NOT_SUPPORTED}")
    return True if LOGPROBS in body.values(name) else None


def _format(text: Given, name: str) -> object:
    given = text.child(name)
    if given.text("type") not in FORMATS:
        given.unsupported("type")
    return given.only("type", "name", "description", "schema", "strict")


MEMBERS: Final[Members] = {
    "temperature": Member("temperature"),
    "top_p": Member("top_p"),
    "max_output_tokens": Member("max_output_tokens"),
    "reasoning_effort": Member("reasoning.effort"),
    "reasoning_summary": Member("reasoning.summary"),
    "verbosity": Member("text.verbosity"),
    "format": Member("text.format", read=_format),
    "tool_choice": Member("tool_choice"),
    "parallel_tool_calls": Member("parallel_tool_calls"),
    "max_tool_calls": Member("max_tool_calls"),
    "metadata": Member("metadata"),
    "store": Member("store"),
    "truncation": Member("truncation"),
    "service_tier": Member("service_tier"),
    "user": Member("user"),
    "safety_identifier": Member("safety_identifier"),
    "prompt_cache_key": Member("prompt_cache_key"),
    "prompt_cache_retention": Member("prompt_cache_retention"),
    "logprobs": Member("include", read=_logprobs, write=lambda _: [LOGPROBS]),
    "top_logprobs": Member("top_logprobs"),
}

DEFAULTS: Final[Mapping[str, object]] = {
    "background": False,
    "tool_choice": "auto",
    "top_logprobs": 0,
    "truncation": "disabled",
    "store": False,
    "text.format": {"type": "text"},
}
"""Path of a member -> value that changes nothing."""

READ_ELSEWHERE: Final = frozenset({"client_metadata", "input", "instructions", "tools"})
"""Members that are no parameters. `client_metadata` is for the logs of the provider, and changes no answer."""
