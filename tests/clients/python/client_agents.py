"""The OpenAI Agents SDK, with each API: streamed runs, runs in one piece, function tools, structured output."""

from __future__ import annotations

from functools import partial
from typing import Any

import probing
from agents import (
    Agent,
    ItemHelpers,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from agents.items import MessageOutputItem, ReasoningItem
from openai import AsyncOpenAI
from probing import ANSWERS, APIS, BASE_URL, HOSTED, KEY, QUESTION, Book

set_tracing_disabled(disabled=True)


def agent(api: str, model: str, **members: Any) -> Agent[None]:
    kind = OpenAIResponsesModel if api == "responses" else OpenAIChatCompletionsModel
    client = AsyncOpenAI(api_key=KEY, base_url=BASE_URL)
    settings = ModelSettings(include_usage=True)  # the SDK asks other servers than OpenAI's only if it is told to
    return Agent(name="weather", model=kind(model=model, openai_client=client), model_settings=settings, **members)


async def streamed(api: str, model: str, **members: Any) -> Any:
    """Run to the end, and return the result and the text of the deltas."""
    result = Runner.run_streamed(agent(api, model, **members), QUESTION, max_turns=3)
    raw = [event.data async for event in result.stream_events() if event.type == "raw_response_event"]
    return result, "".join(event.delta for event in raw if event.type == "response.output_text.delta")


async def ran(api: str, model: str, **members: Any) -> Any:
    return await Runner.run(agent(api, model, **members), QUESTION, max_turns=3)


async def text(api: str, model: str = "text") -> dict[str, str]:
    result, deltas = await streamed(api, model)
    return {"run_streamed": result.final_output, "deltas": deltas}


async def whole(api: str) -> dict[str, str]:
    return {"run": (await ran(api, "text")).final_output}


@function_tool
def get_weather(city: str) -> str:
    assert city
    return ANSWERS["get_weather"]


@function_tool
def get_time(zone: str) -> str:
    assert zone
    return ANSWERS["get_time"]


async def loops(api: str, model: str) -> dict[str, str]:
    members: dict[str, Any] = {"tools": [get_weather, get_time]}
    result, _ = await streamed(api, model, **members)
    return {"run_streamed": result.final_output, "run": (await ran(api, model, **members)).final_output}


async def structured(api: str) -> dict[str, Any]:
    result, _ = await streamed(api, "structured", output_type=Book)
    whole_result = await ran(api, "structured", output_type=Book)
    return {"run_streamed": result.final_output.model_dump(), "run": whole_result.final_output.model_dump()}


async def hosted(api: str, model: str) -> dict[str, Any]:
    (result, deltas), answer = await streamed(api, model), await ran(api, model)
    messages = [item for item in answer.new_items if isinstance(item, MessageOutputItem)]
    return {
        "texts": [deltas, *(ItemHelpers.text_message_outputs(of.new_items) for of in (result, answer))],
        "items": [item.raw_item.type for item in answer.new_items if not isinstance(item, MessageOutputItem)],
        "citations": [
            note.type
            for item in messages
            for part in item.raw_item.content
            for note in getattr(part, "annotations", None) or ()
        ],
    }


async def refusal(api: str) -> dict[str, Any]:
    return {
        "run_streamed": await probing.failure(partial(streamed, api, "refusal")),
        "run": await probing.failure(partial(ran, api, "refusal")),
    }


async def reasoning(api: str) -> dict[str, Any]:
    def shown(result: Any) -> str:
        items = [item.raw_item for item in result.new_items if isinstance(item, ReasoningItem)]
        return "".join(part.text for item in items for part in item.summary)

    result, _ = await streamed(api, "reasoning")
    return {"run_streamed": shown(result), "run": shown(await ran(api, "reasoning"))}


async def usage(api: str) -> dict[str, Any]:
    def counts(result: Any) -> list[int]:
        of = result.context_wrapper.usage
        return [of.input_tokens, of.output_tokens, of.total_tokens]

    result, _ = await streamed(api, "text")
    return {"run_streamed": counts(result), "run": counts(await ran(api, "text"))}


WAYS = {"run_streamed": streamed, "run": ran}
"""How to ask: with a stream and without."""


async def retried(api: str) -> str:
    return str((await streamed(api, "fails-once"))[1])


def probes(api: str) -> dict[tuple[str, str], probing.Probe]:
    return {
        (api, "text"): partial(text, api),
        (api, "whole"): partial(whole, api),
        (api, "retried"): partial(retried, api),
        (api, "tools"): partial(loops, api, "tools"),
        (api, "parallel"): partial(loops, api, "parallel-tools"),
        (api, "structured"): partial(structured, api),
        (api, "hosted"): partial(probing.each, HOSTED[api], partial(hosted, api)),
        (api, "refusal"): partial(refusal, api),
        (api, "reasoning"): partial(reasoning, api),
        (api, "usage"): partial(usage, api),
        (api, "errors"): partial(probing.errors, api, WAYS),
        (api, "stream_error"): partial(probing.broken, api, WAYS),
    }


probing.run(probes(APIS[0]) | probes(APIS[1]))
