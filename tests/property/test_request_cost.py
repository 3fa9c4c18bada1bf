"""The cost of reading a request grows in proportion to its items, and not with the length of their texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from projector.server.catalog import AgentBinding, Catalog
from projector.server.config.settings import Settings
from projector.server.http.request_bodies import agent_body
from projector.server.http.requests import ChatRequest, parse
from tests.property.cost import assert_linear, cost_of

USER: Final = {"role": "user", "content": "a"}
MODEL: Final = {"role": "assistant", "content": "a"}
LONG: Final = {"role": "assistant", "content": "a" * 500}


def binding(api: str) -> AgentBinding:
    agents = {"helper": {"upstream": "one", "model": "m"}}
    return Catalog(Settings.model_validate({"upstreams": {"one": {"api": api}}, "agents": agents})).agent("helper")


CHAT: Final = binding("openai_chat")
BINDINGS: Final = {"openai_chat": CHAT, "openai_responses": binding("openai_responses")}


def call(at: int) -> dict[str, Any]:
    return {"type": "function_call", "call_id": str(at), "name": "f", "arguments": "{}"}


def output(at: int) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": str(at), "output": "a"}


ITEMS: Final[dict[str, Callable[[str], list[dict[str, Any]]]]] = {
    "of the user": lambda text: [{"role": "user", "content": text}],
    "in a part": lambda text: [{"role": "user", "content": [{"type": "input_text", "text": text}]}],
    "of the model": lambda text: [{"role": "assistant", "content": text}, USER],
    "arguments and output": lambda text: [call(1) | {"arguments": text}, output(1) | {"output": text}],
}


@pytest.mark.parametrize("api", BINDINGS)
@pytest.mark.parametrize("items", ITEMS.values(), ids=ITEMS.keys())
def test_no_text_is_walked(items: Callable[[str], list[dict[str, Any]]], api: str) -> None:
    def steps(length: int) -> int:
        body = {"input": items("a" * length)}
        return cost_of(lambda: agent_body(parse(ChatRequest, body), BINDINGS[api])).steps

    assert steps(20_000) == steps(10_000)


SHAPES: Final[dict[str, Callable[[int], list[dict[str, Any]]]]] = {
    "turns": lambda size: [USER, MODEL] * size + [USER],
    "calls with outputs": lambda size: [item for at in range(size) for item in (call(at), output(at))],
    "calls before outputs": lambda size: [*map(call, range(size)), *map(output, range(size))],
    "texts between a call and its output": lambda size: [
        call(0),
        *([MODEL | {"content": "a" * 500}] * size),
        output(0),
    ],
    "parts of text": lambda size: [
        {"role": "assistant", "content": [{"type": "output_text", "text": "a" * 500}] * size},
        USER,
    ],
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_cost_grows_with_the_items(shape: Callable[[int], list[dict[str, Any]]]) -> None:
    def make(size: int) -> Callable[[], object]:
        body = {"input": shape(size)}
        return lambda: agent_body(parse(ChatRequest, body), CHAT)

    assert_linear(make, 150)
