"""The lane changes nothing: deltas that are read by the shape of their message, and written without their frames.

The same messages as lines are the reference: only an event stream has lanes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projector.core.canonical import Frame
from projector.core.context import StreamContext
from projector.core.delta_frames import TEXT_MAX_CHARS, DeltaFrames, frames_of
from projector.core.intake import LANE_MIN
from projector.core.lane import Lane
from projector.core.pipeline import OutputFormat, Pipeline, build_pipeline
from projector.core.sse import COMMENT
from projector.dialects import DIALECTS
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from projector.server.control.token_meter import TokenMeter
from projector.server.telemetry.stream_stats import StreamStats
from tests.property.soundness import CALLS, cut, examples

REGISTERED: Final = "Zq7-registered-value"
SECRET: Final = "ghp_" + "0aB1cD2eF3" * 3 + "gH4iJ5"
POLICIES: Final[dict[str, dict[str, object]]] = {
    "off": {"text": "off"},
    "credentials": {},
    "values": {"registered": [{"value": REGISTERED}]},
    "classes": {"text": {"credentials": "mask", "email": "mask", "phone": "report"}},
    "block": {"text": {"credentials": "block"}},
}
WORDS: Final = [
    *(" the", " stream", "é", " “quoted”", "\n\n", 'a "b" \\ c', "%d %b", "\x00", "\x7f", "\u2028", "😀", " a@b.co"),
]
ENDS: Final = [
    SECRET[:7],
    SECRET[7:],
    REGISTERED[:9],
    REGISTERED[9:],
    "sk-",
    "```",
    "\ufffd",
    "x" * 1_100,
    "",
    "<think>",
    "</think>",
]
PROFILES: Final = [{}, {}, {"think_mode": "anywhere"}, {"think_mode": "off"}]
PLACES: Final = st.integers(0, 1 << 20)
DELTAS: Final = st.lists(st.sampled_from([*WORDS, *WORDS, *WORDS, *ENDS]), min_size=LANE_MIN + 2, max_size=24)


class Api(NamedTuple):
    """Messages of a provider, from the number of a message."""

    provider: str
    beginning: list[dict[str, Any]]
    delta: Callable[[int, str], dict[str, Any]]
    others: list[dict[str, Any]]
    """Messages that are no delta of the text."""
    end: list[dict[str, Any]]
    deltas: st.SearchStrategy[list[str]] = DELTAS


def _delta(number: int, text: str, **members: object) -> dict[str, Any]:
    place = {"item_id": "msg_%d", "output_index": 0, "content_index": 0}
    event = {"type": "response.output_text.delta", "sequence_number": number, **place, "delta": text, "logprobs": []}
    return event | members


def _chunk(delta: dict[str, Any], reason: str | None = None, **members: object) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "choices": [choice], **members}


RESPONSES: Final = Api(
    "openai_responses",
    [{"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}}],
    _delta,
    [
        _delta(7, "other", content_index=1),
        _delta(8, "other", output_index=True),
        _delta(9, "other", item_id="msg_2", output_index=1),
        _delta(2**60, "far"),
        _delta(1, "text", sequence_number="1"),
        _delta(1, "", delta=None),
        {"type": "response.output_text.done", "output_index": 0, "content_index": 0, "item_id": "msg_%d", "text": ""},
        {"type": "response.unknown", "delta": "x"},
        {"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}},
    ],
    [{"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}}],
)
CHAT: Final = Api(
    "openai_chat",
    [_chunk({"role": "assistant", "content": ""})],
    lambda _number, text: _chunk({"content": text}),
    [
        _chunk({"content": "x", "reasoning_content": "why"}),
        _chunk({"content": "x", "unknown": 1}),
        _chunk({"refusal": "no"}),
        _chunk({"content": "x"}, usage={"prompt_tokens": 1}),
        _chunk({"content": [{"type": "text", "text": "part"}]}),
        _chunk({"content": "x"}, "stop"),
        _chunk({"tool_calls": [{"index": 0, "id": "call_1", "function": {"name": "f", "arguments": "{}"}}]}),
        {"choices": []},
    ],
    [_chunk({}, "stop")],
)


def _fragment(number: int, text: str, **members: object) -> dict[str, Any]:
    event = {"type": "response.function_call_arguments.delta", "sequence_number": number, "item_id": "fc_%d"}
    return {**event, "output_index": 0, "delta": text, **members}


MEMBERS: Final = [
    '"a": " the stream"',
    '"n": -12.5e3',
    '"tags": ["quiet", "first floor", "quiet", {"x": null}]',
    '"rooms": [{"from": "2025-01-02", "x": 1}, {"from": "2025-01-03", "x": 2}]',
    r'"e\n": "a \"b\" \u00e9 \ud83d\ude00 %d"',
    '"é": "😀 “quoted”"',
    '"password": "hunter2"',
    f'"key": "{SECRET}"',
    f'"list": ["{SECRET[:9]}", "{SECRET[9:]}"]',
    f'"id": "{REGISTERED}"',
    '"json": "{\\"token\\": \\"x\\"}"',
    "no JSON",
]


@st.composite
def fragments(draw: st.DrawFn) -> list[str]:
    """Return members of an object in fragments, from within a string to within another one."""
    members = draw(st.lists(st.sampled_from([*MEMBERS[:-1], *MEMBERS]), min_size=2, max_size=9))
    whole = ", ".join(['word"', *members, '"last": "'])
    size = draw(st.sampled_from([2, 4, 7, 16, 40]))
    return [whole[at : at + size] for at in range(0, len(whole), size)]


CALL: Final = {"id": "fc_%d", "type": "function_call", "name": "f", "call_id": "call_%d"}
ARGUMENTS: Final = Api(
    "openai_responses",
    [
        *RESPONSES.beginning,
        {"type": "response.output_item.added", "output_index": 0, "item": CALL},
        _fragment(2, '{"note": "'),
    ],
    _fragment,
    [
        _fragment(8, "other", output_index=True),
        _fragment(9, "other", item_id="fc_2", output_index=1),
        _fragment(2**60, "far"),
        _fragment(1, "", delta=None),
        _delta(9, "other", item_id="msg_2", output_index=2),
        {"type": "response.function_call_arguments.done", "output_index": 0, "item_id": "fc_%d", "arguments": "{}"},
        {"type": "response.output_item.done", "output_index": 0, "item": CALL},
        {"type": "response.unknown", "delta": "x"},
    ],
    RESPONSES.end,
    fragments(),
)
BLOCK: Final = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
TEXT_DELTA: Final = {"type": "text_delta", "text": "x"}
MESSAGES: Final = Api(
    "anthropic_messages",
    [{"type": "message_start", "message": {"id": "msg_1", "model": "m", "usage": {"input_tokens": 1}}}, BLOCK],
    lambda _number, text: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
    [
        {"type": "content_block_delta", "index": 1, "delta": TEXT_DELTA},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "why"}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "citations_delta", "citation": {"type": "other"}},
        },
        {"type": "content_block_delta", "index": 0, "delta": {**TEXT_DELTA, "text": None}},
        {"type": "content_block_delta", "delta": TEXT_DELTA},
        {"type": "content_block_stop", "index": 0},
        {**BLOCK, "index": 1},
        {"type": "ping"},
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
    ],
    [
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    ],
)


def _gemini(number: int, parts: list[dict[str, Any]], usage: object = None, **members: object) -> dict[str, Any]:
    candidate = {"content": {"parts": parts, "role": "model"}, "index": 0}
    usage = {"promptTokenCount": 5, "totalTokenCount": number + 5, "candidatesTokenCount": number} | (usage or {})
    chunk = {"candidates": [candidate | members], "usageMetadata": usage}
    return {**chunk, "modelVersion": "gemini", "responseId": "r_%d"}


GEMINI: Final = Api(
    "gemini",
    [],
    lambda number, text: _gemini(number, [{"text": text}]),
    [
        _gemini(7, [{"text": "why", "thought": True}]),
        _gemini(7, [{"text": "x", "thoughtSignature": "c2ln"}]),
        _gemini(7, [{"text": "two"}, {"text": "parts"}]),
        _gemini(7, [{"text": "x"}], {"candidatesTokenCount": 0}),
        _gemini(7, [{"text": "x"}], {"thoughtsTokenCount": 9}),
        _gemini(7, [{"text": "x"}], {"candidatesTokenCount": "7"}),
        _gemini(7, [{"functionCall": {"name": "f", "args": {}}}]),
        _gemini(7, [{"text": "x"}], index=1),
        {**_gemini(7, [{"text": "x"}]), "other": 1},
        {"candidates": []},
    ],
    [_gemini(300, [{"text": "."}], finishReason="STOP")],
)
APIS: Final = {
    "Responses": RESPONSES,
    "arguments": ARGUMENTS,
    "Chat": CHAT,
    "Messages": MESSAGES,
    "Gemini": GEMINI,
}
PUBLIC: Final = "public_sse_v1"
IN_VAIN: Final = (COMMENT,)
NOISE: Final = [": ping\n\n", "id: 7\n", "retry: 5\n\n", "event: other\n", "\n", "data:\n\n", "\r\n"]
"""Lines of an event stream that are no message; `event` names only the next one, which has a type."""


class Style(NamedTuple):
    """How a server writes messages."""

    separators: tuple[str, str]
    is_ascii: bool
    padding: int
    """Characters of `obfuscation` of each message; none if 0, different ones if negative."""
    line: str
    """Line end."""
    is_named: bool


STYLES: Final = st.builds(
    Style,
    st.sampled_from([(",", ":"), (", ", ": ")]),
    st.booleans(),
    st.sampled_from([0, 4, -1]),
    st.sampled_from(["\n", "\n", "\n", "\r\n"]),
    st.booleans(),
)


@st.composite
def streams(draw: st.DrawFn, api: Api) -> tuple[list[dict[str, Any]], dict[int, str]]:
    """Return the messages of a stream, and noise by the number of the message that it stands before."""
    messages = [*api.beginning]
    for text in draw(api.deltas):
        messages.append(api.delta(len(messages), text))
        if draw(st.integers(0, 11)) == 0:
            messages += [draw(st.sampled_from(api.others))] * draw(st.sampled_from([1, 1, LANE_MIN + 3]))
    for text in draw(api.deltas):
        messages.append(api.delta(len(messages), text))
    noise = draw(st.dictionaries(st.integers(0, len(messages)), st.sampled_from(NOISE), max_size=2))
    return [*messages, *api.end], noise


def written(message: dict[str, Any], style: Style, number: int) -> str:
    """Return the JSON of a message."""
    if style.padding:
        count = style.padding if style.padding > 0 else number % 5
        message = {**message, "obfuscation": "x" * count}
    return json.dumps(message, separators=style.separators, ensure_ascii=style.is_ascii)


def as_sse(messages: Sequence[dict[str, Any]], noise: dict[int, str], style: Style) -> list[bytes]:
    """Return the bytes of each message, with the noise before it."""
    blocks = []
    for number, message in enumerate(messages):
        name = f"event: {message['type']}\n" if style.is_named and "type" in message else ""
        block = f"{noise.get(number, '')}{name}data: {written(message, style, number)}\n\n"
        blocks.append(block.replace("\n", style.line).encode("utf-8", "surrogatepass"))
    return blocks


def as_lines(messages: Sequence[dict[str, Any]], style: Style) -> list[bytes]:
    """Return each message as a line."""
    lines = (written(message, style, number) + "\n" for number, message in enumerate(messages))
    return [line.encode("utf-8", "surrogatepass") for line in lines]


def as_reads(blocks: Sequence[bytes]) -> list[bytes]:
    """Return reads of several messages."""
    return [b"".join(blocks[at : at + LANE_MIN]) for at in range(0, len(blocks), LANE_MIN)]


@cache
def redactor_of(policy: str) -> Redactor:
    return Redactor(Policy.load(POLICIES[policy]))


class Played(NamedTuple):
    """A pipeline, with what its hooks received."""

    pipeline: Pipeline
    frames: list[Frame]
    logged: list[tuple[Frame, bytes | None]]
    stats: StreamStats


def start(
    api: Api, policy: str, dialect: str, input_format: Any, output: OutputFormat = "sse", **options: Any
) -> Played:
    frames: list[Frame] = []
    logged: list[tuple[Frame, bytes | None]] = []
    meter = TokenMeter([""], {})
    stats = StreamStats(stream_id="stream_%b", dialect=dialect, meter=meter)
    has_hooks, hears_runs = options.pop("hooks", True), options.pop("runs", False)

    def on_frame(frame: Frame) -> None:
        frames.append(frame)
        stats.on_frame(frame)

    def on_deltas(deltas: DeltaFrames) -> None:
        frames.extend(deltas.frames())
        stats.on_deltas(deltas)

    pipeline = build_pipeline(
        provider=api.provider,
        dialect=dialect,
        redactor=redactor_of(policy),
        context=StreamContext(stream_id="stream_%b"),
        input_format=input_format,
        output_format=output,
        clock=lambda: 1_765_800_000.0,
        on_frame=on_frame if has_hooks else None,
        on_deltas=on_deltas if hears_runs else None,
        on_output=lambda sent, data: logged.extend(zip(frames_of(sent), data, strict=True)),
        **options,
    )
    return Played(pipeline, frames, logged, stats)


def result(played: Played) -> list[object]:
    """Return what can be seen of a pipeline beside its output. Only the number of frames that are sent as they are
    may differ, and no JSON may differ from its frame. What is read in vain depends on the reads: comments as data, and
    what a lane reads after the delta for which the policy ended the stream."""
    pipeline, frames, logged, stats = played
    assert [data for frame, data in logged if data is not None and json.loads(data) != frame] == []
    counted = [stats.frames, stats.response_id, stats.notices, stats.terminal, stats.meter and stats.meter.used()]
    is_blocked = any(frame.get("error", {}).get("code") == "content_blocked" for frame in frames)
    dropped = {name: count for name, count in pipeline.dropped.items() if not is_blocked and name not in IN_VAIN}
    seen = [dropped, pipeline.kept_bytes, pipeline.provider_errors]
    return [frames, [frame for frame, _ in logged], counted, seen]


@pytest.fixture
def lanes(monkeypatch: pytest.MonkeyPatch) -> list[Lane]:
    """Return a list that grows by each lane that ends."""
    ended: list[Lane] = []
    end = Lane.end

    def counted(lane: Lane) -> bytes:
        ended.append(lane)
        return end(lane)

    monkeypatch.setattr(Lane, "end", counted)
    return ended


@pytest.mark.parametrize("api", APIS.values(), ids=APIS)
@examples(150)
@given(data=st.data())
def test_shapes_change_nothing(api: Api, data: st.DataObject) -> None:
    messages, noise = data.draw(streams(api))
    style = data.draw(STYLES)
    dialect = data.draw(st.sampled_from([PUBLIC, *DIALECTS]))
    policy = data.draw(st.sampled_from(["off", "off", *POLICIES]))
    options = {name: data.draw(st.booleans()) for name in ("hooks", "runs")}
    options["profile"] = data.draw(st.sampled_from(PROFILES)) if api not in (MESSAGES, GEMINI) else {}
    reads = cut(b"".join(as_sse(messages, noise, style)), data.draw(st.lists(PLACES, min_size=3, max_size=40)))
    played, plain = (start(api, policy, dialect, way, **options) for way in ("sse", "ndjson"))
    said = b"".join([*map(played.pipeline.feed, reads), played.pipeline.close()])
    expected = b"".join([*map(plain.pipeline.feed, as_lines(messages, style)), plain.pipeline.close()])
    assert said == expected
    assert result(played) == result(plain)


HOST_CALLS: Final = st.one_of(CALLS, st.just(("host", {"type": "projector.context", "agent": "writer"})))


@pytest.mark.parametrize("api", APIS.values(), ids=APIS)
@examples(60)
@given(data=st.data())
def test_a_host_may_act_within_a_run(api: Api, data: st.DataObject) -> None:
    messages, _ = data.draw(streams(api))
    style = data.draw(STYLES)
    calls = data.draw(st.dictionaries(st.integers(0, len(messages) // LANE_MIN), HOST_CALLS, max_size=3))
    is_run = data.draw(st.booleans())
    outputs = []
    for input_format, blocks in (("sse", as_sse(messages, {}, style)), ("ndjson", as_lines(messages, style))):
        played = start(api, "credentials", PUBLIC, input_format, run=is_run)
        said = b""
        for number, read in enumerate(as_reads(blocks)):
            if (call := calls.get(number)) is not None:
                name, *given_arguments = call
                said += getattr(played.pipeline, name)(*given_arguments)
            said += played.pipeline.feed(read)
        outputs.append((said + played.pipeline.close(), result(played)))
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize("api", APIS.values(), ids=APIS)
@pytest.mark.parametrize("size", [1, 64, 200, 1_400, 1 << 20])
@pytest.mark.parametrize("first", [1, 1 << 20])
def test_a_long_text_is_one_lane(api: Api, size: int, first: int, lanes: list[Lane]) -> None:
    style = Style((",", ":"), is_ascii=False, padding=0 if api in (MESSAGES, GEMINI) else -1, line="\n", is_named=True)
    texts = [f" word{number % 7}" for number in range(300)]
    messages = [*api.beginning, *(api.delta(number, text) for number, text in enumerate(texts, 3)), *api.end]
    whole = b"".join(as_sse(messages, {}, style))
    reads = [whole[:first], *(whole[at : at + size] for at in range(first, len(whole), size))]
    played = start(api, "credentials", PUBLIC, "sse")
    b"".join([*map(played.pipeline.feed, reads), played.pipeline.close()])
    assert [lane.count > len(texts) - 16 for lane in lanes] == [True]
    assert "".join(texts) in "".join(frame["delta"] for frame in played.frames if "delta" in frame)


def test_lanes_that_end_within_a_large_read_read_little_in_vain(
    monkeypatch: pytest.MonkeyPatch, lanes: list[Lane]
) -> None:
    given: list[int] = []
    read = Lane.read

    def counted(lane: Lane, data: bytes, *rest: Any) -> Any:
        given.append(len(data))
        return read(lane, data, *rest)

    monkeypatch.setattr(Lane, "read", counted)
    style = Style((",", ":"), is_ascii=False, padding=0, line="\n", is_named=True)
    messages = [{**_delta(number, " word"), "item_id": f"msg_{number // 40 % 2}"} for number in range(2_000)]
    whole = b"".join(as_sse(messages, {}, style))
    start(RESPONSES, "off", PUBLIC, "sse").pipeline.feed(whole)
    assert len(lanes) > 40
    assert len(whole) / 2 < sum(given) < 2 * len(whole)


@pytest.mark.parametrize(("line", "other"), [("\n", "\r\n"), ("\n", "\r"), ("\r\n", "\n"), ("\r\n", "\r")])
def test_a_message_with_another_line_end_does_not_wait(line: str, other: str) -> None:
    played = start(RESPONSES, "off", PUBLIC, "sse")
    said = []
    for number in range(9):
        block = f"data: {json.dumps(_delta(number, ' word'))}\n\n".replace("\n", line if number < 8 else other)
        said.append(played.pipeline.feed(block.encode()))
    assert all(said)


@pytest.mark.parametrize("count", [1, LANE_MIN + 1, 9])
def test_an_object_outside_of_fields_may_begin_where_a_lane_would(count: int) -> None:
    style = Style((",", ":"), is_ascii=False, padding=0, line="\r\n", is_named=False)
    *blocks, last = as_sse([GEMINI.delta(number, " word") for number in range(1, count + 1)], {}, style)
    error = b'{"error": {"code": 503, "message": "no"}}'
    outputs = []
    for reads in ([*blocks, last + error[:9], error[9:]], [b"".join([*blocks, last, error])]):
        played = start(GEMINI, "off", PUBLIC, "sse")
        outputs.append(b"".join([*map(played.pipeline.feed, reads), played.pipeline.close()]))
    assert outputs[0] == outputs[1]
    assert b'"error"' in outputs[0]


def test_a_host_event_within_a_run_is_seen_by_the_next_delta() -> None:
    played = start(RESPONSES, "off", PUBLIC, "sse")
    messages = [b"data: %b\n\n" % json.dumps(_delta(number, " word")).encode() for number in range(24)]
    for number, read in enumerate(as_reads(messages)):
        if number == 4:
            played.pipeline.host({"type": "projector.context", "agent": "writer"})
        played.pipeline.feed(read)
    agents = [frame.get("agent") for frame in played.frames if "delta" in frame]
    assert agents == [None] * 12 + ["writer"] * 12


class Meaning(NamedTuple):
    """Messages that continue a text, but mean more: the same ones as lines must have the same result."""

    api: Api
    messages: list[dict[str, Any]]
    profile: dict[str, Any]


WORD: Final = [_delta(number, " word") for number in range(8)]
MEANINGS: Final = {
    "tags anywhere": Meaning(
        RESPONSES,
        [*WORD, *(_delta(9, text) for text in (" a", "<think>", "why", "</think>", " b")), *WORD],
        {"think_mode": "anywhere"},
    ),
    "a closing tag after blanks and text": Meaning(
        RESPONSES, [*(_delta(number, "\n") for number in range(6)), _delta(7, "a"), _delta(8, "</think>"), *WORD], {}
    ),
    "members that are counted": Meaning(CHAT, [_chunk({"content": "x", "unknown": 1})] * 9, {}),
    "members that are counted by type": Meaning(
        CHAT, [_chunk({"content": "x", "reasoning_details": [{"type": "other"}]})] * 9, {}
    ),
    "a text in place of a number": Meaning(RESPONSES, [*WORD, *[{**WORD[0], "sequence_number": "7"}] * 9], {}),
    "a number in place of a text": Meaning(RESPONSES, [*WORD, *[{**WORD[0], "obfuscation": 7}] * 9], {}),
    "usage": Meaning(CHAT, [_chunk({"content": "x"}, usage={"prompt_tokens": 1, "completion_tokens": 2})] * 9, {}),
}


@pytest.mark.parametrize("meaning", MEANINGS.values(), ids=MEANINGS)
def test_what_means_more_than_text_has_no_shape(meaning: Meaning) -> None:
    api, middle, profile = meaning
    messages = [*api.beginning, *middle, *api.end]
    style = Style((",", ":"), is_ascii=False, padding=0, line="\n", is_named=True)
    sse, ndjson = (start(api, "off", PUBLIC, way, profile=profile) for way in ("sse", "ndjson"))
    said = [*map(sse.pipeline.feed, as_reads(as_sse(messages, {}, style))), sse.pipeline.close()]
    assert said == [*map(ndjson.pipeline.feed, as_reads(as_lines(messages, style))), ndjson.pipeline.close()]
    assert result(sse) == result(ndjson)


STRANGE: Final = {
    "a number with a leading zero": b'{"type":"response.output_text.delta","sequence_number":07,%s}',
    "a fraction": b'{"type":"response.output_text.delta","sequence_number":7.5,%s}',
    "malformed UTF-8": b'{"type":"response.output_text.delta","sequence_number":7,"delta":"\xff"%.0s}',
    "a raw control character": b'{"type":"response.output_text.delta","sequence_number":7,"delta":"\x01"%.0s}',
    "a lone surrogate": b'{"type":"response.output_text.delta","sequence_number":7,"delta":"\\ud800"%.0s}',
    "an unknown escape": b'{"type":"response.output_text.delta","sequence_number":7,"delta":"\\x"%.0s}',
    "the member twice": b'{"type":"response.output_text.delta","sequence_number":7,"delta":"a",%s}',
    "too long": b'{"type":"response.output_text.delta","sequence_number":7,"delta":"'
    + b"y" * TEXT_MAX_CHARS
    + b'z"%.0s}',
}
PLACE: Final = b',"output_index":0,"content_index":0,"item_id":"m"'


@pytest.mark.parametrize("message", STRANGE.values(), ids=STRANGE)
def test_a_strange_message_within_a_run_is_read_as_usual(message: bytes) -> None:
    plain = b'{"type":"response.output_text.delta","sequence_number":%d,"delta":" word"' + PLACE + b"}"
    strange = message.replace(b"}", PLACE + b"}") % b'"delta":" s"'
    lines = [plain % number for number in range(1, 8)] + [strange] + [plain % number for number in range(9, 16)]
    sse, ndjson = (start(RESPONSES, "off", PUBLIC, way) for way in ("sse", "ndjson"))
    messages, lines = ([pattern % line for line in lines] for pattern in (b"data: %b\n\n", b"%b\n"))
    for read, same in zip(as_reads(messages), as_reads(lines), strict=True):
        assert sse.pipeline.feed(read) == ndjson.pipeline.feed(same)
    assert sse.pipeline.close() == ndjson.pipeline.close()
    assert result(sse) == result(ndjson)
