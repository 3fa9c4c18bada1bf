"""The servers of `bench/proxy.py` and `bench/soak.py`, each a separate process.

A provider, the server under test, and an idle server, whose response time is the delay that the machine itself causes.
The pass-through proxy is in `bench/pass_through.py`.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from pathlib import Path
from typing import Any

import uvloop

from projector.dialects import DIALECTS
from projector.server.config.settings import Settings
from projector.server.interpreter import settle_interpreter
from projector.server.listening import listen, raise_file_limit
from projector.server.process import server
from projector.server.telemetry.logs import configure_logs

CHAT_DIALECTS = [name for name in DIALECTS if name != "openwop"]
"""Dialects of `/api/v1/chat/stream`; the first is the public one."""
MEMORY_BYTES = 2**30
"""Memory of all streams, so that the share of one suffices for a long answer."""
KEPT_S = 15
"""Seconds for which ended streams are kept: less than the warm-up of the soak, so that its memory does not grow."""
WATCHED_S = 0.002
"""Period of the beats of the event loop that is watched."""


async def provide(port: int) -> None:
    """Serve as the provider."""
    from provider_streams import answer  # noqa: PLC0415 - the server under test must not load its two megabytes

    server = await asyncio.start_server(answer, "127.0.0.1", port, backlog=2048)
    await server.serve_forever()


async def provide_for(port: int, seconds: int) -> None:
    """Serve as a provider that accepts no connections after a while."""
    from provider_streams import answer  # noqa: PLC0415 - as above

    server = await asyncio.start_server(answer, "127.0.0.1", port, backlog=2048)
    await asyncio.sleep(seconds)
    server.close()
    await asyncio.Event().wait()


def project(port: int, provider: int, dying: int | None = None) -> None:
    """Serve the server under test, as `projector serve` does, with its log enabled.

    With a provider that dies, the agent `twofold` has two targets, of which that is the first. The agent `chat` has a
    provider of the Chat API, and both have every dialect of a chat.
    """
    configure_logs()
    ports = {"main": provider, "dying": dying or provider}
    targets = [{"upstream": name, "model": "m"} for name in ("dying", "main")]
    upstreams = {name: {"base_url": f"http://127.0.0.1:{number}/v1"} for name, number in ports.items()}
    upstreams["chat"] = upstreams["main"] | {"api": "openai_chat"}
    settings = Settings(
        port=port,
        limits={"max_memory_bytes": MEMORY_BYTES},
        upstreams=upstreams,
        store={"retention_s": KEPT_S},
        agents={
            "default": {"upstream": "main", "model": "m", "dialects": CHAT_DIALECTS},
            "chat": {"upstream": "chat", "model": "m", "dialects": CHAT_DIALECTS},
            "twofold": {"targets": targets},
        },
    )
    _run(settings)


def _run(settings: Settings) -> None:
    raise_file_limit(settings)
    serving = server(settings)
    serving.config.loaded_app = Watch(serving.config.loaded_app)
    serving.compile()
    settle_interpreter()
    serving.run(sockets=[listen(settings)])


class Watch:
    """Middleware that answers `/blocks` with the longest block of the event loop, the longest pause, and tasks.

    Both are of two beats since it was asked last, in seconds. A pause is the time that passed, in which the system may
    have run other processes. A block is the CPU time of the process, at most the time that passed while the event loop
    did not wait for a CPU; on a busy machine it is a lower bound.
    """

    def __init__(self, app: Any) -> None:
        self._app = app
        self._longest_s = self._paused_s = 0.0
        self._last: tuple[float, float, float] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer `/blocks`, or pass the request on."""
        if scope.get("path") != "/blocks":
            await self._app(scope, receive, send)
            return
        if self._last is None:
            self._beat()
        body = b"%.4f %.4f %d" % (self._longest_s, self._paused_s, len(asyncio.all_tasks()))
        self._longest_s = self._paused_s = 0.0
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})

    def _beat(self) -> None:
        now = time.process_time(), time.monotonic(), _queued_s()
        if self._last is not None:
            used_s, passed_s, queued_s = (after - before for after, before in zip(now, self._last, strict=True))
            self._longest_s = max(self._longest_s, min(used_s, passed_s - queued_s))
            self._paused_s = max(self._paused_s, passed_s)
        self._last = now
        asyncio.get_running_loop().call_later(WATCHED_S, self._beat)


def _queued_s() -> float:
    """Return the seconds that this thread has waited for a CPU."""
    text = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat").read_text(encoding="ascii")
    return int(text.split()[1]) / 1e9


def forward(port: int, provider: int, idle_s: int) -> None:
    """Serve the server under test with one provider of the Chat API, for the route of that API and for pages.

    Cards are withheld as well as credentials. No failure stops the requests to the provider.
    """
    configure_logs()
    policy = {"text": {"payment_card": "mask"}}
    upstream = {"base_url": f"http://127.0.0.1:{provider}/v1", "api": "openai_chat", "api_key": "none"}
    settings = Settings(
        port=port,
        timeouts={"idle_s": idle_s},
        circuit_breaker={"failures": 0},
        upstreams={"main": upstream},
        agents={"default": {"upstream": "main", "model": "m", "policy": policy}},
        passthrough={"chat_completions": "main", "policy": policy},
    )
    _run(settings)


def idle(port: int) -> None:
    """Serve an empty response to every request."""
    from pass_through import serve  # noqa: PLC0415 - as above

    async def app(_scope: object, _receive: object, send: object) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    raise_file_limit(Settings())
    serve(app, port)


PROVIDERS = {"provider": provide, "dying": provide_for}
"""Name -> a provider."""

if __name__ == "__main__":
    what, *ports = sys.argv[1], *map(int, sys.argv[2:])
    if what in PROVIDERS:
        uvloop.run(PROVIDERS[what](*ports))
    else:
        {"proxy": project, "forwarding": forward, "idle": idle}[what](*ports)
