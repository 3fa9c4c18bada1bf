"""The package `anthropic` against a server: stream helper, JSON answer, counter and tool loops, one line each.

It is run with the base URL of the server, and names of models. The last line is its list of models.
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


def counted(client: Any, model: str) -> dict[str, Any]:
    """Return what the counter returns, with the headers of betas."""
    ask = client.beta.messages.count_tokens
    return {"tokens": ask(model=model, messages=QUESTION["messages"], betas=["one"]).input_tokens}


def looped(client: Any, model: str, *, stream: bool) -> dict[str, Any]:
    """Return the last answer of the package's own tool loop, the executed calls, and what the client received."""
    executed: list[Any] = []
    received: list[str] = []

    def called(name: str, at: str) -> str:
        executed.append([name, {"at": at}])
        return f"{name}: done"

    @anthropic.beta_tool
    def look(at: str) -> str:
        """Look."""
        return called("look", at)

    @anthropic.beta_tool
    def find(at: str) -> str:
        """Find."""
        return called("find", at)

    runner = client.beta.messages.tool_runner(model=model, tools=[look, find], stream=stream, **QUESTION)
    last = None
    for answer in runner:
        received += map(str, answer) if stream else [answer.to_json()]
        last = answer.get_final_message() if stream else answer
    return {**read(last), "executed": executed, "received": received}


def loop_streamed(client: Any, model: str) -> dict[str, Any]:
    """Return what the tool loop shows when it streams."""
    return looped(client, model, stream=True)


def loop_whole(client: Any, model: str) -> dict[str, Any]:
    """Return what the tool loop shows when it does not stream."""
    return looped(client, model, stream=False)


def listed(client: Any) -> dict[str, Any]:
    """Return the models of all pages, each read again by its ID, and what an unknown one raises."""
    names = {one.id: client.models.retrieve(one.id).display_name for one in client.models.list(limit=2)}
    try:
        client.models.retrieve("none")
    except anthropic.NotFoundError as error:
        return {"names": names, "request_id": error.request_id}
    return {"names": names}


def main() -> None:
    """Print a line for each model and way."""
    url, *models = sys.argv[1:]
    client = anthropic.Anthropic(base_url=url, api_key="sk-client")
    for model in models:
        is_loop = model.startswith("loop")
        for way in (loop_streamed, loop_whole) if is_loop else (streamed, whole, counted):
            line: dict[str, Any] = {"model": model, "way": way.__name__}
            try:
                line["result"] = way(client, f"{model}-{way.__name__}" if is_loop else model)
            except anthropic.APIStatusError as error:
                line["raised"] = [error.status_code, error.body["error"]["type"]]  # type: ignore[index, call-overload]
                line["class"], line["has_id"] = type(error).__name__, bool(error.request_id)
            sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.write(json.dumps({"model": "", "way": "listed", "result": listed(client)}) + "\n")


if __name__ == "__main__":
    main()
