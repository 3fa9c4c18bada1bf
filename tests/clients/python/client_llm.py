"""The library and tool `llm` with a configured `api_base`, for each API."""

from __future__ import annotations

import json
import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

FOLDER = Path(tempfile.mkdtemp())
os.environ["LLM_USER_PATH"] = str(FOLDER)

import llm  # noqa: E402 - it reads its folder when it is imported
import probing  # noqa: E402
from probing import ANSWERS, APIS, BASE_URL, HOSTED, KEY, QUESTION, Book  # noqa: E402

MODELS = ("text", "tools", "parallel-tools", "structured", "refusal", "reasoning", "secrets", "fails-once")


def configure() -> None:
    """Write the file in which `llm` looks for models of other servers."""
    names = {*MODELS, *(f"fail-{status}" for status in probing.STATUSES)}
    rows = [
        {
            "model_id": f"{api}-{name}",
            "model_name": name,
            "api_base": BASE_URL,
            "api_key_name": "projector",
            "supports_tools": True,
            "supports_schema": True,
            "responses": api == "responses",
        }
        for api in APIS
        for name in sorted({*names, *HOSTED[api], *probing.BROKEN[api]})
    ]
    (FOLDER / "extra-openai-models.yaml").write_text(json.dumps(rows), encoding="utf-8")  # JSON is YAML


def model(api: str, name: str) -> Any:
    found = llm.get_model(f"{api}-{name}")
    found.key = KEY
    return found


def streamed(api: str, name: str) -> str:
    return "".join(model(api, name).prompt(QUESTION, stream=True))


async def async_streamed(api: str, name: str) -> str:
    found = llm.get_async_model(f"{api}-{name}")
    found.key = KEY
    return "".join([chunk async for chunk in found.prompt(QUESTION, stream=True)])


def whole(api: str, name: str) -> str:
    return str(model(api, name).prompt(QUESTION, stream=False).text())


async def text(api: str, name: str = "text") -> dict[str, str]:
    return {"prompt": streamed(api, name), "async prompt": await async_streamed(api, name)}


def get_weather(city: str) -> str:
    assert city
    return ANSWERS["get_weather"]


def get_time(zone: str) -> str:
    assert zone
    return ANSWERS["get_time"]


def loops(api: str, name: str) -> dict[str, str]:
    tools = [get_weather, get_time]
    return {
        "chain": "".join(model(api, name).chain(QUESTION, tools=tools, stream=True)),
        "chain without stream": "".join(model(api, name).chain(QUESTION, tools=tools, stream=False)),
    }


def reasoning(api: str) -> dict[str, str]:
    def shown(*, stream: bool) -> str:
        events = model(api, "reasoning").prompt(QUESTION, stream=stream).stream_events()
        return "".join(event.chunk for event in events if event.type == "reasoning")

    return {"prompt": shown(stream=True), "without stream": shown(stream=False)}


def structured(api: str) -> dict[str, Any]:
    ask = partial(model(api, "structured").prompt, QUESTION, schema=Book)
    return {"prompt": json.loads(ask(stream=True).text()), "without stream": json.loads(ask(stream=False).text())}


def hosted(api: str, name: str) -> dict[str, Any]:
    return {"texts": [streamed(api, name), whole(api, name)], "items": [], "citations": []}


def usage(api: str) -> dict[str, Any]:
    def counts(*, stream: bool) -> list[int]:
        response = model(api, "text").prompt(QUESTION, stream=stream)
        response.text()
        of = response.usage()
        return [of.input, of.output, of.input + of.output]

    return {"prompt": counts(stream=True), "without stream": counts(stream=False)}


WAYS = {"prompt": streamed, "without stream": whole}
"""How to ask: with a stream and without."""


def probes(api: str) -> dict[tuple[str, str], probing.Probe]:
    return {
        (api, "text"): partial(text, api),
        (api, "whole"): lambda: {"without stream": whole(api, "text")},
        (api, "retried"): partial(streamed, api, "fails-once"),
        (api, "tools"): partial(loops, api, "tools"),
        (api, "parallel"): partial(loops, api, "parallel-tools"),
        (api, "structured"): partial(structured, api),
        (api, "hosted"): partial(probing.each, HOSTED[api], partial(hosted, api)),
        (api, "refusal"): lambda: {"prompt": streamed(api, "refusal"), "without stream": whole(api, "refusal")},
        (api, "reasoning"): partial(reasoning, api),
        (api, "usage"): partial(usage, api),
        (api, "errors"): partial(probing.errors, api, WAYS),
        (api, "stream_error"): partial(probing.broken, api, WAYS),
    }


configure()
probing.run(probes(APIS[0]) | probes(APIS[1]))
