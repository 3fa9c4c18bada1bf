"""One request to an application in this process, without a server; its client stays."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, NamedTuple


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str
    """Bytes that are not UTF-8 are surrogates."""

    def json(self) -> Any:
        return json.loads(self.text)


async def post(app: Any, path: str, **body: Any) -> Answer:
    return await ask(app, path, body)


async def ask(
    app: Any,
    path: str,
    body: object,
    *,
    method: str = "POST",
    client: str = "127.0.0.1",
    headers: Mapping[str, str] | None = None,
) -> Answer:
    asked = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if asked:
            return asked.pop()
        await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    fields = {"content-type": "application/json", "host": "test", **(headers or {})}
    raw = [(name.encode(), value.encode()) for name, value in fields.items()]
    path, _, query = path.partition("?")
    scope = {"type": "http", "http_version": "1.1", "method": method, "path": path, "root_path": "", "scheme": "http"}
    await app({**scope, "query_string": query.encode(), "headers": raw, "client": (client, 1)}, receive, send)
    said = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Answer(
        sent[0]["status"], said, b"".join(message.get("body", b"") for message in sent).decode(errors="surrogateescape")
    )
