"""The package `anthropic` against a server: what its stream helper and its JSON answer have, one line each.

It is run with the base URL of the server.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import anthropic

QUESTION: Any = {"max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}]}


def read(message: Any) -> dict[str, Any]:
    """Return what a message has."""
    shown = message.model_dump(mode="json", exclude_none=True)
    blocks = [{name: block[name] for name in ("type", "text", "thinking", "name", "input") if name in block}
              for block in shown["content"]]  # fmt: skip
    return {"content": blocks, "stop_reason": shown.get("stop_reason")}


def streamed(client: Any, model: str) -> dict[str, Any]:
    """Return what the stream helper joins."""
    with client.messages.stream(model=model, **QUESTION) as stream:
        return read(stream.get_final_message())


def whole(client: Any, model: str) -> dict[str, Any]:
    """Return the JSON answer."""
    return read(client.messages.create(model=model, **QUESTION))


def main() -> None:
    """Print a line for each model and way."""
    url, *models = sys.argv[1:]
    client = anthropic.Anthropic(base_url=url, api_key="sk-client")
    for model in models:
        for way in (streamed, whole):
            line: dict[str, Any] = {"model": model, "way": way.__name__}
            try:
                line["result"] = way(client, model)
            except anthropic.APIStatusError as error:
                line["raised"] = [error.status_code, error.body["error"]["type"]]  # type: ignore[index, call-overload]
            sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
