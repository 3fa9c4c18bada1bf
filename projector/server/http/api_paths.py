"""Which API the client of a path uses: it decides the form of errors and lists, and where a key is accepted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

from starlette.datastructures import Headers
from starlette.types import Scope

from projector.providers import PROVIDERS
from projector.providers.descriptor import ClientApi, PassthroughRoute

OPENAI_PREFIX: Final = "/v1/"
"""Start of the paths of the providers' own APIs; their clients are as those of OpenAI unless the API says otherwise."""
MODELS_PATH: Final = "/v1/models"
"""Path that all APIs have."""
VERSION_HEADER: Final = "anthropic-version"
"""Header of every request of a client of Anthropic, for the OpenAPI document."""


def path_of(scope: Scope) -> str:
    """Return the path of a request below the mount point of the application."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def is_openai(scope: Scope) -> bool:
    """Return whether a path is one of the providers' own APIs."""
    return path_of(scope).startswith(OPENAI_PREFIX)


def client_api(scope: Scope) -> ClientApi | None:
    """Return what the client of a request expects: known by the path, on a shared path by the version that it sends."""
    route = client_route(scope)
    return None if route is None else route.client


def client_route(scope: Scope) -> PassthroughRoute | None:
    """Return the route of the API of a client; None if the API has the forms of OpenAI's."""
    path = f"{path_of(scope)}/"
    if not path.startswith(OPENAI_PREFIX):
        return None
    is_shared = path.startswith(f"{MODELS_PATH}/")
    for route, client in _own_routes():
        if path.startswith(f"{route.path}/") or (is_shared and client.version_header in Headers(scope=scope)):
            return route
    return None


@cache
def _own_routes() -> Sequence[tuple[PassthroughRoute, ClientApi]]:
    """Return the routes of APIs with forms of their own."""
    routes = [row.passthrough for row in PROVIDERS.values() if row.passthrough is not None]
    return [(route, route.client) for route in routes if route.client is not None]
