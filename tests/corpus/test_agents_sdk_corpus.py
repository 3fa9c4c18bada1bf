"""Every recorded stream, read from a socket by a model of the real Agents SDK, and projected as a run."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import pytest
from openai import AsyncOpenAI

from projector import Policy
from projector.contracts.kinds import TERMINAL_KINDS
from projector.contracts.stream_rules import check_stream
from projector.core.faults import FAULTS
from projector.core.sse import encode_sse
from projector.providers.agents_sdk import RunStage, encode
from projector.redaction.redactor import Redactor
from tests.corpus.recorded import CORPUS, pipeline_of

agents = pytest.importorskip("agents", reason="the Agents SDK is not installed (extra agents_sdk)")

STREAMS: Final = {api: sorted(CORPUS.glob(f"{api}/*.ndjson")) for api in ("chat_completions", "responses")}
MODELS: Final = {"chat_completions": agents.OpenAIChatCompletionsModel, "responses": agents.OpenAIResponsesModel}
REDACTOR: Final = Redactor(Policy())

EVERY: Final = 1 if "PROJECTOR_TESTS_EFFORT" in os.environ else 5
"""The SDK is slow, so one stream in five is tested, and all of them by `make fuzz`."""

DISAGREEMENTS: Final[dict[str, tuple[str, ...]]] = {
    # the SDK adds the text of a message to a list of its parts, and fails
    **dict.fromkeys(
        (
            "prism__mistral_stream-reasoning-model-1-1",
            "pydantic-ai__test_mistral_test_mistral_model_thinking_part_iter",
            "ruby_llm__vcr_chat_mistral_hybrid_reasoning_streams_thinking_separately_from_content",
            "ruby_llm__vcr_chat_with_extended_thinking_mistral_mistral-small-latest_streams_thinking_content_when_available",
        ),
        ("no fault of ours",),
    ),
    # the answer of the recording is another one than its deltas
    "agentgateway__responses_stream-refusal": ("refusal",),
    "vercel-ai__openai_responses_openai-shell-container.1": ("text",),
    # the text begins with reasoning in a tag, which is no part of our text
    "llama-stack__inference_0248ff8a1be5ff5ba88046947059ffbde15a1c52adbeea456bb42abdfc931bd1": ("text",),
}
"""File -> the known differences of the public stream from the SDK's final response."""

FAKE: Final = "__fake_id__"


class Heard(NamedTuple):
    """The SDK's reading of a stream, and the public stream."""

    answer: Any
    """The response that the SDK ends with, None where it raised."""
    lines: list[bytes]

    @property
    def frames(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer each request with the stream at the position in its path: `/<api>/<position>/...`."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = next(line.split(":")[1] for line in head.lower().splitlines() if line.startswith("content-length"))
            await reader.readexactly(int(length))
            _, api, place, *_ = head.split(" ")[1].split("/")
            lines = STREAMS[api][int(place)].read_bytes().splitlines()
            body = b"".join(map(encode_sse, [*lines, b"[DONE]"]))
            fields = f"content-type: text/event-stream\r\ncontent-length: {len(body)}"
            writer.write(f"HTTP/1.1 200 OK\r\n{fields}\r\n\r\n".encode() + body)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


@pytest.fixture
async def ask() -> AsyncIterator[Callable[[str, int], Any]]:
    """Request a response that is a recorded stream."""
    serving: set[asyncio.Task[Any]] = set()

    def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.create_task(serve(reader, writer)))

    server = await asyncio.start_server(on_connection, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with AsyncOpenAI(api_key="k", base_url="http://127.0.0.1", max_retries=0) as client:

        async def asked(api: str, place: int) -> Heard:
            there = client.with_options(base_url=f"http://127.0.0.1:{port}/{api}/{place}")
            return await hear(MODELS[api]("m", there))

        yield asked
    server.close()
    await asyncio.gather(*serving)


async def hear(model: Any) -> Heard:
    pipeline = pipeline_of(
        "openai_responses", "public_sse_v1", REDACTOR, input_format="sse", run=True, takes_host_events=True
    )
    stage = RunStage()
    answer, fault, said = None, None, b""
    settings = agents.ModelSettings()
    events = model.stream_response(None, "hi", settings, [], None, [], agents.ModelTracing.DISABLED)
    try:
        async for event in events:
            answer = event.response if event.type == "response.completed" else answer
            raw = SimpleNamespace(type="raw_response_event", data=event)
            said += pipeline.feed(encode(stage.feed(raw), stage.dropped))
    except Exception as error:  # noqa: BLE001 - every exception of the SDK ends the stream
        more, fault = stage.fail(error)
        said += pipeline.feed(encode(more, Counter()))
        answer = None
    return Heard(answer, (said + pipeline.close(fault)).splitlines())


def differences(heard: Heard) -> tuple[str, ...]:
    """Return the errors of the public stream."""
    frames = heard.frames
    found = [str(one) for one in check_stream(heard.lines)]
    if [frame["kind"] in TERMINAL_KINDS for frame in frames].count(True) != 1:
        found.append("one terminal")
    if FAKE in json.dumps([{**frame, "delta": None} for frame in frames]):
        found.append("placeholders")
    if frames[-1].get("error", {}).get("code") == FAULTS["internal_error"].code:
        found.append("no fault of ours")
    if heard.answer is not None:
        found += [name for name, differs in compared(heard.answer, frames).items() if differs]
    return tuple(found)


def compared(answer: Any, frames: list[dict[str, Any]]) -> dict[str, bool]:
    """Return, for each part of the SDK's answer, whether the frames differ from it."""
    items = answer.output
    parts = [part for item in items if item.type == "message" for part in item.content]
    calls = [(item.call_id, item.name) for item in items if item.type in {"function_call", "custom_tool_call"}]
    statuses = [frame["tool"] for frame in frames if frame["kind"] == "tool.status"]
    texts = "".join(frame["delta"] for frame in frames if frame["kind"] == "message.delta")
    final = frames[-1].get("final", {})
    refusals = "".join(part.refusal for part in parts if part.type == "refusal")
    return {
        "text": texts != "".join(part.text for part in parts if part.type == "output_text"),
        "refusal": final.get("refusal_text", "").replace("\n\n", "") != refusals,
        "calls": sorted((tool["tool_call_id"], tool["name"]) for tool in statuses if tool["tool_type"] == "function")
        != sorted(calls),
        "status": final.get("status") not in {"completed", "refused"},
    }


def test_the_corpus_is_there(corpus: Path) -> None:
    assert len(STREAMS["chat_completions"]) > 400, corpus
    assert len(STREAMS["responses"]) > 150, corpus


@pytest.mark.parametrize("api", STREAMS)
async def test_the_page_is_told_what_the_sdk_read(ask: Any, api: str) -> None:
    wrong, known = {}, {}
    for place, path in list(enumerate(STREAMS[api]))[::EVERY]:
        if found := differences(await ask(api, place)):
            wrong[path.stem] = found
        if path.stem in DISAGREEMENTS:
            known[path.stem] = DISAGREEMENTS[path.stem]
    assert wrong == known
