"""The `response` object of Open Responses, its errors, and the JSON answer to a request that does not stream.

One stream is one response object, even for a run of several responses. Its ID never changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from projector.contracts import codec
from projector.core.canonical import Frame
from projector.core.context import parse_time
from projector.core.faults import FAULTS
from projector.dialects.descriptor import JsonAnswer

UNKNOWN: Final = "unknown"
"""Value of a required member that the provider did not send."""

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
"""Required members that repeat the request. Their values are fixed, because no dialect receives the request (seed
contract, section 7.2)."""

INCOMPLETE_REASONS: Final[Mapping[str, str]] = {"length": "max_output_tokens"}
"""Reason of Chat Completions -> that of Open Responses. Every other reason is unchanged."""

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
"""Error code -> error type. The type of any other error depends on its source."""

SOURCE_TYPES: Final[Mapping[str, str]] = {"provider": "model_error", "server": "server_error"}

HTTP_STATUSES: Final[Mapping[str, int]] = {
    "server_error": 500,
    "invalid_request": 400,
    "not_found": 404,
    "model_error": 500,
    "too_many_requests": 429,
}
"""Error type of Open Responses -> HTTP status of an answer that does not stream."""

ERROR_PREFIX: Final = b'{"type":"error",'
"""Start of the data of an `error` event, as this dialect encodes it."""


class ResponseObject:
    """The response so far. The first event fixes its ID and time."""

    def __init__(self) -> None:
        self.id = ""
        self.created_at = 0
        self.model = UNKNOWN
        self.reason: str | None = None
        """Reason of the last response that did not complete."""

    def update(self, meta: Frame) -> None:
        """Set model and creation time from a frame `response.meta`. Those of the first response are kept."""
        if self.model == UNKNOWN:
            self.model = meta.get("model", UNKNOWN)
        if not self.created_at:
            self.created_at = meta.get("created_at", 0)

    def begin(self, frame: Frame) -> None:
        """Set the ID from the envelope of the first written frame, and the creation time if it is unknown."""
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
        """Return the current object as it is written."""
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
    """Return the usage with the members of Open Responses. They are required, so an unknown count is 0."""
    read, written = usage.get("input_tokens", 0), usage.get("output_tokens", 0)
    return {
        "input_tokens": read,
        "output_tokens": written,
        "total_tokens": usage.get("total_tokens", read + written),
        "input_tokens_details": {"cached_tokens": usage.get("cached_input_tokens", 0)},
        "output_tokens_details": {"reasoning_tokens": usage.get("reasoning_output_tokens", 0)},
    }


def error_of(error: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the payload of an `error` event. `param` is always null: no frame has one."""
    code = error.get("code")
    kind = ERROR_TYPES.get(str(code).lower(), SOURCE_TYPES[error["source"]])
    return {"type": kind, "code": code, "message": error["message"], "param": None}


def failure(reason: str | None) -> dict[str, str]:
    """Return the `error` of a response that the provider ended as failed. No frame has the provider's message."""
    fault = FAULTS["provider_error"]
    return {"code": reason or fault.code, "message": fault.message}


def seconds(frame: Frame) -> int:
    """Return the time of a frame in whole seconds since 1970-01-01 UTC."""
    return int(parse_time(frame["server_timestamp"], "server_timestamp"))


class ResponseAssembly:
    """Builder of the JSON answer, from the error and the last event, which repeats everything before it."""

    def __init__(self) -> None:
        self._error = b""
        self._last = b""

    @property
    def held_bytes(self) -> int:
        """Bytes kept for the answer so far."""
        return len(self._error) + len(self._last)

    def feed(self, event: bytes, /) -> None:
        """Add the data of an event."""
        if event.startswith(ERROR_PREFIX):
            self._error = event
        else:
            self._last = event

    def close(self) -> JsonAnswer:
        """Return the `response` object or `{"error": ...}`, or raise `ValueError` if the stream did not end."""
        if self._error:
            payload = codec.loads(self._error)["error"]
            return JsonAnswer(HTTP_STATUSES[payload["type"]], {"error": payload})
        last = codec.loads(self._last) if self._last else {}
        if last.get("response", {}).get("status") not in {"completed", "incomplete", "failed"}:
            raise ValueError("expected a complete Open Responses stream, but the last event does not end a response")
        return JsonAnswer(200, last["response"])
