"""The `openai` package: sync and async, events and helpers, with and without a stream."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Final

import probing
from openai import APIStatusError, AsyncOpenAI, OpenAI, RateLimitError
from probing import ANSWERS, BASE_URL, HOSTED, KEY, QUESTION, TOOLS, Book

SYNC: Final = OpenAI(api_key=KEY, base_url=BASE_URL)
ASYNC: Final = AsyncOpenAI(api_key=KEY, base_url=BASE_URL)

RESPONSES_TOOLS: Final[list[Any]] = [
    {"type": "function", "name": name, "parameters": probing.parameters(name), "strict": True} for name in TOOLS
]
CHAT_TOOLS: Final[list[Any]] = [
    {"type": "function", "function": {"name": name, "parameters": probing.parameters(name), "strict": True}}
    for name in TOOLS
]
MESSAGES: Final[list[Any]] = [{"role": "user", "content": QUESTION}]


# Responses


def events(model: str, input_: Any = QUESTION, **members: Any) -> list[Any]:
    with SYNC.responses.create(model=model, input=input_, stream=True, **members) as stream:
        return list(stream)


async def async_events(model: str) -> list[Any]:
    return [event async for event in await ASYNC.responses.create(model=model, input=QUESTION, stream=True)]


def joined(of: list[Any], name: str = "output_text") -> str:
    return "".join(event.delta for event in of if event.type == f"response.{name}.delta")


def helper(model: str) -> Any:
    with SYNC.responses.stream(model=model, input=QUESTION) as stream:
        stream.until_done()
        return stream.get_final_response()


async def async_helper(model: str) -> Any:
    async with ASYNC.responses.stream(model=model, input=QUESTION) as stream:
        return await stream.get_final_response()


async def responses_text(model: str = "text") -> dict[str, str]:
    return {
        "events": joined(events(model)),
        "async events": joined(await async_events(model)),
        "helper": helper(model).output_text,
        "async helper": (await async_helper(model)).output_text,
    }


async def responses_whole(model: str = "text") -> dict[str, str]:
    return {
        "without stream": SYNC.responses.create(model=model, input=QUESTION).output_text,
        "stream=False": SYNC.responses.create(model=model, input=QUESTION, stream=False).output_text,
        "async": (await ASYNC.responses.create(model=model, input=QUESTION)).output_text,
        "parse": SYNC.responses.parse(model=model, input=QUESTION).output_text,
    }


def responses_loop(model: str, *, streams: bool, stateful: bool = False) -> str:
    """Run the tool loop: all items of a response are sent back, or the ID of the response."""
    input_: list[Any] = list(MESSAGES)
    previous: str | None = None
    for _ in range(3):
        members: Any = {"model": model, "input": input_, "tools": RESPONSES_TOOLS, "previous_response_id": previous}
        response = (
            events(**{("input_" if key == "input" else key): value for key, value in members.items()})[-1].response
            if streams
            else SYNC.responses.create(**members)
        )
        made = [item for item in response.output if item.type == "function_call"]
        if not made:
            return str(response.output_text)
        outputs = [
            {"type": "function_call_output", "call_id": call.call_id, "output": ANSWERS[call.name]}
            for call in made
            if json.loads(call.arguments).keys() == {TOOLS[call.name]}
        ]
        previous = response.id if stateful else None
        input_ = outputs if stateful else [*input_, *response.output, *outputs]
    return "no end"


def responses_loops(model: str) -> dict[str, str]:
    return {
        "events": responses_loop(model, streams=True),
        "without stream": responses_loop(model, streams=False),
    }


def responses_resumed(model: str) -> dict[str, Any]:
    """Read a response again after each of its events, and the whole of it."""
    whole = [event.to_dict() for event in events(model)]
    response = whole[-1]["response"]
    later = []
    for number in range(len(whole) - 1):
        with SYNC.responses.retrieve(response["id"], stream=True, starting_after=number) as stream:
            later.append([event.to_dict() for event in stream])
    cancelled = SYNC.responses.cancel(response["id"]).to_dict()
    return {
        "after each event": [tail == whole[number + 1 :] for number, tail in enumerate(later)],
        "whole": [SYNC.responses.retrieve(response["id"]).to_dict() == response, cancelled == response],
    }


def responses_structured() -> dict[str, Any]:
    with SYNC.responses.stream(model="structured", input=QUESTION, text_format=Book) as stream:
        streamed = stream.get_final_response().output_parsed
    parsed = SYNC.responses.parse(model="structured", input=QUESTION, text_format=Book).output_parsed
    return {"helper": dump(streamed), "parse": dump(parsed)}


def dump(book: Book | None) -> Any:
    return None if book is None else book.model_dump()


def responses_hosted(model: str) -> dict[str, Any]:
    """Read the stream, the helper's snapshot and the JSON answer; a dump warns of what the models do not allow."""
    stream = events(model)
    response, whole = helper(model), SYNC.responses.create(model=model, input=QUESTION)
    for read in (*stream, response, whole):
        read.to_dict()
    items = [item.type for item in response.output]
    return {
        "texts": [joined(stream), response.output_text, whole.output_text],
        "items": items if items == [item.type for item in whole.output] else "the JSON answer differs",
        "citations": [
            note.type
            for item in response.output
            if item.type == "message"
            for part in item.content
            for note in getattr(part, "annotations", ())
        ],
    }


def responses_refusal() -> dict[str, Any]:
    def refused(response: Any) -> str:
        return "".join(part.refusal for item in response.output for part in item.content if part.type == "refusal")

    return {
        "events": joined(events("refusal"), "refusal"),
        "helper": refused(helper("refusal")),
        "without stream": refused(SYNC.responses.create(model="refusal", input=QUESTION)),
    }


def responses_reasoning() -> dict[str, Any]:
    """Read the summary, or the reasoning itself, which providers with Chat Completions send."""

    def shown(response: Any) -> str:
        items = [item for item in response.output if item.type == "reasoning"]
        return "".join(part.text for item in items for part in item.summary or item.content)

    stream = events("reasoning")
    return {
        "events": joined(stream, "reasoning_summary_text") or joined(stream, "reasoning_text"),
        "helper": shown(helper("reasoning")),
        "without stream": shown(SYNC.responses.create(model="reasoning", input=QUESTION)),
    }


def responses_usage() -> dict[str, Any]:
    whole = SYNC.responses.create(model="text", input=QUESTION)
    return {"helper": counts(helper("text").usage), "without stream": counts(whole.usage)}


def counts(usage: Any) -> list[int]:
    names = ("input_tokens", "output_tokens", "total_tokens")
    chat_names = ("prompt_tokens", "completion_tokens", "total_tokens")
    return [getattr(usage, name) for name in (names if hasattr(usage, "input_tokens") else chat_names)]


def responses_secrets() -> dict[str, Any]:
    stream = events("secrets")
    response = helper("secrets")
    for read in (*stream, response):
        read.to_dict()
    [call] = [item for item in response.output if item.type == "function_call"]
    return {"events": joined(stream, "function_call_arguments"), "helper": call.arguments}


# Chat Completions


def chunks(model: str, messages: Any = MESSAGES, **members: Any) -> list[Any]:
    with SYNC.chat.completions.create(model=model, messages=messages, stream=True, **members) as stream:
        return list(stream)


async def async_chunks(model: str) -> list[Any]:
    return [chunk async for chunk in await ASYNC.chat.completions.create(model=model, messages=MESSAGES, stream=True)]


def content(of: list[Any], name: str = "content") -> str:
    return "".join(getattr(choice.delta, name, None) or "" for chunk in of for choice in chunk.choices)


def chat_helper(model: str, **members: Any) -> Any:
    with SYNC.chat.completions.stream(model=model, messages=MESSAGES, **members) as stream:
        stream.until_done()
        return stream.get_final_completion()


async def async_chat_helper(model: str) -> Any:
    async with ASYNC.chat.completions.stream(model=model, messages=MESSAGES) as stream:
        return await stream.get_final_completion()


def chat_whole(model: str, messages: Any = MESSAGES, **members: Any) -> Any:
    return SYNC.chat.completions.create(model=model, messages=messages, **members)


async def chat_text(model: str = "text") -> dict[str, Any]:
    return {
        "events": content(chunks(model)),
        "async events": content(await async_chunks(model)),
        "helper": chat_helper(model).choices[0].message.content,
        "async helper": (await async_chat_helper(model)).choices[0].message.content,
    }


async def chat_in_one_piece() -> dict[str, Any]:
    whole = await ASYNC.chat.completions.create(model="text", messages=MESSAGES)
    return {
        "without stream": chat_whole("text").choices[0].message.content,
        "stream=False": chat_whole("text", stream=False).choices[0].message.content,
        "async": whole.choices[0].message.content,
        "parse": SYNC.chat.completions.parse(model="text", messages=MESSAGES).choices[0].message.content,
    }


def chat_loop(model: str, *, streams: bool) -> str:
    messages: list[Any] = list(MESSAGES)
    for _ in range(3):
        if streams:
            with SYNC.chat.completions.stream(model=model, messages=messages, tools=CHAT_TOOLS) as stream:
                message = stream.get_final_completion().choices[0].message
        else:
            message = SYNC.chat.completions.create(model=model, messages=messages, tools=CHAT_TOOLS).choices[0].message
        if not message.tool_calls:
            return str(message.content)
        messages.append(message)
        messages += [
            {"role": "tool", "tool_call_id": call.id, "content": ANSWERS[call.function.name]}
            for call in message.tool_calls
            if json.loads(call.function.arguments).keys() == {TOOLS[call.function.name]}
        ]
    return "no end"


def chat_loops(model: str) -> dict[str, str]:
    return {"helper": chat_loop(model, streams=True), "without stream": chat_loop(model, streams=False)}


def chat_structured() -> dict[str, Any]:
    parsed = SYNC.chat.completions.parse(model="structured", messages=MESSAGES, response_format=Book)
    streamed = chat_helper("structured", response_format=Book)
    return {"helper": dump(streamed.choices[0].message.parsed), "parse": dump(parsed.choices[0].message.parsed)}


def chat_hosted(model: str) -> dict[str, Any]:
    stream, final, whole = chunks(model), chat_helper(model), chat_whole(model)
    for read in (*stream, final, whole):
        read.to_dict()
    messages = [final.choices[0].message, whole.choices[0].message]
    return {
        "texts": [content(stream), *(message.content or "" for message in messages)],
        "items": ["tool_calls" for message in messages if message.tool_calls],
        "citations": [note.type for note in whole.choices[0].message.annotations or ()],
    }


def chat_refusal() -> dict[str, Any]:
    return {
        "events": content(chunks("refusal"), "refusal"),
        "helper": chat_helper("refusal").choices[0].message.refusal,
        "without stream": chat_whole("refusal").choices[0].message.refusal,
    }


def chat_reasoning() -> dict[str, Any]:
    return {
        "events": content(chunks("reasoning"), "reasoning_content"),
        "without stream": getattr(chat_whole("reasoning").choices[0].message, "reasoning_content", ""),
    }


def chat_usage() -> dict[str, Any]:
    asked = chunks("text", stream_options={"include_usage": True})
    return {
        "asked for": counts(asked[-1].usage),
        "helper": counts(chat_helper("text", stream_options={"include_usage": True}).usage),
        "without stream": counts(chat_whole("text").usage),
        "not asked for": [chunk.usage for chunk in chunks("text") if chunk.usage is not None],
    }


def chat_secrets() -> dict[str, Any]:
    [call] = chat_helper("secrets").choices[0].message.tool_calls
    parts = [choice.delta.tool_calls or [] for chunk in chunks("secrets") for choice in chunk.choices]
    return {
        "events": "".join(part.function.arguments or "" for calls in parts for part in calls),
        "helper": call.function.arguments,
    }


IMAGE: Final = "data:image/png;base64,QUJD"
PDF: Final = "data:application/pdf;base64,QUJD"
PLACE: Final = {"city": "Oslo", "country": "NO"}


def responses_parts() -> dict[str, Any]:
    """Send an image, a file and a web search; return what the provider is asked."""
    parts: list[Any] = [
        {"type": "input_text", "text": QUESTION},
        {"type": "input_image", "image_url": IMAGE, "detail": "low"},
        {"type": "input_file", "filename": "a.pdf", "file_data": PDF},
    ]
    location: Any = {"type": "approximate", **PLACE}
    tools: list[Any] = [{"type": "web_search", "search_context_size": "low", "user_location": location}]
    SYNC.responses.create(model="search", input=[{"role": "user", "content": parts}], tools=tools)
    return probing.last_request()


def chat_parts() -> dict[str, Any]:
    parts: list[Any] = [
        {"type": "text", "text": QUESTION},
        {"type": "image_url", "image_url": {"url": IMAGE, "detail": "low"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}},
    ]
    search: Any = {"search_context_size": "low", "user_location": {"type": "approximate", "approximate": PLACE}}
    chat_whole("search", [{"role": "user", "content": parts}], web_search_options=search)
    return probing.last_request()


RESPONSES_ONLY: Final[dict[str, Any]] = {
    "previous_response_id": "resp_0",
    "conversation": "conv_0",
    "background": True,
    "truncation": "auto",
    "max_tool_calls": 3,
    "prompt": {"id": "p"},
    "include": ["file_search_call.results"],
    "reasoning": {"summary": "auto"},
    "tools": [{"type": "file_search", "vector_store_ids": ["vs_0"]}],
    "tool_choice": {"type": "image_generation"},
    "input": [{"role": "user", "content": [{"type": "input_image", "file_id": "file_0", "detail": "auto"}]}],
}
CHAT_ONLY: Final[dict[str, Any]] = {
    "seed": 7,
    "stop": "END",
    "n": 2,
    "presence_penalty": 1,
    "frequency_penalty": 1,
    "logit_bias": {"50256": -100},
    "modalities": ["text", "audio"],
    "prediction": {"type": "content", "content": "x"},
    "functions": [{"name": "f"}],
    "messages": [
        {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "QUJD", "format": "wav"}}]}
    ],
}
"""Members that the other API does not have, with values that the package accepts."""


async def refused(call: Any, members: dict[str, Any]) -> dict[str, Any]:
    """Return the status and `param` of the error for each member, and the number of requests for the provider."""
    return {name: await _refusal(partial(call, **{name: value})) for name, value in members.items()}


async def _refusal(call: Any) -> list[Any]:
    probing.reset()
    try:
        call()
    except APIStatusError as error:
        return [error.status_code, error.param, str(error), sum(probing.calls().values())]
    return [200, None, "", sum(probing.calls().values())]


def response_with(**members: Any) -> Any:
    return SYNC.responses.create(**{"model": "text", "input": QUESTION, **members})


def completion_with(**members: Any) -> Any:
    return SYNC.chat.completions.create(**{"model": "text", "messages": MESSAGES, **members})


def later(client: OpenAI, api: str) -> str:
    """Return the pause that the provider asks for; without retries, which would wait for it."""
    try:
        if api == "responses":
            client.responses.create(model="fail-429-later", input=QUESTION)
        else:
            client.chat.completions.create(model="fail-429-later", messages=MESSAGES)
    except RateLimitError as error:
        return error.response.headers["retry-after"]
    return "no error"


async def failing(call: Any, async_call: Any, whole: Any) -> dict[str, Any]:
    return {
        "events": await probing.failures(call),
        "async events": await probing.failures(async_call),
        "without stream": await probing.failures(whole),
    }


async def broken(models: tuple[str, ...], call: Any, helper_call: Any, whole: Any) -> dict[str, Any]:
    ways = {"events": call, "helper": helper_call, "without stream": whole}
    return {model: {way: await probing.failure(partial(ways[way], model)) for way in ways} for model in models}


def whole_response(model: str) -> Any:
    return SYNC.responses.create(model=model, input=QUESTION)


probing.run(
    {
        ("responses", "text"): responses_text,
        ("responses", "unicode"): partial(responses_text, "unicode"),
        ("responses", "whole"): responses_whole,
        ("responses", "retried"): lambda: joined(events("fails-once")),
        ("responses", "tools"): partial(responses_loops, "tools"),
        ("responses", "parallel"): partial(responses_loops, "parallel-tools"),
        ("responses", "resumed"): partial(responses_resumed, "parallel-tools"),
        ("responses", "stored"): partial(responses_loop, "parallel-tools", streams=True, stateful=True),
        ("responses", "structured"): responses_structured,
        ("responses", "hosted"): partial(probing.each, HOSTED["responses"], responses_hosted),
        ("responses", "refusal"): responses_refusal,
        ("responses", "reasoning"): responses_reasoning,
        ("responses", "usage"): responses_usage,
        ("responses", "secrets"): responses_secrets,
        ("responses", "parts"): responses_parts,
        ("responses", "refused"): partial(refused, response_with, RESPONSES_ONLY),
        ("responses", "later"): partial(later, SYNC.with_options(max_retries=0), "responses"),
        ("responses", "errors"): partial(failing, events, async_events, whole_response),
        ("responses", "stream_error"): partial(broken, probing.BROKEN["responses"], events, helper, whole_response),
        ("chat", "text"): chat_text,
        ("chat", "whole"): chat_in_one_piece,
        ("chat", "retried"): lambda: content(chunks("fails-once")),
        ("chat", "tools"): partial(chat_loops, "tools"),
        ("chat", "parallel"): partial(chat_loops, "parallel-tools"),
        ("chat", "structured"): chat_structured,
        ("chat", "hosted"): partial(probing.each, HOSTED["chat"], chat_hosted),
        ("chat", "refusal"): chat_refusal,
        ("chat", "reasoning"): chat_reasoning,
        ("chat", "usage"): chat_usage,
        ("chat", "secrets"): chat_secrets,
        ("chat", "parts"): chat_parts,
        ("chat", "refused"): partial(refused, completion_with, CHAT_ONLY),
        ("chat", "later"): partial(later, SYNC.with_options(max_retries=0), "chat"),
        ("chat", "errors"): partial(failing, chunks, async_chunks, chat_whole),
        ("chat", "stream_error"): partial(broken, probing.BROKEN["chat"], chunks, chat_helper, chat_whole),
    }
)
