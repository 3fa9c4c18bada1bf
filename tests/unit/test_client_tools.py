"""Tools of the Responses API over APIs without namespaces, custom tools and a search for tools."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Final

import pytest

from projector import build_pipeline
from projector.conversation.model_request import UnsupportedRequestError
from projector.core.sse import SseMessage
from projector.providers import PROVIDERS, profile_of
from projector.providers.openai_responses.client_tools import flat_name, restored_calls
from projector.providers.openai_responses.request import read_request
from tests.clients.scripted_provider import SIGNATURE, Turn, call, gemini_events

READ: Final = {"type": "function", "name": "read", "parameters": {}, "defer_loading": True}
SPACE: Final = {
    "type": "namespace",
    "name": "mcp__notes",
    "description": "Notes.",
    "tools": [READ, {**READ, "name": "b"}],
}
PATCH: Final = {"type": "custom", "name": "patch"}
SEARCH: Final = {"type": "tool_search", "execution": "client", "parameters": {"type": "object"}}
FOUND: Final = {"type": "tool_search_output", "call_id": "c", "execution": "client", "tools": [SPACE]}
ASKED: Final = {"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": {"query": "q"}}
LONG: Final = "n" * 60


def body(*tools: Any, items: Any = "Hi") -> dict[str, Any]:
    return {"model": "m", "input": items, "tools": [*tools], "client_metadata": {"session": "s"}}


@pytest.mark.parametrize(
    ("sent", "names"),
    [
        (body(SPACE, PATCH), ["mcp__notes__read", "patch", "mcp__notes__b"]),
        (body(SEARCH, PATCH), ["tool_search", "patch"]),
        (body(SEARCH, items=[ASKED, FOUND]), ["tool_search", "mcp__notes__read", "mcp__notes__b"]),
        (body(items=[ASKED, FOUND]), []),
        (body(SPACE, SEARCH, items=[ASKED, FOUND]), ["mcp__notes__read", "tool_search", "mcp__notes__b"]),
        (body({"type": "file_search"}, READ), [None, "read"]),
    ],
    ids=["namespace", "search", "found", "none for a summary", "found again", "others stay"],
)
def test_tools_have_one_name(sent: Any, names: list[str | None]) -> None:
    tools = read_request(sent).client_tools
    assert [tool.get("name") for tool in tools] == names
    assert not any("defer_loading" in tool for tool in tools)


@pytest.mark.parametrize(
    ("sent", "param"),
    [
        (body(SPACE, {**READ, "name": "mcp__notes__read"}), "tools[1]"),
        (body(items=[{**ASKED, "execution": "server"}]), "input[0].execution"),
    ],
)
def test_what_cannot_be_carried_is_named(sent: Any, param: str) -> None:
    with pytest.raises(UnsupportedRequestError) as raised:
        read_request(sent)
    assert raised.value.param == param


def test_names_are_short_and_of_known_characters() -> None:
    names = [flat_name("read", LONG), flat_name("read", f"{LONG}x"), flat_name("read", "a b"), flat_name("read", "a.b")]
    assert len(set(names)) == len(names)
    assert all(len(name) <= 64 and name.replace("_", "").isalnum() for name in names)


class _Stage:
    """A stage that returns the events of its messages."""

    def __init__(self) -> None:
        self.dropped: Counter[str] = Counter()

    def feed(self, message: SseMessage) -> list[Any]:
        return [json.loads(message.data)]

    def close(self) -> list[Any]:
        return []


def called(name: str, arguments: str) -> dict[str, Any]:
    return {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": name, "arguments": arguments}


CALLS: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "namespace": (called("mcp__notes__b", "{}"), {**called("b", "{}"), "namespace": "mcp__notes"}),
    "custom": (
        called("patch", '{"input": "*** x"}'),
        {"type": "custom_tool_call", "id": "fc_1", "call_id": "call_1", "name": "patch", "input": "*** x"},
    ),
    "custom, no object": (
        called("patch", "*** x"),
        {"type": "custom_tool_call", "id": "fc_1", "call_id": "call_1", "name": "patch", "input": "*** x"},
    ),
    "search": (called("tool_search", '{"query": "q"}'), {**ASKED, "id": "fc_1", "call_id": "call_1"}),
    "another": (called("unknown", "{}"), called("unknown", "{}")),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_are_those_of_the_client(name: str) -> None:
    given, expected = CALLS[name]
    restore = restored_calls(body(SPACE, PATCH, SEARCH))
    assert restore is not None
    stage = restore(_Stage())
    delta = {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "delta": "{"}
    events = [
        {"type": "response.output_item.added", "item": {**given, "arguments": ""}},
        delta,
        {"type": "response.output_item.done", "item": given},
        {"type": "response.completed", "response": {"output": [given]}},
    ]
    found: list[Any] = [event for one in events for event in stage.feed(SseMessage(json.dumps(one).encode()))]
    assert found[-2]["item"] == found[-1]["response"]["output"][0] == expected
    assert (delta in found) is (expected["type"] == "function_call")


def test_plain_tools_need_nothing() -> None:
    assert restored_calls(body(READ, {"type": "web_search"})) is None


@pytest.mark.parametrize(("tools", "expected"), [((), None), ((READ,), False)])
def test_parallel_calls_are_forbidden_only_where_there_are_tools(tools: Any, *, expected: bool | None) -> None:
    parameters = read_request({**body(*tools), "parallel_tool_calls": False}).parameters
    assert parameters.get("parallel_tool_calls") is expected


def test_what_belongs_to_a_search_is_kept() -> None:
    kept: list[tuple[Any, ...]] = []

    def keep(*item: Any, is_done: bool) -> None:
        kept.append((*item, is_done))

    restore = restored_calls(body(SEARCH))
    assert restore is not None
    pipeline = build_pipeline(provider="gemini", dialect="responses")
    pipeline.keep_opaque(keep)
    pipeline.use_stage(lambda: restore(PROVIDERS["gemini"].stage(profile_of("gemini", {}))))
    for event in gemini_events(Turn((call("tool_search", "call_1", {"query": "q"}),)), "r"):
        pipeline.feed(b"data: " + json.dumps(event).encode() + b"\n\n")
    pipeline.close()
    value = {"id": "call_1", "signature": SIGNATURE}
    assert kept == [("tool_search_call", "call_1", value, is_done) for is_done in (False, True)]
