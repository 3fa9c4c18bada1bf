"""The pass-through proxy of `bench/proxy.py`: the least that a proxy does for a stream with aiohttp and uvicorn.

python bench/pass_through.py PORT PROVIDER_PORT
"""

from __future__ import annotations

import sys
from typing import Any

import aiohttp
import uvicorn

_HEADERS = {"content-type": "application/json", "authorization": "Bearer none"}


def application(provider: int) -> Any:
    """Return an ASGI application that copies the bytes of the provider."""
    session: list[aiohttp.ClientSession] = []

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if not session:
            session.append(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)))
        body = (await receive())["body"]
        is_chat = b'"agent":"chat"' in body or scope["path"] == "/v1/chat/completions"
        url = f"http://127.0.0.1:{provider}/v1/{'chat/completions' if is_chat else 'responses'}"
        async with session[0].post(url, data=body, headers=_HEADERS) as response:
            headers = [(b"content-type", b"text/event-stream")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            async for chunk in response.content.iter_any():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return app


def serve(app: Any, port: int) -> None:
    """Serve an ASGI application."""
    config = uvicorn.Config(
        app, port=port, loop="uvloop", http="httptools", lifespan="off", access_log=False, log_level="error"
    )
    uvicorn.Server(config).run()


if __name__ == "__main__":
    serve(application(int(sys.argv[2])), int(sys.argv[1]))
