"""The examples of docs/library.md, run unchanged, alone and under a BaseHTTPMiddleware of the host."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from starlette.middleware.base import BaseHTTPMiddleware
from structlog.testing import capture_logs

from projector.core.handlers import HOST_HANDLERS
from projector.providers.client_failures import KINDS
from projector.server import Projection, PublicSSEResponse
from tests.asgi.in_process import post

PAGE = (Path(__file__).parents[2] / "docs" / "library.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
ROUTE, TOOLS, MOUNT, MIDDLEWARE, FASTAPI, HOST = EXAMPLES


def run(example: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(example, "docs/library.md", "exec", dont_inherit=True), names)  # noqa: S102 - our own page
    return names


async def passes(request: Any, call_next: Any) -> Any:
    return await call_next(request)


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("example", [ROUTE, MIDDLEWARE, FASTAPI])
async def test_an_example_streams(example: str, wrapped: bool) -> None:  # noqa: FBT001 - a row of the table
    names = run(example)
    app = BaseHTTPMiddleware(names["app"], passes) if wrapped else names["app"]
    answer = await post(app, "/chat", message="hi")
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["x-stream-id"].startswith("stream_")
    assert answer.text.count('"kind":"final"') == 1
    assert '"response_text":"Hello"' in answer.text.split("\n\n")[-2]
    assert names.get("bills", [("completed", "Hello", 9)]) == [("completed", "Hello", 9)]


async def test_the_message_of_the_first_example_is_complete() -> None:
    """An item that the provider never finished would be `incomplete`."""
    answer = await post(run(ROUTE)["app"], "/chat", message="hi")
    items = [json.loads(one.removeprefix("data: ")) for one in answer.text.split("\n\n") if "output_item.done" in one]
    assert [item["status"] for item in items] == ["completed"]


async def test_the_tool_loop_streams() -> None:
    answer = await post(run(TOOLS)["app"], "/chat", message="How is the weather in Rome?")
    shown = [json.loads(one.removeprefix("data: ")) for one in answer.text.split("\n\n") if one]
    statuses = [frame["tool"]["status"] for frame in shown if frame["kind"] == "tool.status"]
    assert statuses == ["in_progress", "completed"]
    assert shown[-1]["final"]["response_text"] == "It is blue."


async def test_the_hook_of_the_page_accepts_every_answer() -> None:
    """An answer of tool calls only has no text, and a failure has no usage."""
    call = {"type": "function_call", "id": "f", "call_id": "c", "name": "f", "arguments": "{}", "status": "completed"}
    done = {"type": "response.output_item.done", "output_index": 0, "item": call}
    end = {"type": "response.completed", "response": {"id": "r", "status": "completed"}}

    async def answer(*events: object) -> AsyncIterator[object]:
        for event in events:
            yield event

    names = run(ROUTE)
    for events in ([done, end], [done]):
        await post(PublicSSEResponse(answer(*events), Projection(on_terminal=names["bill"])), "/chat")
    assert names["bills"] == [("completed", "", 0), ("error", "", 0)]


async def test_the_mounted_proxy_answers() -> None:
    names = run(MOUNT)
    async with names["lifespan"](names["app"]):
        with capture_logs() as logs:
            answer = await post(names["app"], "/ai/api/v1/chat/stream", agent="other", message="hi")
        assert [line["caller"] for line in logs if line["event"] == "request"] == ["address:ann"]
        assert (answer.status, json.loads(answer.text)["code"]) == (404, "unknown_agent")
        assert json.loads(answer.text)["instance"] == "/ai/api/v1/chat/stream"


def test_the_events_of_the_host() -> None:
    events = [json.loads(line) for line in run(HOST)["output"].splitlines()]
    [output] = [event for event in events if event["kind"] == "tool.output"]
    assert output["output"] == {"high": "06:12", "token": "<redacted>"}
    assert [notice["path"] for notice in output["notices"]] == ["output.token"]
    assert events[-1]["kind"] == "final"


def test_the_page_names_every_event_of_the_host() -> None:
    section = PAGE.partition("`Pipeline.host`")[2]
    assert set(re.findall(r"^- `(projector\.\w+)`: ", section, re.MULTILINE)) == HOST_HANDLERS.keys()


def test_the_page_names_every_exception_of_a_client() -> None:
    section = PAGE.partition("### When the source fails")[2].partition("\n## ")[0]
    first = " ".join(re.findall(r"^- (`.*?`): ", section, re.MULTILINE))
    assert {f"{package}.{name}" for package, name in re.findall(r"`(\w+)(?:\.\w+)*\.(\w+)`", first)} == KINDS.keys()


def test_the_page_names_every_call_of_the_sdk() -> None:
    from tests.asgi.test_sdk_sources import CALLS  # noqa: PLC0415 - it needs the SDK

    listed = set(re.findall(r"`client\.([\w.]+)\(", PAGE))
    assert listed == {name.replace("chat.", "chat.completions.") for name in CALLS}
