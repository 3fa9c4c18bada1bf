"""No value of a class leaves in any channel of any dialect, whatever the cut (CONTRACT D40)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, pairwise
from typing import Any, Final, TypeAlias

import pytest

from projector.core.context import StreamContext
from projector.core.pipeline import build_pipeline
from projector.dialects import DIALECTS
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from tests.dialect_checks import violations_of
from tests.rule_samples import CLASSES, MIXED

Event: TypeAlias = dict[str, Any]
Events: TypeAlias = Callable[[Sequence[str]], list[Event]]

GITHUB: Final = "ghp" + "_" + MIXED[:36]
ALL: Final = {"credentials": "mask", **{row.name: "mask" for row in CLASSES}}
EVERY: Final = Redactor(Policy.load({"text": ALL, "reasoning": "full"}))
VALUES: Final = {"credentials": GITHUB, **{row.name: row.matches[0] for row in CLASSES}}
"""Class -> one sample."""

_END: Final[Event] = {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}}


def _begin(**members: object) -> Event:
    return {"type": "response.created", "response": {"id": "r", "status": "in_progress", **members}}


def _item(kind: str, **members: object) -> Event:
    return {"type": "response.output_item.added", "output_index": 0, "item": {"type": kind, "id": "i", **members}}


def _deltas(name: str, deltas: Iterable[str], index: str = "content_index") -> list[Event]:
    place = {"item_id": "i", "output_index": 0, index: 0}
    return [{"type": f"response.{name}.delta", **place, "delta": delta} for delta in deltas]


def message(deltas: Sequence[str]) -> list[Event]:
    done = {**_deltas("output_text", [""])[0], "type": "response.output_text.done", "text": "".join(deltas)}
    return [_begin(), _item("message", role="assistant"), *_deltas("output_text", deltas), done, _END]


def whole_message(deltas: Sequence[str]) -> list[Event]:
    content = [{"type": "output_text", "text": "".join(deltas), "annotations": []}]
    item = {"type": "message", "id": "i", "role": "assistant", "content": content}
    return [_begin(), {"type": "response.output_item.done", "output_index": 0, "item": item}, _END]


def structured(deltas: Sequence[str]) -> list[Event]:
    form = {"format": {"type": "json_schema", "name": "x", "schema": {}}}
    written = [json.dumps(delta)[1:-1] for delta in deltas]
    pieces = ['{"a": "', *written, '", "b": 1}']
    return [_begin(text=form), _item("message", role="assistant"), *_deltas("output_text", pieces), _END]


def refusal(deltas: Sequence[str]) -> list[Event]:
    return [_begin(), _item("message", role="assistant"), *_deltas("refusal", deltas), _END]


def summary(deltas: Sequence[str]) -> list[Event]:
    return [_begin(), _item("reasoning"), *_deltas("reasoning_summary_text", deltas, "summary_index"), _END]


def reasoning(deltas: Sequence[str]) -> list[Event]:
    return [_begin(), _item("reasoning"), *_deltas("reasoning_text", deltas), _END]


def title(deltas: Sequence[str]) -> list[Event]:
    cited = {
        "type": "url_citation",
        "start_index": 0,
        "end_index": 1,
        "title": "".join(deltas),
        "url": "https://x.org/",
    }
    place = {"item_id": "i", "output_index": 0, "content_index": 0, "annotation_index": 0}
    added = {"type": "response.output_text.annotation.added", **place, "annotation": cited}
    return [_begin(), _item("message", role="assistant"), *_deltas("output_text", ["See."]), added, _END]


CHANNELS: Final[dict[str, Events]] = {
    made.__name__: made for made in (message, whole_message, structured, refusal, summary, reasoning, title)
}


def play(dialect: str, events: Iterable[Event], redactor: Redactor = EVERY) -> list[bytes]:
    pipeline = build_pipeline(
        provider="openai_responses",
        dialect=dialect,
        context=StreamContext(stream_id="s"),
        redactor=redactor,
        input_format="ndjson",
        output_format="ndjson",
        clock=lambda: 1_765_800_000.0,
    )
    data = b"".join(json.dumps(event).encode() + b"\n" for event in events)
    return (pipeline.feed(data) + pipeline.close()).splitlines()


def texts(lines: Iterable[bytes]) -> str:
    """Return all strings of the events, the deltas of which are joined."""
    found: list[str] = []

    def walk(value: object) -> None:
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, dict):
            for member in value.values():
                walk(member)
        elif isinstance(value, list):
            for entry in value:
                walk(entry)

    for line in lines:
        event = json.loads(line) if line.startswith(b"{") else {}
        delta = event.get("delta")
        found.append(delta if isinstance(delta, str) else "\0")
        walk({name: member for name, member in event.items() if name != "delta"} if isinstance(delta, str) else event)
    return "".join(part for part in found)


def shown(lines: Iterable[bytes]) -> str:
    """Return the joined deltas and every other string of the public stream."""
    events = [json.loads(line) for line in lines]
    deltas = "".join(event["delta"] for event in events if isinstance(event.get("delta"), str))
    rest = [{name: member for name, member in event.items() if name != "delta"} for event in events]
    return deltas + json.dumps(rest, ensure_ascii=False)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("channel", CHANNELS.values(), ids=CHANNELS.keys())
def test_no_dialect_shows_a_value(channel: Events, dialect: str) -> None:
    for name, value in VALUES.items():
        for size in (1, 3, len(value)):
            deltas = ["It is ", *(value[at : at + size] for at in range(0, len(value), size)), " here."]
            lines = play(dialect, channel(deltas))
            assert value.encode() not in b"".join(lines), name
            assert value not in texts(lines), name
            if dialect == "public_sse_v1":
                assert value not in shown(lines), name
                assert ("<redacted" in shown(lines)) == (channel is not reasoning), (
                    "full reasoning is not in this dialect"
                )
            assert violations_of(dialect, lines) == [], name


@pytest.mark.parametrize("channel", CHANNELS.values(), ids=CHANNELS.keys())
@pytest.mark.parametrize("name", VALUES)
def test_every_split_into_two_and_some_into_three_is_the_same_in_every_channel(name: str, channel: Events) -> None:
    value = VALUES[name]
    text = f"It is {value} here."
    whole = shown(play("public_sse_v1", channel([text])))
    inside = range(5, 7 + len(value))
    cuts = [(at,) for at in range(1, len(text))] + [*combinations(inside, 2)][:: max(1, len(value) // 4)]
    for cut in cuts:
        edges = [0, *cut, len(text)]
        deltas = [text[start:end] for start, end in pairwise(edges)]
        said = shown(play("public_sse_v1", channel(deltas)))
        assert value not in said
        assert said.partition("[{")[0] == whole.partition("[{")[0]


def test_the_end_has_the_text_and_its_notice() -> None:
    lines = [
        json.loads(line) for line in play("public_sse_v1", message(["a@x.org and ", "b@x.org", " or 192.0.2.7 x"]))
    ]
    final = lines[-1]
    assert final["final"]["response_text"] == "<redacted:email> and <redacted:email> or <redacted:ip_address> x"
    [notice] = final["notices"]
    assert (notice["path"], notice["message"]) == ("final.response_text", "Withheld: email (2), ip_address (1).")


def test_structured_output_stays_valid_json() -> None:
    number = '{"card": 4111111111111111, "text": "say \\"4111111111111111\\" x", "mail": "jane\\u0040example.com"}'
    form = {"format": {"type": "json_schema", "name": "x", "schema": {}}}
    for size in (1, 4, len(number)):
        deltas = [number[at : at + size] for at in range(0, len(number), size)]
        events = [_begin(text=form), _item("message", role="assistant"), *_deltas("output_text", deltas), _END]
        final = json.loads(play("public_sse_v1", events)[-1])["final"]
        assert final["structured_output"] == {
            "card": "<redacted:payment_card>",
            "text": 'say "<redacted:payment_card>" x',
            "mail": "<redacted:email>",
        }
        assert json.loads(final["response_text"]) == final["structured_output"]


def test_offsets_of_citations_follow_the_clean_text() -> None:
    text = "From jane@example.com: see the page."
    start = text.index("the page")
    cited = {
        "type": "url_citation",
        "start_index": start,
        "end_index": start + 8,
        "title": "T",
        "url": "https://x.org/",
    }
    place = {"item_id": "i", "output_index": 0, "content_index": 0, "annotation_index": 0}
    added = {"type": "response.output_text.annotation.added", **place, "annotation": cited}
    events = [_begin(), _item("message", role="assistant"), *_deltas("output_text", [text[:9], text[9:]]), added, _END]
    lines = [json.loads(line) for line in play("public_sse_v1", events)]
    clean = lines[-1]["final"]["response_text"]
    [citation] = [line["citation"] for line in lines if line["kind"] == "message.citation"]
    assert clean[citation["start_index"] : citation["end_index"]] == "the page"


def test_a_value_that_crosses_into_the_next_part_is_withheld_from_there() -> None:
    first, second = GITHUB[:12], GITHUB[12:]
    place = {"item_id": "i", "output_index": 0}
    name = "response.output_text.delta"
    events = [
        _begin(),
        _item("message", role="assistant"),
        {"type": name, **place, "content_index": 0, "delta": f"x {first}"},
        {"type": "response.output_text.done", **place, "content_index": 0, "text": f"x {first}"},
        {"type": name, **place, "content_index": 1, "delta": f"{second} y"},
        _END,
    ]
    said = shown(play("public_sse_v1", events))
    assert second not in said
    assert second[:8] not in said


def test_a_blocked_value_ends_the_stream_with_its_closers() -> None:
    redactor = Redactor(Policy.load({"text": {"email": "block"}}))
    for dialect in DIALECTS:
        lines = play(dialect, message(["write to jane", "@example.com ", "today"]), redactor)
        assert violations_of(dialect, lines) == []
        assert b"jane" not in b"".join(lines)
        assert b"today" not in b"".join(lines)
    frames = [json.loads(line) for line in play("public_sse_v1", message(["write to a@x.org "]), redactor)]
    assert [frame["kind"] for frame in frames[-2:]] == ["output_item.done", "error"]
    assert frames[-1]["error"]["code"] == "content_blocked"
    assert frames[-1]["error"]["is_retryable"] is False


@pytest.mark.parametrize("host_adds", [True, False])
def test_values_of_the_caller_pass_where_the_policy_says_so(host_adds: bool) -> None:  # noqa: FBT001 - a row
    policy = {"text": ALL, "echo": "pass"}
    body = {
        "instructions": "Write to boss@example.com.",
        "messages": [
            {"role": "system", "content": "ops@example.com"},
            {
                "role": "user",
                "content": [{"type": "text", "text": f"Jane@example.com, +49 171 1234567, {GITHUB}"}],
            },
        ],
    }
    redactor = Redactor(Policy.load(policy)).for_request(body, b"key", host_adds=host_adds)
    text = f"jane@example.com, +49 (171) 123-4567, {GITHUB}. ops@example.com boss@example.com a@x.org {GITHUB}a x"
    of_host = "<redacted:email> " * 2 if host_adds else "ops@example.com boss@example.com "
    said = f"jane@example.com, +49 (171) 123-4567, {GITHUB}. {of_host}<redacted:email> <redacted> x"
    for deltas in ([text], list(text), [text[:60], text[60:]]):
        final = json.loads(play("public_sse_v1", message(deltas), redactor)[-1])
        assert final["final"]["response_text"] == said
    off = Redactor(Policy.load({"text": ALL})).for_request(body, b"key")
    assert GITHUB not in json.loads(play("public_sse_v1", message([text]), off)[-1])["final"]["response_text"]
