"""Error responses of providers: the members of their bodies, and the headers about retries.

Providers agree on `{"error": {"message", "type", "code", "param"}}` only roughly. All results are untrusted text.
"""

from __future__ import annotations

import email.utils
import math
import re
import time
from collections.abc import Mapping
from typing import Final

from projector.contracts import codec
from projector.server.upstream.protocol import ProviderFailure

MESSAGE_MAX_CHARS: Final = 4_000
"""Length of a message; some gateways repeat the whole request in it."""
MEMBER_MAX_CHARS: Final = 256
"""Length of `type`, `code` and `param`."""

_MESSAGE_MEMBERS: Final = ("message", "Message", "error", "detail", "msg")
"""Members that contain the message, in this order: text, or an object or list with one of them. OpenAI, Azure,
OpenRouter: `error.message`. Mistral, vLLM, AWS and API gateways: `message`. Ollama, xAI: `error`. FastAPI: `detail`,
text or a list of objects with `msg`."""
_DEPTH_MAX: Final = 4
_SECONDS: Final = re.compile(r"0*([0-9]{1,9})[0-9]*(?:\.([0-9]*))?")
"""Nine digits are read: Python refuses to parse thousands of them."""
_SHOULD_RETRY: Final[Mapping[str, bool]] = {"true": True, "false": False}


def provider_failure(status: int, body: bytes) -> ProviderFailure:
    """Return an error response; a body that is not JSON, such as the HTML page of a proxy, has no message."""
    try:
        value: object = codec.loads(body)
    except codec.CodecError:
        return ProviderFailure(status)
    first = value[0] if isinstance(value, list) and value else value  # Gemini sends a list with one error
    outer = first if isinstance(first, dict) else {}
    inner = outer.get("error", outer.get("detail"))
    members = inner if isinstance(inner, dict) else outer
    return ProviderFailure(
        status,
        _message(first),
        type=_text(members.get("type")),
        code=_text(members.get("code")),
        param=_text(members.get("param")),
    )


def _message(value: object, depth: int = 0) -> str | None:
    """Return the first message in a value."""
    if isinstance(value, str):
        return value.strip()[:MESSAGE_MAX_CHARS] or None if depth else None
    if depth >= _DEPTH_MAX:
        return None
    if isinstance(value, list):
        return _message(value[0], depth + 1) if value else None
    if not isinstance(value, dict):
        return None
    found = (_message(value[name], depth + 1) for name in _MESSAGE_MEMBERS if name in value)
    return next((message for message in found if message is not None), None)


def _text(value: object) -> str | None:
    """Return a member as text; a code may be a number (OpenRouter)."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value)[:MEMBER_MAX_CHARS] or None


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
