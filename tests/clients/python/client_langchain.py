"""LangChain's `ChatOpenAI`, with each API: streams, answers in one piece, tools, structured output."""

from __future__ import annotations

import warnings
from functools import partial, reduce
from operator import add
from typing import Any, Final

import probing
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from probing import ANSWERS, APIS, BASE_URL, HOSTED, KEY, QUESTION, TOOLS, Book


def chat(api: str, model: str) -> ChatOpenAI:
    return ChatOpenAI(
        model=model, api_key=KEY, base_url=BASE_URL, use_responses_api=api == "responses", stream_usage=True
    )


def streamed(api: str, model: str, messages: Any = QUESTION, **members: Any) -> AIMessage:
    return reduce(add, chat(api, model).stream(messages, **members))


async def async_streamed(api: str, model: str) -> AIMessage:
    return reduce(add, [chunk async for chunk in chat(api, model).astream(QUESTION)])


def invoked(api: str, model: str) -> AIMessage:
    return chat(api, model).invoke(QUESTION)


async def text(api: str, model: str = "text") -> dict[str, str]:
    return {"stream": streamed(api, model).text, "async stream": (await async_streamed(api, model)).text}


async def whole(api: str) -> dict[str, str]:
    return {"invoke": invoked(api, "text").text, "ainvoke": (await chat(api, "text").ainvoke(QUESTION)).text}


SCHEMAS: Final[list[Any]] = [
    {"type": "function", "function": {"name": name, "parameters": probing.parameters(name)}} for name in TOOLS
]


def loop(api: str, model: str, *, streams: bool) -> str:
    bound = chat(api, model).bind_tools(SCHEMAS)
    messages: list[BaseMessage] = [HumanMessage(QUESTION)]
    for _ in range(3):
        message = reduce(add, bound.stream(messages)) if streams else bound.invoke(messages)
        if not message.tool_calls:
            return str(message.text)
        messages.append(message)
        messages += [
            ToolMessage(ANSWERS[call["name"]], tool_call_id=call["id"])
            for call in message.tool_calls
            if call["args"].keys() == {TOOLS[call["name"]]}
        ]
    return "no end"


def loops(api: str, model: str) -> dict[str, str]:
    return {"stream": loop(api, model, streams=True), "invoke": loop(api, model, streams=False)}


def structured(api: str) -> dict[str, Any]:
    runnable = chat(api, "structured").with_structured_output(Book, method="json_schema")
    with warnings.catch_warnings():  # LangChain dumps openai's `parsed`, whose field allows nothing: with any server
        warnings.filterwarnings("ignore", message=r"(?s).*field_name='parsed'")
        *_, last = runnable.stream(QUESTION)
    return {"stream": last.model_dump(), "invoke": runnable.invoke(QUESTION).model_dump()}


def hosted(api: str, model: str) -> dict[str, Any]:
    stream, answer = streamed(api, model), invoked(api, model)
    blocks = [block["type"] for block in answer.content_blocks]
    return {
        "texts": [stream.text, answer.text],
        "items": [name for name in blocks if name != "text"],
        "citations": [note["type"] for block in answer.content_blocks for note in block.get("annotations", ())],
        "citations of the stream": [
            note["type"] for block in stream.content_blocks for note in block.get("annotations", ())
        ],
    }


def refusal(api: str) -> dict[str, Any]:
    def refused(message: AIMessage) -> str:
        parts = message.content if isinstance(message.content, list) else []
        blocks = "".join(part["refusal"] for part in parts if isinstance(part, dict) and part["type"] == "refusal")
        return str(message.additional_kwargs.get("refusal") or blocks)

    return {"stream": refused(streamed(api, "refusal")), "invoke": refused(invoked(api, "refusal"))}


def reasoning(api: str) -> dict[str, Any]:
    def shown(message: AIMessage) -> str:
        blocks = [block.get("reasoning", "") for block in message.content_blocks if block["type"] == "reasoning"]
        return "".join(blocks)

    return {"stream": shown(streamed(api, "reasoning")), "invoke": shown(invoked(api, "reasoning"))}


def usage(api: str) -> dict[str, Any]:
    def counts(message: AIMessage) -> list[int]:
        of = message.usage_metadata
        return [] if of is None else [of["input_tokens"], of["output_tokens"], of["total_tokens"]]

    return {"stream": counts(streamed(api, "text")), "invoke": counts(invoked(api, "text"))}


def secrets(api: str) -> dict[str, Any]:
    message = streamed(api, "secrets")
    return {"stream": [call["args"] for call in message.tool_calls]}


WAYS = {"stream": streamed, "invoke": invoked}
"""How to ask: with a stream and without."""


def probes(api: str) -> dict[tuple[str, str], probing.Probe]:
    return {
        (api, "text"): partial(text, api),
        (api, "whole"): partial(whole, api),
        (api, "retried"): lambda: streamed(api, "fails-once").text,
        (api, "tools"): partial(loops, api, "tools"),
        (api, "parallel"): partial(loops, api, "parallel-tools"),
        (api, "structured"): partial(structured, api),
        (api, "hosted"): partial(probing.each, HOSTED[api], partial(hosted, api)),
        (api, "refusal"): partial(refusal, api),
        (api, "reasoning"): partial(reasoning, api),
        (api, "usage"): partial(usage, api),
        (api, "secrets"): partial(secrets, api),
        (api, "errors"): partial(probing.errors, api, WAYS),
        (api, "stream_error"): partial(probing.broken, api, WAYS),
    }


probing.run(probes(APIS[0]) | probes(APIS[1]))
