"""A program that uses the public names passes `mypy --strict`, without a plugin: most hosts have none configured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
from openai import AsyncOpenAI, AsyncStream
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent

from projector import FAULTS, BranchContext, Fault, Policy, StreamContext, build_pipeline
from projector.server import HostEvent, Projection, PublicSSEResponse, Settings, Terminal, Timeouts, ToolLoop, Turn
from projector.server import UpstreamError, create_app, load_settings, public_stream
from projector.server.config.settings import Limits
from projector.server.config.upstream_settings import Retries, UpstreamSettings, UpstreamTimeouts


async def source() -> AsyncIterator[dict[str, object] | HostEvent]:
    yield {"type": "response.output_text.delta", "delta": "Hello"}
    yield HostEvent(type="projector.attachment", attachment={"object_id": "o"})
    raise UpstreamError(FAULTS["upstream_reset"])


async def bill(terminal: Terminal) -> None:
    print(terminal.outcome, terminal.usage)


projection = Projection(provider="openai_chat", policy=Policy(), context=StreamContext(), on_terminal=bill)
response = PublicSSEResponse(source(), projection, timeouts=Timeouts(idle_s=300))
stream: AsyncIterator[bytes] = public_stream(source(), projection, timeouts=Timeouts())


def ask(turn: Turn) -> AsyncIterator[object]:
    print(turn.items)
    return source()


client = AsyncOpenAI()


async def by_chat(turn: Turn) -> AsyncStream[ChatCompletionChunk]:
    return await client.chat.completions.create(messages=turn.messages, model="m", stream=True)


async def by_items(turn: Turn) -> AsyncStream[ResponseStreamEvent]:
    return await client.responses.create(input=turn.items, model="m", store=False, stream=True)


async def by_id(turn: Turn) -> AsyncStream[ResponseStreamEvent]:
    before = turn.previous_response_id
    return await client.responses.create(input=turn.new_items, previous_response_id=before, model="m", stream=True)


loops = [ToolLoop(one, {"print": print}, input="question") for one in (ask, by_chat, by_items, by_id)]
loop = PublicSSEResponse(loops[0], Projection())

pipeline = build_pipeline(provider="openai_responses", dialect="public_sse_v1", run=True)
output: bytes = pipeline.feed(b"data: {}") + pipeline.branch(BranchContext(agent="helper")).close()
output += pipeline.close(Fault("upstream_http_429", "provider", "Busy.", True))

app = create_app(Settings(port=0, timeouts=Timeouts(), limits=Limits(max_streams=5), retries=Retries(max=0)))
upstream = UpstreamSettings(timeouts=UpstreamTimeouts(total_s=60))
other = create_app(load_settings())
"""


def test_a_program_without_the_plugin_passes_mypy_strict(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("from collections.abc import AsyncIterator\n" + PROGRAM)
    arguments = ["--strict", "--config-file=", "--follow-imports=silent", f"--cache-dir={tmp_path}", str(program)]
    command = [sys.executable, "-m", "mypy", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.stdout.startswith("Success"), done.stdout + done.stderr
