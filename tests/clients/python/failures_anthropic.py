"""Print the fault that each exception of the `anthropic` SDK means: what the provider did -> the fault."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from sys import path, stdout

import anthropic
import httpx2

path.insert(0, str(Path(__file__).parents[3]))  # the project is not installed among the clients

from projector.providers.client_failures import client_failure

OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


def _refuse(error: Exception) -> Callable[[httpx2.Request], httpx2.Response]:
    def handle(_request: httpx2.Request) -> httpx2.Response:
        raise error

    return handle


WAYS: dict[str, Callable[[httpx2.Request], httpx2.Response]] = {
    "429": lambda _: httpx2.Response(429, json=OVERLOADED, headers={"retry-after": "7"}),
    "529": lambda _: httpx2.Response(529, json=OVERLOADED),
    "401": lambda _: httpx2.Response(401, json=OVERLOADED),
    "refused": _refuse(httpx2.ConnectError("a")),
    "silent": _refuse(httpx2.ReadTimeout("a")),
    "error in the stream": lambda _: httpx2.Response(
        200, headers={"content-type": "text/event-stream"}, text=f"event: error\ndata: {json.dumps(OVERLOADED)}\n\n"
    ),
}


def outcome(way: Callable[[httpx2.Request], httpx2.Response]) -> object:
    """Return the code of the fault, and what the stream gets of the provider's error."""
    http = httpx2.Client(transport=httpx2.MockTransport(way))
    client = anthropic.Anthropic(api_key="k", max_retries=0, http_client=http)
    try:
        message = {"role": "user", "content": "Hi"}
        for _ in client.messages.create(model="m", max_tokens=1, messages=[message], stream=True):
            pass
    except anthropic.AnthropicError as error:
        failure = client_failure(error, has_begun=True)
        return None if failure is None else [failure.fault.code, failure.last]
    return "no exception"


if __name__ == "__main__":
    stdout.write(json.dumps({name: outcome(way) for name, way in WAYS.items()}))
