"""What the table of clients states, observed from the readings of a client and compared with the provider's streams."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from tests.clients.node_readings import PROVIDER_API, NodeClient, NodeReadings, Reading
from tests.clients.recorded_provider import HOST, ORGANISATION, REASONS
from tests.clients.recorded_streams import Content, content

WHOLE: Final = frozenset({"json", "object"})
"""Forms of an answer in one piece; all others are streams."""

HOSTED: Final[Mapping[str, tuple[str, ...]]] = {
    "responses": ("search", "files", "code", "image", "mcp"),
    "chat": ("search",),
}
"""API -> scenarios with a tool of the provider."""

CITED: Final[Mapping[str, tuple[str, ...]]] = {"responses": ("search", "files", "code"), "chat": ("search",)}
"""API -> scenarios with citations."""

Check: TypeAlias = Callable[[Reading], str | None]
"""Returns what is wrong with a reading, or nothing."""


class Observed(NamedTuple):
    """A client with an API, and its readings."""

    readings: NodeReadings
    client: NodeClient
    api: str

    def forms(self, scenario: str, *, whole: bool | None = None) -> dict[str, Reading]:
        """Return the readings of a scenario by form: of streams, of whole answers, or of both."""
        found = self.readings.of(self.client, self.api, scenario)
        return {form: it for form, it in found.items() if whole is None or (form in WHOLE) is whole}

    def content(self, scenario: str, turn: int = 0) -> Content:
        """Return what the provider sends."""
        return content(PROVIDER_API[self.api], scenario, turn)


def text(observed: Observed) -> str:
    """Check the streamed text, also after a retry of the server."""
    return _text(observed, whole=False)


def whole(observed: Observed) -> str:
    """Check the text of answers in one piece."""
    return _text(observed, whole=True)


def _text(observed: Observed, *, whole: bool) -> str:
    return _verdict(
        _same(forms, text=observed.content(name).text, deltas=observed.content(name).text)
        for name in ("text", "fails-once")
        for forms in [observed.forms(name, whole=whole)]
    )


def tools(observed: Observed) -> str:
    """Check that a loop of two turns ends."""
    return _loop(observed, "tools")


def parallel(observed: Observed) -> str:
    """Check that a loop with two calls at once ends."""
    return _loop(observed, "parallel-tools")


def _loop(observed: Observed, name: str) -> str:
    calls = [[name, json.loads(arguments)] for _, name, arguments in observed.content(name).calls]
    forms = {
        form: {**it, "called": [[name, json.loads(arguments)] for name, arguments in it.get("called", ())]}
        for form, it in observed.forms(name).items()
    }
    return _verdict([_same(forms, text=observed.content(name, 1).text, called=calls, requests={name: 2})])


def structured(observed: Observed) -> str:
    """Check the parsed object."""
    return _verdict([_same(observed.forms("structured"), parsed=json.loads(observed.content("structured").text))])


def hosted(observed: Observed) -> str:
    """Check that tools of the provider break nothing, and whether the client shows more than the text."""
    return _visible(observed, HOSTED[PROVIDER_API[observed.api]], "hosted", otherwise="text")


def citations(observed: Observed) -> str:
    """Check that citations break nothing, and whether the client shows them."""
    return _visible(observed, CITED[PROVIDER_API[observed.api]], "citations", otherwise="not shown")


def _visible(observed: Observed, scenarios: tuple[str, ...], member: str, *, otherwise: str) -> str:
    problems = _verdict(_same(observed.forms(name), text=observed.content(name).text) for name in scenarios)
    if problems != "yes":
        return problems
    shown = [bool(it.get(member)) for name in scenarios for it in observed.forms(name).values()]
    return "yes" if all(shown) else "in part" if any(shown) else otherwise


def reasoning(observed: Observed) -> str:
    """Check the reasoning: the summary in Responses, the whole text in Chat Completions."""
    return _shown(observed.forms("reasoning"), "reasoning", observed.content("reasoning").summary)


def refusal(observed: Observed) -> str:
    """Check the refusal, which some clients show as text."""
    wanted, forms = observed.content("refusal").refusal, observed.forms("refusal")
    if _verdict([_same(forms, text=wanted)]) == "yes":
        return "as text"
    raised = {it["error"]["kind"] for it in observed.forms("refusal", whole=True).values() if "error" in it}
    return f"`{raised.pop()}` in one piece" if raised else _shown(forms, "refusal", wanted)


def usage(observed: Observed) -> str:
    """Check the counts of tokens."""
    counts = observed.content("text").usage or {}
    wanted = {"input": counts["input_tokens"], "output": counts["output_tokens"]}
    return _verdict([_same(observed.forms("text"), usage=wanted)])


def errors(observed: Observed) -> str:
    """Check that each status raises the client's own error, with the provider's reason but without its names."""
    forms = {status: observed.forms(f"fail-{status}") for status in REASONS}
    problems = _verdict(_each(of, _raised(status)) for status, of in forms.items())
    reasons = _verdict(_each(of, _explained(status)) for status, of in forms.items())
    return problems if problems != "yes" else "yes" if reasons == "yes" else "status"


def stream_error(observed: Observed) -> str:
    """Check that an error in a stream reaches the application, with a message without the provider's names."""
    forms = {name: observed.forms(name, whole=False) for name in ("error-midstream", "truncated")}
    if not any("error" in it for of in forms.values() for it in of.values()):
        return "not shown"

    def check(reading: Reading) -> str | None:
        message = (reading.get("error") or {}).get("message")
        return None if message and ORGANISATION not in message else f"error: {reading.get('error')}"

    return _verdict(_each(of, check) for of in forms.values())


def requests_400(observed: Observed) -> str:
    """Return how many requests a 400 costs."""
    return _requests(observed, "fail-400")


def requests_500(observed: Observed) -> str:
    """Return how many requests a 500 costs, with the server's retries."""
    return _requests(observed, "fail-500")


def _requests(observed: Observed, name: str) -> str:
    return ", ".join(sorted({str(it["requests"].get(name, 0)) for it in observed.forms(name).values()}))


OBSERVATIONS: Final[Mapping[str, Callable[[Observed], str]]] = {
    "text": text,
    "tools": tools,
    "parallel": parallel,
    "structured": structured,
    "hosted": hosted,
    "citations": citations,
    "reasoning": reasoning,
    "refusal": refusal,
    "usage": usage,
    "whole": whole,
    "errors": errors,
    "stream_error": stream_error,
    "calls_400": requests_400,
    "calls_500": requests_500,
}
"""Column -> how its cell is observed."""

KINDS: Final[Mapping[int, str]] = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    409: "ConflictError",
    422: "UnprocessableEntityError",
    429: "RateLimitError",
    500: "InternalServerError",
    503: "InternalServerError",
}
"""Status -> class in `openai`, also under LangChain; all others are `APIError`."""


def _raised(status: int) -> Check:
    def check(reading: Reading) -> str | None:
        error = reading.get("error") or {}
        expected = {KINDS.get(status, "APIError"), "APICallError"}
        is_typed = error.get("status") == status and error.get("kind") in expected
        is_safe = not any(name in str(error.get("message")) for name in (ORGANISATION, HOST))
        return None if is_typed and is_safe else f"{status}: {error}"

    return check


def _explained(status: int) -> Check:
    def check(reading: Reading) -> str | None:
        message = reading["error"]["message"]
        return None if REASONS[status][3] in message else f"{status}: {message}"

    return check


def _same(forms: Mapping[str, Reading], **members: object) -> list[str]:
    """Return how the readings differ. A form without the member `deltas` does not stream."""

    def check(reading: Reading) -> str | None:
        for name, value in members.items():
            if reading.get(name) != value and (name != "deltas" or name in reading):
                return f"{name} is {reading.get(name)!r}; error: {reading.get('error')}"
        return None

    return _each(forms, check) or ([] if forms else ["no reading"])


def _each(forms: Mapping[str, Reading], check: Check) -> list[str]:
    return [f"{form}: {problem}" for form, it in forms.items() if (problem := check(it)) is not None]


def _shown(forms: Mapping[str, Reading], member: str, value: str) -> str:
    """Return `yes`, `not shown`, or the forms that show a text."""
    raised = _verdict([_each(forms, lambda it: str(it["error"]) if "error" in it else None)])
    if raised != "yes":
        return raised
    right = [f"`{form}`" for form, it in forms.items() if it.get(member) == value]
    return "yes" if len(right) == len(forms) else ", ".join(right) or "not shown"


def _verdict(problems: Iterable[list[str]]) -> str:
    return "; ".join(problem for found in problems for problem in found) or "yes"
