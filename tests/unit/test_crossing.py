"""Requests of one OpenAI API for an upstream with the other: what becomes of each member, and what has no equal."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any, Final, TypeAlias, cast

import pytest

from projector.conversation.model_request import UnsupportedRequestError
from projector.providers import PROVIDERS, profile_of
from projector.providers.openai_chat import request as chat_request
from projector.providers.openai_responses import request as responses_request
from tests.property.mutations import node_at, places

Json: TypeAlias = dict[str, Any]

CHAT: Final = "openai_chat"
RESPONSES: Final = "openai_responses"
MESSAGES: Final = "anthropic_messages"
PDF: Final = "data:application/pdf;base64,QQ=="
SCHEMA: Final = {"type": "object", "properties": {"a": {"type": "string"}}}


def cross(body: Json, source: str, target: str) -> Json:
    route = PROVIDERS[source].passthrough
    assert route is not None
    assert route.request_reader is not None
    written = PROVIDERS[target].request_writer(route.request_reader(body), profile_of(target, {}))
    return cast("Json", written)


def to_responses(body: Json) -> Json:
    """Return what a request of Chat Completions adds to a request for an answer to "Hi"."""
    sent = cross(
        {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True, **body}, CHAT, RESPONSES
    )
    assert (sent.pop("model"), sent.pop("store", None)) == ("m", body.get("store", False))
    if "messages" not in body:
        assert sent.pop("input") == [{"type": "message", "role": "user", "content": "Hi"}]
    return sent


def to_chat(body: Json) -> Json:
    """Return what a request of the Responses API adds to a request for an answer to "Hi"."""
    sent = cross({"model": "m", "input": "Hi", "stream": False, **body}, RESPONSES, CHAT)
    assert (sent.pop("model"), sent.pop("stream_options")) == ("m", {"include_usage": True})
    if not {"input", "instructions"} & body.keys():
        assert sent.pop("messages") == [{"role": "user", "content": "Hi"}]
    return sent


SAME: Final[list[Json]] = [
    {"temperature": 0.5},
    {"top_p": 0.5},
    {"metadata": {"a": "b"}},
    {"store": True},
    {"service_tier": "flex"},
    {"user": "u"},
    {"safety_identifier": "u"},
    {"prompt_cache_key": "k"},
    {"prompt_cache_retention": "24h"},
    {"top_logprobs": 3},
    {"tool_choice": "required"},
    {"tool_choice": "none"},
]

FUNCTION: Final = {"name": "f", "description": "F.", "parameters": SCHEMA}
GRAMMAR: Final = {"definition": "start: A", "syntax": "lark"}
PLACE: Final = {"city": "Oslo", "country": "NO"}

BOTH_WAYS: Final[list[tuple[str, Json, Json]]] = [
    (
        "calls one at a time",
        {"tools": [{"type": "custom", "custom": {"name": "c"}}], "parallel_tool_calls": False},
        {"tools": [{"type": "custom", "name": "c"}], "parallel_tool_calls": False},
    ),
    ("tokens", {"max_completion_tokens": 9}, {"max_output_tokens": 9}),
    ("effort", {"reasoning_effort": "low"}, {"reasoning": {"effort": "low"}}),
    ("verbosity", {"verbosity": "low"}, {"text": {"verbosity": "low"}}),
    ("JSON", {"response_format": {"type": "json_object"}}, {"text": {"format": {"type": "json_object"}}}),
    (
        "a schema",
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}}},
        {"text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True}}},
    ),
    (
        "format and verbosity",
        {"response_format": {"type": "json_object"}, "verbosity": "high"},
        {"text": {"format": {"type": "json_object"}, "verbosity": "high"}},
    ),
    ("probabilities", {"logprobs": True}, {"include": ["message.output_text.logprobs"]}),
    (
        "a strict function",
        {"tools": [{"type": "function", "function": {**FUNCTION, "strict": True}}]},
        {"tools": [{"type": "function", **FUNCTION, "strict": True}]},
    ),
    (
        "a function",
        {"tools": [{"type": "function", "function": FUNCTION}]},
        {"tools": [{"type": "function", **FUNCTION, "strict": False}]},
    ),
    (
        "a custom tool",
        {"tools": [{"type": "custom", "custom": {"name": "c", "format": {"type": "grammar", "grammar": GRAMMAR}}}]},
        {"tools": [{"type": "custom", "name": "c", "format": {"type": "grammar", **GRAMMAR}}]},
    ),
    ("a web search", {"web_search_options": {}}, {"tools": [{"type": "web_search"}]}),
    (
        "a web search at a place",
        {
            "web_search_options": {
                "search_context_size": "low",
                "user_location": {"type": "approximate", "approximate": PLACE},
            }
        },
        {
            "tools": [
                {
                    "type": "web_search",
                    "search_context_size": "low",
                    "user_location": {"type": "approximate", **PLACE},
                }
            ]
        },
    ),
    (
        "a chosen function",
        {"tool_choice": {"type": "function", "function": {"name": "f"}}},
        {"tool_choice": {"type": "function", "name": "f"}},
    ),
    (
        "a chosen custom tool",
        {"tool_choice": {"type": "custom", "custom": {"name": "c"}}},
        {"tool_choice": {"type": "custom", "name": "c"}},
    ),
    (
        "allowed tools",
        {
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]},
            }
        },
        {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]}},
    ),
    (
        "a conversation",
        {
            "messages": [
                {"role": "system", "content": "Obey."},
                {"role": "developer", "content": "Now."},
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "Hi"},
                        {"type": "image_url", "image_url": {"url": "https://a.example/b.png", "detail": "low"}},
                        {
                            "type": "file",
                            "file": {"filename": "b.pdf", "file_data": PDF},
                        },
                    ],
                },
                {
                    "role": "assistant",
                    "content": "Wait.",
                    "tool_calls": [
                        {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                        {"id": "b", "type": "custom", "custom": {"name": "c", "input": "x"}},
                    ],
                },
                {"role": "tool", "tool_call_id": "a", "content": "1"},
                {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "2"}]},
                {"role": "assistant", "content": None, "refusal": "No."},
                {"role": "user", "content": "Why?"},
            ]
        },
        {
            "input": [
                {"type": "message", "role": "system", "content": "Obey."},
                {"type": "message", "role": "developer", "content": "Now."},
                {
                    "type": "message",
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "Hi"},
                        {"type": "input_image", "image_url": "https://a.example/b.png", "detail": "low"},
                        {
                            "type": "input_file",
                            "file_data": PDF,
                            "filename": "b.pdf",
                        },
                    ],
                },
                {"type": "message", "role": "assistant", "content": "Wait."},
                {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
                {"type": "custom_tool_call", "call_id": "b", "name": "c", "input": "x"},
                {"type": "function_call_output", "call_id": "a", "output": "1"},
                {
                    "type": "custom_tool_call_output",
                    "call_id": "b",
                    "output": [{"type": "input_text", "text": "2"}],
                },
                {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
                {"type": "message", "role": "user", "content": "Why?"},
            ]
        },
    ),
    *((next(iter(row)), row, row) for row in SAME),
]


@pytest.mark.parametrize(("name", "chat", "responses"), BOTH_WAYS, ids=[row[0] for row in BOTH_WAYS])
def test_members_of_both_apis(name: str, chat: Json, responses: Json) -> None:
    del name
    sent = {key: value for key, value in responses.items() if key != "store"}
    assert to_responses(chat) == sent
    assert to_chat(responses) == chat


ONE_WAY: Final[list[tuple[str, str, Json, Json]]] = [
    ("the older name of tokens", CHAT, {"max_tokens": 9}, {"max_output_tokens": 9}),
    ("the newer name counts", CHAT, {"max_tokens": 9, "max_completion_tokens": 8}, {"max_output_tokens": 8}),
    ("null", CHAT, {"stop": None, "seed": None, "tools": None, "response_format": None}, {}),
    (
        "values that change nothing",
        CHAT,
        {"n": 1, "stop": [], "presence_penalty": 0, "frequency_penalty": 0.0, "logit_bias": {}, "logprobs": False}
        | {"modalities": ["text"], "response_format": {"type": "text"}, "top_logprobs": 0, "tool_choice": "auto"},
        {},
    ),
    (
        "reasoning of the client",
        CHAT,
        {"messages": [{"role": "assistant", "content": "Ho", "reasoning_content": "Hm", "annotations": []}]},
        {"input": [{"type": "message", "role": "assistant", "content": "Ho"}]},
    ),
    (
        "the name of a tool beside its result",
        CHAT,
        {"messages": [{"role": "tool", "tool_call_id": "a", "name": "f", "content": "1"}]},
        {"input": [{"type": "function_call_output", "call_id": "a", "output": "1"}]},
    ),
    (
        "a function without parameters",
        CHAT,
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        {
            "tools": [
                {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}, "strict": False}
            ]
        },
    ),
    (
        "instructions",
        RESPONSES,
        {"instructions": "Obey.", "input": []},
        {"messages": [{"role": "system", "content": "Obey."}]},
    ),
    (
        "values that change nothing",
        RESPONSES,
        {"background": False, "truncation": "disabled", "store": False, "include": [], "top_logprobs": 0}
        | {"tool_choice": "auto", "text": {"format": {"type": "text"}}, "previous_response_id": None, "reasoning": {}},
        {},
    ),
    (
        "reasoning",
        RESPONSES,
        {
            "input": [
                {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "g"},
                {"role": "user", "content": "Hi"},
            ]
        },
        {"messages": [{"role": "user", "content": "Hi"}]},
    ),
    (
        "items of a response that the client repeats",
        RESPONSES,
        {
            "input": [
                {"role": "user", "content": "Hi"},
                {
                    "type": "message",
                    "id": "msg_1",
                    "role": "assistant",
                    "status": "completed",
                    "content": [{"type": "output_text", "text": "Ho", "annotations": [], "logprobs": []}],
                },
                {"role": "user", "content": "Why?"},
            ]
        },
        {
            "messages": [
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": "Ho"},
                {"role": "user", "content": "Why?"},
            ]
        },
    ),
]


@pytest.mark.parametrize(("name", "source", "body", "expected"), ONE_WAY, ids=[f"{row[1]} {row[0]}" for row in ONE_WAY])
def test_members_in_one_direction(name: str, source: str, body: Json, expected: Json) -> None:
    del name
    assert (to_responses if source == CHAT else to_chat)(body) == expected


def messages(**members: object) -> Json:
    return {"messages": [members]}


CALL: Final = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}

REFUSED: Final[list[tuple[str, Json, str]]] = [
    *(
        (CHAT, {name: value}, name)
        for name, value in {
            "n": 2,
            "stop": ["END"],
            "seed": 7,
            "presence_penalty": 1,
            "frequency_penalty": 1,
            "logit_bias": {"1": 2},
            "modalities": ["text", "audio"],
            "audio": {"voice": "alloy"},
            "prediction": {"type": "content", "content": "x"},
            "functions": [{"name": "f"}],
            "function_call": "auto",
            "top_k": 5,
        }.items()
    ),
    (CHAT, {"response_format": {"type": "grammar"}}, "response_format.type"),
    (CHAT, {"tools": [{"type": "mcp"}]}, "tools[0].type"),
    (CHAT, {"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
    (
        CHAT,
        {"tools": [{"type": "custom", "custom": {"name": "c", "format": {"type": "grammar", "grammar": 7}}}]},
        "tools[0].custom.format.grammar",
    ),
    (CHAT, {"tools": "x"}, "tools"),
    (CHAT, {"tools": ["x"]}, "tools[0]"),
    (CHAT, {"tool_choice": {"type": "mcp"}}, "tool_choice.type"),
    (CHAT, {"messages": "x"}, "messages"),
    (CHAT, messages(role="function", name="f", content="x"), "messages[0].role"),
    (CHAT, messages(content="x"), "messages[0].role"),
    (CHAT, messages(role="user"), "messages[0].content"),
    (CHAT, messages(role="user", content="x", name="Ann"), "messages[0].name"),
    (CHAT, messages(role="user", content=[{"type": "input_audio"}]), "messages[0].content[0].type"),
    (
        CHAT,
        messages(role="user", content=[{"type": "image_url", "image_url": {}}]),
        "messages[0].content[0].image_url.url",
    ),
    (
        CHAT,
        messages(role="user", content=[{"type": "file", "file": {"file_id": "f"}}]),
        "messages[0].content[0].file.file_id",
    ),
    (
        CHAT,
        messages(role="user", content=[{"type": "file", "file": {"file_data": "QQ=="}}]),
        "messages[0].content[0].file.file_data",
    ),
    (CHAT, messages(role="assistant", audio={"id": "a"}), "messages[0].audio"),
    (CHAT, messages(role="assistant", function_call={"name": "f"}), "messages[0].function_call"),
    (CHAT, messages(role="assistant", tool_calls=[{**CALL, "type": "mcp"}]), "messages[0].tool_calls[0].type"),
    (CHAT, messages(role="assistant", tool_calls=[{**CALL, "id": None}]), "messages[0].tool_calls[0].id"),
    *(
        (RESPONSES, {name: value}, name)
        for name, value in {
            "previous_response_id": "resp_1",
            "conversation": "conv_1",
            "prompt": {"id": "p"},
            "background": True,
            "truncation": "auto",
            "max_tool_calls": 3,
            "context_management": [],
        }.items()
    ),
    (RESPONSES, {"reasoning": {"summary": "auto"}}, "reasoning.summary"),
    (RESPONSES, {"reasoning": {"generate_summary": "auto"}}, "reasoning.generate_summary"),
    (RESPONSES, {"reasoning": "high"}, "reasoning"),
    (RESPONSES, {"text": {"format": {"type": "grammar"}}}, "text.format.type"),
    (RESPONSES, {"include": ["reasoning.encrypted_content", "file_search_call.results"]}, "include[1]"),
    (RESPONSES, {"tools": [{"type": "file_search", "vector_store_ids": ["vs"]}]}, "tools[0].type"),
    (RESPONSES, {"tools": [{"type": "web_search", "filters": {}}]}, "tools[0].filters"),
    (RESPONSES, {"tool_choice": {"type": "file_search"}}, "tool_choice.type"),
    (RESPONSES, {"input": [{"type": "item_reference", "id": "msg"}]}, "input[0].type"),
    (RESPONSES, {"instructions": ["x"]}, "instructions"),
]


@pytest.mark.parametrize(("source", "body", "param"), REFUSED, ids=[f"{row[0]} {row[2]}" for row in REFUSED])
def test_what_the_other_api_cannot_express_is_named(source: str, body: Json, param: str) -> None:
    with pytest.raises(UnsupportedRequestError) as raised:
        (to_responses if source == CHAT else to_chat)(body)
    assert raised.value.param == param
    assert str(raised.value).startswith(f"`{param}`")


TOOLS: Final = [{"name": "f", "input_schema": SCHEMA}]


@pytest.mark.parametrize(
    ("source", "target", "given", "param"),
    [
        (
            MESSAGES,
            "gemini",
            {"tools": TOOLS, "tool_choice": {"type": "any", "disable_parallel_tool_use": True}},
            "tool_choice.disable_parallel_tool_use",
        ),
        (CHAT, MESSAGES, {"response_format": {"type": "json_object"}}, "response_format"),
        (RESPONSES, MESSAGES, {"text": {"format": {"type": "json_object"}}}, "text.format"),
        (CHAT, MESSAGES, {"reasoning_effort": "most"}, "reasoning_effort"),
        (RESPONSES, "gemini", {"reasoning": {"effort": "most"}}, "reasoning.effort"),
    ],
)
def test_a_refused_member_has_the_path_of_the_caller(source: str, target: str, given: Json, param: str) -> None:
    said = {"input": "Hi"} if source == RESPONSES else messages(role="user", content="Hi")
    with pytest.raises(UnsupportedRequestError, match=f"^`{re.escape(param)}` ") as raised:
        cross({"model": "m", **said, **given}, source, target)
    assert raised.value.param == param


def test_the_tables_have_the_parameters_of_routes_of_agents() -> None:
    names = {"temperature", "top_p", "max_output_tokens", "reasoning_effort", "verbosity"}
    assert names <= chat_request.MEMBERS.keys() & responses_request.MEMBERS.keys()


@pytest.mark.parametrize(
    ("source", "provider"),
    [(RESPONSES, "openai_chat"), (RESPONSES, "anthropic_messages"), (RESPONSES, "gemini"), (CHAT, RESPONSES)],
)
def test_every_tool_that_a_provider_lacks_is_named(source: str, provider: str) -> None:
    """A coding agent sends a dozen tools; its user must know all that have to be switched off."""
    names = ("function", "namespace", "custom", "tool_search", "acme-4711")
    tools = [{"type": name, "name": f"tool_{at}"} for at, name in enumerate(names)]
    said = {"input": "Hi"} if source == RESPONSES else {"messages": [{"role": "user", "content": "Hi"}]}
    route = PROVIDERS[source].passthrough
    assert route is not None
    assert route.request_reader is not None
    read, write = route.request_reader, PROVIDERS[provider].request_writer
    with pytest.raises(UnsupportedRequestError) as raised:
        write(read({"model": "m", **said, "tools": tools}), profile_of(provider, {}))
    assert raised.value.param == "tools[1].type"
    named, _, rest = str(raised.value).partition(" each have ")
    assert named == "`tools[1].type` (`namespace`), `tools[3].type` (`tool_search`), `tools[4].type`"
    assert rest.endswith("is not supported by the model that serves this request.")


@pytest.mark.parametrize("provider", ["openai_chat", "anthropic_messages", "gemini"])
def test_an_error_about_tools_is_short(provider: str) -> None:
    with pytest.raises(UnsupportedRequestError) as raised:
        cross({"model": "m", "input": "Hi", "tools": [{"type": "mcp"}] * 20_000}, RESPONSES, provider)
    assert len(str(raised.value)) < 5_000


READ_TOOL: Final = {"type": "function", "name": "f", "parameters": SCHEMA}
SPOILED: Final[list[tuple[str, Json]]] = [
    (RESPONSES, {"input": "Hi", "max_output_tokens": 9, "reasoning": {"effort": "low"}}),
    (RESPONSES, {"input": "Hi", "text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}}),
    (RESPONSES, {"input": "Hi", "tools": [READ_TOOL], "tool_choice": {"type": "function", "name": "f"}}),
    (RESPONSES, {"input": "Hi", "tools": [{"type": "namespace", "name": "n", "tools": [READ_TOOL]}]}),
    (
        RESPONSES,
        {
            "input": "Hi",
            "tools": [
                {"type": "custom", "name": "c", "format": {"type": "grammar", **GRAMMAR}},
                {"type": "code_interpreter", "container": {"type": "auto"}},
            ],
        },
    ),
    (
        RESPONSES,
        {
            "input": [
                {"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": {}},
                {"type": "tool_search_output", "call_id": "c", "execution": "client", "tools": [READ_TOOL]},
                {"type": "mcp_call", "id": "m", "server_label": "s", "name": "f", "arguments": "{}", "error": {"a": 1}},
                {"role": "user", "content": [{"type": "input_image", "image_url": "https://a.example/b.png"}]},
            ],
            "tools": [READ_TOOL],
        },
    ),
    (CHAT, {**messages(role="assistant", content="x", tool_calls=[CALL]), "stop": ["x"], "max_tokens": 5}),
    (CHAT, {**messages(role="user", content=[{"type": "text", "text": "x"}]), "web_search_options": {}}),
    (CHAT, {**messages(role="user", content="x"), "tools": [{"type": "function", "function": FUNCTION}]}),
    (MESSAGES, {**messages(role="user", content="x"), "max_tokens": 5, "output_config": {"effort": "low"}}),
    (
        MESSAGES,
        {
            "messages": [
                {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "1"}]},
            ],
            "tools": [{"name": "f", "input_schema": SCHEMA}],
            "tool_choice": {"type": "tool", "name": "f"},
        },
    ),
]
PROFILES: Final[list[tuple[str, Json]]] = [
    (CHAT, {"takes_custom_tools": False}),
    (RESPONSES, {}),
    (MESSAGES, {"effort": "budget"}),
    ("gemini", {}),
    ("gemini", {"api": "interactions"}),
]


def spoiled(body: Json) -> Iterator[Json]:
    """Yield a body with each member once in another type, and once without it."""
    for place, _ in places(body):
        *way, last = place
        for value in ([], {}, [{"type": []}], "x", None):
            changed = deepcopy(body)
            node_at(changed, way)[last] = value
            yield changed


@pytest.mark.parametrize(("source", "body"), SPOILED, ids=[f"{at} {row[0]}" for at, row in enumerate(SPOILED)])
def test_a_member_of_a_wrong_type_is_an_error_of_the_request(source: str, body: Json) -> None:
    route = PROVIDERS[source].passthrough
    assert route is not None
    assert route.request_reader is not None
    for one in spoiled(body):
        for target, profile in PROFILES:
            with suppress(UnsupportedRequestError):
                request = route.request_reader({"model": "m", **one})
                json.dumps(PROVIDERS[target].request_writer(request, profile_of(target, profile)))


def test_an_address_of_a_file_that_a_provider_does_not_load_is_named() -> None:
    file = {"type": "input_file", "file_url": "https://a.example/b.pdf"}
    with pytest.raises(UnsupportedRequestError, match=r"^The URL of a file is not supported by the model .*; send its"):
        to_chat({"input": [{"role": "user", "content": [file]}]})


FAILED: Final = {"type": "tool_result", "tool_use_id": "t", "content": "closed", "is_error": True}


@pytest.mark.parametrize(
    ("target", "profile", "failed"),
    [
        (MESSAGES, {}, FAILED),
        ("gemini", {}, {"functionResponse": {"name": "f", "response": {"error": "closed"}}}),
        (
            "gemini",
            {"api": "interactions"},
            {"type": "function_result", "call_id": "t", "name": "f", "result": "closed", "is_error": True},
        ),
        (CHAT, {}, {"role": "tool", "tool_call_id": "t", "content": "closed"}),
    ],
)
def test_a_tool_that_failed(target: str, profile: Json, failed: Json) -> None:
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    said = [{"role": "assistant", "content": [call]}, {"role": "user", "content": [FAILED]}]
    route = PROVIDERS[MESSAGES].passthrough
    assert route is not None
    assert route.request_reader is not None
    request = route.request_reader({"model": "m", "messages": said})
    body = PROVIDERS[target].request_writer(request, profile_of(target, profile))
    sent = body.get("contents") or body.get("messages") or body["input"]
    assert failed in [*sent, *(part for one in sent for part in one.get("parts") or one.get("content") or ())]


def document(**members: object) -> Json:
    source = {"type": "base64", "media_type": "application/pdf", "data": "QQ=="}
    return messages(role="user", content=[{"type": "document", "source": source, **members}])


@pytest.mark.parametrize("target", [CHAT, RESPONSES, "gemini"])
@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"mcp_servers": [{"type": "url", "url": "u", "name": "n"}]}, "mcp_servers"),
        ({"container": "container_1"}, "container"),
        ({"container": {"skills": [{"type": "anthropic", "skill_id": "xlsx"}]}}, "container"),
        ({"inference_geo": "us"}, "inference_geo"),
        (document(citations={"enabled": True}), "messages[0].content[0].citations.enabled"),
        (document(context="About tides."), "messages[0].content[0].context"),
    ],
)
def test_what_no_other_api_than_messages_has_is_named(target: str, given: Json, param: str) -> None:
    with pytest.raises(UnsupportedRequestError) as raised:
        cross({"model": "m", **messages(role="user", content="Hi"), **given}, MESSAGES, target)
    assert raised.value.param == param


@pytest.mark.parametrize(
    "given",
    [
        {"mcp_servers": [], "container": None, "inference_geo": "global"},
        {"thinking": {"type": "adaptive"}, "context_management": {"edits": []}, "cache_control": {"type": "ephemeral"}},
        {"metadata": {"user_id": "u"}, "service_tier": "auto", "speed": "fast", "diagnostics": {}},
    ],
)
def test_hints_of_messages_are_left_out(given: Json) -> None:
    body = {"model": "m", **document(citations={"enabled": False})}
    assert cross({**body, **given}, MESSAGES, RESPONSES) == cross(body, MESSAGES, RESPONSES)


def test_top_k_goes_to_gemini() -> None:
    body = {"model": "m", **messages(role="user", content="Hi"), "top_k": 7}
    assert cross(body, MESSAGES, "gemini")["generationConfig"] == {"topK": 7}
    for target in (CHAT, RESPONSES):
        with pytest.raises(UnsupportedRequestError, match=r"^`top_k` is not supported"):
            cross(body, MESSAGES, target)


@pytest.mark.parametrize(
    ("target", "profile"),
    [(CHAT, {"takes_custom_tools": False}), (MESSAGES, {}), ("gemini", {}), ("gemini", {"api": "interactions"})],
)
def test_the_grammar_of_a_custom_tool_is_in_the_description_of_its_function(target: str, profile: Json) -> None:
    tool = {"type": "custom", "name": "c", "description": "C.", "format": {"type": "grammar", **GRAMMAR}}
    route = PROVIDERS[RESPONSES].passthrough
    assert route is not None
    assert route.request_reader is not None
    request = route.request_reader({"model": "m", "input": "Hi", "tools": [tool]})
    sent = json.dumps(PROVIDERS[target].request_writer(request, profile_of(target, profile))["tools"])
    assert r'"description": "C.\n\nThe input follows this grammar (lark):\nstart: A"' in sent


@pytest.mark.parametrize("given", [{}, {"strict": False}, {"strict": True}])
def test_a_tool_of_messages_is_strict_only_if_it_says_so(given: Json) -> None:
    """A function of the Responses API is strict by default: its optional parameters would all be required."""
    tool = {"name": "f", "input_schema": SCHEMA, **given}
    body = {**messages(role="user", content="x"), "model": "m", "tools": [tool]}
    [written] = cross(body, MESSAGES, RESPONSES)["tools"]
    assert written["strict"] is given.get("strict", False)
    [sent] = cross(body, MESSAGES, CHAT)["tools"]
    assert sent["function"].get("strict", False) is given.get("strict", False)


@pytest.mark.parametrize(("error", "text"), [("closed", "closed"), ({"code": 7}, '{"code":7}')])
def test_the_error_of_a_server_call_is_its_output(error: object, text: str) -> None:
    call = {"type": "mcp_call", "id": "m", "server_label": "s", "name": "f", "arguments": "{}", "output": None}
    assert to_chat({"input": [{**call, "error": error}]})["messages"][-1]["content"] == text
