"""Facts about one HTTP request: what the parts of the server add while they handle it, and which API its path has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from starlette.datastructures import Headers
from starlette.types import Scope, Send

from projector._errors import check_argument
from projector.providers import PROVIDERS
from projector.providers.descriptor import ClientApi, PassthroughRoute

OPENAI_PREFIX: Final = "/v1/"
"""Start of the paths of the providers' own APIs; their clients are as those of OpenAI unless the API says otherwise."""


def path_of(scope: Scope) -> str:
    """Return the path of a request below the mount point of the application."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def client_of(scope: Scope) -> str | None:
    """Return the address of the client, or the name of the user that a host put there; None if it is not known.

    Raises:
        UsageError: `scope["client"]` is no pair; of a name alone, the first character would be used.
    """
    client = scope.get("client")
    if client is None:
        return None
    is_pair = isinstance(client, list | tuple) and len(client) == 2 and isinstance(client[0], str)  # noqa: PLR2004
    check_argument('scope["client"]', "`(name, 0)` or None", holds=is_pair)
    name: str = client[0]
    return name


def is_openai(scope: Scope) -> bool:
    """Return whether a path is one of the providers' own APIs."""
    return path_of(scope).startswith(OPENAI_PREFIX)


def client_api(scope: Scope) -> ClientApi | None:
    """Return what the client of a request expects: known by the path, or on others' by the version that it sends."""
    route = client_route(scope)
    return None if route is None else route.client


def client_route(scope: Scope) -> PassthroughRoute | None:
    """Return the route of the API of a client; None if the API has the forms of OpenAI's."""
    path = f"{path_of(scope)}/"
    if not path.startswith(OPENAI_PREFIX):
        return None
    named = next((route for route in _routes() if path.startswith(f"{route.path}/")), None)
    if named is not None:
        return named if named.client is not None else None
    headers = Headers(scope=scope)
    versioned = (route for route in _routes() if route.client is not None and route.client.version_header in headers)
    return next(versioned, None)


@cache
def _routes() -> Sequence[PassthroughRoute]:
    """Return the routes of the providers' own APIs."""
    return [row.passthrough for row in PROVIDERS.values() if row.passthrough is not None]


def headers_of(scope: Scope) -> dict[bytes, bytes]:
    """Return the headers of a request, of those with one name the first. A search of `Headers` is a loop in Python."""
    return dict(reversed([*scope["headers"]]))


_KEY: Final = "request_facts"
CALLER_MAX_CHARS: Final = 256


@dataclass(slots=True)
class RequestFacts:
    """Facts for the log line and the metrics of a request."""

    caller: str | None = None
    """Name of the caller, None until the request is authenticated."""
    address: str | None = None
    """Address of a client without a valid key."""
    status: int | None = None
    """HTTP status, None until the response has started."""
    code: str | None = None
    """Code of the error response, if there is one."""
    reason: str | None = None
    """Why the store could not be used, or the period of the limit that was reached."""
    groups: tuple[str, ...] = ()
    """Groups of the caller."""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    """Headers of every response to the request, error responses included."""
    send_body: Send | None = None
    """Sends what follows the head of the response, without the middleware that only the head concerns."""
    is_reported: bool = False
    """Whether `stream_end` reports the request, so that it needs no line of its own."""
    is_stalled: bool = False
    """Whether the connection was closed because its client did not read."""
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
