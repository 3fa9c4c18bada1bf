"""deploy/nextjs, built and started by the real Next.js between a client and a real server."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import subprocess
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from bench.redis_server import free_port
from tests.asgi.conftest import plays
from tests.deploy.browser import CREATED, ENDED, Dictation, asking, delta, listening
from tests.deploy.conftest import QUIET

pytestmark = pytest.mark.timeout(400)  # the first test builds

CHAT: Final = "/api/chat"
KEY: Final = "key-of-the-frontend"
AUTH: Final = {"api_keys": {"page": f"sha256:{hashlib.sha256(KEY.encode()).hexdigest()}"}}

Front: TypeAlias = Callable[[int], AbstractAsyncContextManager[int]]


@pytest.fixture
def front(nextjs_app: Path) -> Front:
    """Starts Next.js in front of a server on this port; returns its own port."""

    @contextlib.asynccontextmanager
    async def start(server: int) -> AsyncGenerator[int, None]:
        port = free_port()
        environ = os.environ | QUIET
        environ |= {"STREAM_SERVER_URL": f"http://127.0.0.1:{server}", "STREAM_SERVER_KEY": KEY}
        command = ["node", "node_modules/next/dist/bin/next", "start", "-H", "127.0.0.1", "-p", str(port)]
        with subprocess.Popen(command, cwd=nextjs_app, env=environ, stdout=subprocess.DEVNULL) as process:  # noqa: ASYNC220 - it returns at once
            try:
                await listening(port, lambda: process.poll() is not None)
                yield port
            finally:
                process.terminate()

    return start


async def test_frames_come_one_by_one(front: Front, serve: Any, upstream: Any) -> None:
    dictation = Dictation()
    await upstream(dictation.script)
    async with front(serve(auth=AUTH).port) as port, asking(port, CHAT, accept_encoding="gzip, br") as browser:
        assert browser.answer.status == 200
        assert browser.answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert browser.answer.headers["cache-control"] == "no-cache, no-transform"
        assert browser.answer.headers["x-accel-buffering"] == "no"
        assert "content-encoding" not in browser.answer.headers
        await dictation.is_received_by(browser)


async def test_heartbeats_cancel_and_problems_pass(front: Front, serve: Any, upstream: Any) -> None:
    await upstream(plays([], ends=False))
    async with front(serve(auth=AUTH, heartbeat_s=0.1).port) as port:
        async with asking(port, f"{CHAT}?dialect=none") as browser:
            assert browser.answer.status == 422
            assert (await browser.answer.problem())["code"] == "unknown_dialect"
        async with asking(port, f"{CHAT}/stream_0/cancel", b"") as browser:
            assert browser.answer.status == 404
            assert (await browser.answer.problem())["code"] == "unknown_stream"
        async with asking(port, CHAT) as browser:
            for _ in range(3):
                assert (await browser.message()).startswith(b": heartbeat ")
            stream_id = browser.answer.headers["x-stream-id"]
            async with asking(port, f"{CHAT}/{stream_id}/cancel", b"") as cancelling:
                assert cancelling.answer.status == 204
            assert (await browser.until("final"))["final"]["status"] == "cancelled"


async def test_a_key_of_idempotency_passes(front: Front, serve: Any, upstream: Any) -> None:
    await upstream(plays([CREATED, ENDED]))
    async with front(serve(auth=AUTH).port) as port:
        found = []
        for key in ("key-1", "key-1", "key-2"):
            async with asking(port, CHAT, idempotency_key=key) as browser:
                found.append(browser.answer.headers["x-stream-id"])
                await browser.until("final")
    assert found[0] == found[1] != found[2]


async def test_chats_of_the_ai_sdk_pass(front: Front, serve: Any, upstream: Any, upstream_port: int) -> None:
    """The dialect's header, the ID of the chat in the path, and the query: `useChat` asks with all three."""
    await upstream(plays([CREATED, delta("Hi")], ends=False))
    text = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Hello"}]}
    upstreams = {"one": {"base_url": f"http://localhost:{upstream_port}/v1"}}
    agents = {"default": {"upstream": "one", "model": "m", "dialects": ["ai_sdk"]}}
    site = serve(api_key=None, base_url=None, auth=AUTH, upstreams=upstreams, agents=agents)
    async with front(site.port) as port:
        body = {"id": "chat 1", "messages": [text]}
        async with asking(port, "/api/ai-sdk/default?level=7", body) as browser:
            assert browser.answer.headers["x-vercel-ai-ui-message-stream"] == "v1"
            while b'"delta":"Hi"' not in await browser.message():
                pass
            async with asking(port, "/api/ai-sdk/default/chat%201/stop", b"") as stopping:
                assert stopping.answer.status == 204
            assert b'"type":"abort"' in await browser.answer.rest()
        async with asking(port, "/api/ai-sdk/nobody?level=7", body) as browser:
            assert (browser.answer.status, (await browser.answer.problem())["code"]) == (404, "unknown_agent")


async def test_a_browser_that_leaves_closes_the_upstream(front: Front, serve: Any, upstream: Any) -> None:
    provider = await upstream(plays([CREATED], ends=False))
    site = serve(auth=AUTH)
    async with front(site.port) as port:
        async with asking(port, CHAT) as browser:
            await browser.until("lifecycle")
        peer = await provider.peers.get()
        await asyncio.wait_for(peer.gone.wait(), 60)
        assert await site.is_quiet()


async def test_no_server_is_a_problem_like_others(front: Front) -> None:
    async with front(free_port()) as port, asking(port, CHAT) as browser:
        assert (browser.answer.status, browser.answer.headers["retry-after"]) == (503, "5")
        problem = await browser.answer.problem()
        assert (problem["status"], problem["code"], problem["is_retryable"]) == (503, "server_shutdown", True)
