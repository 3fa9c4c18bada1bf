"""Facts about one HTTP request: what the parts of the server add while they handle it, and which API its path has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from starlette.datastructures import Headers
from starlette.types import Scope, Send

OPENAI_PREFIX: Final = "/v1/"
"""Start of the paths of the providers' own APIs; their clients are those of OpenAI unless they are Anthropic's."""
MESSAGES_PATH: Final = "/v1/messages"
"""Path of the Messages API of Anthropic, and parent of its other paths."""
MODELS_PATH: Final = "/v1/models"
"""Path that both APIs have."""
VERSION_HEADER: Final = "anthropic-version"
"""Header of every request of a client of Anthropic."""


def path_of(scope: Scope) -> str:
    """Return the path of a request below the mount point of the application."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def is_openai(scope: Scope) -> bool:
    """Return whether a path is one of the providers' own APIs."""
    return path_of(scope).startswith(OPENAI_PREFIX)


def is_anthropic(scope: Scope) -> bool:
    """Return whether a request is one of the Anthropic API: by its path, on a shared path by the version it sends."""
    path = f"{path_of(scope)}/"
    if path.startswith(f"{MESSAGES_PATH}/"):
        return True
    return path.startswith(f"{MODELS_PATH}/") and VERSION_HEADER in Headers(scope=scope)


_KEY: Final = "request_facts"
CALLER_MAX_CHARS: Final = 256


@dataclass(slots=True)
class RequestFacts:
    """Facts for the log line and the metrics of a request."""

    caller: str | None = None
    """Name of the caller, None until the request is authenticated."""
    status: int | None = None
    """HTTP status, None until the response has started."""
    code: str | None = None
    """Code of the error response, if there is one."""
    groups: tuple[str, ...] = ()
    """Groups of the caller."""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    """Headers of every response to the request, error responses included."""
    send_body: Send | None = None
    """Sends what follows the head of the response, without the middleware that only the head concerns."""
    is_reported: bool = False
    """Whether `stream_end` reports the request, so that it needs no line of its own."""
    is_projected: bool = False
    """Whether the response is a stream of this project, which `ProjectingMiddleware` must not project again."""


def facts_of(scope: Scope) -> RequestFacts:
    """Return the facts of a request."""
    state = scope.setdefault("state", {})
    facts: RequestFacts | None = state.get(_KEY)
    if facts is None:
        facts = state[_KEY] = RequestFacts()
    return facts


def route_of(scope: Scope) -> str | None:
    """Return the path template of the route that a request selected, None without one. It has no text of the caller."""
    path: str | None = getattr(scope.get("route"), "path_format", None)
    return path
