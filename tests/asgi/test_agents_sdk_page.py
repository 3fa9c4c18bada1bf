"""The examples of docs/agents_sdk.md, run unchanged with a model on a real socket."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from projector.contracts.stream_rules import check_stream
from tests.asgi.agents_model import Call, Text, refuses, response, streams, turns
from tests.asgi.in_process import post

agents = pytest.importorskip("agents", reason="the Agents SDK is not installed (extra agents_sdk)")

PAGE: Final = (Path(__file__).parents[2] / "docs" / "agents_sdk.md").read_text(encoding="utf-8")
APP, GENERATOR = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def run(example: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(example, "docs/agents_sdk.md", "exec", dont_inherit=True), names)  # noqa: S102 - our own page
    return names


@pytest.fixture
async def model(upstream: Any, upstream_port: int) -> AsyncIterator[Any]:
    """Start a model at the SDK's default address."""
    from openai import AsyncOpenAI  # noqa: PLC0415 - only where the SDK is

    client = AsyncOpenAI(api_key="k", base_url=f"http://127.0.0.1:{upstream_port}/v1", max_retries=0)
    agents.set_default_openai_client(client, use_for_tracing=False)

    async def answers(*scripts: Any) -> None:
        await upstream(turns(*scripts))

    yield answers
    await client.close()


def frames(data: bytes) -> list[dict[str, Any]]:
    lines = [part.removeprefix(b"data: ") for part in data.split(b"\n\n") if part.startswith(b"data: ")]
    assert check_stream(lines) == []
    return [json.loads(line) for line in lines]


async def said_to(app: Any, path: str, **body: Any) -> list[dict[str, Any]]:
    return frames((await post(app, path, **body)).text.encode())


@agents.function_tool(failure_error_function=None)
def breaks() -> str:
    raise KeyError


async def test_the_app_hands_off_and_answers(model: Any) -> None:
    await model(
        streams(response(Call("call_1", "transfer_to_forecaster"), response_id="r_1")),
        streams(response(Call("call_2", "weather", '{"city":"Oslo"}'), response_id="r_2")),
        streams(response(Text("It is blue."), response_id="r_3")),
    )
    said = await said_to(run(APP)["app"], "/chat", conversation="conv_1", message="How is Oslo?")
    assert (said[-1]["agent"], said[-1]["final"]["response_text"]) == ("forecaster", "It is blue.")
    assert [frame["output"] for frame in said if frame["kind"] == "tool.output"][-1] == {"city": "Oslo", "sky": "blue"}
    assert {frame["conversation_id"] for frame in said} == {"conv_1"}


@pytest.mark.parametrize(
    ("approved", "output"),
    [(["approval_call_1"], "ordered a red one"), ([], "Tool execution was not approved.")],
)
async def test_the_app_asks_and_goes_on(model: Any, approved: list[str], output: str) -> None:
    await model(
        streams(response(Call("call_1", "order_umbrella", '{"colour":"red"}'), response_id="r_1")),
        streams(response(Text("As you say."), response_id="r_2")),
    )
    app = run(APP)["app"]
    said = await said_to(app, "/chat", conversation="conv_1", message="It rains.")
    assert [frame["tool"]["status"] for frame in said if frame["kind"] == "tool.status"][-1] == "awaiting_approval"
    said = await said_to(app, "/decide", conversation="conv_1", approved=approved)
    assert [frame["output"] for frame in said if frame["kind"] == "tool.output"] == [output]
    assert said[-1]["final"]["response_text"] == "As you say."


@pytest.mark.parametrize(
    ("script", "ended"),
    [
        (streams(response(Text("Hello."))), ("final", "completed")),
        (refuses(503), ("error", "upstream_http_503")),
        (streams(response(Call("call_1", "breaks"))), ("error", "internal_error")),
    ],
)
async def test_the_generator_streams(model: Any, script: Any, ended: tuple[str, str]) -> None:
    await model(script)
    settings = agents.RunConfig(tracing_disabled=True)
    helper = agents.Agent(name="helper", model="m", tools=[breaks])
    result = agents.Runner.run_streamed(helper, "hi", run_config=settings)
    last = frames(b"".join([data async for data in run(GENERATOR)["stream"](result)]))[-1]
    assert (last["kind"], last.get("final", {}).get("status") or last["error"]["code"]) == ended
