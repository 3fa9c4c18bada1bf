"""IDs and names that are not valid Unicode: JSON can contain a lone surrogate, which has no UTF-8.

They get the same answer with each store, do not reach it, and disturb no other caller.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from projector.server.http.problems import Problem
from projector.server.ownership import Ownership
from projector.store.sqlite import SqliteStore
from tests.asgi.callers import Server, Upstream, completed, event, keys
from tests.asgi.test_caller_limits import AG_UI, BASE, CHAT, RESPONSES
from tests.asgi.test_callers import key_set, token
from tests.waiting import wait_until

BAD: Final = "\ud800"
SETTINGS: Final[dict[str, Any]] = {
    **BASE,
    "agents": {
        "a": {
            "upstream": "one",
            "model": "m",
            "dialects": ["public_sse_v1", "ag_ui", "ai_sdk"],
            "allowed_params": ["previous_response_id"],
        }
    },
    "passthrough": {"responses": "one", "chat_completions": "chat", "messages": "chat"},
    "auth": {
        "api_keys": keys("alice"),
        "jwt": {"issuer": "https://login.example", "audience": "projector", "jwks": key_set("one")},
    },
    "workflows": {},
    "heartbeat_s": 5,
}
SETTINGS.pop("openwop")


@pytest.fixture(params=["memory", "sqlite", "redis"])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Callable[..., Server]]:
    """Return a function that makes a server with each store."""
    store: dict[str, Any] = {"kind": request.param}
    if request.param == "sqlite":
        store["path"] = str(tmp_path / "store.db")
    elif request.param == "redis":
        url = request.getfixturevalue("redis_server").url
        store |= {"url": url, "prefix": f"test-{os.urandom(4).hex()}:"}
    made: list[Server] = []

    def make(settings: dict[str, Any] = SETTINGS, **options: Any) -> Server:
        made.append(Server({**settings, "store": store}, **options))
        return made[-1]

    yield make
    for one in made:
        await one.app.state.aclose()


ASKED: Final[dict[str, Any]] = {"model": "m", "input": "hi"}
TOOL: Final = {"type": "tool_use", "id": "call_1", "name": "look", "input": {"grid": BAD, "deep": [{"Row_ID": BAD}]}}
RESULT: Final = {"type": "tool_result", "tool_use_id": "call_1", "content": "x"}
TURNS: Final = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": [TOOL]},
    {"role": "user", "content": [RESULT]},
]
ROWS: Final[list[tuple[str, str, Any, int, str | None]]] = [
    ("a response", RESPONSES, {**ASKED, "previous_response_id": BAD}, 404, "previous_response_id"),
    ("an item", RESPONSES, {**ASKED, "input": [{"type": "item_reference", "id": BAD}]}, 404, "input"),
    ("a conversation", RESPONSES, {**ASKED, "conversation": BAD}, 400, "conversation"),
    ("a conversation by its ID", RESPONSES, {**ASKED, "conversation": {"id": BAD}}, 400, "conversation"),
    ("metadata", RESPONSES, {**ASKED, "metadata": {"trace_id": BAD}}, 200, None),
    ("metadata that have such a name", RESPONSES, {**ASKED, "metadata": {f"{BAD}id": "x"}}, 200, None),
    ("arguments", "/v1/messages", {"model": "m", "max_tokens": 9, "messages": TURNS}, 200, None),
    (
        "a conversation of an agent",
        CHAT,
        {"message": "hi", "agent": "a", "conversation_id": BAD},
        422,
        "conversation_id",
    ),
    (
        "a response of an agent",
        CHAT,
        {"message": "hi", "agent": "a", "previous_response_id": BAD},
        422,
        "previous_response_id",
    ),
    ("AG-UI", "/api/v1/ag-ui/a", {**AG_UI, "threadId": BAD}, 422, "threadId"),
    ("a run", "/api/v1/ag-ui/a", {**AG_UI, "runId": BAD}, 422, "runId"),
    ("a chat", "/api/v1/ai-sdk/a", {"id": BAD, "messages": []}, 422, "id"),
]


@pytest.mark.parametrize(("name", "path", "body", "status", "param"), ROWS)
async def test_an_id(
    server: Callable[..., Server], name: str, path: str, body: Any, status: int, param: str | None
) -> None:
    site = server()
    found, other = await asyncio.gather(site.ask(path, body), site.ask(RESPONSES, {**ASKED, "stream": True}))
    assert found.status == status, (name, found.text)
    if param is not None:
        assert f"`{param}`" in found.text or json.loads(found.text).get("error", {}).get("param") == param, found.text
    assert other.status == 200
    assert "response.completed" in other.text
    assert site.app.state.site.logs.is_sound


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/streams/ID"),
        ("DELETE", "/api/v1/streams/ID"),
        ("GET", "/api/v1/streams/ID/events"),
        ("POST", "/api/v1/streams/ID/cancel"),
        ("GET", "/v1/responses/ID"),
        ("GET", "/api/v1/ag-ui/a?runId=ID"),
    ],
)
async def test_an_id_in_an_address(server: Callable[..., Server], method: str, path: str) -> None:
    """A server decodes the path, and may put surrogates there."""
    site = server()
    for written in ("%ED%A0%80", BAD):
        if written != BAD or "?" not in path:
            found = await site.ask(path.replace("ID", written), method=method)
            assert found.status == 404, found.text


@pytest.mark.parametrize("claim", [{"sub": BAD}, {"sub": "ann\n"}, {"sub": "\x00"}, {"sub": "\x9b"}])
async def test_the_name_of_a_caller(server: Callable[..., Server], claim: dict[str, str]) -> None:
    """A token that was signed with it is refused."""
    site, asked = server(), {**ASKED, "stream": True}
    bad, other = (token(**one).removeprefix("Bearer ") for one in (claim, {"sub": "Zoë 🦆"}))
    async with asyncio.timeout(60):
        refused, found = await asyncio.gather(*(site.ask(RESPONSES, asked, key=key) for key in (bad, other)))
    assert (refused.status, refused.json()["error"]["code"]) == (401, "invalid_api_key")
    assert found.status == 200
    assert "response.completed" in found.text
    assert site.app.state.site.logs.is_sound


async def test_the_name_of_a_user_of_a_host(server: Callable[..., Server]) -> None:
    """No stream of another user waits for it."""
    site = server({**SETTINGS, "auth": {}})
    async with asyncio.timeout(60):
        own, other = await asyncio.gather(
            *(site.ask(RESPONSES, {**ASKED, "stream": True}, client=name) for name in (BAD, "ann"))
        )
    assert "response.completed" in own.text
    assert "response.completed" in other.text
    assert site.app.state.site.logs.is_sound


async def test_ids_of_a_provider(server: Callable[..., Server]) -> None:
    """The client gets U+FFFD in them, which is the ID of what it refers to; those of other responses are stored too."""

    async def names(_request: Any) -> AsyncIterator[bytes]:
        end = ids.pop(0)
        message = {"type": "message", "id": f"msg_{end}", "role": "assistant", "status": "completed", "content": []}
        asked = {"type": "mcp_approval_request", "id": f"mcpr_{end}", "name": "f", "arguments": "{}"}
        for index, item in enumerate((message, {**asked, "server_label": "s"})):
            yield event("response.output_item.done", output_index=index, item=item)
        yield completed(f"resp_{end}")

    ids = [BAD, "2"]
    site = server(upstream=Upstream(names))
    for _ in range(2):
        assert (await site.run(RESPONSES, ASKED)).status == 200
    approved = {"type": "mcp_approval_response", "approve": True}
    for end, status in ((BAD, 404), ("\ufffd", 200), ("2", 200)):
        item, approval = (
            {"type": "item_reference", "id": f"msg_{end}"},
            {**approved, "approval_request_id": f"mcpr_{end}"},
        )
        for body in ({"input": [item]}, {"previous_response_id": f"resp_{end}", "input": [approval]}):
            ids.append("3")
            found = await site.run(RESPONSES, {"model": "m", **body})
            assert found.status == status, (end, body, found.text)
    ownership = site.app.state.site.ownership
    await wait_until(lambda: not ownership._waiting)


async def test_ownership_of_no_id_is_not_written(tmp_path: Path) -> None:
    """What waits with it for the store is written."""
    store = SqliteStore(tmp_path / "store.db")
    ownership = Ownership(store)
    for key in (BAD, "msg_1"):
        ownership.add("item", key, "ann")
    await ownership.aclose()
    later = Ownership(store)
    await later.load({"input": [{"id": BAD}, {"id": "msg_1"}]})
    later.check_item("msg_1", "ann")
    with pytest.raises(Problem):
        later.check_item(BAD, "ann")
    await store.aclose()
