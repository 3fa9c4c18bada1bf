"""The cost of reading and writing requests grows in proportion to their items, not with the length of texts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any, Final

import pytest

from projector.conversation import entries as neutral
from projector.conversation.client_history import ConversationSettings
from projector.conversation.model_request import ModelRequest
from projector.conversation.opaque import NOTHING_KEPT
from projector.dialects.ai_sdk.conversation import conversation, read_chat_input
from projector.providers import PROVIDERS, profile_of
from projector.server.catalog import AgentBinding, Catalog
from projector.server.config.settings import Settings
from projector.server.http.request_bodies import agent_body, named_models
from projector.server.http.requests import ChatRequest, parse
from projector.server.http.stored_references import item_references, with_tools
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


READERS: Final[dict[str, Callable[[list[Any]], Iterable[object]]]] = {
    "models": lambda value: named_models({"models": value}),
    "models of fallbacks": lambda value: named_models({"fallbacks": {"m": value}}),
    "models of other members": lambda value: named_models({"x": value}),
    "references": lambda value: item_references({"input": [{"content": value}]}),
    "tools": with_tools,
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS.keys())
def test_no_level_is_a_call_that_every_value_passes(read: Callable[[list[Any]], Iterable[object]]) -> None:
    nested: list[Any] = ["m", {"type": "item_reference", "id": "a", "model": "m"}]
    for _ in range(2 * sys.getrecursionlimit()):
        nested = [nested]
    assert len([*read(nested)]) > 0


# each API of callers, and each API of upstreams


def calls(size: int) -> list[neutral.Entry]:
    return [neutral.ToolCall(str(at), "f", "{}") for at in range(size)]


def outputs(size: int) -> list[neutral.Entry]:
    return [neutral.ToolOutput(str(at), "a") for at in range(size)]


ASKED: Final = neutral.Message(neutral.USER, "a")
SAID: Final = neutral.Message(neutral.ASSISTANT, "a")
CONVERSATIONS: Final[dict[str, Callable[[int], list[neutral.Entry]]]] = {
    "messages of the user": lambda size: [ASKED] * size,
    "messages of the model": lambda size: [ASKED, *[SAID] * size],
    "system messages": lambda size: [*[neutral.Message("system", "a")] * size, ASKED],
    "system messages after the first turn": lambda size: [ASKED, *[neutral.Message("system", "a")] * size],
    "turns": lambda size: [ASKED, SAID] * size,
    "calls, then outputs": lambda size: [ASKED, *calls(size), *outputs(size)],
    "outputs, then calls": lambda size: [ASKED, *outputs(size), *calls(size)],
    "calls with outputs": lambda size: [
        one for pair in zip(calls(size), outputs(size), strict=True) for one in (ASKED, *pair)
    ],
    "texts of the user, then outputs": lambda size: [*calls(size), *[ASKED] * size, *outputs(size)],
    "calls after texts of the model": lambda size: [ASKED, *[SAID] * size, *calls(size), *outputs(size)],
    "one call, again and again": lambda size: [ASKED, *calls(1) * size, *outputs(1) * size],
    "parts": lambda size: [neutral.Message(neutral.USER, (neutral.Text("a"),) * size)],
    "images": lambda size: [neutral.Message(neutral.USER, (neutral.Image("https://a.example/b.png"),) * size)],
    "images in outputs": lambda size: [
        *calls(size),
        *(neutral.ToolOutput(str(at), (neutral.Image("https://a.example/b.png"),)) for at in range(size)),
    ],
}
SIZE: Final = 60
"""Entries of a conversation."""
ROUTES: Final = ("openai_responses", "openai_chat", "anthropic_messages")
UPSTREAMS: Final[dict[str, tuple[str, dict[str, object]]]] = {
    **{api: (api, {}) for api in (*ROUTES, "gemini")},
    "gemini interactions": ("gemini", {"api": "interactions"}),
}


def body_of(route: str, entries: list[neutral.Entry]) -> dict[str, Any]:
    """Return a body of a caller; the API of Messages also takes several messages of one role in a row."""
    body = PROVIDERS[route].request_writer(ModelRequest(model="m", input=entries), profile_of(route, {}))
    if route == "anthropic_messages" and len(entries) > 1:
        body["messages"] = [{**one, "content": [block]} for one in body["messages"] for block in one["content"]]
    return body


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("shape", CONVERSATIONS.values(), ids=CONVERSATIONS.keys())
def test_cost_of_writing_grows_with_the_entries(shape: Callable[[int], list[neutral.Entry]], upstream: str) -> None:
    api, settings = UPSTREAMS[upstream]

    def make(size: int) -> Callable[[], object]:
        request = ModelRequest(model="m", input=shape(size))
        return lambda: PROVIDERS[api].request_writer(request, profile_of(api, settings))

    assert_linear(make, SIZE)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("shape", CONVERSATIONS.values(), ids=CONVERSATIONS.keys())
def test_cost_of_reading_grows_with_the_entries(shape: Callable[[int], list[neutral.Entry]], route: str) -> None:
    row = PROVIDERS[route].passthrough
    assert row is not None
    assert row.request_reader is not None
    read, forward, carried = row.request_reader, row.body_writer, row.carried

    def make(size: int) -> Callable[[], object]:
        body = body_of(route, shape(size))
        return lambda: (read(body), forward(body, profile_of(route, {}), NOTHING_KEPT), [*carried(body)])

    assert_linear(make, SIZE)


def test_cost_of_reasoning_grows_with_the_parts_of_its_item() -> None:
    metadata = {"public-sse": {"item_id": "rs", "encrypted_content": "b"}}
    part = {"type": "reasoning", "text": "a", "providerMetadata": metadata}

    def make(size: int) -> Callable[[], object]:
        answer = {"role": "assistant", "id": "1", "parts": [part] * size + [{"type": "text", "text": "a"}]}
        body = {"id": "c", "messages": [answer, {"role": "user", "id": "2", "parts": [{"type": "text", "text": "a"}]}]}
        settings = ConversationSettings(encrypted_reasoning=True)

        def work() -> object:
            sent = conversation(read_chat_input(body), settings=settings)
            request = ModelRequest(model="m", input=sent.entries)
            return PROVIDERS["openai_responses"].request_writer(request, None)

        return work

    assert_linear(make, SIZE)
