"""Which API the client of a path uses: it decides the form of errors and lists, and where a key is accepted."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers
from starlette.types import Scope

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
