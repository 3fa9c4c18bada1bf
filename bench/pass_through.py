"""The pass-through proxy of `bench/proxy.py`: the least that a proxy does for a stream with aiohttp and uvicorn.

With `--pipeline`, bytes go through a pipeline: the least that a server of these parts does, without limits, heartbeats,
logs of streams, log lines, metrics and checked requests.

python bench/pass_through.py PORT PROVIDER_PORT [--pipeline]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import aiohttp
import uvicorn

_HEADERS = {"content-type": "application/json", "authorization": "Bearer none"}


Feed = Callable[[bytes], bytes]


def application(provider: int, make_feed: Callable[[str], Feed] = lambda _: bytes) -> Any:
    """Return an ASGI application that sends the bytes of the provider, or what a feed for its API makes of them."""
    session: list[aiohttp.ClientSession] = []

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if not session:
            session.append(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)))
        body = (await receive())["body"]
        is_chat = b'"agent":"chat"' in body or scope["path"] == "/v1/chat/completions"
        url = f"http://127.0.0.1:{provider}/v1/{'chat/completions' if is_chat else 'responses'}"
        feed = make_feed("openai_chat" if is_chat else "openai_responses")
        async with session[0].post(url, data=body, headers=_HEADERS) as response:
            headers = [(b"content-type", b"text/event-stream")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            async for chunk in response.content.iter_any():
                await send({"type": "http.response.body", "body": feed(chunk), "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return app


def pipelines() -> Callable[[str], Feed]:
    """Return what makes the feed of a new pipeline."""
    from projector import build_pipeline  # noqa: PLC0415 - a pass-through must not load it
    from projector.redaction.policy import Policy  # noqa: PLC0415 - as above
    from projector.redaction.redactor import Redactor  # noqa: PLC0415 - as above

    redactor = Redactor(Policy())
    redactor.compile()
    return lambda api: build_pipeline(provider=api, dialect="public_sse_v1", redactor=redactor).feed


def serve(app: Any, port: int) -> None:
    """Serve an ASGI application."""
    config = uvicorn.Config(
        app, port=port, loop="uvloop", http="httptools", lifespan="off", access_log=False, log_level="error"
    )
    uvicorn.Server(config).run()


if __name__ == "__main__":
    serve(application(int(sys.argv[2]), *([pipelines()] if "--pipeline" in sys.argv else [])), int(sys.argv[1]))
