"""Requests to an application in this process, without a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Self


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str
    """Bytes that are not UTF-8 are surrogates."""

    def json(self) -> Any:
        return json.loads(self.text)


class Client:
    """`receive` and `send` of one ASGI request, whose client stays until `left` is set."""

    def __init__(self, body: bytes | None = None) -> None:
        self._asked = [] if body is None else [{"type": "http.request", "body": body, "more_body": False}]
        self.scope: dict[str, Any] = {"type": "http", "http_version": "1.1", "path": "/run"}
        self.scope |= {"headers": [], "query_string": b""}
        self.sent: list[dict[str, Any]] = []
        self.left = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        if self._asked:
            return self._asked.pop()
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    async def call(self, app: Any) -> Self:
        await app(self.scope, self.receive, self.send)
        return self

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)


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
    fields = {"content-type": "application/json", "host": "test", **(headers or {})}
    raw = [(name.encode(), value.encode()) for name, value in fields.items()]
    path, _, query = path.partition("?")
    asking = Client(json.dumps(body).encode())
    asking.scope |= {"method": method, "path": path, "root_path": "", "scheme": "http", "query_string": query.encode()}
    asking.scope |= {"headers": raw, "client": (client, 1)}
    await asking.call(app)
    said = {name.decode(): value.decode() for name, value in asking.headers.items()}
    return Answer(asking.status, said, asking.body.decode(errors="surrogateescape"))
