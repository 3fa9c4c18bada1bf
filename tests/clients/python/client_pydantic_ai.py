"""Pydantic AI's agents, with each API: streams, answers in one piece, tools, structured output."""

from __future__ import annotations

from functools import partial
from typing import Any

import probing
from probing import ANSWERS, APIS, BASE_URL, HOSTED, KEY, QUESTION, Book
from pydantic_ai import Agent, BinaryImage, NativeOutput
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider


def agent(api: str, model: str, **members: Any) -> Agent[None, Any]:
    provider = OpenAIProvider(base_url=BASE_URL, api_key=KEY)
    kind = OpenAIResponsesModel if api == "responses" else OpenAIChatModel
    settings = {"openai_include_raw_annotations": True}
    profile = {"supports_image_output": True}  # known by the names of OpenAI's models only
    return Agent(kind(model, provider=provider, profile=profile), model_settings=settings, retries=0, **members)


async def streamed(api: str, model: str, **members: Any) -> Any:
    """Return the joined text, or the output, and the last response of a streamed run."""
    async with agent(api, model, **members).run_stream(QUESTION) as result:
        if "output_type" in members:
            return await result.get_output(), result.response
        return "".join([text async for text in result.stream_text(delta=True, debounce_by=None)]), result.response


async def ran(api: str, model: str, **members: Any) -> Any:
    result = await agent(api, model, **members).run(QUESTION)
    return result.output, result.response


async def text(api: str, model: str = "text") -> dict[str, str]:
    return {"run_stream": (await streamed(api, model))[0]}


async def whole(api: str) -> dict[str, str]:
    return {"run": (await ran(api, "text"))[0]}


def get_weather(city: str) -> str:
    assert city
    return ANSWERS["get_weather"]


def get_time(zone: str) -> str:
    assert zone
    return ANSWERS["get_time"]


async def loops(api: str, model: str) -> dict[str, str]:
    tools = {"tools": [get_weather, get_time]}
    return {"run_stream": (await streamed(api, model, **tools))[0], "run": (await ran(api, model, **tools))[0]}


async def structured(api: str) -> dict[str, Any]:
    output: dict[str, Any] = {"output_type": NativeOutput(Book)}
    return {
        "run_stream": (await streamed(api, "structured", **output))[0].model_dump(),
        "run": (await ran(api, "structured", **output))[0].model_dump(),
    }


def parts(response: ModelResponse, kind: str) -> str:
    return "".join(part.content for part in response.parts if part.part_kind == kind)


async def hosted(api: str, model: str) -> dict[str, Any]:
    """Read the events of the run, which also shows runs without a text."""
    of = agent(api, model, output_type=[str, BinaryImage] if model == "image" else str)
    result = await of.run(QUESTION)
    async with of.run_stream_events(QUESTION) as events:
        streamed_result = [event async for event in events][-1].result
    both = (result.response, streamed_result.response)
    return {
        "texts": [parts(response, "text") for response in both],
        "items": [part.part_kind for part in both[0].parts if part.part_kind != "text"],
        "citations": [
            note["type"]
            for part in both[0].parts
            for note in (getattr(part, "provider_details", None) or {}).get("annotations", ())
        ],
    }


async def refusal(api: str) -> dict[str, Any]:
    return {
        "run_stream": await probing.failure(partial(streamed, api, "refusal")),
        "run": await probing.failure(partial(ran, api, "refusal")),
    }


async def reasoning(api: str) -> dict[str, Any]:
    return {
        "run_stream": parts((await streamed(api, "reasoning"))[1], "thinking"),
        "run": parts((await ran(api, "reasoning"))[1], "thinking"),
    }


async def usage(api: str) -> dict[str, Any]:
    def counts(response: ModelResponse) -> list[int]:
        of = response.usage
        return [of.input_tokens, of.output_tokens, of.total_tokens]

    return {"run_stream": counts((await streamed(api, "text"))[1]), "run": counts((await ran(api, "text"))[1])}


WAYS = {"run_stream": streamed, "run": ran}
"""How to ask: with a stream and without."""


async def retried(api: str) -> str:
    return str((await streamed(api, "fails-once"))[0])


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
