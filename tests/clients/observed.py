"""Judge the results of a client's probes: return `yes`, or what happened instead in the words of docs/clients.md."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from tests.clients.recorded_provider import HOST, ORGANISATION, REASONS
from tests.clients.recorded_streams import content

Result: TypeAlias = Mapping[str, Any]
"""Way of calling the client -> what it returned, as `tests/clients/python/probing.py` prints it."""

CITED: Final = {"responses": ("search", "files", "citations"), "chat": ("search",)}
CITATIONS_SHOWN: Final[Mapping[tuple[str, ...], str]] = {
    (): "yes",
    ("files",): "web pages",
    **dict.fromkeys(CITED.values(), "not shown"),
}
"""Models whose citations a client does not show -> the cell."""
BLANK_LINE: Final = "\n\n"
HOSTED_ITEMS: Final = ("search", "files", "code", "image", "mcp")
PROVIDER_ONLY: Final = (ORGANISATION, HOST)

CLASSES: Final[Mapping[int, str]] = {
    400: "openai.BadRequestError",
    401: "openai.AuthenticationError",
    403: "openai.PermissionDeniedError",
    404: "openai.NotFoundError",
    422: "openai.UnprocessableEntityError",
    429: "openai.RateLimitError",
    500: "openai.InternalServerError",
    503: "openai.InternalServerError",
}
"""Status -> class that clients on the `openai` package raise."""

CLIENT_ERRORS: Final = (
    "openai.APIError",
    "pydantic_ai.exceptions.ModelAPIError",
    "agents.exceptions.ModelBehaviorError",
)
"""Classes for a failure within a stream."""

BROKEN_MESSAGES: Final = {
    ("responses", "error-midstream"): "Rate limit reached for gpt-5-mini",
    ("responses", "failed-midstream"): "The server had an error while processing your request.",
    ("chat", "error-midstream"): "Tool call validation failed",
}
"""API and model -> what the provider reports in the stream."""


def _all_equal(result: Result, expected: object) -> str:
    wrong = {way: value for way, value in result.items() if value != expected}
    return f"no: {wrong}, expected {expected!r}" if wrong else "yes"


def text(api: str, result: Result) -> str:
    """Judge a text, streamed or in one piece."""
    return _all_equal(result, content(api, "text").text)


def loop(api: str, result: Result) -> str:
    """Judge the answers at the end of tool loops."""
    return _all_equal(result, content(api, "tools", 1).text)


def structured(api: str, result: Result) -> str:
    """Judge parsed output."""
    return _all_equal(result, json.loads(content(api, "structured").text))


def hosted(api: str, result: Result) -> str:
    """Judge streams with hosted tools: `text` if only the text is there."""
    wrong = {model: read["texts"] for model, read in result.items() if {*read["texts"]} != {content(api, model).text}}
    if wrong:
        return f"no: {wrong}"
    hidden = [model for model in HOSTED_ITEMS if model in result and not read_items(result[model])]
    shown = [model for model in HOSTED_ITEMS if model in result and model not in hidden]
    return "yes" if not hidden else f"text, {', '.join(shown)}" if shown else "text"


def read_items(read: Result) -> list[str]:
    """Return the types of the items that a client shows besides messages and reasoning."""
    return [name for name in read["items"] if name not in {"message", "reasoning", "thinking"}]


def citations(api: str, result: Result) -> str:
    """Judge the citations of the streams that have some: `web pages` if only those of files are missing."""
    hidden = [model for model in CITED[api] if not result[model]["citations"]]
    return CITATIONS_SHOWN.get(tuple(hidden), f"no: {hidden}")


def _all_equal_or_hidden(result: Result, expected: str) -> str:
    """Name the ways that show a text if the others show none of it."""
    shown = {way: value for way, value in result.items() if value}
    equal = _all_equal(shown, expected)
    return equal if equal != "yes" or shown == result else ", ".join(f"`{way}`" for way in shown) or "not shown"


def reasoning(api: str, result: Result) -> str:
    """Judge the summary of reasoning, or the reasoning itself; Chat Completions has blank lines between its parts."""
    shown = {way: value.replace(BLANK_LINE, "") for way, value in result.items()}
    return _all_equal_or_hidden(shown, content(api, "reasoning").summary.replace(BLANK_LINE, ""))


def refusal(api: str, result: Result) -> str:
    """Judge a refusal, which some clients raise."""
    expected = content(api, "refusal").refusal
    if all(isinstance(value, str) for value in result.values()):
        return _all_equal_or_hidden(result, expected)
    names = {failure["classes"][0].rpartition(".")[2] for failure in result.values() if failure["classes"]}
    messages = [failure["message"] for failure in result.values() if expected not in failure["message"]]
    return f"no: {messages}" if messages or len(names) != 1 else f"`{names.pop()}`"


def usage(api: str, result: Result) -> str:
    """Judge the token counts."""
    counts = content(api, "text").usage
    assert counts is not None
    asked = {way: value for way, value in result.items() if way != "not asked for"}
    return "usage that was not asked for" if result.get("not asked for") else _all_equal(asked, [*counts.values()])


def errors(_: str, result: Result) -> str:
    """Judge what is raised for each status of the provider: its class and its message."""
    wrong = {
        f"{way} {status}": (failure["classes"][:1], failure["message"])
        for way, failures in result.items()
        for status, failure in failures.items()
        if not _is_right(int(status), failure)
    }
    return f"no: {wrong}" if wrong else "yes"


def _is_right(status: int, failure: Result) -> bool:
    message = failure["message"]
    is_http = "pydantic_ai.exceptions.ModelHTTPError" in failure["classes"] and f"status_code: {status}" in message
    has_class = CLASSES[status] in failure["classes"] or is_http
    return has_class and REASONS[status][3] in message and not any(secret in message for secret in PROVIDER_ONLY)


def calls(result: Result, *statuses: int) -> str:
    """Return the number of requests that reached the provider for each of some statuses."""
    numbers = {failures[str(status)]["calls"] for failures in result.values() for status in statuses}
    return ", ".join(map(str, sorted(numbers)))


def calls_400(_: str, result: Result) -> str:
    """Return the number of calls for errors of the request."""
    return calls(result, 400, 401, 403, 404, 422)


def calls_500(_: str, result: Result) -> str:
    """Return the number of calls for errors of the provider."""
    return calls(result, 429, 500, 503)


def stream_error(api: str, result: Result) -> str:
    """Judge what is raised for failures within a stream."""
    wrong = {
        f"{model} {way}": (failure["classes"][:1], failure["message"])
        for model, failures in result.items()
        for way, failure in failures.items()
        if not {*CLIENT_ERRORS} & {*failure["classes"]}
        or BROKEN_MESSAGES.get((api, model), "") not in failure["message"]
    }
    return f"no: {wrong}" if wrong else "yes"


JUDGES: Final[Mapping[str, tuple[str, Callable[[str, Result], str]]]] = {
    "text": ("text", text),
    "whole": ("whole", text),
    "tools": ("tools", loop),
    "parallel": ("parallel", loop),
    "structured": ("structured", structured),
    "hosted": ("hosted", hosted),
    "citations": ("hosted", citations),
    "reasoning": ("reasoning", reasoning),
    "refusal": ("refusal", refusal),
    "usage": ("usage", usage),
    "errors": ("errors", errors),
    "stream_error": ("stream_error", stream_error),
    "calls_400": ("errors", calls_400),
    "calls_500": ("errors", calls_500),
}
"""Behaviour -> the probe whose result it reads, and its judge."""
