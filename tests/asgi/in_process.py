"""One request to an application in this process, without a server; its client stays."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str


async def post(app: Any, path: str, **body: Any) -> Answer:
    asked = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if asked:
            return asked.pop()
        await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"content-type", b"application/json"), (b"host", b"test")]
    path, _, query = path.partition("?")
    scope = {"type": "http", "http_version": "1.1", "method": "POST", "path": path, "root_path": "", "scheme": "http"}
    await app({**scope, "query_string": query.encode(), "headers": headers, "client": ("127.0.0.1", 1)}, receive, send)
    said = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Answer(sent[0]["status"], said, b"".join(message.get("body", b"") for message in sent).decode())
