"""Error responses of providers: their bodies, in the shapes of `error_shapes`, and their headers about retries."""

from __future__ import annotations

import email.utils
import math
import re
import time
from collections.abc import Callable, Mapping
from typing import Final

from projector.contracts import codec
from projector.providers.error_shapes import ReportedError, members_of
from projector.server.upstream.protocol import ProviderFailure

_SECONDS: Final = re.compile(r"0*([0-9]{1,9})[0-9]*(?:\.([0-9]*))?")
"""Nine digits are read: Python refuses to parse thousands of them."""
_SHOULD_RETRY: Final[Mapping[str, bool]] = {"true": True, "false": False}


def provider_failure(
    status: int, body: bytes, errors: Callable[[object], ReportedError] = members_of
) -> ProviderFailure:
    """Return an error response; a body that is not JSON, such as the HTML page of a proxy, has no message.

    Args:
        status: the HTTP status.
        body: the beginning of the body.
        errors: the reader of the provider.
    """
    try:
        value: object = codec.loads(body)
    except codec.CodecError:
        return ProviderFailure(status)
    error = errors(value) if isinstance(value, dict | list) else ReportedError()
    wait_s = None if error.retry_after is None else _number(error.retry_after.removesuffix("s"))
    return ProviderFailure(
        status,
        error.message,
        type=error.type,
        code=error.code,
        param=error.param,
        retry_after_s=None if wait_s is None else math.ceil(wait_s),
    )


def retry_after_s(headers: Mapping[str, str]) -> int | None:
    """Return the wait that a provider asks for in whole seconds, rounded up; None if it is missing or invalid.

    `retry-after-ms` takes precedence, as in the OpenAI clients; `Retry-After` is a number of seconds or a date.
    """
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return math.ceil(milliseconds / 1000)
    value = headers.get("retry-after", "")
    seconds = _number(value)
    return _seconds_until(value) if seconds is None else math.ceil(seconds)


def _number(value: str) -> float | None:
    match = _SECONDS.fullmatch(value.strip())
    return float(f"{match[1]}.{match[2] or '0'}") if match else None


def _seconds_until(date: str) -> int | None:
    try:
        return max(0, math.ceil(email.utils.parsedate_to_datetime(date).timestamp() - time.time()))
    except (ValueError, OverflowError):
        return None


def should_retry(headers: Mapping[str, str]) -> bool | None:
    """Return the provider's `x-should-retry`; None if it is missing or invalid."""
    return _SHOULD_RETRY.get(headers.get("x-should-retry", "").strip().lower())
