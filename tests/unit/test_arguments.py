"""Arguments of calls, streamed and complete (seed section 9.8, CONTRACT D22 to D24, D27)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pytest

Event: TypeAlias = dict[str, Any]
Play: TypeAlias = Callable[..., list[Event]]

ABSENT: Final = object()
JSON: Final = '{"place": "Bergen", "days": 3}'
OBJECT: Final = {"place": "Bergen", "days": 3}
COMPACT: Final = '{"place":"Bergen","days":3}'
PREFIXES: Final = {
    "function_call": "function_call_arguments",
    "mcp_call": "mcp_call_arguments",
    "custom_tool_call": "custom_tool_call_input",
}


def delta(text: object, item_type: str = "function_call") -> Event:
    return {"type": f"response.{PREFIXES[item_type]}.delta", "output_index": 0, "item_id": "it", "delta": text}


def done(text: object, item_type: str = "function_call", **members: object) -> Event:
    member = "input" if item_type == "custom_tool_call" else "arguments"
    name = f"response.{PREFIXES[item_type]}.done"
    return {"type": name, "output_index": 0, "item_id": "it", member: text, **members}


def item_done(item_type: str = "function_call", **members: object) -> Event:
    item = {"type": item_type, "id": "it", "call_id": "call", "name": "f", **members}
    return {"type": "response.output_item.done", "output_index": 0, "item": item}


def added(item_type: str = "function_call", **members: object) -> Event:
    return item_done(item_type, **members) | {"type": "response.output_item.added"}


def deltas(said: list[Event]) -> list[str]:
    return [it["delta"] for it in said if it["kind"] == "tool.arguments.delta"]


def dones(said: list[Event]) -> list[Event]:
    return [it for it in said if it["kind"] == "tool.arguments.done"]


@pytest.mark.parametrize("item_type", ["function_call", "mcp_call"])
@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_d23_deltas_stream_and_join_to_the_whole(play: Play, item_type: str, size: int) -> None:
    pieces = [JSON[at : at + size] for at in range(0, len(JSON), size)]
    said = play(added(item_type), *(delta(piece, item_type) for piece in pieces), done(JSON, item_type))
    place = {
        "output_index": 0,
        "item_id": "it",
        "tool_call_id": "call",
        "tool_type": {"function_call": "function", "mcp_call": "mcp"}[item_type],
        "tool_name": "f",
    }
    assert "".join(deltas(said)) == JSON
    assert len(deltas(said)) > 1 or size == 100
    assert said[-1] == {
        "kind": "tool.arguments.done",
        **place,
        "arguments_text": JSON,
        "arguments_json": {"place": "Bergen", "days": 3},
    }
    assert {"kind": "tool.arguments.delta", **place, "delta": deltas(said)[0]} in said


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param([added(), done(JSON)], [JSON], id="D23-only-done"),
        pytest.param([item_done(arguments=JSON)], [JSON], id="D30-only-the-item"),
        pytest.param([item_done(arguments=OBJECT)], [COMPACT], id="D30-only-the-item-as-an-object"),
        pytest.param([added(), done(OBJECT), item_done(arguments=OBJECT)], [COMPACT], id="D30-an-object-in-done"),
        pytest.param(
            [item_done(arguments={"a": 10**30})], ['{"a":"1' + "0" * 30 + '"}'], id="D31-an-object-of-a-large-number"
        ),
        pytest.param([added(), delta(JSON), item_done()], [JSON], id="D30-deltas-and-an-item-without-arguments"),
        pytest.param([added(), delta("7"), item_done()], ["7"], id="D30-one-character-and-an-item-without-arguments"),
        pytest.param([added(), done(JSON), done("{}"), item_done(arguments="[]")], [JSON], id="D23-said-once"),
        pytest.param([added(), done(JSON), delta("x")], [JSON], id="D23-no-delta-after-the-whole"),
        pytest.param([added(), delta(JSON[:9]), done(JSON)], [JSON], id="D23-a-longer-done-adds-a-last-delta"),
        pytest.param(
            [added(), delta('{"a": "\ud83d'), delta('\ude00"'), done('{"a": "😀"}')],
            ['{"a": "😀"}'],
            id="D31-a-character-in-two-halves",
        ),
        pytest.param(
            [added(), delta('{"a": "\ud83d'), done('{"a": "😀"}')], ['{"a": "😀"}'], id="D31-half-a-character"
        ),
        pytest.param([added(), delta(JSON), done('{"place": "Oslo"}')], [JSON], id="D23-deltas-win"),
        pytest.param([item_done(arguments=None)], [], id="D3-null-is-no-arguments"),
        pytest.param([added(), delta(5), done(None), delta(None)], [], id="D30-wrong-types"),
        pytest.param([added(), delta('{"pl'), item_done(status="incomplete")], [], id="D23-not-for-a-call-cut-off"),
        pytest.param(
            [added(), delta('{"pl'), {"type": "response.incomplete", "response": {"status": "incomplete"}}],
            [],
            id="D23-nor-by-the-end-of-the-response",
        ),
    ],
)
def test_the_whole_is_said_once(play: Play, events: list[Event], expected: list[str]) -> None:
    said = play(*events)
    assert [it["arguments_text"] for it in dones(said)] == expected
    assert not deltas(said) or not expected or "".join(deltas(said)) == expected[0]


def test_d23_a_differing_done_is_counted(open_stream: Callable[..., Any]) -> None:
    stream = open_stream()
    stream.feed(added(), delta(JSON), done("{}"))
    assert stream.dropped == {"done differs from its deltas": 1}


@pytest.mark.parametrize(
    ("event", "dropped"),
    [
        (item_done(arguments=5), {"item.arguments": 1}),
        (item_done("custom_tool_call", input=["x"]), {"item.input": 1}),
        (item_done(arguments=None), {}),
        (item_done(), {}),
    ],
    ids=["a number", "a list", "null", "none"],
)
def test_d30_arguments_of_a_wrong_type_are_counted(
    open_stream: Callable[..., Any], event: Event, dropped: dict[str, int]
) -> None:
    stream = open_stream()
    assert dones(stream.feed(event)) == []
    assert stream.dropped == dropped


@pytest.mark.parametrize(
    ("text", "parsed", "notices"),
    [
        pytest.param("{}", {}, [], id="D23-an-empty-object"),
        pytest.param("", ABSENT, [], id="D24-empty-text-is-no-arguments"),
        pytest.param("[1]", ABSENT, [], id="D23-no-object"),
        pytest.param('"go"', ABSENT, [], id="D23-a-text"),
        pytest.param(f'{{"n": {2**70}}}', {"n": str(2**70)}, [], id="D31-integers-over-64-bit"),
    ],
)
def test_what_parses(play: Play, text: str, parsed: object, notices: list[Event]) -> None:
    whole = dones(play(item_done(arguments=text)))[0]
    assert whole["arguments_text"] == text
    assert whole.get("arguments_json", ABSENT) == parsed
    assert whole.get("notices", []) == notices


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param('{"a": tru}', '{"a": tru', id="D24-not-json"),
        pytest.param('{"a": 1} and more', '{"a": 1}', id="D24-text-after-the-value"),
        pytest.param('{"a": NaN}', '{"a": ', id="D24-nan"),
    ],
)
def test_d24_what_is_not_json_is_said_as_far_as_it_is_safe(play: Play, text: str, said: str) -> None:
    whole = dones(play(item_done(arguments=text)))[0]
    assert said.startswith(whole["arguments_text"].rstrip())
    assert "arguments_json" not in whole
    assert [notice["path"] for notice in whole["notices"]] == ["arguments_text"]


def test_secrets_are_withheld_in_text_and_parse(play: Play) -> None:
    text = '{"url": "https://a.example", "api_key": "k-1"}'
    said = play(added(), delta(text[:40]), delta(text[40:]), done(text))
    whole = dones(said)[0]
    assert "".join(deltas(said)) == whole["arguments_text"] == text.replace("k-1", "<redacted>")
    assert whole["arguments_json"] == {"url": "https://a.example", "api_key": "<redacted>"}
    assert [(notice["type"], notice["path"]) for notice in whole["notices"]] == [("redacted", "arguments_json.api_key")]


@pytest.mark.parametrize("chars", [3_000, 8_000, 8_001, 20_000])
def test_d23_text_and_deltas_stop_together(play: Play, chars: int) -> None:
    value = "x" * (chars - len('{"a": ""}'))
    text = f'{{"a": "{value}"}}'
    said = play(added(), *(delta(text[at : at + 999]) for at in range(0, chars, 999)), done(text))
    whole = dones(said)[0]
    assert "".join(deltas(said)) == whole["arguments_text"] == text[:8_000]
    assert whole["arguments_json"] == {"a": value[:4_000]}, "8.1: strings of the parse"
    cut = {notice["path"] for notice in whole.get("notices", ()) if notice["type"] == "truncated"}
    assert ("arguments_text" in cut) == (chars > 8_000)
    assert ("arguments_json.a" in cut) == (len(value) > 4_000)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param([delta("go ", "custom_tool_call"), done("go on", "custom_tool_call")], "go on", id="D22-streamed"),
        pytest.param([done('{"a": 1}', "custom_tool_call")], '{"a": 1}', id="D22-json-is-text-too"),
        pytest.param([item_done("custom_tool_call", input="go")], "go", id="D22-only-the-item"),
        pytest.param([done("x" * 8_001, "custom_tool_call")], "x" * 8_000, id="D22-cut-where-arguments-are-cut"),
        pytest.param(
            [*[delta("x y " * 1_250, "custom_tool_call")] * 2, item_done("custom_tool_call")],
            "x y " * 2_000,
            id="D22-all-deltas-together",
        ),
    ],
)
def test_custom_tools_take_one_text(play: Play, events: list[Event], expected: str) -> None:
    said = play(added("custom_tool_call"), *events)
    whole = dones(said)[0]
    assert (whole["tool_type"], whole["arguments_text"]) == ("function", expected)
    assert "arguments_json" not in whole
    assert "".join(deltas(said)) in {"", expected}


@pytest.mark.parametrize(
    ("events", "name"),
    [
        ([added(), done("{}")], "f"),
        ([done("{}")], "unknown"),
        ([delta("{}"), done("{}", name="g")], "g"),
        ([delta("{}"), item_done(arguments="{}")], "f"),
    ],
)
def test_names_are_taken_from_wherever_they_stand(play: Play, events: list[Event], name: str) -> None:
    assert dones(play(*events))[0]["tool_name"] == name
