"""Request bodies for an agent's upstream, and requests that are rejected."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest
from pydantic import ValidationError

from projector.conversation.client_history import ClientPart
from projector.dialects.ag_ui.conversation import conversation, read_run_input
from projector.server.catalog import AgentBinding, Catalog
from projector.server.config.settings import Settings
from projector.server.http import requests
from projector.server.http.problems import Problem
from projector.server.http.request_bodies import agent_body, client_part, passthrough_body, write_body

IMAGE = {"type": "input_image", "image_url": "https://a.example/b.png"}
KEYS = {"api_keys": {"frontend": "sha256:" + "0" * 64}}
TOOL = {"type": "web_search"}


def offer(api: str = "openai_responses", profile: dict[str, object] | None = None, **agent: object) -> AgentBinding:
    settings = {
        "upstreams": {"one": {"api": api, "profile": profile or {}}},
        "agents": {"helper": {"upstream": "one", "model": "gpt-test", **agent}},
    }
    return Catalog(Settings.model_validate(settings)).agent("helper")


FULL = {
    "instructions": "Be short.",
    "tools": [TOOL],
    "parameters": {"temperature": 1, "reasoning": {"effort": "low", "summary": "auto"}},
    "allowed_params": [
        "temperature",
        "reasoning_effort",
        "max_output_tokens",
        "verbosity",
        "previous_response_id",
        "metadata",
        "history",
    ],
}
SAYS = {"parameters": {"temperature": 0.5, "reasoning_effort": "high", "max_output_tokens": 9, "verbosity": "low"}}


@pytest.mark.parametrize(
    ("agent", "asked", "body"),
    [
        ({}, {"message": "hi"}, {"model": "gpt-test", "input": "hi"}),
        (
            FULL,
            {"message": "hi"},
            {
                "model": "gpt-test",
                "input": "hi",
                "instructions": "Be short.",
                "tools": [TOOL],
                "temperature": 1,
                "reasoning": {"effort": "low", "summary": "auto"},
            },
        ),
        (
            FULL,
            {"message": "hi", "previous_response_id": "r", "metadata": {"a": "b"}, **SAYS},
            {
                "model": "gpt-test",
                "input": "hi",
                "instructions": "Be short.",
                "tools": [TOOL],
                "temperature": 0.5,
                "reasoning": {"effort": "high", "summary": "auto"},
                "max_output_tokens": 9,
                "text": {"verbosity": "low"},
                "previous_response_id": "r",
                "metadata": {"a": "b"},
            },
        ),
    ],
)
def test_bodies_for_responses(agent: dict[str, Any], asked: dict[str, Any], body: dict[str, Any]) -> None:
    one = offer(**agent)
    assert agent_body(requests.parse(requests.ChatRequest, asked), one) == body
    assert agent_body(requests.parse(requests.ChatRequest, {"message": "hi"}), one).get("reasoning") == agent.get(
        "parameters", {}
    ).get("reasoning")  # what one request sets is not the agent's


@pytest.mark.parametrize(
    ("agent", "asked", "body"),
    [
        (
            {},
            {"message": "hi"},
            {"messages": [{"role": "user", "content": "hi"}], "stream_options": {"include_usage": True}},
        ),
        (
            {"profile": {"takes_stream_options": False}},
            {"message": "hi"},
            {"messages": [{"role": "user", "content": "hi"}]},
        ),
        (
            {"profile": {"takes_stream_options": False}, **FULL, "parameters": {}},
            {
                "input": [
                    {"role": "user", "content": [{"type": "input_text", "text": "a"}]},
                    {"role": "user", "content": "b"},
                    {"type": "custom_tool_call", "call_id": "c", "name": "sql", "input": "select 1"},
                    {"role": "assistant", "content": [{"type": "output_text", "text": "e"}]},
                    {"type": "custom_tool_call_output", "call_id": "c", "output": "d"},
                    {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
                    {"role": "user", "content": "f"},
                ],
                "metadata": {"of": "ours"},
                **SAYS,
            },
            {
                "messages": [
                    {"role": "system", "content": "Be short."},
                    {"role": "user", "content": [{"type": "text", "text": "a"}]},
                    {"role": "user", "content": "b"},
                    {
                        "role": "assistant",
                        "content": "e",
                        "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}],
                    },
                    {"role": "tool", "tool_call_id": "c", "content": "d"},
                    {"role": "assistant", "content": None, "refusal": "no"},
                    {"role": "user", "content": "f"},
                ],
                "tools": [TOOL],
                "temperature": 0.5,
                "reasoning_effort": "high",
                "max_completion_tokens": 9,
                "verbosity": "low",
            },
        ),
        (
            {"profile": {"takes_stream_options": False}},
            {"input": [{"role": "user", "content": [IMAGE]}]},
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "image_url", "image_url": {"url": "https://a.example/b.png", "detail": "auto"}}
                        ],
                    }
                ]
            },
        ),
    ],
)
def test_bodies_for_chat_completions(agent: dict[str, Any], asked: dict[str, Any], body: dict[str, Any]) -> None:
    assert agent_body(requests.parse(requests.ChatRequest, asked), offer("openai_chat", **agent)) == {
        "model": "gpt-test",
        **body,
    }


@pytest.mark.parametrize(
    ("api", "allowed_params", "asked", "detail"),
    [
        ("openai_responses", [], {"message": "a", "parameters": {"top_p": 1}}, "`parameters.top_p` cannot be set "),
        ("openai_responses", [], {"message": "a", "metadata": {}}, "`metadata` cannot be set here: `allowed_params`"),
        ("openai_responses", [], {"message": "a", "previous_response_id": "r"}, "`previous_response_id` cannot be"),
        ("openai_responses", [], {"input": [{"role": "user", "content": [IMAGE]}]}, "Images in `input` are not "),
        (
            "openai_chat",
            ["previous_response_id"],
            {"message": "a", "previous_response_id": "r"},
            "`previous_response_id` cannot be set here.",
        ),
        (
            "openai_chat",
            [],
            {"input": [{"type": "mcp_approval_response", "approval_request_id": "m", "approve": True}]},
            "does not support items of type `mcp_approval_response`.",
        ),
        (
            "openai_responses",
            [],
            {"input": [{"type": "mcp_approval_response", "approval_request_id": "m", "approve": True}]},
            "`mcp_approval_response` needs `previous_response_id`",
        ),
    ],
)
def test_requests_that_an_agent_does_not_allow(
    api: str, allowed_params: list[str], asked: dict[str, Any], detail: str
) -> None:
    with pytest.raises(Problem) as caught:
        agent_body(requests.parse(requests.ChatRequest, asked), offer(api, allowed_params=allowed_params))
    assert detail in caught.value.detail
    assert caught.value.code == "invalid_request"


TOOL_OF_CLIENT: Final = {"type": "function", "name": "ask", "description": "", "strict": False}
NO_PARAMETERS: Final = {"type": "object", "properties": {}}


def run(**members: object) -> Callable[..., ClientPart]:
    messages = [{"role": "user", "id": "m", "content": "hi"}]
    body = {"threadId": "t", "runId": "r", "messages": messages, "tools": [{"name": "ask"}], **members}
    return partial(conversation, read_run_input(body))


@pytest.mark.parametrize(
    ("api", "agent", "body"),
    [
        ("openai_responses", {}, {"input": [{"type": "message", "role": "user", "content": "hi"}]}),
        (
            "openai_responses",
            {
                "instructions": "Be short.",
                "tools": [TOOL],
                "client_tools": ["ask"],
                "parameters": {"include": ["web_search_call.results"], "store": False},
                "policy": {"encrypted_reasoning": True},
            },
            {
                "input": [{"type": "message", "role": "user", "content": "hi"}],
                "instructions": "Be short.",
                "include": ["web_search_call.results", "reasoning.encrypted_content"],
                "store": False,
                "tools": [TOOL, {**TOOL_OF_CLIENT, "parameters": NO_PARAMETERS}],
            },
        ),
        (
            "openai_chat",
            {"instructions": "Be short.", "client_tools": "off"},
            {
                "messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "hi"}],
                "stream_options": {"include_usage": True},
            },
        ),
    ],
)
def test_bodies_of_ag_ui_runs(api: str, agent: dict[str, Any], body: dict[str, Any]) -> None:
    one = offer(api, **agent)
    for _ in range(2):  # what one request adds is not the agent's
        client = client_part(run(), one)
        assert write_body(one, input=client.entries, client_tools=client.tools) == {"model": "gpt-test", **body}


@pytest.mark.parametrize(
    "tool", [{"type": "function", "name": "ask"}, {"type": "function", "function": {"name": "ask"}}]
)
def test_a_client_tool_cannot_have_the_name_of_an_agents_tool(tool: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="`client_tools`: `ask` is also in `tools`"):
        offer(tools=[tool], client_tools=["ask"])


def passthrough() -> AgentBinding:
    return Catalog(Settings(model="gpt-test")).passthrough["responses"].binding(None)


def test_a_passthrough_body_is_unchanged() -> None:
    body = {"input": "hello", "tools": [TOOL], "stream": True, "instructions": "be short"}
    assert passthrough_body(body, passthrough(), required="input") == {"model": "gpt-test"} | body
    assert passthrough_body({"input": "a", "model": "b"}, passthrough(), required="input")["model"] == "b"


def test_a_passthrough_body_without_its_required_member() -> None:
    with pytest.raises(Problem):
        passthrough_body({"messages": []}, passthrough(), required="input")


@pytest.mark.parametrize("model", [".", ".."])
def test_no_model_is_another_path_of_the_upstream(model: str) -> None:
    with pytest.raises(Problem) as raised:
        passthrough_body({"input": "a", "model": model}, passthrough(), required="input")
    assert raised.value.param == "model"


def test_no_other_case_hides_that_a_response_runs_in_the_background() -> None:
    with pytest.raises(Problem) as raised:
        passthrough_body({"input": "a", "Background": True}, passthrough(), required="input")
    assert raised.value.param == "Background"


@pytest.mark.parametrize(
    ("settings", "routes"),
    [
        ({}, {"responses", "chat_completions", "messages"}),
        ({"host": "10.0.0.1", "auth": KEYS}, set()),
        ({"passthrough": {}}, set()),
        ({"host": "10.0.0.1", "auth": KEYS, "passthrough": {"responses": "default"}}, {"responses"}),
        ({"upstreams": {"a": {}}}, set()),
        ({"upstreams": {"a": {}}, "passthrough": {"responses": "a"}}, {"responses"}),
    ],
)
def test_enabled_passthrough_routes(settings: dict[str, Any], routes: set[str]) -> None:
    assert set(Catalog(Settings.model_validate(settings)).passthrough) == routes


@pytest.mark.parametrize(
    ("names", "asked", "given"),
    [
        (["a"], None, "a"),
        (["a", "default"], None, "default"),
        (["a", "b"], "b", "b"),
        (["a", "b"], None, None),
        (["a"], "z", None),
        ([], None, None),
    ],
)
def test_which_agent_answers(names: list[str], asked: str | None, given: str | None) -> None:
    agents = {name: {"upstream": "one", "model": "m"} for name in names}
    catalog = Catalog(Settings.model_validate({"upstreams": {"one": {}}, "agents": agents}))
    if given is not None:
        assert catalog.agent(asked).name == given
        return
    with pytest.raises(Problem):
        catalog.agent(asked)
