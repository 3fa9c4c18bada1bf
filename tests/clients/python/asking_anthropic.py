"""What the frameworks with Anthropic's API share: the tools of a loop, errors, and a line for each model and way.

A script is run with the base URL of the server, and names of models. Models that begin with `loop` call tools.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, Final

import anthropic

KEY: Final = "sk-client"
MAX_TURNS: Final = 40
Result = dict[str, Any]
Ways = dict[str, Callable[[str], Result]]


def tools_of(executed: list[Any]) -> list[Callable[..., str]]:
    """Return the tools of a loop, which record their calls."""

    def look(at: str) -> str:
        """Look."""
        executed.append(["look", {"at": at}])
        return "look: done"

    def find(at: str) -> str:
        """Find."""
        executed.append(["find", {"at": at}])
        return "find: done"

    return [look, find]


def raised(error: BaseException) -> Result:
    """Return status and type of an error, which a client may have wrapped."""
    cause: Any = error
    while cause is not None and not isinstance(cause, anthropic.APIError):
        cause = cause.__cause__
    status, body = getattr(cause, "status_code", None), getattr(cause, "body", None) or {}
    return {"raised": [status, body.get("error", {}).get("type")], "class": type(error).__name__, "text": str(error)}


def run(ways_of: Callable[[str], Ways]) -> None:
    """Print a line for each way of asking and its models."""
    url, *models = sys.argv[1:]
    for way, ask in ways_of(url).items():
        is_loop = way.startswith("loop")
        for model in models:
            if model.startswith("loop") != is_loop:
                continue
            line: dict[str, Any] = {"model": model, "way": way}
            try:
                line["result"] = ask(f"{model}-{way}" if is_loop else model)
            except Exception as error:  # noqa: BLE001 - whatever the client raises is the result
                line |= raised(error)
            sys.stdout.write(json.dumps(line) + "\n")
