"""What a provider wants back with a call: where each dialect has it, sealed, and that no upstream gets it so."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from projector.contracts.kinds import SIGNATURE
from projector.conversation.opaque import NOTHING_KEPT, SEALED, KeptCall, KeptCalls, OpaqueCollector, Place
from projector.core.pipeline import build_pipeline
from projector.dialects import DIALECTS
from projector.dialects.chat_completions.completion import CompletionAssembly
from projector.providers import PROVIDERS, profile_of
from projector.server.http.stream_route import _with_stored
from tests.dialect_checks import violations_of

SIGNED: Final = {"functionCall": {"name": "look", "args": {"at": 1}, "id": "c1"}, "thoughtSignature": "c2lnbmF0dXJl"}
LATE: Final = [
    {"functionCall": {"name": "look", "willContinue": True}},
    {"functionCall": {"partialArgs": [{"jsonPath": "$.at", "numberValue": 1}], "willContinue": True}},
    {"functionCall": {}, "thoughtSignature": "c2lnbmF0dXJl"},
]


def played(dialect: str, parts: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events of an answer whose values are sealed as their JSON, in capitals."""
    pipeline = build_pipeline(provider="gemini", dialect=dialect)
    seal = lambda own, before: SEALED + json.dumps([own, *before]).upper()  # noqa: E731
    pipeline.keep_opaque(OpaqueCollector(None, seal, DIALECTS[dialect].carries).add)
    chunks = [{"candidates": [{"content": {"parts": [part]}}], "responseId": "r"} for part in parts]
    chunks.append({"candidates": [{"finishReason": "STOP"}], "responseId": "r"})
    text = b"".join(pipeline.feed(b"data: " + json.dumps(chunk).encode() + b"\n\n") for chunk in chunks)
    lines = (text + pipeline.close()).decode().splitlines()
    assert violations_of(dialect, [line[6:].encode() for line in lines if line.startswith("data: ")]) == []
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


def entries(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    deltas = [choice["delta"] for event in events for choice in event["choices"]]
    return [entry for delta in deltas for entry in delta.get("tool_calls", [])]


VALUE: Final = 'sealed.[{"SIGNATURE": "C2LNBMF0DXJL", "ID": "C1"}]'
LATE_VALUE: Final = 'sealed.[{"SIGNATURE": "C2LNBMF0DXJL"}]'


@pytest.mark.parametrize(
    ("parts", "value", "at"), [([SIGNED], VALUE, 0), (LATE, LATE_VALUE, -1)], ids=["whole", "late"]
)
def test_chat_completions_has_it_in_one_entry(parts: list[dict[str, Any]], value: str, at: int) -> None:
    """In the first one if possible: clients of Google's endpoint read it there only."""
    events = played("chat_completions", parts)
    found = entries(events)
    assert [entry for entry in found if "extra_content" in entry] == [found[at]]
    assert found[at]["extra_content"] == {"google": {"thought_signature": value}}
    assembly, client = CompletionAssembly(), ChatCompletionStreamState()
    for event in events:
        assembly.feed(json.dumps(event).encode())
        client.handle_chunk(ChatCompletionChunk.model_validate(event))
    [call] = assembly.close().body["choices"][0]["message"]["tool_calls"]
    assert (call["extra_content"], call["function"]["arguments"]) == (found[at]["extra_content"], '{"at":1}')
    [kept] = client.get_final_completion().choices[0].message.tool_calls or ()
    assert kept.model_dump()["extra_content"] == call["extra_content"]


@pytest.mark.parametrize("parts", [[SIGNED], LATE], ids=["whole", "late"])
def test_ag_ui_has_it_after_the_start_of_the_call(parts: list[dict[str, Any]]) -> None:
    events = played("ag_ui", parts)
    types = [event["type"] for event in events]
    [sealed] = [event for event in events if event["type"] == "REASONING_ENCRYPTED_VALUE"]
    start = events[types.index("TOOL_CALL_START")]
    assert (sealed["subtype"], sealed["entityId"]) == ("tool-call", start["toolCallId"])
    assert sealed["encryptedValue"] == (VALUE if parts == [SIGNED] else LATE_VALUE)
    assert types.index("TOOL_CALL_START") < types.index("REASONING_ENCRYPTED_VALUE")


def test_the_ai_sdk_has_it_with_the_complete_input() -> None:
    [chunk] = [event for event in played("ai_sdk", [SIGNED]) if event["type"] == "tool-input-available"]
    assert chunk["providerMetadata"] == {"public-sse": {"encrypted_content": VALUE}}
    assert VALUE not in json.dumps(played("ai_sdk", LATE)), "the input is complete before"


@pytest.mark.parametrize("dialect", sorted({*DIALECTS} - {"chat_completions", "ag_ui", "ai_sdk"}))
def test_other_dialects_have_none(dialect: str) -> None:
    text = json.dumps(played(dialect, [{"text": "Hm", "thought": True}, SIGNED]))
    assert ("LNBMF0DXJL" in text, "c2lnbmF0dXJl" in text) == (False, False)


@pytest.mark.parametrize(
    ("item", "kept"),
    [
        ({"type": "reasoning", "encrypted_content": "gAAA"}, {"type": "reasoning", "encrypted_content": "gAAA"}),
        ({"type": "reasoning", "encrypted_content": None}, None),
        ({"type": "reasoning", "summary": []}, None),
        ({"type": "message", "content": [], "encrypted_content": "gAAA"}, None),
    ],
    ids=["encrypted", "null", "not encrypted", "no reasoning"],
)
def test_of_responses_encrypted_reasoning_is_kept(item: dict[str, Any], kept: dict[str, Any] | None) -> None:
    values: list[Any] = []

    def keep(_item_type: str, _call_id: str | None, value: Any, /, *, is_done: bool) -> None:
        assert is_done
        values.append(value)

    pipeline = build_pipeline(provider="openai_responses", dialect="responses")
    pipeline.keep_opaque(keep)
    event = {"type": "response.output_item.done", "output_index": 0, "item": item}
    pipeline.feed(b"data: " + json.dumps(event).encode() + b"\n\n")
    assert values == [kept]


def thinking(sealed: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": "", "signature": SIGNATURE + sealed}


def sent(extra: dict[str, Any]) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}, "extra_content": extra}
    return {"model": "m", "messages": [{"role": "assistant", "tool_calls": [call]}]}


@pytest.mark.parametrize(
    ("value", "carried"),
    [("sealed.AAAA", ["messages[0].tool_calls[0].extra_content"]), ("c2ln", []), (7, []), ({}, [])],
)
def test_no_upstream_gets_a_sealed_value(value: object, carried: list[str]) -> None:
    row = PROVIDERS["openai_chat"]
    assert row.passthrough is not None
    body = sent({"google": {"thought_signature": value}})
    assert [(one.param, one.call_id) for one in row.passthrough.carried(body)] == [(path, "c1") for path in carried]
    [message] = row.passthrough.body_writer(body, profile_of("openai_chat", {}), NOTHING_KEPT)["messages"]
    assert ("extra_content" in message["tool_calls"][0]) is (not carried)


INNER: Final = f"{SEALED}inner"
CHAINED: Final[dict[str, tuple[dict[str, Any], KeptCalls, str]]] = {
    "openai_chat": (
        sent({"google": {"thought_signature": f"{SEALED}outer"}}),
        {
            "c1": KeptCall(
                Place("openai_chat", "u", "m"), 0, {"extra_content": {"google": {"thought_signature": INNER}}}
            )
        },
        "messages",
    ),
    "openai_responses": (
        {"model": "m", "input": [{"type": "reasoning", "summary": [], "encrypted_content": f"{SEALED}outer"}]},
        {
            f"{SEALED}outer": KeptCall(
                Place("openai_responses", "u", "m"), 0, {"type": "reasoning", "summary": [], "encrypted_content": INNER}
            )
        },
        "input",
    ),
    "anthropic_messages": (
        {"model": "m", "messages": [{"role": "assistant", "content": [thinking(f"{SEALED}outer")]}]},
        {
            f"{SEALED}outer": KeptCall(
                Place("anthropic_messages", "u", "m"), 0, {"thinking": "", "signature": SIGNATURE + INNER}
            )
        },
        "messages",
    ),
}
"""API -> a caller's body, what the server has opened or kept of it, and the member with the conversation."""


@pytest.mark.parametrize("api", CHAINED)
def test_a_sealed_value_of_another_projector_goes_back_to_it(api: str) -> None:
    body, kept, member = CHAINED[api]
    route = PROVIDERS[api].passthrough
    assert route is not None
    text = json.dumps(route.body_writer(body, profile_of(api, {}), kept)[member])
    assert (text.count(INNER), text.count(f"{SEALED}outer")) == (1, 0)


@pytest.mark.parametrize("dialect", ["chat_completions", "ag_ui", "ai_sdk"])
def test_a_call_of_which_the_provider_wants_nothing_back_carries_nothing(dialect: str) -> None:
    """A sealed value ties a conversation to its target."""
    assert SEALED not in json.dumps(played(dialect, [{"functionCall": {"name": "look", "args": {"at": 1}}}]))


@pytest.mark.parametrize("dialect", ["chat_completions", "ag_ui", "ai_sdk"])
def test_a_search_for_tools_is_no_call_that_could_carry_a_value(dialect: str) -> None:
    pipeline = build_pipeline(provider="openai_responses", dialect=dialect)
    pipeline.keep_opaque(OpaqueCollector(None, lambda *_: f"{SEALED}x", DIALECTS[dialect].carries).add)
    search = {"type": "tool_search_call", "id": "ts_1", "call_id": "c1", "execution": "client", "opaque": {"a": 1}}
    said = [
        {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}},
        *({"type": f"response.output_item.{one}", "output_index": 0, "item": search} for one in ("added", "done")),
        {"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": []}},
    ]
    text = b"".join(pipeline.feed(b"data: " + json.dumps(one).encode() + b"\n\n") for one in said) + pipeline.close()
    assert b"internal_error" not in text
    assert SEALED.encode() not in text


def test_what_came_after_a_value_was_sealed_is_added_from_the_store() -> None:
    place = Place("openai_chat", "u", "m")
    carried, stored = KeptCall(place, 1, {"a": 1}), KeptCall(place, 0, {"a": 0, "b": 2}, ("before",))
    assert _with_stored(carried, stored) == KeptCall(place, 1, {"a": 1, "b": 2}, ("before",))


@pytest.mark.parametrize(("levels", "is_kept"), [(200, True), (300, False)])
def test_a_value_that_cannot_be_written_is_not_kept(levels: int, *, is_kept: bool) -> None:
    kept: list[object] = []
    collector = OpaqueCollector(lambda _call_id, own, before: kept.append([own, *before]), lambda *_: None, ())
    deep = json.loads('{"a":' * levels + "1" + "}" * levels)
    collector.add("reasoning", None, deep, is_done=True)
    collector.add("function_call", "c1", deep, is_done=True)
    assert kept == [[deep, deep] if is_kept else [None]]
