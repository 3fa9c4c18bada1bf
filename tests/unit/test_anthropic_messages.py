"""The provider `anthropic_messages`: requests, how they are sent, the frames of Bedrock, and what the stage keeps."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import pytest

from projector.conversation.entries import (
    Approval,
    Entry,
    File,
    Image,
    Message,
    Opaque,
    Reasoning,
    ServerCall,
    Text,
    ToolCall,
    ToolOutput,
    object_of,
)
from projector.conversation.model_request import ModelRequest, UnsupportedRequestError
from projector.core.pipeline import build_pipeline
from projector.core.sse import SseMessage, encode_sse
from projector.providers import PROVIDERS, profile_of
from projector.providers.anthropic_messages.api import AwsFrames
from projector.providers.anthropic_messages.stage import AnthropicMessagesStage
from projector.providers.descriptor import FramingError
from projector.server.tools.turns import Turn, TurnReader

ROW: Final = PROVIDERS["anthropic_messages"]
GOLDENS: Final = sorted((Path(__file__).parents[2] / "examples_ndjson" / "anthropic_messages_input").glob("*.ndjson"))

WHOLE: Final = [
    path
    for path in GOLDENS
    if path.read_bytes().endswith(b'{"type":"message_stop"}\n')
    and path.stem not in {"messages-no-start", "messages-refusal", "messages-spliced"}
]


def written(profile: Mapping[str, object] | None = None, **members: Any) -> dict[str, Any]:
    request = ModelRequest(model="claude-x", **{"input": "Hi", **members})
    return dict(ROW.request_writer(request, profile_of("anthropic_messages", profile or {})))


def kept(value: object, provider: str = "anthropic_messages") -> Reasoning:
    return Reasoning("rs_1", opaque=Opaque(provider, value))


CALL: Final = {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}
TURNS: Final[dict[str, tuple[list[Entry], list[Any]]]] = {
    "roles are joined": (
        [Message("user", "A"), Message("user", "B"), Message("assistant", "C")],
        [("user", ["A", "B"]), ("assistant", ["C"])],
    ),
    "empty texts are left out": ([Message("user", "A"), Message("assistant", " ")], [("user", ["A"])]),
    "results come first": (
        [
            Message("user", "A"),
            ToolCall("t1", "f", '{"a":1}'),
            ToolCall("t2", "f", "no object"),
            ToolOutput("t1", "one"),
            Message("user", "and"),
            ToolOutput("t2", (Text("two"),)),
        ],
        [
            ("user", ["A"]),
            ("assistant", [CALL, {"type": "tool_use", "id": "t2", "name": "f", "input": {"input": "no object"}}]),
            (
                "user",
                [
                    {"type": "tool_result", "tool_use_id": "t1", "content": "one"},
                    {"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "two"}]},
                    "and",
                ],
            ),
        ],
    ),
    "thinking goes back as it came": (
        [
            Message("user", "A"),
            kept({"thinking": "T", "signature": "s"}),
            kept({"data": "d"}),
            Message("assistant", "B"),
        ],
        [
            ("user", ["A"]),
            (
                "assistant",
                [
                    {"type": "thinking", "thinking": "T", "signature": "s"},
                    {"type": "redacted_thinking", "data": "d"},
                    "B",
                ],
            ),
        ],
    ),
    "thinking of others does not": ([Message("user", "A"), kept({"data": "d"}, "other")], [("user", ["A"])]),
    "calls of servers": (
        [Message("user", "A"), ServerCall("t1", "s", "f", '{"a":1}', "out")],
        [
            ("user", ["A"]),
            ("assistant", [CALL]),
            ("user", [{"type": "tool_result", "tool_use_id": "t1", "content": "out"}]),
        ],
    ),
    "images and files": (
        [Message("user", (Image("data:image/png;base64,AA=="), Image("https://a.example/b"), File(file_id="file_1")))],
        [
            (
                "user",
                [
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
                    {"type": "image", "source": {"type": "url", "url": "https://a.example/b"}},
                    {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
                ],
            )
        ],
    ),
}


@pytest.mark.parametrize("name", TURNS)
def test_a_conversation(name: str) -> None:
    entries, expected = TURNS[name]

    def block(one: Any) -> Any:
        return {"type": "text", "text": one} if isinstance(one, str) else one

    assert written(input=entries)["messages"] == [
        {"role": role, "content": [block(one) for one in blocks]} for role, blocks in expected
    ]


FUNCTION: Final = {
    "type": "function",
    "name": "f",
    "description": "d",
    "parameters": {"type": "object"},
    "strict": True,
}
MEMBERS: Final[list[tuple[dict[str, Any], dict[str, Any]]]] = [
    ({}, {"max_tokens": 8192}),
    ({"instructions": "Be brief."}, {"system": [{"type": "text", "text": "Be brief."}]}),
    (
        {"client_tools": [FUNCTION], "parameters": {"parallel_tool_calls": False}},
        {
            "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}}],
            "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        },
    ),
    ({"parameters": {"tool_choice": "required"}}, {"tool_choice": {"type": "any"}}),
    (
        {"client_tools": [FUNCTION], "parameters": {"tool_choice": "none", "parallel_tool_calls": False}},
        {"tool_choice": {"type": "none"}},
    ),
    (
        {"parameters": {"tool_choice": {"type": "function", "name": "f"}}},
        {"tool_choice": {"type": "tool", "name": "f"}},
    ),
    ({"parameters": {"stop": "END", "max_output_tokens": 5}}, {"stop_sequences": ["END"], "max_tokens": 5}),
    ({"parameters": {"reasoning_effort": "low"}}, {"output_config": {"effort": "low"}}),
    (
        {"profile": {"effort": "budget"}, "parameters": {"reasoning_effort": "low"}},
        {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 9216},
    ),
    ({"parameters": {"temperature": 0, "top_p": 1}}, {"temperature": 0, "top_p": 1}),
    (
        {"parameters": {"format": {"type": "json_schema", "name": "n", "schema": {}}}},
        {"output_config": {"format": {"type": "json_schema", "schema": {}}}},
    ),
]


@pytest.mark.parametrize(("given", "expected"), MEMBERS, ids=str)
def test_members_of_a_request(given: dict[str, Any], expected: dict[str, Any]) -> None:
    body = written(**given)
    assert {name: body[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("reason", "end", "why"),
    [
        ("MAX_TOKENS", "incomplete", "max_output_tokens"),
        ("length", "incomplete", "max_output_tokens"),
        ("max_output_tokens", "incomplete", "max_output_tokens"),
        ("SAFETY", "incomplete", "content_filter"),
        ("time_limit", "incomplete", "time_limit"),
        ("error", "failed", None),
        ("cancelled", "cancelled", None),
        ("content_filter", "incomplete", "content_filter"),
        ("tool_calls", "completed", None),
    ],
)
def test_reasons_of_other_apis_for_the_end(reason: str, end: str, why: str | None) -> None:
    cut = [
        ("content_block_start", {"content_block": CALL | {"input": {}}}),
        ("content_block_delta", {"delta": {"type": "input_json_delta", "partial_json": '{"a":'}}),
        ("content_block_stop", {}),
    ]
    *_, done, last = read_events([*cut, ("message_delta", {"delta": {"stop_reason": reason}})])
    assert last["type"] == f"response.{end}"
    assert last["response"].get("incomplete_details") == (None if why is None else {"reason": why})
    assert done["item"]["status"] == ("incomplete" if why == "max_output_tokens" else "completed")


@pytest.mark.parametrize(
    ("more", "end"),
    [
        ([], None),
        ([{"type": "error", "error": {"type": "api_error"}}], "error"),
        ([{"type": "message_stop"}], "response.incomplete"),
        ([{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}], "response.completed"),
    ],
)
def test_the_stop_reason_of_an_empty_start_is_no_end(more: list[dict[str, Any]], end: str | None) -> None:
    stage = AnthropicMessagesStage()
    start = {"type": "message_start", "message": {"id": "m", "content": [], "stop_reason": "max_tokens"}}
    events = [event for one in [start, *more] for event in stage.feed(SseMessage(json.dumps(one).encode()))]
    ends = [event["type"] for event in [*events, *stage.close()][1:] if isinstance(event, Mapping)]
    assert ends == [end][: end is not None]


@pytest.mark.parametrize(("error", "code"), [({"type": "api_error"}, "api_error"), ("busy", None), (None, None)])
def test_the_code_of_an_error(error: object, code: str | None) -> None:
    stage = ROW.stage(profile_of("anthropic_messages", {}))
    [event] = stage.feed(SseMessage(json.dumps({"type": "error", "error": error}).encode()))
    assert isinstance(event, dict)
    assert event["error"]["code"] == code


def test_a_model_that_takes_no_sampling() -> None:
    body = written({"takes_sampling": False}, parameters={"temperature": 0, "top_p": 1, "top_k": 1, "stop": "END"})
    assert body.keys() == {"model", "messages", "max_tokens", "stop_sequences"}


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"parameters": {"seed": 1}}, "seed"),
        ({"parameters": {"format": {"type": "json_object"}}}, "format"),
        ({"parameters": {"reasoning_effort": "?"}}, "reasoning_effort"),
        ({"client_tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"previous_response_id": "r"}, "previous_response_id"),
        ({"input": [Approval("a", is_approved=True)]}, None),
    ],
)
def test_what_cannot_be_expressed(given: dict[str, Any], param: str | None) -> None:
    with pytest.raises(UnsupportedRequestError) as raised:
        written(**given)
    assert raised.value.param == param


@pytest.mark.parametrize(
    ("profile", "path", "members", "headers"),
    [
        ({}, "/messages", {"model", "stream"}, {"anthropic-version": "2023-06-01", "x-api-key": "k"}),
        (
            {"authentication": "bearer", "betas": ["b1", "b2"]},
            "/messages",
            {"model", "stream"},
            {"anthropic-version": "2023-06-01", "anthropic-beta": "b1,b2", "Authorization": "Bearer k"},
        ),
        (
            {"platform": "vertex"},
            "/publishers/anthropic/models/claude-x@1:streamRawPredict",
            {"anthropic_version", "stream"},
            {"Authorization": "Bearer k"},
        ),
        (
            {"platform": "bedrock", "betas": ["b1"]},
            "/claude-x@1/invoke-with-response-stream",
            {"anthropic_version", "anthropic_beta"},
            {"Authorization": "Bearer k"},
        ),
    ],
)
def test_how_it_is_sent(profile: dict[str, Any], path: str, members: set[str], headers: dict[str, str]) -> None:
    read = profile_of("anthropic_messages", profile)
    sent = ROW.request({"model": "claude-x@1", "messages": []}, read)
    assert (sent.path, set(sent.body) - {"messages"}) == (path, members)
    assert ROW.headers("k", read) == headers


@pytest.mark.parametrize(
    ("platform", "sent"), [("direct", {}), ("vertex", {}), ("bedrock", {"anthropic_beta": ["one", "two"]})]
)
def test_betas_of_the_caller(platform: str, sent: dict[str, Any]) -> None:
    read = profile_of("anthropic_messages", {"platform": platform, "betas": ["own"]})
    body = ROW.request({"model": "m"}, read, {"anthropic-beta": "one, two", "anthropic-version": "2026-10-21"}).body
    assert {name: value for name, value in body.items() if name == "anthropic_beta"} == sent


@pytest.mark.parametrize(
    ("platform", "path", "more"),
    [
        ("direct", "/messages/count_tokens", {}),
        (
            "vertex",
            "/publishers/anthropic/models/count-tokens:rawPredict",
            {"anthropic_version": "vertex-2023-10-16"},
        ),
        ("bedrock", None, {}),
    ],
)
def test_how_a_count_is_sent(platform: str, path: str | None, more: dict[str, str]) -> None:
    body = {"model": "claude-x@1", "messages": []}
    assert ROW.counting is not None
    sent = ROW.counting.outgoing(body, profile_of("anthropic_messages", {"platform": platform}))
    assert (sent and (sent.path, sent.body)) == (path and (path, {**more, **body}))


@pytest.mark.parametrize(
    ("listed", "created"),
    [
        ({"created_at": "2026-10-21T00:00:00Z"}, 1_792_540_800),
        ({"created_at": "2026-10-21"}, 1_792_540_800),
        ({"created_at": "soon"}, 0),
        ({"created_at": 7}, 0),
        ({"created": 7}, 7),
        ({"created_at": "0001-01-01T00:00:00+14:00"}, 0),
    ],
)
def test_when_a_model_was_made(listed: dict[str, Any], created: int) -> None:
    assert ROW.models is not None
    assert ROW.models.entries is not None
    [model] = ROW.models.entries({"data": [{"id": "m", **listed}]})
    assert isinstance(model, dict)
    assert max(0, model["created"]) == created


# frames of Bedrock


def frame(payload: bytes, **headers: str) -> bytes:
    head = b"".join(
        bytes([len(name) + 1]) + b":" + name.replace("_", "-").encode() + b"\7" + len(value).to_bytes(2, "big")
        + value.encode()
        for name, value in headers.items()
    )  # fmt: skip
    prelude = (16 + len(head) + len(payload)).to_bytes(4, "big") + len(head).to_bytes(4, "big")
    body = prelude + crc32(prelude).to_bytes(4, "big") + head + payload
    return body + crc32(body).to_bytes(4, "big")


EVENT: Final = b'{"type":"ping"}'
CHUNK: Final = frame(
    json.dumps({"bytes": base64.b64encode(EVENT).decode(), "p": "abc"}).encode(),
    message_type="event",
    event_type="chunk",
)
FAILURE: Final = frame(b'{"message":"Slow down"}', message_type="exception", exception_type="throttlingException")
AS_SSE: Final = encode_sse(EVENT) + encode_sse(
    b'{"type":"error","error":{"type":"rate_limit_error","message":"Slow down"}}', "error"
)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 10_000])
def test_frames_are_read_wherever_they_are_cut(size: int) -> None:
    reader, data = AwsFrames(), CHUNK + FAILURE
    assert b"".join(reader.feed(data[at : at + size]) for at in range(0, len(data), size)) == AS_SSE


DAMAGES: Final[dict[str, Callable[[bytes], bytes]]] = {
    **{
        f"byte {at}": lambda data, at=at: data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(len(CHUNK))
    },  # type: ignore[misc]  # a default binds it
    "a length without end": lambda _: (size := b"\x7f\xff\xff\xff\0\0\0\0") + crc32(size).to_bytes(4, "big"),
    "a length of nothing": lambda _: (size := bytes(8)) + crc32(size).to_bytes(4, "big"),
    "no JSON": lambda _: frame(b"{"),
    "no base64": lambda _: frame(b'{"bytes":"?"}'),
}


def test_damaged_frames_are_refused() -> None:
    assert [name for name, damage in DAMAGES.items() if not _is_refused(damage(CHUNK))] == []


def _is_refused(data: bytes) -> bool:
    try:
        AwsFrames().feed(data)
    except FramingError:
        return True
    return False


# the stage


def items(name: str) -> list[Any]:
    stage = AnthropicMessagesStage()
    path = next(path for path in GOLDENS if path.stem == name)
    events = [event for line in path.read_bytes().splitlines() for event in stage.feed(SseMessage(line))]
    return [event["item"] for event in events if isinstance(event, dict) and event["type"].endswith("item.done")]


def test_what_the_provider_wants_back() -> None:
    thinking, redacted, _ = items("messages-thinking")
    assert thinking["opaque"] == {"thinking": "The user wants a number; I add.", "signature": "c2lnbmVk"}
    assert redacted["opaque"] == {"data": "b3BhcXVl"}
    assert [item.get("opaque", {}).get("signature") for item in items("messages-thinking-full")] == [
        "c2ln",
        "c2lnMg==",
        None,
    ]


REFUSED: Final = ("message_delta", {"delta": {"stop_reason": "refusal"}})
LATE: Final[dict[str, tuple[list[tuple[str, dict[str, Any]]], dict[str, Any]]]] = {
    "a refusal without an explanation": (
        [REFUSED],
        {"content": [{"type": "refusal", "refusal": "The model refused to answer."}]},
    ),
    "a refusal after blank text": (
        [
            ("content_block_start", {"content_block": {"type": "text", "text": " "}}),
            ("content_block_stop", {}),
            REFUSED,
        ],
        {"status": "completed"},
    ),
    "thinking in a block without a start": (
        [("content_block_delta", {"delta": {"type": "thinking_delta", "thinking": "Hm"}})],
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm"}]},
    ),
    "text in a block without a start, and after its end": (
        [
            *(("content_block_delta", {"delta": {"type": "text_delta", "text": text}}) for text in "ab"),
            ("content_block_stop", {}),
            ("content_block_delta", {"delta": {"type": "text_delta", "text": "c"}}),
        ],
        {"content": [{"type": "output_text", "text": "ab", "annotations": []}]},
    ),
    "a block whose start is repeated": (
        [
            *[("content_block_start", {"content_block": CALL | {"input": {}}})] * 2,
            ("content_block_delta", {"delta": {"type": "input_json_delta", "partial_json": '{"a":1}'}}),
            ("content_block_stop", {}),
        ],
        {"call_id": "t1", "arguments": '{"a":1}', "status": "completed"},
    ),
    "the text of a delta in a block that nobody sees": (
        [
            ("content_block_start", {"content_block": {"type": "redacted_thinking", "data": "d"}}),
            ("content_block_delta", {"delta": {"type": "text_delta", "text": "hidden"}}),
        ],
        {"type": "reasoning", "opaque": {"data": "d"}},
    ),
}


def read_events(
    given: list[tuple[str, dict[str, Any]]], profile: Mapping[str, object] | None = None, model: str = "claude-opus-5"
) -> list[dict[str, Any]]:
    stage = AnthropicMessagesStage(profile_of("anthropic_messages", profile or {}))
    whole = [("message_start", {"message": {"id": "m", "model": model}}), *given, ("message_stop", {})]
    found = [
        event
        for name, members in whole
        for event in stage.feed(SseMessage(json.dumps({"type": name, "index": 0, **members}).encode()))
    ]
    return [event for event in found if isinstance(event, dict)]


@pytest.mark.parametrize("name", LATE)
def test_what_an_item_is(name: str) -> None:
    given, expected = LATE[name]
    found = [event["item"] for event in read_events(given) if event["type"].endswith("item.done")]
    assert len(found) == 1
    assert {member: found[0].get(member) for member in expected} == expected


@pytest.mark.parametrize(
    ("profile", "model", "kind"),
    [
        ({}, "claude-opus-5", "summary"),
        ({}, "eu.anthropic.claude-sonnet-4-6-v1:0", "summary"),
        ({}, "claude-3-7-sonnet", "text"),
        ({}, "glm-5", "text"),
        ({"thinking": "summary"}, "glm-5", "summary"),
        ({"thinking": "text"}, "claude-opus-5", "text"),
        ({"betas": ["dev-full-thinking-2025-05-14"]}, "claude-opus-5", "text"),
    ],
)
def test_what_thinking_is(profile: dict[str, Any], model: str, kind: str) -> None:
    thinking = [
        ("content_block_start", {"content_block": {"type": "thinking", "thinking": ""}}),
        ("content_block_delta", {"delta": {"type": "thinking_delta", "thinking": "T", "estimated_tokens": 3}}),
        ("content_block_stop", {}),
    ]
    deltas = [event["type"] for event in read_events(thinking, profile, model) if "delta" in event["type"]]
    assert deltas == [f"response.reasoning_{'summary_text' if kind == 'summary' else 'text'}.delta"]


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ([{"output_tokens": 5}], (21, 5)),
        ([{"input_tokens": 400, "output_tokens": 5}, {"output_tokens": 9}], (418, 9)),
        ([{"output_tokens": 5}, {"input_tokens": 0, "output_tokens": 0}], (21, 5)),
        ([{"input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 5}], (21, 5)),
        ([{"input_tokens": None, "cache_read_input_tokens": 10, "output_tokens": 5}], (15, 5)),
        ([{"output_tokens": 5, "iterations": [{"type": "compaction", "input_tokens": 900}]}], (21, 5)),
    ],
)
def test_usage_is_cumulative(ends: list[dict[str, Any]], expected: tuple[int, int]) -> None:
    begun = {"input_tokens": 3, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 16, "output_tokens": 1}
    stage = AnthropicMessagesStage()
    events = [
        {"type": "message_start", "message": {"id": "m", "usage": begun}},
        *({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage} for usage in ends),
        {"type": "message_stop"},
    ]
    *_, last = [event for one in events for event in stage.feed(SseMessage(json.dumps(one).encode()))]
    assert isinstance(last, Mapping)
    usage: Any = last["response"]
    assert (usage["usage"]["input_tokens"], usage["usage"]["output_tokens"]) == expected


NEW: Final[Mapping[str, dict[str, Any]]] = {
    "usage.new": {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 1, "new": 1}}},
    "message.new": {"type": "message_start", "message": {"id": "m", "new": 1}},
    "content.new": {"type": "message", "id": "m", "content": [{"type": "text", "text": "a", "new": 1}]},
    "message.newer": {"type": "message", "id": "m", "role": "assistant", "model": "x", "content": [], "newer": 1},
}
"""Name in the counts -> an event with an unknown member."""


@pytest.mark.parametrize(("name", "event"), NEW.items(), ids=NEW)
def test_unknown_members_are_counted(name: str, event: dict[str, Any]) -> None:
    stage = AnthropicMessagesStage()
    stage.feed(SseMessage(json.dumps(event).encode(), ""))
    assert dict(stage.dropped) == {name: 1}


def assembled(events: list[dict[str, Any]]) -> list[Any]:
    """Return the blocks of a message by a plain reading, without citations."""
    blocks: dict[int, dict[str, Any]] = {}
    inputs: dict[int, str] = {}
    for event in events:
        at, delta = event.get("index", 0), event.get("delta", {})
        if event["type"] == "message_start":
            blocks = blocks or dict(enumerate(event["message"]["content"]))
        elif event["type"] == "content_block_start":
            blocks[at] = {name: value for name, value in event["content_block"].items() if name != "citations"}
        elif delta.get("type") == "input_json_delta":
            inputs[at] = inputs.get(at, "") + delta["partial_json"]
        elif delta.get("type") == "compaction_delta":
            blocks[at] |= {name: value for name, value in delta.items() if name != "type"}
        for name in ("text", "thinking", "signature"):
            if delta.get("type", "").startswith(f"{name}_") and blocks[at]["type"] in {"text", "thinking"}:
                blocks[at][name] = blocks[at].get(name, "") + delta[name]
    for at, text in inputs.items():
        blocks[at] |= {"input": object_of(text)} if text else {}
    return [*blocks.values()]


def came(events: list[dict[str, Any]]) -> list[Any]:
    """Return what goes back of the blocks of a message: all of them as they came, but for citations and empty texts."""
    found: list[Any] = []
    for block in assembled(events):
        if block.get("caller") == {"type": "direct"} and block["type"] == "tool_use":
            del block["caller"]
        if block["type"] == "text" and found and found[-1]["type"] == "text":
            found[-1]["text"] += block["text"]
        elif block["type"] != "hologram" and not (block["type"] == "thinking" and not block.get("signature")):
            found.append(block)
    return [block for block in found if block["type"] != "text" or block["text"].strip()]


def went_back(events: list[dict[str, Any]]) -> list[Any]:
    """Return the blocks that the next request has of a response."""
    profile = profile_of("anthropic_messages", {})
    reader = TurnReader(ROW, profile)
    reader.feed(b"".join(encode_sse(json.dumps(event).encode()) for event in events))
    reader.close()
    messages = Turn(2, reader.items, [], None, "anthropic_messages", profile).messages
    return [block for message in messages for block in message["content"]]


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.stem)
def test_blocks_go_back_as_they_came(path: Path) -> None:
    events = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert went_back(events) == came(events)


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_cuts_do_not_matter(path: Path) -> None:
    data = b"".join(map(encode_sse, path.read_bytes().splitlines()))

    def project(size: int) -> bytes:
        pipeline = build_pipeline(provider="anthropic_messages", dialect="responses", clock=lambda: 0)
        return b"".join(pipeline.feed(data[at : at + size]) for at in range(0, len(data), size)) + pipeline.close()

    outputs = [project(size).partition(b"stream_")[0] for size in (7, 61, len(data) + 1)]
    assert outputs[0] == outputs[1] == outputs[2]
