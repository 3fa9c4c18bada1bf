"""Errors as providers write them: in a stream, as the whole body of a response, or with an HTTP status (CONTRACT D48).

Providers agree on `{"error": {"message", "type", "code", "param"}}` only roughly. All results are untrusted text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from projector.core import canonical as read

MESSAGE_MAX_CHARS: Final = 4_000
"""Length of a message; some gateways repeat the whole request in it."""
MEMBER_MAX_CHARS: Final = 256
"""Length of `type`, `code` and `param`."""


class ReportedError(NamedTuple):
    """The members of an error; None where the provider sent none."""

    message: str | None = None
    type: str | None = None
    code: str | None = None
    param: str | None = None
    retry_after: str | None = None
    """The wait that the provider asks for in the error, such as `12s`."""

    def event(self) -> dict[str, object]:
        """Return the canonical event of the error."""
        members = {name: value for name, value in self._asdict().items() if name != "retry_after"}
        return {"type": "error", "error": members}


HOLDERS: Final = ("error", "errors", "base_resp", "detail", "fault")
"""Members that hold the error: an object, a list of them, or its message."""

_TEXTS: Final = ("message", "Message", "msg", "error_msg", "errorMessage", "faultstring")
_MESSAGES: Final = ("message", "Message", *HOLDERS, *_TEXTS, "status_msg", "title")
"""Members with the message, in this order: text, or an object or list with one of them. OpenAI, Azure, OpenRouter:
`error.message`. Mistral, vLLM, AWS and API gateways: `message`. Ollama, xAI: `error`. FastAPI: `detail`, text or a list
of objects with `msg`. MiniMax: `base_resp.status_msg`. RFC 9457: `detail`, `title`."""
_CODES: Final = ("code", "Code", "status_code", "error_code", "errorCode", "errorcode")
_DEPTH_MAX: Final = 4

_STATUS_TYPES: Final[Mapping[str | None, str]] = {
    "1001": "timeout_error",
    **dict.fromkeys(("1002", "1039"), "rate_limit_error"),
    "1004": "authentication_error",
    "1008": "insufficient_quota",
    "1013": "server_error",
    **dict.fromkeys(("1026", "1027"), "content_filter"),
    "2013": "invalid_request_error",
}
"""Code of `base_resp` -> type of the error: its codes are numbers of one provider."""

_NO_ERRORS: Final[frozenset[str | None]] = frozenset({None, "0", "200", "ok", "OK", "success", "Success"})
"""Codes and statuses of success."""


def error_of(value: object, *, has_begun: bool = False) -> ReportedError | None:
    """Return the error that a message or document is, None if it is none.

    Args:
        value: the JSON of the message, which is no part of an answer.
        has_begun: whether parts of an answer came before; then only what is nothing but an error is one.
    """
    first = _first(value)
    code = _code(first) or _code({"code": first.get("statusCode")})
    is_error = (
        _is_error_beside(first)
        or "error" in (first.get("object"), first.get("type"), first.get("status"))  # which may be any JSON
        or (
            (code is not None or first.get("success") is False) and any(read.text_or_none(first, one) for one in _TEXTS)
        )
        or (not has_begun and any(first.get(name) for name in HOLDERS))
    )
    found = members_of(first)
    return found._replace(code=found.code or code) if is_error else None


def error_beside(answer: Mapping[str, object]) -> ReportedError | None:
    """Return the error that an object has beside the parts of an answer, None if there is none."""
    return members_of(answer) if _is_error_beside(answer) else None


def _is_error_beside(answer: Mapping[str, object]) -> bool:
    held = answer.get("base_resp")
    return bool(answer.get("error") or (read.is_mapping(held) and _code(held)))


def members_of(value: object) -> ReportedError:
    """Return the members of an object, list or text that is known to be an error."""
    if isinstance(value, str):
        return ReportedError(value.strip()[:MESSAGE_MAX_CHARS] or None)
    outer = members = _first(value)
    holder = ""
    for _ in range(_DEPTH_MAX):
        inner = next((name for name in HOLDERS if members.get(name)), "")
        held = {} if inner == "detail" and isinstance(members[inner], list) else _first(members.get(inner))
        if not held or (holder and (_code(members) or members.get("type"))):
            break
        members, holder = held, inner
    code = _code(members)
    error_type = _text(members.get("type")) or (_STATUS_TYPES.get(code) if holder == "base_resp" else None)
    return ReportedError(_message(outer), error_type, code, _text(members.get("param")))


def _first(value: object) -> Mapping[str, object]:
    """Return an object, or the first of a list of them: Gemini sends a list with one error."""
    if isinstance(value, list) and value:
        value = value[0]
    return value if read.is_mapping(value) else {}


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
    found = (_message(value[name], depth + 1) for name in _MESSAGES if name in value)
    return next((message for message in found if message is not None), None)


def _code(members: Mapping[str, object]) -> str | None:
    """Return the code of an error, or its HTTP status."""
    status = members.get("status")
    values = [*map(members.get, _CODES), status if isinstance(status, int) else None]
    return next((code for value in values if (code := _text(value)) not in _NO_ERRORS), None)


def _text(value: object) -> str | None:
    """Return a member as text; a code may be a number (OpenRouter)."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value)[:MEMBER_MAX_CHARS] or None
