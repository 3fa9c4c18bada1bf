"""The `response` object of Open Responses, rebuilt from what was said, and how errors are told in it.

One stream is one response object, runs of several responses included: its id, once said, stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from projector.core.canonical import Frame
from projector.core.context import parse_time
from projector.core.faults import FAULTS

UNKNOWN: Final = "unknown"
"""What stands where the schema requires a word that nobody said."""

REQUEST_MEMBERS: Final[Mapping[str, object]] = {
    "previous_response_id": None,
    "instructions": None,
    "tools": (),
    "tool_choice": "auto",
    "truncation": "disabled",
    "parallel_tool_calls": True,
    "text": {"format": {"type": "text"}},
    "top_p": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "top_logprobs": 0,
    "temperature": 1.0,
    "reasoning": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "store": False,
    "background": False,
    "service_tier": "default",
    "metadata": {},
    "safety_identifier": None,
    "prompt_cache_key": None,
}
"""Members that the schema requires and that repeat the request: always these values, because a request reaches no
dialect (seed contract, section 7.2)."""

INCOMPLETE_REASONS: Final[Mapping[str, str]] = {"length": "max_output_tokens"}
"""Reasons of Chat Completions -> the word of Open Responses; every other reason stays."""

ERROR_TYPES: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            *("rate_limit_exceeded", "rate_limit_error", "rate_limited", "too_many_requests", "slow_down"),
            *("429", "upstream_http_429", "insufficient_quota"),
        ),
        "too_many_requests",
    ),
    **dict.fromkeys(
        (
            *("invalid_request", "invalid_request_error", "invalid_prompt", "context_length_exceeded", "400"),
            *("upstream_http_400", "upstream_http_422"),
        ),
        "invalid_request",
    ),
    **dict.fromkeys(("not_found", "not_found_error", "model_not_found", "404", "upstream_http_404"), "not_found"),
}
"""Codes that say whose fault it is; the other ones follow their source."""

SOURCE_TYPES: Final[Mapping[str, str]] = {"provider": "model_error", "server": "server_error"}

HTTP_STATUSES: Final[Mapping[str, int]] = {
    "server_error": 500,
    "invalid_request": 400,
    "not_found": 404,
    "model_error": 500,
    "too_many_requests": 429,
}
"""Error types of Open Responses -> the HTTP status of an answer that is no stream."""


class ResponseObject:
    """What is known of the response, whose id and time are fixed by the first event."""

    def __init__(self) -> None:
        self.id = ""
        self.created_at = 0
        self.model = UNKNOWN
        self.reason: str | None = None
        """Why the last response that did not complete did not."""

    def learn(self, meta: Frame) -> None:
        """Take model and creation time from a frame `response.meta`; those of the first response stay."""
        if self.model == UNKNOWN:
            self.model = meta.get("model", UNKNOWN)
        if not self.created_at:
            self.created_at = meta.get("created_at", 0)

    def begin(self, frame: Frame) -> None:
        """Take the id, and the time where nobody said it, from the envelope of the first frame that is said."""
        self.id = frame.get("response_id") or frame["stream_id"]
        self.created_at = self.created_at or seconds(frame)

    def wire(
        self,
        status: str,
        *,
        output: list[dict[str, Any]] | tuple[()] = (),
        completed_at: int | None = None,
        incomplete_details: Mapping[str, str] | None = None,
        error: Mapping[str, str] | None = None,
        usage: Mapping[str, int] | None = None,
    ) -> dict[str, Any]:
        """Give the object as it stands now."""
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created_at,
            "completed_at": completed_at,
            "status": status,
            "incomplete_details": incomplete_details,
            "model": self.model,
            "output": output,
            "error": error,
            "usage": usage_of(usage) if usage else None,
            **REQUEST_MEMBERS,
        }


def usage_of(usage: Mapping[str, int]) -> dict[str, object]:
    """Give the usage in the words of Open Responses; every count is required there, so an unknown one is 0."""
    read, written = usage.get("input_tokens", 0), usage.get("output_tokens", 0)
    return {
        "input_tokens": read,
        "output_tokens": written,
        "total_tokens": usage.get("total_tokens", read + written),
        "input_tokens_details": {"cached_tokens": usage.get("cached_input_tokens", 0)},
        "output_tokens_details": {"reasoning_tokens": usage.get("reasoning_output_tokens", 0)},
    }


def error_of(error: Mapping[str, Any]) -> dict[str, str | None]:
    """Give the payload of an `error` event for the `error` of a frame; `param` is always null: no frame has one."""
    code = error.get("code")
    kind = ERROR_TYPES.get(str(code).lower(), SOURCE_TYPES[error["source"]])
    return {"type": kind, "code": code, "message": error["message"], "param": None}


def failure(reason: str | None) -> dict[str, str]:
    """Give the `error` of a response that the provider ended as failed; its words are in no frame."""
    fault = FAULTS["provider_error"]
    return {"code": reason or fault.code, "message": fault.message}


def seconds(frame: Frame) -> int:
    """Give the time of a frame in whole seconds since 1970-01-01 UTC."""
    return int(parse_time(frame["server_timestamp"], "server_timestamp"))
