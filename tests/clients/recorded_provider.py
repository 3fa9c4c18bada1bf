"""A provider of the OpenAI API on loopback, for tests with real clients; `model` selects a recorded stream or an error.

Run it with `python tests/clients/recorded_provider.py PORT`; it prints its URL. `recorded_streams.py` lists the models
that answer. Besides, `fail-STATUS` answers with this status, and `fail-429-later` asks to wait for a minute.

    GET /scenarios      what a client should read, by API and model
    GET /calls          number of requests by model; DELETE resets it
    GET /requests       the bodies of the requests in order; DELETE /calls resets them too
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.clients.provider_checks import CALLS, Refusal, refuse_chat, refuse_responses
from tests.clients.recorded_streams import SCENARIOS, content, expected, lines, turns_of

KEY: Final = "sk-upstream-0123456789abcdefghijkl"
"""The only key that the provider accepts."""

ORGANISATION: Final = "org-Tq8RzV1nYt5KdWc3Lm0PxB7o"
HOST: Final = "gpu-7.inference.internal.example"
REASONS: Final[dict[int, tuple[str, str | None, str | None, str]]] = {
    400: ("invalid_request_error", "unsupported_value", "temperature", "Unsupported value: 'temperature' must be 1."),
    401: ("authentication_error", "invalid_api_key", None, "Incorrect API key provided."),
    403: ("permission_error", "unsupported_country_region_territory", None, "This country is not supported."),
    404: ("not_found_error", "model_not_found", "model", "The model does not exist."),
    409: ("conflict_error", None, None, "The conversation is in use."),
    413: ("invalid_request_error", None, None, "The request is too large."),
    422: ("invalid_request_error", None, None, "The request could not be processed."),
    429: ("rate_limit_error", "rate_limit_exceeded", None, "Rate limit reached."),
    500: ("server_error", None, None, "The server had an error."),
    503: ("server_error", None, None, "The engine is overloaded."),
}
"""Status -> type, code, param and first sentence of its error."""

SLOW_S: Final = 0.02


class Provider:
    """State of the provider: the requests so far."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.requests: list[dict[str, Any]] = []
        self.calls_of: dict[str, frozenset[str]] = {}

    async def responses(self, request: Request) -> Response:
        """Answer `POST /v1/responses`."""
        body = await request.json()
        outputs = (
            [item for item in body["input"] if item.get("type") in CALLS] if isinstance(body["input"], list) else []
        )
        return self._answer(request, "responses", body, min(len(outputs), 1))

    async def chat(self, request: Request) -> Response:
        """Answer `POST /v1/chat/completions`."""
        body = await request.json()
        return self._answer(request, "chat", body, int(any(it["role"] == "tool" for it in body["messages"])))

    def _answer(self, request: Request, api: str, body: dict[str, Any], turn: int) -> Response:
        model = body["model"]
        self.calls[model] += 1
        self.requests.append(body)
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return _failure(401)
        if failing := re.fullmatch(r"fail-(\d+)(-later)?", model):
            return _failure(int(failing[1]), {"retry-after": "60"} if failing[2] else {})
        if model not in SCENARIOS[api]:
            return _failure(404)
        if model == "fails-once" and self.calls[model] == 1:
            return _failure(500)
        refusal = self._refuse(api, body)
        if refusal is not None:
            error = {"message": refusal.message, "type": "invalid_request_error", "param": refusal.param}
            return JSONResponse({"error": {**error, "code": refusal.code}}, 400)
        turn = min(turn, len(turns_of(api, model)) - 1)
        if api == "responses":
            self._remember(model, turn)
        return StreamingResponse(_stream(api, model, turn), media_type="text/event-stream")

    def _refuse(self, api: str, body: dict[str, Any]) -> Refusal | None:
        if body.get("stream") is not True:
            return Refusal("This provider only streams.", "stream")
        return refuse_chat(body) if api == "chat" else refuse_responses(body, self.calls_of)

    def _remember(self, model: str, turn: int) -> None:
        """Keep the ID of a response and its calls for `previous_response_id`."""
        created = json.loads(lines("responses", turns_of("responses", model)[turn])[0])
        calls = content("responses", model, turn).calls
        self.calls_of[created["response"]["id"]] = frozenset(call_id for call_id, _, _ in calls)

    async def models(self, _: Request) -> Response:
        """Answer `GET /v1/models`."""
        names = sorted({model for models in SCENARIOS.values() for model in models})
        data = [{"id": name, "object": "model", "created": 1765800000, "owned_by": ORGANISATION} for name in names]
        return JSONResponse({"object": "list", "data": data})

    async def count(self, request: Request) -> Response:
        """Answer `GET /calls` and `DELETE /calls`."""
        if request.method == "DELETE":
            self.calls.clear()
            self.requests.clear()
        return JSONResponse(self.calls)

    async def list_requests(self, _: Request) -> Response:
        """Answer `GET /requests`."""
        return JSONResponse(self.requests)

    async def scenarios(self, _: Request) -> Response:
        """Answer `GET /scenarios`."""
        return JSONResponse(expected())


def _failure(status: int, headers: dict[str, str] | None = None) -> Response:
    type_, code, param, sentence = REASONS[status]
    message = f"{sentence} Organization {ORGANISATION}, host https://{HOST}:8443/v1, request req_7Yt5KdWc3Lm0."
    error = {"message": message, "type": type_, "param": param, "code": code}
    return JSONResponse({"error": error}, status, {"x-request-id": "req_7Yt5KdWc3Lm0", **(headers or {})})


async def _stream(api: str, model: str, turn: int) -> AsyncIterator[str]:
    for line in lines(api, turns_of(api, model)[turn]):
        if model == "slow":
            await asyncio.sleep(SLOW_S)
        name = f"event: {json.loads(line)['type']}\n" if api == "responses" and line.startswith("{") else ""
        yield f"{name}data: {line}\n\n"


def app() -> Starlette:
    """Return a provider without any requests so far."""
    provider = Provider()
    return Starlette(
        routes=[
            Route("/v1/responses", provider.responses, methods=["POST"]),
            Route("/v1/chat/completions", provider.chat, methods=["POST"]),
            Route("/v1/models", provider.models),
            Route("/calls", provider.count, methods=["GET", "DELETE"]),
            Route("/requests", provider.list_requests),
            Route("/scenarios", provider.scenarios),
        ]
    )


def main(port: int) -> None:
    """Serve on loopback and print the URL; port 0 is any free one."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        uvicorn.Server(uvicorn.Config(app(), log_level="warning", lifespan="off")).run(sockets=[listener])


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
