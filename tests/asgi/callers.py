"""Callers with keys, and an upstream in this process that answers as it is told."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final

from projector.core.faults import FAULTS
from projector.core.sse import encode_sse
from projector.server.app import create_app
from projector.server.config.settings import Settings
from projector.server.upstream.protocol import ProviderRequest, UpstreamError
from tests.asgi import in_process
from tests.asgi.in_process import Answer
from tests.waiting import wait_until

Script = Callable[[ProviderRequest], AsyncGenerator[bytes, None]]

REFUSED: Final = UpstreamError(FAULTS["upstream_unreachable"])


def keys(*names: str) -> dict[str, str]:
    """Return the hashes of keys that are the names of their callers."""
    return {name: f"sha256:{hashlib.sha256(name.encode()).hexdigest()}" for name in names}


def event(kind: str, **members: Any) -> bytes:
    return encode_sse(json.dumps({"type": kind, **members}).encode())


def text(words: str) -> bytes:
    item = {"output_index": 0, "item_id": "msg_1", "content_index": 0}
    return event("response.output_text.delta", delta=words, **item)


def completed(response_id: str = "resp_1", **usage: Any) -> bytes:
    response = {"id": response_id, "status": "completed", "output": [], **({"usage": usage} if usage else {})}
    return event("response.completed", response=response)


async def answers(request: ProviderRequest) -> AsyncGenerator[bytes, None]:
    """Answer, and report 500 tokens."""
    if request.provider == "openai_chat":
        choice = {"index": 0, "delta": {"content": "Hello."}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 400, "completion_tokens": 100, "total_tokens": 500}
        yield encode_sse(json.dumps({"id": "c", "choices": [choice], "usage": usage}).encode())
        yield encode_sse(b"[DONE]")
    else:
        yield text("Hello.") + completed(input_tokens=400, output_tokens=100, total_tokens=500)


class Upstream:
    """An upstream that plays a script; it keeps the requests."""

    providers: Final = frozenset({"openai_responses", "openai_chat"})
    is_recording: Final = False

    def __init__(self, script: Script = answers) -> None:
        self.script = script
        self.requests: list[ProviderRequest] = []

    @asynccontextmanager
    async def open(self, request: ProviderRequest, /) -> AsyncGenerator[AsyncIterator[bytes], None]:
        self.requests.append(request)
        async with aclosing(self.script(request)) as chunks:
            yield chunks

    async def aclose(self) -> None:
        pass


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


class Server:
    """An application with an upstream in this process, and clients of it."""

    def __init__(self, settings: Mapping[str, Any], upstream: Upstream | None = None, **options: Any) -> None:
        self.upstream = upstream or Upstream()
        self.app = create_app(Settings.model_validate(settings), lambda *_: self.upstream, **options)

    async def ask(
        self,
        path: str = "/api/v1/chat/stream",
        body: object = None,
        *,
        key: str = "alice",
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Answer:
        """Send a request, and return the whole response."""
        sent = {"authorization": f"Bearer {key}", **(headers or {})}
        return await in_process.ask(
            self.app, path, {"message": "hi"} if body is None else body, headers=sent, **options
        )

    async def run(self, path: str, body: object = None, **options: Any) -> Answer:
        """Send a request, and wait for the end of the run that it started."""
        answer = await self.ask(path, body, **options)
        await wait_until(lambda: not self.app.state.streams.active)
        return answer

    async def interrupts(self, run_id: str) -> dict[str, str]:
        """Return the paths at which the last question of a run is answered: with a key, and with its token."""
        log = await self.ask(f"/v1/runs/{run_id}/events", method="GET", headers={"accept": "application/json"})
        asked = [one["payload"] for one in log.json()["events"] if one["type"] == "node.suspended"]
        return {"key": f"/v1/runs/{run_id}/interrupts/agent", "token": f"/v1/interrupts/{asked[-1]['token']}"}
