"""`pydantic-ai` with Anthropic's API against a server: streams, whole answers and its own tool loop."""

from __future__ import annotations

import asyncio
from typing import Any

from asking_anthropic import KEY, MAX_TURNS, Result, Ways, run, tools_of
from pydantic_ai import Agent, ModelRequest, direct
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.usage import UsageLimits


def ways(url: str) -> Ways:
    """Return the ways of asking `pydantic-ai`."""

    question = [ModelRequest.user_text_prompt("Hi")]

    def of(model: str) -> AnthropicModel:
        return AnthropicModel(model, provider=AnthropicProvider(api_key=KEY, base_url=url))

    def read(response: ModelResponse) -> Result:
        members = {
            "text": lambda part: {"type": "text", "text": part.content},
            "thinking": lambda part: {"type": "thinking", "thinking": part.content},
            "tool-call": lambda part: {"type": "tool_use", "name": part.tool_name, "input": part.args_as_dict()},
        }
        stop = (response.provider_details or {}).get("finish_reason")
        return {"content": [members[part.part_kind](part) for part in response.parts], "stop_reason": stop}

    async def streamed(model: str) -> Result:
        async with direct.model_request_stream(of(model), question) as stream:
            async for _ in stream:
                pass
            return read(stream.get())

    async def whole(model: str) -> Result:
        return read(await direct.model_request(of(model), question))

    async def loop(model: str, *, stream: bool) -> Result:
        executed: list[Any] = []
        received: list[str] = []
        agent = Agent(of(model), tools=tools_of(executed))
        async with agent.iter("Hi", usage_limits=UsageLimits(request_limit=MAX_TURNS)) as run:
            async for node in run:
                if stream and Agent.is_model_request_node(node):
                    async with node.stream(run.ctx) as events:
                        received += [str(event) async for event in events]
        assert run.result is not None
        received += map(str, run.result.all_messages())
        [*_, last] = [one for one in run.result.all_messages() if isinstance(one, ModelResponse)]
        return {**read(last), "executed": executed, "received": received}

    return {
        "streamed": lambda model: asyncio.run(streamed(model)),
        "whole": lambda model: asyncio.run(whole(model)),
        "loop_streamed": lambda model: asyncio.run(loop(model, stream=True)),
        "loop_whole": lambda model: asyncio.run(loop(model, stream=False)),
    }


if __name__ == "__main__":
    run(ways)
