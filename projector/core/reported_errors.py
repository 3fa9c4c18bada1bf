"""Errors that providers report, in a stream or as an HTTP response: the clean record of one, and our messages by code.

The policy decides which message is shown (`error_messages`, CONTRACT D41): the provider's, redacted, which names what a
developer can change, or ours. The record with the provider's message is for the operator's log in both cases.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from projector.core import canonical as read
from projector.core.canonical import CanonicalEvent
from projector.core.faults import FAULTS
from projector.redaction.clean import REDACTED_HERE, Cleaned, CleanText, Notice
from projector.redaction.redactor import Redactor

_RATE: Final = "The provider's rate limit was reached. Try again later."
_QUOTA: Final = "The quota of the provider's account is used up."
_LENGTH: Final = "The input is longer than the model accepts."
_CREDENTIALS: Final = "The provider rejected the server's credentials, or the server has none."
_PERMISSION: Final = "The provider does not permit this request."
_MODEL: Final = "The model does not exist, or the server may not use it."
_NOT_FOUND: Final = "The provider did not find what the request refers to."
_CONTENT: Final = "The provider's content policy does not allow this request or its response."
_INVALID: Final = "The provider rejected the request as invalid."
_CONFLICT: Final = "The request conflicts with another one at the provider."
_TOO_LARGE: Final = "The request is too large for the provider."
_IMAGE: Final = "The provider could not use an image of the request."
_OVERLOADED: Final = "The provider is overloaded. Try again later."
_SERVER: Final = "The provider had an internal error."
_TIMEOUT: Final = "The provider did not answer in time."
_OUTPUT: Final = "The model wrote something that the provider could not read. Try again."
_SIGNATURE: Final = "The conversation lacks what the provider wants back with a tool call."


def _rows(message: str, codes: Iterable[str]) -> dict[str, str]:
    return dict.fromkeys(codes, message)


GENERIC_MESSAGES: Final[Mapping[str, str]] = {
    **_rows(
        _RATE, ("rate_limit_exceeded", "rate_limit_error", "rate_limited", "too_many_requests", "slow_down", "429")
    ),
    **_rows(
        _QUOTA, ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "quota_exceeded", "402")
    ),
    **_rows(_LENGTH, ("context_length_exceeded", "context_window_exceeded", "string_above_max_length", "max_tokens")),
    **_rows(_CREDENTIALS, ("invalid_api_key", "authentication_error", "invalid_authentication", "unauthorized", "401")),
    **_rows(_PERMISSION, ("permission_error", "permission_denied", "forbidden", "access_denied", "403")),
    **_rows(_PERMISSION, ("unsupported_country_region_territory", "organization_not_verified")),
    **_rows(_MODEL, ("model_not_found", "model_not_available", "deploymentnotfound", "invalid_model")),
    **_rows(_NOT_FOUND, ("not_found", "not_found_error", "notfounderror", "previous_response_not_found", "404")),
    **_rows(
        _CONTENT, ("content_filter", "content_policy_violation", "moderation_blocked", "responsibleaipolicyviolation")
    ),
    **_rows(_CONTENT, ("image_content_policy_violation", "cyber_policy_violation", "bio_policy", "safety_violation")),
    **_rows(_INVALID, ("invalid_request", "invalid_request_error", "badrequesterror", "bad_request", "invalid_prompt")),
    **_rows(_INVALID, ("invalid_value", "invalid_type", "missing_required_parameter", "unknown_parameter", "400")),
    **_rows(_INVALID, ("unsupported_parameter", "unsupported_value", "invalid_function_parameters", "422")),
    **_rows(_CONFLICT, ("conflict", "conflict_error", "409")),
    **_rows(_TOO_LARGE, ("request_too_large", "413")),
    **_rows(_IMAGE, ("invalid_image", "invalid_image_format", "invalid_base64_image", "invalid_image_url")),
    **_rows(
        _IMAGE,
        ("image_too_large", "image_too_small", "image_parse_error", "invalid_image_mode", "image_file_too_large"),
    ),
    **_rows(
        _IMAGE, ("unsupported_image_media_type", "empty_image_file", "failed_to_download_image", "image_file_not_found")
    ),
    **_rows(_OVERLOADED, ("overloaded", "overloaded_error", "server_overloaded", "server_is_overloaded", "503", "529")),
    **_rows(_OVERLOADED, ("engine_overloaded", "service_unavailable", "service_unavailable_error", "unavailable")),
    **_rows(
        _SERVER, ("server_error", "internal_server_error", "internal_error", "api_error", "bad_gateway", "500", "502")
    ),
    **_rows(_TIMEOUT, ("timeout", "timeout_error", "gateway_timeout", "request_timeout", "vector_store_timeout")),
    **_rows(_TIMEOUT, ("408", "504")),
    # Google
    **_rows(_RATE, ("resource_exhausted",)),
    **_rows(_CREDENTIALS, ("unauthenticated",)),
    **_rows(_INVALID, ("invalid_argument", "failed_precondition", "out_of_range")),
    **_rows(_SERVER, ("internal",)),
    **_rows(_TIMEOUT, ("deadline_exceeded",)),
    **_rows(_OUTPUT, ("malformed_function_call", "unexpected_tool_call", "malformed_response")),
    **_rows(_SIGNATURE, ("missing_thought_signature",)),
}
"""Code of a provider, or HTTP status, in lower case -> our message; for all others the message of `provider_error`."""


class ProviderError(NamedTuple):
    """An error that a provider reported, clean; a member is None if the provider sent none that can be shown."""

    code: CleanText | None
    message: Cleaned[CleanText] | None
    type: CleanText | None
    param: CleanText | None
    status: int | None = None
    """HTTP status, if it was an error response."""
    hides_code: bool = False
    """Whether the provider sent a code that cannot be shown."""

    @property
    def code_notices(self) -> tuple[Notice, ...]:
        """Notices of a code of ours in place of the provider's."""
        return REDACTED_HERE if self.hides_code else ()

    def shown(self, redactor: Redactor) -> Cleaned[CleanText]:
        """Return the message that the policy allows to show."""
        if self.message is not None and redactor.policy.shows_provider_messages:
            return self.message
        names = (self.code, self.type, None if self.status is None else str(self.status))
        return redactor.label(generic_message(*names), redactor.policy.limits.error_message_max_chars)


_MESSAGES: Final = {**{code: fault.message for code, fault in FAULTS.items()}, **GENERIC_MESSAGES}
"""With the codes of this project: the provider may be another projector."""


def generic_message(*names: str | None) -> str:
    """Return our message for the first of these codes, types and statuses that has one."""
    for name in names:
        if name is not None and (message := _MESSAGES.get(name.lower())) is not None:
            return message
    return FAULTS["provider_error"].message


def clean_error(
    redactor: Redactor,
    *,
    message: str | None = None,
    code: str | None = None,
    type_: str | None = None,
    param: str | None = None,
    status: int | None = None,
) -> ProviderError:
    """Return the clean record of an error."""
    text = redactor.provider_message(message) if message else None
    clean_code = redactor.plain_name(code) if code else None
    clean_type = redactor.plain_name(type_) if type_ else None
    clean_param = redactor.plain_name(param) if param else None
    return ProviderError(clean_code, text, clean_type, clean_param, status, bool(code) and clean_code is None)


def read_error(redactor: Redactor, *sources: CanonicalEvent) -> ProviderError:
    """Return the clean record of an error whose members are in the first of several objects that has them."""

    def first(name: str) -> str | None:
        return next((value for source in sources if (value := read_code(source, name))), None)

    return clean_error(
        redactor, message=first("message"), code=first("code"), type_=_own_type(sources), param=first("param")
    )


def _own_type(sources: Iterable[CanonicalEvent]) -> str | None:
    """Return the type of an error. The type of the event that carries it is none."""
    return next((kind for source in sources if (kind := read_code(source, "type")) and kind != "error"), None)


def read_code(source: CanonicalEvent, key: str) -> str | None:
    """Read a code; some gateways send the HTTP status as a number."""
    value = source.get(key)
    return str(value) if type(value) is int else read.text_or_none(source, key)
