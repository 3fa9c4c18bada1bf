"""Start, end, failures and drop counts of a Chat response; `chat_notes` explains the notation."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from projector.core.canonical import DROP_NAME_MAX_CHARS
from projector.core.sse import SseMessage
from projector.providers.openai_chat.chunk_fields import COUNTS, ChatProfile
from projector.providers.openai_chat.stage import OpenAIChatStage
from projector.providers.stage_parts import usage_of
from tests.unit.chat_notes import DONE, ID, Cases, call, chunk, feed, note, says, usage_chunk

HI = "0 + message | 0 text Hi | 0 - message completed"
ENDS: Cases = {
    "the end mark, no finish reason": (
        [chunk({"content": "Hi"}), DONE],
        f"{HI} | completed",
    ),
    "a finish reason, no end mark": (
        [chunk({"content": "Hi"}), chunk({}, "stop")],
        f"{HI} | completed",
    ),
    "neither": ([chunk({"content": "Hi"})], "0 + message | 0 text Hi"),
    "neither, and something like a tag": ([chunk({"content": " <th"})], "0 + message | 0 text  <th"),
    "the end mark alone": ([DONE], ""),
    "finish reasons with every chunk": (
        [chunk({"content": "H"}, "stop"), chunk({"content": "i"}, "stop")],
        "0 + message | 0 text H | 0 text i | 0 - message completed | completed",
    ),
    "twice, the second with usage": (
        [chunk({"content": "Hi"}, "length"), chunk({}, "length", usage={"prompt_tokens": 1})],
        "0 + message | 0 text Hi | 0 - message incomplete | incomplete length",
    ),
    "the last of several counts": (
        [chunk({"content": "Hi"}, "tool_calls"), chunk({}, "content_filter")],
        "0 + message | 0 text Hi | 0 - message incomplete | incomplete content_filter",
    ),
    "a chunk after the usage": (
        [chunk({"content": "Hi"}, "stop"), usage_chunk(), {"id": ID, "choices": []}, DONE],
        f"{HI} | completed",
    ),
    "length under another name": (
        [chunk({"content": "Hi"}, "model_length")],
        "0 + message | 0 text Hi | 0 - message incomplete | incomplete length",
    ),
    **{
        f"the reason {reason}": (
            [chunk({"content": "Hi"}, reason)],
            f"0 + message | 0 text Hi | 0 - message incomplete | {end}",
        )
        for reason, end in {
            "MAX_TOKENS": "incomplete length",
            "FinishReason.MAX_TOKENS": "incomplete length",
            "FINISH_REASON_LENGTH": "incomplete length",
            "max_output_tokens": "incomplete length",
            "model_context_window_exceeded": "incomplete length",
            "token_limit": "incomplete length",
            "TIME_LIMIT": "incomplete time_limit",
            "OTHER": "incomplete other",
            "sensitive": "incomplete content_filter",
            "guardrail_intervened": "incomplete content_filter",
            "content-filter": "incomplete content_filter",
            "malformed_model_output": "failed malformed_function_call",
            "no_image": "incomplete no_image",
            "refusal": "incomplete content_filter",
            "network_error": "failed network_error",
            "SAFETY": "incomplete content_filter",
            "content_filter: PROHIBITED_CONTENT": "incomplete content_filter",
            "malformed_function_call": "failed malformed_function_call",
            "function_call_filter: MALFORMED_FUNCTION_CALL": "failed malformed_function_call",
        }.items()
    },
    "the reason STOP": ([chunk({"content": "Hi"}, "STOP")], f"{HI} | completed"),
    "a reason that nobody knows": (
        [chunk({"content": "Hi"}, "eos")],
        f"{HI} | completed",
    ),
    "a failure without words": (
        [chunk({"content": "Hi"}, "error")],
        "0 + message | 0 text Hi | 0 - message incomplete | failed error",
    ),
    "cancelled at the server": (
        [chunk({"content": "Hi"}, "abort"), usage_chunk(), DONE],
        "0 + message | 0 text Hi | 0 - message incomplete | cancelled",
    ),
    "no reason is none": (
        [chunk({"content": "Hi"}, ""), DONE],
        f"{HI} | completed",
    ),
    "something after the end mark": (
        [chunk({"content": "Hi"}), DONE, chunk({"content": "x"}), "oops", DONE],
        f"{HI} | completed",
    ),
}


ERRORS: Cases = {
    "alone": ([{"error": {"message": "No.", "code": "tool_use_failed", "type": "x"}}], "error tool_use_failed: No."),
    "after text": (
        [
            chunk({"content": "Hi <"}),
            {"error": {"message": "No.", "type": "server_error", "code": None}},
            chunk({"content": "x"}),
            DONE,
        ],
        "0 + message | 0 text Hi  | 0 text < | error server_error: No.",
    ),
    "beside choices": (
        [chunk({"content": "Hi"}, "error", error={"code": 502, "message": "No."})],
        "0 + message | 0 text Hi | error 502: No.",
    ),
    "of the choice": (
        [
            {
                "id": ID,
                "choices": [
                    {"delta": {"content": ""}, "finish_reason": "error", "error": {"code": 429, "message": "No."}}
                ],
            }
        ],
        "error 429: No.",
    ),
    "of one provider's own member": (
        [chunk({"content": "Hi"}), chunk({}, x_groq={"id": "r", "error": "over capacity"})],
        "0 + message | 0 text Hi | error None: over capacity",
    ),
    "in plain words": ([{"error": "No."}], "error None: No."),
    "flat": ([{"object": "error", "message": "No.", "code": 400, "type": "x"}], "error 400: No."),
    "beside choices after a finish reason": (
        [chunk({"content": "Hi"}, "stop"), chunk({}, "stop", error={"code": 502, "message": "No."}), usage_chunk()],
        f"{HI} | completed",
    ),
    "alone after a finish reason": (
        [chunk({"content": "Hi"}, "stop"), {"error": {"message": "No."}}],
        f"{HI} | completed",
    ),
    "a list (D48)": ([[{"error": {"message": "No.", "code": 400}}]], "error 400: No."),
    "of another member (D48)": (
        [chunk({"content": "Hi"}), {"base_resp": {"status_code": 1002, "status_msg": "No."}}],
        "0 + message | 0 text Hi | error 1002: No.",
    ),
    "beside a chunk without choices (D48)": (
        [{"id": ID, "choices": None, "base_resp": {"status_code": 1004, "status_msg": "No."}}],
        "error 1004: No.",
    ),
    "a success in the member of errors (D48)": (
        [chunk({"content": "Hi"}, "stop", base_resp={"status_code": 0, "status_msg": ""})],
        f"{HI} | completed",
    ),
    "no error at all": (
        [chunk({"content": "Hi"}, "stop", error=None)],
        f"{HI} | completed",
    ),
}


MALFORMED: Cases = {
    "not JSON": (
        [chunk({"content": "Hi"}), "oops", chunk({"content": "x"})],
        "0 + message | 0 text Hi | fault upstream_malformed",
    ),
    "not JSON, first": (["<html>"], "fault upstream_malformed"),
    "not JSON, after a finish reason": (
        [chunk({"content": "Hi"}, "stop"), "oops", usage_chunk()],
        f"{HI} | completed",
    ),
    "empty data": (
        ["", " ", chunk({"content": "Hi"}, "stop")],
        f"{HI} | completed",
    ),
    "JSON that is no object": (
        [[], 1, None, chunk({"content": "Hi"}, "stop")],
        f"{HI} | completed",
    ),
    "an object that is no chunk": ([{"state": "loading"}], ""),
    "a comment as data (D47)": (
        [": keepalive", chunk({"content": "Hi"}), ": keepalive", chunk({}, "stop"), ":", DONE],
        f"{HI} | completed",
    ),
    "nested deeper than anyone reads": (
        ["[" * 100_000, chunk({"content": "Hi"}, "stop")],
        f"{HI} | completed",
    ),
}


FAMILIES: dict[str, Cases] = {"ends": ENDS, "errors": ERRORS, "malformed": MALFORMED}


@pytest.mark.parametrize(
    ("sent", "expected"),
    [pytest.param(*case, id=f"{family}: {name}") for family, cases in FAMILIES.items() for name, case in cases.items()],
)
def test_chunks_become_events(sent: list[Any], expected: str) -> None:
    assert says(*sent) == expected


def test_an_error_message_is_an_error_with_any_payload() -> None:
    said = {
        b'{"error":{"message":"No.","code":"x"}}': "error x: No.",
        b'{"message":"No.","type":"y"}': "error y: No.",
        b'{"detail":"No."}': "error None: No.",
        b"No.": "error None: No.",
        b'{"id":"1","choices":[],"error":{"message":"No.","code":"x"}}': "error x: No.",
    }
    for data, expected in said.items():
        stage = OpenAIChatStage()
        assert note(stage.feed(SseMessage(data, "error"))[-1]) == expected
        assert stage.close() == []


PROFILES = {
    "tags anywhere": (ChatProfile(think_mode="anywhere"), "a<think>b</think>c", ["a", "c"], ["b"]),
    "assumed open": (ChatProfile(think_mode="assume_open"), "a</think>b", ["b"], ["a"]),
    "no tags": (ChatProfile(think_mode="off"), "<think>a</think>b", ["<think>a</think>b"], []),
    "other tags": (ChatProfile(think_tags=(("<r>", "</r>"),)), "<r>a</r>b<think>c</think>d", ["b", "d"], ["a", "c"]),
}


@pytest.mark.parametrize(("profile", "content", "texts", "thoughts"), PROFILES.values(), ids=PROFILES.keys())
def test_the_profile_sets_the_tags(profile: ChatProfile, content: str, texts: list[str], thoughts: list[str]) -> None:
    notes = says(chunk({"content": content}, "stop"), profile=profile).split(" | ")
    assert [said[7:] for said in notes if said[2:].startswith("text ")] == texts
    assert [said[10:] for said in notes if said[2:].startswith("thought ")] == thoughts


def test_the_profile_names_the_reasoning_fields() -> None:
    profile = ChatProfile(reasoning_fields=("thinking",))
    stage = OpenAIChatStage(profile)
    notes = [note(event) for event in feed(stage, [chunk({"thinking": "Hm", "reasoning": "no"})])]
    assert notes == ["created", "0 + reasoning", "0 thought Hm"]
    assert stage.dropped == {"delta.reasoning": 1}


@pytest.mark.parametrize(
    "wrong", [{"think_mode": "never"}, {"think_tags": (("", "x"),)}, {"think_tags": ("<a>", "</a>")}, {"unknown": 1}]
)
def test_an_invalid_profile_is_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ChatProfile(**wrong)


USAGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": (
        {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
        {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    ),
    "details": (
        {"prompt_tokens_details": {"cached_tokens": 4}, "completion_tokens_details": {"reasoning_tokens": 5}},
        {"input_tokens_details": {"cached_tokens": 4}, "output_tokens_details": {"reasoning_tokens": 5}},
    ),
    "details at the top": (
        {"prompt_cache_hit_tokens": 4, "reasoning_tokens": 5},
        {"input_tokens_details": {"cached_tokens": 4}, "output_tokens_details": {"reasoning_tokens": 5}},
    ),
    "a null falls through to what is known": (
        {"prompt_tokens_details": None, "cached_tokens": 4},
        {"input_tokens_details": {"cached_tokens": 4}},
    ),
    "unknown is not 0": ({"prompt_tokens": None, "completion_tokens": "7", "cost": 0.5}, {}),
    "0 is known": ({"prompt_tokens": 0}, {"input_tokens": 0}),
}


@pytest.mark.parametrize(("usage", "expected"), USAGES.values(), ids=USAGES.keys())
def test_usage(usage: dict[str, Any], expected: dict[str, Any]) -> None:
    assert usage_of(usage, COUNTS) == expected


USAGE_PLACES: dict[str, list[Any]] = {
    "without choices": [chunk({}, "stop"), usage_chunk(9, 9), DONE],
    "beside the finish reason": [chunk({}, "stop", usage={"prompt_tokens": 9, "completion_tokens": 9})],
    "on every chunk": [
        chunk({"content": "a"}, usage={"prompt_tokens": 9, "completion_tokens": 1}),
        chunk({"content": "b"}, "stop", usage={"prompt_tokens": 9, "completion_tokens": 9}),
    ],
    "twice": [
        chunk({}, "stop", x_groq={"usage": {"prompt_tokens": 1, "completion_tokens": 1}}),
        {**usage_chunk(9, 9), "x_groq": {"usage": {"prompt_tokens": 1}}},
    ],
    "of one provider": [chunk({}, "stop", x_groq={"id": "r", "usage": {"prompt_tokens": 9, "completion_tokens": 9}})],
    "of the choice": [
        {
            "id": ID,
            "choices": [{"delta": {}, "finish_reason": "stop", "usage": {"prompt_tokens": 9, "completion_tokens": 9}}],
        }
    ],
    "before all choices, in a chunk with a type": [
        {"type": "chunk", "usage": {"prompt_tokens": 9, "completion_tokens": 9}},
        chunk({}, "stop"),
    ],
    "alone": [chunk({}, "stop"), {"usage": {"prompt_tokens": 9, "completion_tokens": 9}}],
    "null or empty afterwards": [
        chunk({}, "stop", usage={"prompt_tokens": 9, "completion_tokens": 9}),
        chunk(usage=None),
        chunk(usage={}),
    ],
}


@pytest.mark.parametrize("sent", USAGE_PLACES.values(), ids=USAGE_PLACES.keys())
def test_the_last_usage_counts(sent: list[Any]) -> None:
    assert feed(OpenAIChatStage(), sent)[-1]["response"]["usage"] == {"input_tokens": 9, "output_tokens": 9}


def test_everything_dropped_is_counted() -> None:
    stage = OpenAIChatStage()
    feed(
        stage,
        [
            chunk({"content": 5, "new": 1, "reasoning": ["x"]}, newer=1),
            {"id": ID, "choices": [{"delta": "x", "newest": 1}, {"index": 1, "delta": {}}]},
            chunk({"content": [5, {"type": "image_url"}, {}], "tool_calls": "x"}),
            chunk(
                {"content": [{"type": "text", "text": {"value": "x"}}, {"type": "text"}, {"type": "text", "text": ""}]}
            ),
            chunk({"content": [{"type": "thinking", "thinking": [5]}, {"type": "refusal", "refusal": 5}]}),
            chunk({"tool_calls": [5], "reasoning_details": [{"type": "reasoning.dream"}]}),
            chunk(call("f", 5, index=0, id="c1")),
            chunk({"annotations": [{"type": "url_citation"}, "x"], "reasoning": " "}),
            {"id": ID, "choices": [None, 1]},
            {"id": ID, "choices": "x", "usage": 5},
            [],
            {"state": "x"},
            chunk({}, "eos"),
            "oops",
            {"error": {"message": "x"}},
            DONE,
            chunk(),
        ],
    )
    assert dict(stage.dropped) == {
        "delta.new": 1,
        "delta.reasoning": 1,
        "delta.content": 1,
        "chunk.newer": 1,
        "choice.newest": 1,
        "choice.delta": 1,
        "choices beyond the first": 1,
        "content part": 1,
        "content.image_url": 1,
        "content.None": 1,
        "content.text": 1,
        "content.thinking": 1,
        "content.refusal": 1,
        "delta.tool_calls": 2,
        "reasoning_details.reasoning.dream": 1,
        "tool call input": 1,
        "reasoning of blanks alone": 1,
        "citations without a text": 1,
        "delta.annotations": 1,
        "chunk.choices": 3,
        "usage": 1,
        "(no object)": 1,
        "(no chunk)": 1,
        "finish_reason.eos": 1,
        "error after a finish reason": 1,
        "(after the end)": 2,
    }


UNKNOWN: dict[str, dict[str, Any]] = {
    "content.new": {"content": [{"type": "text", "text": "a", "new": 1}]},
    "content.poem": {"content": [{"type": "poem", "text": "a"}]},
    "thinking.new": {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "a", "new": 1}]}]},
    "image_url.new": {"images": [{"image_url": {"url": "data:image/png;base64,eA==", "new": 1}}]},
    "tool_calls.new": {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f"}, "new": 1}]},
    "function.new": {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "new": 1}}]},
    "custom.new": {"tool_calls": [{"index": 0, "id": "c", "custom": {"name": "f", "new": 1}}]},
    "function_call.new": {"function_call": {"name": "f", "new": 1}},
    "annotations.new": {"content": "a", "annotations": [{"type": "url_citation", "url": "https://a.b", "new": 1}]},
    "url_citation.new": {"annotations": [{"type": "url_citation", "url_citation": {"url": "https://a.b", "new": 1}}]},
    "reasoning_details.new": {"reasoning_details": [{"type": "reasoning.text", "text": "a", "new": 1}]},
}
"""Name in the counts -> a delta with an unknown member."""


@pytest.mark.parametrize(("name", "delta"), UNKNOWN.items(), ids=UNKNOWN)
def test_unknown_members_of_objects_in_a_delta_are_counted(name: str, delta: dict[str, Any]) -> None:
    stage = OpenAIChatStage()
    feed(stage, [chunk({"content": "a"}), chunk(delta), chunk({}, "stop"), DONE])
    assert dict(stage.dropped) == {name: 1}


def test_unknown_members_of_usage_are_counted() -> None:
    stage = OpenAIChatStage()
    usage = {"prompt_tokens": 1, "new": 1, "prompt_tokens_details": {"newer": 1}}
    feed(stage, [chunk({"content": "a"}, "stop", usage=usage), DONE])
    assert dict(stage.dropped) == {"usage.new": 1, "prompt_tokens_details.newer": 1}


def test_citations_of_a_text_part_are_those_of_the_text() -> None:
    citation = {"type": "url_citation", "url": "https://a.b", "title": "A", "start_index": 0, "end_index": 1}
    parts = [{"type": "text", "text": "a", "annotations": [citation]}]
    events = feed(OpenAIChatStage(), [chunk({"content": parts}, "stop"), DONE])
    assert [event["annotation"] for event in events if "annotation" in event] == [citation]


@pytest.mark.parametrize(
    ("contents", "start"),
    [
        ([["<think>so</think>ab", {"text": "cdef", "annotations": [1]}]], 3),
        ([["ab <", {"text": "cdef", "annotations": [1]}]], 5),
        ([["<think>a <", {"text": "/think>bcdef", "annotations": [1]}]], 1),
        (["ab", [{"text": "cdef", "annotations": [1]}]], 3),
        ([[{"text": "ab"}], [{"text": "cd", "annotations": [1]}]], 1),
        (["abcd", [{"text": "", "annotations": [1]}]], 1),
        (["ab", [{"index": 1, "text": "cd"}], [{"index": 1, "text": "ef", "annotations": [1]}]], 3),
    ],
    ids=[
        "of-the-delta", "behind-held-text", "behind-held-reasoning", "of-another-delta", "beyond-its-text",
        "without-a-text", "of-a-part-in-several-deltas",
    ],
)  # fmt: skip
def test_citations_of_a_text_part_are_at_their_places_in_the_message(contents: list[Any], start: int) -> None:
    citation = {"type": "url_citation", "url": "https://a.b", "title": "A", "start_index": 1, "end_index": 3}
    parts = json.loads(json.dumps(contents).replace("[1]", json.dumps([citation])))
    events = feed(OpenAIChatStage(), [*(chunk({"content": one}) for one in parts), chunk({}, "stop"), DONE])
    cited = [event["annotation"] for event in events if "annotation" in event]
    assert cited == [{**citation, "start_index": start, "end_index": start + 2}]


def test_names_in_the_counts_are_bounded() -> None:
    stage = OpenAIChatStage()
    feed(stage, [chunk({}, **{f"{'x' * 500}{number}": 1}) for number in range(5)])
    feed(stage, [chunk()])
    invented = OpenAIChatStage()
    for number in range(1000):
        invented.feed(SseMessage(json.dumps(chunk({}, **{f"x{number}": 1})).encode()))
    assert max(map(len, stage.dropped)) == DROP_NAME_MAX_CHARS
    assert len(invented.dropped) <= 65
    assert sum(invented.dropped.values()) == 1000


def test_known_members_are_not_counted() -> None:
    stage = OpenAIChatStage()
    sent = {
        "id": ID,
        "object": "chat.completion.chunk",
        "system_fingerprint": "fp",
        "obfuscation": "abc",
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hi"}, "logprobs": None, "text": "Hi"}],
    }
    feed(stage, [sent])
    assert stage.dropped == {}
