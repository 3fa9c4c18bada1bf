"""Input that a provider repeats at the end of its response, or sends after it: counted, and not in the answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

import pytest

from projector import FAULTS, Policy, build_pipeline

Event = dict[str, Any]
Row = tuple[str, Sequence[Event | str], str, dict[str, int]]

CALL: Final[Event] = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}


def chunk(delta: Event, finish: str | None = None) -> Event:
    return {"id": "c1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def part(text: str, finish: str | None = None, *more: Event) -> Event:
    """Return a chunk of Gemini."""
    candidate = {"content": {"parts": [{"text": text}, *more]}, **({"finishReason": finish} if finish else {})}
    return {"candidates": [candidate], "responseId": "r1"}


def of_responses(text: str) -> list[Event]:
    place = {"output_index": 0, "item_id": "msg_1", "content_index": 0}
    item = {"id": "msg_1", "type": "message", "status": "completed", "content": [{"type": "output_text", "text": text}]}
    events: list[Event] = [
        {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}},
        *({"type": "response.output_text.delta", **place, "delta": letter} for letter in text),
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}},
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def start(response_id: str) -> Event:
    return {"type": "message_start", "message": {"id": response_id, "type": "message", "content": []}}


def of_messages(text: str, *, stops: int = 1) -> list[Event]:
    return [
        start("msg_1"),
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        *[{"type": "content_block_stop", "index": 0}] * stops,
        *[{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}] * stops,
        {"type": "message_stop"},
    ]


TWO: Final = part("lo.", "STOP", {"functionCall": {"name": "f", "args": {"a": 1}}})
LAST: Final = chunk({"content": "lo.", "tool_calls": [CALL]}, "tool_calls")
HA: Final = chunk({"content": "ha"}, "stop")

ROWS: Final[dict[str, Row]] = {
    "Gemini": ("gemini", [part("Hel"), TWO, TWO], "Hello.", {"(repeated chunk)": 1}),
    "Gemini, three times": ("gemini", [part("Hel"), TWO, TWO, TWO], "Hello.", {"(repeated chunk)": 2}),
    "Chat": ("openai_chat", [chunk({"content": "Hel"}), LAST, LAST, "[DONE]"], "Hello.", {"(repeated chunk)": 1}),
    "Chat, without its end mark": ("openai_chat", [chunk({"content": "Hel"}), LAST, LAST], "Hello.", {
        "(repeated chunk)": 1,
    }),
    "Chat, another chunk between": ("openai_chat", [HA, chunk({"content": ", "}), HA], "ha, ha", {}),
    "Chat, a finish reason in each chunk": (
        "openai_chat", [chunk({"content": "H"}, "stop"), HA, HA, HA, "[DONE]"], "Hhahaha", {},
    ),
    "Chat, a finish reason in each chunk, the first two alike": (
        "openai_chat", [HA, HA, chunk({"content": "!"}, "stop"), "[DONE]"], "haha!", {},
    ),
    "Gemini, another response after its finish reason": (
        "gemini", [part("H"), part("i.", "STOP"), {**part("No."), "responseId": "r2"}], "Hi.",
        {"start of another response": 1},
    ),
    "Gemini, an ID in each chunk": (
        "gemini", [{**part(text, "STOP"), "responseId": text} for text in ("H", "i", ".")], "Hi.", {},
    ),
    "Gemini, an ID that two of its chunks share": (
        "gemini", [{**part(one), "responseId": one} for one in "1223"] + [part("", "STOP")], "1223", {},
    ),
    "Gemini, counts under another ID": (
        "gemini",
        [part("H"), part("i.", "STOP"), {"responseId": "r2", "usageMetadata": {"promptTokenCount": 9}}], "Hi.", {},
    ),
    "Claude, another start after its stop reason": (
        "anthropic_messages", [*of_messages("Hi.")[:-1], start("msg_2")], "Hi.", {"start of another response": 1},
    ),
    "Gemini, a finish reason in each chunk": ("gemini", [part("ha", "STOP"), part("ha", "STOP")], "haha", {}),
    "Chat, a comment as data between": (
        "openai_chat", [chunk({"content": "Hel"}), LAST, ": wait", LAST], "Hello.",
        {"(repeated chunk)": 1, "(comment)": 1},
    ),
    "Chat, before a finish reason": (
        "openai_chat", [chunk({"content": "ha"}), chunk({"content": "ha"}), chunk({}, "stop")], "haha", {},
    ),
    "Responses": (
        "openai_responses", [event for event in of_responses("Hello.") for _ in range(2)], "Hello.",
        {"(repeated delta)": 6, "response.output_item.done": 1, "(after the end)": 1},
    ),
    "Claude": (
        "anthropic_messages", of_messages("Hello.", stops=2), "Hello.",
        {"stop of a closed block": 1, "(repeated chunk)": 1},
    ),
    # after the end
    "Gemini, after its end": (
        "gemini", [part("Hi.", "STOP"), {"candidates": [], "usageMetadata": {}}, part("No.")], "Hi.",
        {"(after the end)": 1},
    ),
    "Chat, after its end": ("openai_chat", [chunk({"content": "Hi."}, "stop"), "[DONE]", HA, HA, "[DONE]"], "Hi.", {
        "(after the end)": 2,
    }),
    "Responses, after its end": ("openai_responses", [*of_responses("Hi."), *of_responses("No.")], "Hi.", {
        "(after the end)": 6,
    }),
    "Responses, an end mark": ("openai_responses", [*of_responses("Hi."), "[DONE]"], "Hi.", {}),
    "Claude, after its end": ("anthropic_messages", [*of_messages("Hi."), *of_messages("No.")], "Hi.", {
        "(after the end)": 6,
    }),
    "Claude, its end twice": ("anthropic_messages", [*of_messages("Hi."), {"type": "message_stop"}], "Hi.", {
        "(after the end)": 1,
    }),
}  # fmt: skip
"""Name -> provider, its messages, the text of the answer, and what is counted as dropped."""


def encoded(messages: Iterable[Event | str]) -> bytes:
    texts = (one if isinstance(one, str) else json.dumps(one) for one in messages)
    return b"".join(b"data: " + text.encode() + b"\n\n" for text in texts)


@pytest.mark.parametrize("size", [1, 7, 100_000])
@pytest.mark.parametrize("name", ROWS)
def test_input_at_the_end_is_read_once_and_counted(name: str, size: int) -> None:
    provider, messages, text, dropped = ROWS[name]
    pipeline = build_pipeline(provider=provider, dialect="public_sse_v1", output_format="ndjson")
    data = encoded(messages)
    written = b"".join([pipeline.feed(data[at : at + size]) for at in range(0, len(data), size)]) + pipeline.close()
    last = json.loads(written.splitlines()[-1])
    calls = [event for event in map(json.loads, written.splitlines()) if event["kind"] == "tool.arguments.done"]
    assert last["final"]["response_text"].replace("\n", "") == text
    assert dict(pipeline.dropped) == dropped
    assert len(calls) == sum("functionCall" in str(one) or "tool_calls" in str(one) for one in messages[:2])


@pytest.mark.parametrize("size", [1, 100_000])
@pytest.mark.parametrize(
    ("provider", "messages"),
    [
        ("anthropic_messages", [*of_messages("Hi.")[:3], start("msg_2"), *of_messages("No.")[1:]]),
        ("gemini", [part("H"), part("i."), {**part("No."), "responseId": "r2"}]),
        ("gemini", [{**part(text), "responseId": one} for text, one in zip("Hi. Hi. no", "1111112323", strict=True)]),
    ],
)
def test_the_start_of_another_response_ends_the_stream_and_is_counted(
    provider: str, messages: list[Event], size: int
) -> None:
    pipeline = build_pipeline(provider=provider, dialect="public_sse_v1", output_format="ndjson")
    data = encoded(messages)
    written = b"".join([pipeline.feed(data[at : at + size]) for at in range(0, len(data), size)])
    assert json.loads(written.splitlines()[-1])["error"]["code"] == "upstream_truncated"
    assert dict(pipeline.dropped) == {"start of another response": 1}


def test_an_earlier_response_of_a_run_is_not_the_end_that_counts() -> None:
    policy = Policy.load({"text": {"email": "block"}})
    pipeline = build_pipeline(provider="openai_responses", dialect="public_sse_v1", policy=policy, run=True)
    pipeline.feed(encoded(of_responses("Hi.")))
    pipeline.next_response()
    pipeline.feed(encoded(of_responses("ann@mail.example ")))
    assert pipeline.ended
    assert not pipeline.dropped


def test_late_events_of_the_host_are_not_counted_as_the_provider_s() -> None:
    host = {"type": "projector.output.appended", "text": "x"}
    data = b"".join(json.dumps(event).encode() + b"\n" for event in [*of_responses("Hi."), host, *of_responses("No.")])
    for at in range(len(data) + 1):
        pipeline = build_pipeline(
            provider="openai_responses", dialect="public_sse_v1", input_format="ndjson", takes_host_events=True
        )
        pipeline.feed(data[:at])
        pipeline.feed(data[at:])
        pipeline.close()
        assert pipeline.dropped["(after the end)"] == 6


@pytest.mark.parametrize("end", ["a fault", "the host", "the policy", "an error of the provider"])
def test_only_input_after_the_end_that_the_provider_announced_is_counted(end: str) -> None:
    policy = Policy.load({"text": {"email": "block"}} if end == "the policy" else {})
    pipeline = build_pipeline(provider="openai_responses", dialect="public_sse_v1", policy=policy)
    if end == "an error of the provider":  # OpenAI sends both
        error = {"code": "server_error", "message": "No."}
        failed = {"type": "response.failed", "response": {"id": "resp_1", "status": "failed", "error": error}}
        pipeline.feed(encoded([of_responses("")[0], {"type": "error", **error}, failed]))
    pipeline.feed(encoded(of_responses("ann@mail.example ")[:-2]))
    if end == "a fault":
        pipeline.close(FAULTS["upstream_reset"])
    elif end == "the host":
        pipeline.cancel()
    assert pipeline.ended
    pipeline.feed(encoded(of_responses("Hi.")))
    assert not pipeline.dropped
