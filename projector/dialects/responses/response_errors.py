"""Errors of a stream and of a failed response, in the shapes of the Responses API.

One `error` event serves all SDKs. The `openai` SDKs raise on the nested object only and their models have the flat
members only; the AI SDK reads both. A failed response has one of the SDK's codes; its `error` event has the real one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from projector.dialects.openai_errors import error_object, status_of, type_of

CODES: Final = frozenset(
    {
        *("server_error", "rate_limit_exceeded", "invalid_prompt", "data_residency_mismatch", "bio_policy"),
        *("misalignment_policy_violation", "vector_store_timeout", "invalid_image", "invalid_image_format"),
        *("invalid_base64_image", "invalid_image_url", "image_too_large", "image_too_small", "image_parse_error"),
        *("image_content_policy_violation", "invalid_image_mode", "image_file_too_large", "empty_image_file"),
        *("unsupported_image_media_type", "failed_to_download_image", "image_file_not_found"),
    }
)
"""Codes of a failed response that the API defines."""

STATUS_CODES: Final[Mapping[int, str]] = {429: "rate_limit_exceeded", 400: "invalid_prompt", 422: "invalid_prompt"}
"""HTTP status of any other code -> code of the failed response; else it is `server_error`."""

INCOMPLETE_REASONS: Final[Mapping[str | None, str]] = {
    "length": "max_output_tokens",
    "max_tokens": "max_output_tokens",
    "max_output_tokens": "max_output_tokens",
    "max_messages": "max_messages",
    "content_filter": "content_filter",
    "steered": "steered",
}
"""Reason of an incomplete response -> that of the API. A response with any other reason has none."""


def error_members(error: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of an `error` event: flat and nested."""
    nested = error_object(error.get("code"), error["message"], error.get("param"), error.get("type"))
    return {"code": nested["code"], "message": nested["message"], "param": nested["param"], "error": nested}


def response_error(code: str, message: str) -> dict[str, Any]:
    """Return the `error` of a failed response."""
    status = status_of(code)
    known = code if code in CODES else STATUS_CODES.get(status, "server_error")
    return {"code": known, "message": message, "type": type_of(status), "param": None}


def incomplete_details(reason: str | None) -> dict[str, str] | None:
    """Return why a response is incomplete, if the API has a word for it."""
    known = INCOMPLETE_REASONS.get(reason)
    return None if known is None else {"reason": known}


def status_of_error(error: Mapping[str, Any]) -> int:
    """Return the HTTP status of the nested object of an `error` event."""
    return status_of(error["code"], error["type"])
