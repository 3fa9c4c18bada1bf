"""Errors that providers report, in a stream or as an HTTP response: the clean record of one, and our messages by code.

The policy decides which message is shown (`error_messages`, CONTRACT D41): the provider's, redacted, which names what a
developer can change, or ours. The record with the provider's message is for the operator's log in both cases.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from projector.core import canonical as read
from projector.core.canonical import CanonicalEvent
from projector.core.faults import FAULTS, Fault, is_retryable_status
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


_CODES: Final[Mapping[str, str]] = {
    _RATE: "rate_limit_exceeded rate_limit_error rate_limited too_many_requests slow_down resource_exhausted 429",
    _QUOTA: "insufficient_quota billing_hard_limit_reached billing_not_active quota_exceeded 402",
    _LENGTH: "context_length_exceeded context_window_exceeded string_above_max_length max_tokens",
    _CREDENTIALS: "invalid_api_key authentication_error invalid_authentication unauthorized unauthenticated 401",
    _PERMISSION: "permission_error permission_denied forbidden access_denied organization_not_verified"
    " unsupported_country_region_territory 403",
    _MODEL: "model_not_found model_not_available deploymentnotfound invalid_model",
    _NOT_FOUND: "not_found not_found_error notfounderror previous_response_not_found 404",
    _CONTENT: "content_filter content_policy_violation moderation_blocked responsibleaipolicyviolation bio_policy"
    " image_content_policy_violation cyber_policy_violation safety_violation",
    _INVALID: "invalid_request invalid_request_error badrequesterror bad_request invalid_prompt invalid_value"
    " invalid_type missing_required_parameter unknown_parameter unsupported_parameter unsupported_value"
    " invalid_function_parameters invalid_argument failed_precondition out_of_range 400 422",
    _CONFLICT: "conflict conflict_error 409",
    _TOO_LARGE: "request_too_large 413",
    _IMAGE: "invalid_image invalid_image_format invalid_base64_image invalid_image_url image_too_large image_too_small"
    " image_parse_error invalid_image_mode image_file_too_large unsupported_image_media_type empty_image_file"
    " failed_to_download_image image_file_not_found",
    _OVERLOADED: "overloaded overloaded_error server_overloaded server_is_overloaded engine_overloaded"
    " service_unavailable service_unavailable_error unavailable 503 529",
    _SERVER: "server_error internal_server_error internal_error api_error bad_gateway internal 500 502",
    _TIMEOUT: "timeout timeout_error gateway_timeout request_timeout vector_store_timeout deadline_exceeded 408 504",
    _OUTPUT: "malformed_function_call unexpected_tool_call malformed_response",
    _SIGNATURE: "missing_thought_signature",
}
"""Our message -> codes of providers, and HTTP statuses, in lower case."""

GENERIC_MESSAGES: Final[Mapping[str, str]] = {code: one for one, codes in _CODES.items() for code in codes.split()}
"""Code -> our message; for all others the message of `provider_error`."""

_RETRYABLE: Final = frozenset({_RATE, _OVERLOADED, _SERVER, _TIMEOUT, _OUTPUT})
"""Messages of errors after which the same request may succeed; a model may write valid output the next time (D14)."""


def is_retryable(code: str) -> bool:
    """Check whether a request that failed with a code of a provider, or an HTTP status, may succeed later."""
    status = int(code) if code.isascii() and code.isdigit() and len(code) == 3 else 0  # noqa: PLR2004 - an HTTP status
    return GENERIC_MESSAGES.get(code.lower()) in _RETRYABLE or is_retryable_status(status)


_OF_A_STATUS: Final = frozenset({_INVALID, _CONFLICT})
"""Messages that say no more than the status of an error response."""


def refused_with(fault: Fault, *names: str | None) -> Fault:
    """Return the fault of an error response by its code and type, as they would fail a stream; by default the fault."""
    messages = [GENERIC_MESSAGES.get(name.lower()) for name in names if name is not None]
    known = [one for one in messages if one is not None and one not in _OF_A_STATUS]
    return fault._replace(message=known[0], is_retryable=not _RETRYABLE.isdisjoint(known)) if known else fault


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

    def first(name: str, *, unless: str = "") -> str | None:
        values = (read_code(source, name) for source in sources)
        return next((value for value in values if value and value != unless), None)

    kind = first("type", unless="error")  # which is the type of the event that carries the error
    return clean_error(redactor, message=first("message"), code=first("code"), type_=kind, param=first("param"))


def read_code(source: CanonicalEvent, key: str) -> str | None:
    """Read a code; some gateways send the HTTP status as a number."""
    value = source.get(key)
    return str(value) if type(value) is int else read.text_or_none(source, key)
