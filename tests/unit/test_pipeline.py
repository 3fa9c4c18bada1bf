"""The whole pipeline without I/O: bytes in, bytes out, host events, the envelope (CONTRACT D1, D2, D11, D12)."""

from __future__ import annotations

import gc
import json
import re
import threading
import tracemalloc
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeAlias

import pytest

from projector import FAULTS, BranchContext, Pipeline, Policy, StreamContext, UsageError, build_pipeline
from projector.contracts import codec, limits
from projector.contracts.stream_rules import check_stream
from projector.core.canonical import Frame
from projector.core.delta_frames import DeltaFrames, frames_of
from projector.core.faults import Fault
from projector.core.frames import PRIVATE
from projector.core.pipeline import ITEM_BYTES
from projector.core.replay import StreamReplay
from projector.dialects import DIALECTS
from projector.dialects.public_sse_v1 import writer as public_sse_v1
from projector.providers.openai_responses.stage import OpenAIResponsesStage
from projector.redaction.redactor import Redactor
from tests.property.cost import alone

Event: TypeAlias = dict[str, Any]

CREATED: Final[Event] = {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}}
HI: Final[Event] = {"type": "response.output_text.delta", "output_index": 0, "item_id": "msg", "delta": "Hi ✓"}
CALL: Final[Event] = {
    "type": "response.output_item.done",
    "output_index": 1,
    "item": {"type": "function_call", "id": "fc", "call_id": "call", "name": "f", "arguments": "{}"},
}
OUTPUT: Final[Event] = {"type": "projector.tool_output", "call_id": "call", "output": 1}
COMPLETED: Final[Event] = {"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}}
NEXT: Final[Event] = {"type": "projector.next_response"}
CANCEL: Final[Event] = {"type": "projector.cancel"}
STREAM: Final = (CREATED, HI, CALL, COMPLETED)


async def waits(_given: object = None) -> float:
    return 0.0


class Waits:
    """A hook with a state, whose call must be awaited."""

    __call__ = staticmethod(waits)


def opened(**settings: Any) -> Pipeline:
    defaults: dict[str, Any] = {"output_format": "ndjson", "clock": lambda: 1_765_800_000.0}
    given = {"provider": "openai_responses", "dialect": "public_sse_v1", **defaults, **settings}
    return build_pipeline(**given)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: opened().feed("text"), "`data`: expected the provider's bytes"),
        (lambda: opened().feed({"type": "response.created"}), "`data`: expected the provider's bytes"),
        (lambda: opened().feed(None), "`data`: expected the provider's bytes"),
        (lambda: opened().host("projector.tool_output"), "`event`: expected a mapping"),
        (lambda: opened().close("upstream_reset"), "`fault`: expected a `Fault`, for example `FAULTS["),
        (lambda: opened(run=True).branch(StreamContext(agent="a")), "`context`: expected a `BranchContext`"),
        (lambda: opened(run=True).branch(BranchContext(agent=3)), "`agent`: expected a string or None"),
        (lambda: opened(run=True).branch(BranchContext()).feed("text"), "`data`: expected the provider's bytes"),
        (lambda: opened(run=True).branch(BranchContext()).host(3), "`event`: expected a mapping"),
        (lambda: opened(run=True).branch(BranchContext()).close("upstream_reset"), "`fault`: expected a `Fault`"),
        (lambda: opened(context={"agent": "a"}), "`context`: expected a `StreamContext`"),
        (lambda: opened(policy={"text": "off"}), "`policy`: expected a `Policy`; `Policy.load` makes one"),
        (lambda: opened(policy="strict"), "`policy`: expected a `Policy`; `Policy.load` makes one"),
        (lambda: opened(provider=None), "provider: expected one of `openai_responses`, "),
        (lambda: opened(dialect=["ag_ui"]), "dialect: expected one of `public_sse_v1`, "),
        (lambda: opened(input_format=3), "input format: expected one of `auto`, `sse`"),
        (lambda: opened(profile=3), "`profile`: expected a mapping"),
        (lambda: opened(run="yes"), "`run`: expected True or False"),
        (lambda: opened(clock=5), "`clock`: expected a function"),
        (lambda: opened(redactor=1), "`redactor`: expected a `Redactor` or None"),
        (lambda: opened(options={"level": 5}), "`options`: expected `DialectOptions` or None"),
        (lambda: opened(on_frame=5), "`on_frame`: expected a function or None"),
        (lambda: opened(on_deltas=5), "`on_deltas`: expected a function or None"),
        (lambda: opened(on_output=5), "`on_output`: expected a function or None"),
        (lambda: opened(on_frame=waits), "`on_frame`: expected a function without `async`"),
        (lambda: opened(on_deltas=Waits()), "`on_deltas`: expected a function without `async`"),
        (lambda: opened(clock=waits), "`clock`: expected a function without `async`"),
    ],
)
def test_an_argument_of_another_type_is_named(call: Callable[[], object], expected: str) -> None:
    with pytest.raises(UsageError, match=re.escape(expected)):
        call()


def test_a_call_within_another_is_refused() -> None:
    """By another thread the stages would see half of what the first call did; by a hook, too."""
    refused: list[UsageError] = []

    def call_again(_frame: object) -> None:
        for call in (lambda: pipeline.feed(b""), pipeline.close, pipeline.cancel):
            with pytest.raises(UsageError, match="expected one call at a time") as raised:
                call()
            refused.append(raised.value)

    context = StreamContext(stream_id="s")
    pipeline, undisturbed = opened(on_frame=call_again, context=context), opened(context=context)
    assert pipeline.feed(sse(*STREAM)) == undisturbed.feed(sse(*STREAM))
    assert len(refused) >= 3


def test_a_thread_waits_its_turn_or_is_refused() -> None:
    is_in_step, may_go_on = threading.Event(), threading.Event()

    def wait(_frame: object) -> None:
        is_in_step.set()
        may_go_on.wait(60)

    pipeline = opened(on_frame=wait)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(pipeline.feed, sse(CREATED))
        is_in_step.wait(60)
        with pytest.raises(UsageError, match="expected one call at a time"):
            pipeline.feed(sse(HI))
        may_go_on.set()
        running.result(60)
    pipeline.feed(sse(HI))


def test_the_exception_of_a_hook_is_kept() -> None:
    error = KeyError("a bug of the hook")

    def fail(_frame: object) -> None:
        raise error

    pipeline = opened(on_frame=fail)
    assert pipeline.failure is None
    assert json.loads(pipeline.feed(sse(CREATED)).splitlines()[-1])["error"]["code"] == "internal_error"
    assert pipeline.failure is error


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_bytes_may_be_in_a_buffer(kind: Callable[[bytes], Any]) -> None:
    given, plain = opened(context=CONTEXT), opened(context=CONTEXT)
    assert b"".join(given.feed(kind(piece)) for piece in pieces(sse(*STREAM), 64)) == plain.feed(sse(*STREAM))


def sse(*events: Event) -> bytes:
    return b"".join(b"data: " + codec.dumps(event) + b"\n\n" for event in events)


def ndjson(*events: Event) -> bytes:
    return b"".join(codec.dumps(event) + b"\n" for event in events)


def read(data: bytes) -> list[Event]:
    return [json.loads(line) for line in data.splitlines()]


def kinds(data: bytes) -> list[str]:
    return [event["kind"] for event in read(data)]


def pieces(data: bytes, size: int) -> Iterable[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 4_096])
@pytest.mark.parametrize(("write", "input_format"), [(sse, "sse"), (sse, "auto"), (ndjson, "ndjson"), (ndjson, "auto")])
def test_cuts_do_not_matter(write: Callable[..., bytes], input_format: str, size: int) -> None:
    whole, cut = opened(input_format=input_format, context=CONTEXT), opened(input_format=input_format, context=CONTEXT)
    data = write(*STREAM)
    assert b"".join(map(cut.feed, pieces(data, size))) + cut.close() == whole.feed(data) + whole.close()


CONTEXT: Final = StreamContext(stream_id="stream_1")


def test_d1_ids_start_at_1_and_rise_by_1() -> None:
    pipeline = opened(policy=Policy.load({"reasoning": "full"}))
    said = pipeline.feed(sse(CREATED, HI, {"type": "keepalive"}, {"type": "odd"}, CALL)) + pipeline.cancel()
    assert [event["event_id"] for event in read(said)] == list(range(1, len(read(said)) + 1))


def test_d2_a_stream_id_is_made_where_the_host_gives_none() -> None:
    ids = [read(opened().close())[0]["stream_id"] for _ in range(2)]
    assert all(re.fullmatch(r"stream_[0-9a-f]{32}", stream_id) for stream_id in ids)
    assert ids[0] != ids[1]
    assert read(opened(context=CONTEXT).close())[0]["stream_id"] == "stream_1"


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (0.0, "1970-01-01T00:00:00.000Z"),
        (1_765_800_000.0, "2025-12-15T12:00:00.000Z"),
        (1_765_800_000.001, "2025-12-15T12:00:00.001Z"),
        (1_765_800_000.29, "2025-12-15T12:00:00.290Z"),
        (1_765_800_059.999, "2025-12-15T12:00:59.999Z"),
    ],
)
def test_d2_times_are_utc_with_milliseconds(seconds: float, written: str) -> None:
    assert read(opened(clock=lambda: seconds).close())[0]["server_timestamp"] == written


def test_d2_one_reading_of_the_clock_per_feed_and_times_never_go_back() -> None:
    times = [1.0, 2.5, 1.5, 3.0]
    pipeline = opened(clock=lambda: times.pop(0))
    said = [pipeline.feed(sse(CREATED, HI)), pipeline.feed(sse(HI)), pipeline.feed(sse(HI)), pipeline.close()]
    shown = [sorted({event["server_timestamp"][17:-1] for event in read(data)}) for data in said]
    assert shown == [["01.000"], ["02.500"], ["02.500"], ["03.000"]]


@pytest.mark.parametrize(
    ("data", "fault", "code"),
    [
        pytest.param(b"", None, "upstream_empty", id="D12-no-bytes"),
        pytest.param(b"\n\n: ping\n\n", None, "upstream_empty", id="D12-comments-only"),
        pytest.param(b"data:\n\n", None, "upstream_empty", id="D47-blank-data-is-a-comment"),
        pytest.param(b"<html>no</html>", None, "upstream_malformed", id="D12-an-error-page"),
        pytest.param(b"data: oops\n\n", None, "upstream_malformed", id="D12-no-json"),
        pytest.param(sse(CREATED) + b"data: {]\n\n", None, "upstream_malformed", id="D12-no-json-in-mid-stream"),
        pytest.param(sse(CREATED)[:-9], None, "upstream_truncated", id="D45-cut-in-the-first-event"),
        pytest.param(b"data: oops", None, "upstream_truncated", id="D45-cut-before-anything-can-be-read"),
        pytest.param(sse(CREATED, HI), None, "upstream_truncated", id="D12-truncated"),
        pytest.param(sse(CREATED) + sse(COMPLETED).rstrip(), None, None, id="D12-the-last-blank-line-is-missing"),
        pytest.param(sse(CREATED) + sse(COMPLETED)[:-9], None, "upstream_truncated", id="D12-half-a-last-event"),
        pytest.param(sse(CREATED, HI, COMPLETED) + b"data: [DONE]\n\n", None, None, id="done-mark"),
        pytest.param(sse(CREATED, HI), FAULTS["upstream_reset"], "upstream_reset", id="D12-reset"),
        pytest.param(sse(CREATED)[:-9], FAULTS["upstream_reset"], "upstream_reset", id="D12-reset-in-the-first-event"),
        pytest.param(b"", FAULTS["upstream_unreachable"], "upstream_unreachable", id="D12-unreachable"),
        pytest.param(b"", Fault.of_status(503), "upstream_http_503", id="D12-http-status"),
        pytest.param(sse(CREATED), FAULTS["server_shutdown"], "server_shutdown", id="D12-draining"),
        pytest.param(sse(CREATED, COMPLETED), FAULTS["upstream_reset"], None, id="D12-a-fault-after-the-end"),
        pytest.param(
            sse(CREATED) + sse(COMPLETED).rstrip(), FAULTS["upstream_reset"], None, id="a-fault-loses-nothing"
        ),
    ],
)
def test_how_bytes_end(data: bytes, fault: Any, code: str | None) -> None:
    pipeline = opened()
    said = pipeline.feed(data) + pipeline.close(fault)
    assert check_stream(said.splitlines()) == []
    assert read(said)[-1].get("error", {}).get("code") == code


FIRST: Final = {
    "openai_responses": {"type": "response.created", "response": {"id": "r", "status": "in_progress", "text": {}}},
    "openai_chat": {"id": "c", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hi ✓"}}]},
}


@pytest.mark.parametrize("input_format", ["auto", "sse", "ndjson"])
@pytest.mark.parametrize("provider", FIRST)
def test_d45_a_cut_of_the_first_event_is_truncated(provider: str, input_format: str) -> None:
    event = json.dumps(FIRST[provider], ensure_ascii=False).encode()
    name = f"event: {FIRST[provider].get('type', 'chunk')}\n".encode()
    inputs = [event + b"\n"] if input_format != "sse" else []
    inputs += [b"data: " + event + b"\n\n", name + b"data: " + event + b"\r\n\r\n"] if input_format != "ndjson" else []
    for whole in inputs:
        for end in range(1, len(whole) + 1):
            pipeline = opened(provider=provider, input_format=input_format)
            said = pipeline.feed(whole[:end]) + pipeline.close()
            assert check_stream(said.splitlines()) == []
            error = read(said)[-1]["error"]
            assert (error["code"], error["is_retryable"]) == ("upstream_truncated", True), whole[:end]


@pytest.mark.parametrize("sign", ["", "-"])
def test_d45_an_integer_too_long_to_parse_costs_its_member(sign: str) -> None:
    digits = sign + "9" * 5000
    pipeline = opened()
    events = [
        '{"type":"response.created","sequence_number":#,"response":{"id":"r","status":"in_progress","created_at":#}}',
        '{"type":"response.output_text.delta","item_id":"m","output_index":0,"sequence_number":#,"delta":"Hi"}',
        '{"type":"response.output_text.delta","item_id":"m","output_index":#,"delta":" there"}',
        '{"type":"response.completed","response":{"status":"completed","usage":{"input_tokens":#,"output_tokens":2}}}',
    ]
    said = read(pipeline.feed(b"".join(f"data: {event}\n\n".replace("#", digits).encode() for event in events)))
    assert said[-1]["final"] == {"status": "completed", "response_text": "Hi there", "usage": {"output_tokens": 2}}
    assert [event for event in said if "provider_sequence_number" in event] == []


def test_d45_an_integer_too_long_to_parse_is_text_in_arguments() -> None:
    digits = "9" * 5000
    pipeline = opened()
    item = {
        "type": "function_call",
        "id": "f",
        "call_id": "c",
        "name": "add",
        "arguments": f'{{"a": {digits}, "b": 1}}',
    }
    said = read(pipeline.feed(sse({"type": "response.output_item.done", "output_index": 0, "item": item})))
    [done] = [event for event in said if event["kind"] == "tool.arguments.done"]
    assert done["arguments_text"] == item["arguments"]
    assert (done["arguments_json"]["a"], done["arguments_json"]["b"]) == (digits[:4000], 1)


def test_d12_an_event_over_the_size_limit() -> None:
    pipeline = opened(policy=Policy.load({"limits": {"event_max_bytes": 200}}))
    said = pipeline.feed(sse(CREATED, {**HI, "delta": "x" * 200})) + pipeline.feed(sse(HI)) + pipeline.close()
    assert read(said)[-1]["error"]["code"] == "upstream_event_too_large"
    assert kinds(said) == ["lifecycle", "error"]


ADDED: Final = {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": "m"}}
MANY: Final = b'{"type":"response.unknown","x":[' + b"0," * limits.EVENT_VALUES_MAX + b"0]}"


@pytest.mark.parametrize(
    ("name", "data", "code"),
    [
        ("too many values", b"data: " + MANY + b"\n\n", "upstream_event_too_large"),
        ("too many values at the end of the input", b"data: " + MANY, "upstream_truncated"),
        ("too many lines", b"data:\n" * (limits.EVENT_LINES_MAX + 1), "upstream_event_too_large"),
        (
            "a text that is too long",
            sse({**HI, "delta": "x" * (limits.TEXT_MAX_CHARS + 1)}),
            "upstream_event_too_large",
        ),
        (
            "a text that is too long to parse",
            sse({"type": "response.unknown"}).replace(
                b"}", b',"x":"' + b"a" * limits.EVENT_TEXT_MAX_BYTES + b'\xc3\xa9"}'
            ),
            "upstream_event_too_large",
        ),
        ("items", sse(*({**ADDED, "output_index": at} for at in range(5))), "upstream_response_too_large"),
        ("parts of an item", sse(*({**HI, "content_index": at} for at in range(5))), "upstream_response_too_large"),
        (
            "items in one event",
            sse({"type": "response.completed", "response": {"id": "r", "output": [ADDED["item"]] * 5}}),
            "upstream_response_too_large",
        ),
    ],
)
def test_what_is_too_large_ends_the_stream(name: str, data: bytes, code: str) -> None:
    outputs = []
    for size in (len(data), 10_000 if len(data) > 10_000 else 1):
        pipeline = opened(policy=Policy.load({"limits": {"items_max": 4}}), context=CONTEXT)
        said = pipeline.feed(sse(CREATED))
        said += b"".join(map(pipeline.feed, pieces(data, size))) + pipeline.close()
        outputs.append(said)
    assert outputs[0] == outputs[1], "the output depends on the cuts"
    assert read(outputs[0])[-1]["error"]["code"] == code, name
    assert kinds(outputs[0]).count("output_item.added") == kinds(outputs[0]).count("output_item.done")


@pytest.mark.parametrize("first", [1, 2, 7])
def test_d5_deltas_of_one_read_have_their_numbers(first: int) -> None:
    deltas = [{**HI, "content_index": 0, "delta": " word", "sequence_number": number} for number in range(1, 41)]
    pipeline = opened()
    said = read(pipeline.feed(sse(*deltas[:first])) + pipeline.feed(sse(*deltas[first:])))
    numbers = [event["provider_sequence_number"] for event in said if event["kind"] == "message.delta"]
    assert numbers == [*range(1, 41)]


def test_the_size_of_what_is_kept() -> None:
    pipeline = opened()
    pipeline.feed(sse(CREATED, HI))
    before = pipeline.kept_bytes
    pipeline.feed(sse({**HI, "delta": "x" * 1_000}))
    assert pipeline.kept_bytes == before + 1_000
    pipeline.feed(sse({**HI, "delta": "é" * 1_000}))
    assert pipeline.kept_bytes == before + 5_000
    pipeline.feed(sse({**ADDED, "output_index": 1, "item": {"type": "reasoning", "id": "r"}}))
    assert pipeline.kept_bytes > before + 5_000 + ITEM_BYTES


@pytest.mark.parametrize(("dialect", "is_kept"), [("public_sse_v1", False), ("responses", True)])
def test_of_an_image_what_the_dialect_joins_is_kept(dialect: str, *, is_kept: bool) -> None:
    pipeline = opened(dialect=dialect)
    image = {"type": "image_generation_call", "id": "ig", "status": "completed", "result": "AAAA" * 25_000}
    pipeline.feed(sse(CREATED, {"type": "response.output_item.done", "output_index": 0, "item": image}))
    assert (pipeline.kept_bytes > 100_000) is is_kept


def test_d11_after_the_terminal_nothing_whatever_comes() -> None:
    pipeline = opened()
    pipeline.feed(sse(*STREAM))
    assert pipeline.ended
    said = [
        pipeline.feed(sse(*STREAM)),
        pipeline.feed(b"data: oops\n\n"),
        pipeline.host(OUTPUT),
        pipeline.next_response(),
        pipeline.cancel(),
        pipeline.close(),
        pipeline.close(FAULTS["internal_error"]),
    ]
    assert said == [b""] * 7


def test_the_host_has_a_door_of_its_own() -> None:
    pipeline = opened(run=True)
    assert pipeline.host({"type": "projector.context", "agent": "triage"}) == b""
    pipeline.feed(sse(CREATED, CALL))
    said = read(pipeline.host(OUTPUT))
    assert [(event["kind"], event["agent"]) for event in said] == [("tool.output", "triage"), ("tool.status", "triage")]
    assert pipeline.host({"type": "projector.odd"}) == b""
    assert pipeline.dropped == {"projector.odd": 1}


def test_d12_a_run_reads_each_upstream_from_its_start() -> None:
    pipeline = opened(run=True)
    said = pipeline.feed(sse(CREATED) + sse(COMPLETED).rstrip())  # the end is known only when the upstream is over
    assert kinds(said) == ["lifecycle"]
    assert kinds(pipeline.next_response()) == ["lifecycle"]
    pipeline.feed(b"\xef\xbb\xbf" + sse(CREATED, HI, COMPLETED))
    assert not pipeline.ended
    assert read(pipeline.close())[-1]["final"] == {"status": "completed", "response_text": "Hi ✓"}


@pytest.mark.parametrize("run", [False, True])
def test_d12_cancel_has_the_text_so_far(*, run: bool) -> None:
    pipeline = opened(run=run)
    pipeline.feed(sse(CREATED, HI))
    assert read(pipeline.cancel())[-1]["final"] == {"status": "cancelled", "response_text": "Hi ✓"}
    assert pipeline.ended


@pytest.mark.parametrize(("write", "input_format"), [(sse, "sse"), (ndjson, "ndjson")])
def test_d35_recordings_hold_what_the_host_did(write: Callable[..., bytes], input_format: str) -> None:
    events = (CREATED, CALL, OUTPUT, COMPLETED, NEXT, CREATED, HI, CANCEL, HI)
    recorded = opened(run=True, takes_host_events=True, input_format=input_format, context=CONTEXT)
    live = opened(run=True, input_format=input_format, context=CONTEXT)
    expected = live.feed(write(CREATED, CALL)) + live.host(OUTPUT) + live.feed(write(COMPLETED)) + live.next_response()
    expected += live.feed(write(CREATED, HI)) + live.cancel()
    assert recorded.feed(write(*events)) == expected
    assert recorded.ended


@pytest.mark.parametrize("event", [OUTPUT, NEXT, CANCEL, {"type": "projector.context", "agent": "x"}])
def test_d35_provider_bytes_cannot_forge_the_host(event: Event) -> None:
    forged, plain = opened(context=CONTEXT), opened(context=CONTEXT)
    assert forged.feed(sse(CREATED, CALL, event, HI, COMPLETED)) == plain.feed(sse(CREATED, CALL, HI, COMPLETED))
    assert forged.dropped == {event["type"]: 1}


def test_d35_a_recorded_line_that_only_mentions_the_host_is_the_providers() -> None:
    pipeline = opened(takes_host_events=True)
    said = read(pipeline.feed(sse({**HI, "delta": '"projector.cancel"'}) + b'data: "projector." [\n\n'))
    assert said[1]["delta"] == '"projector.cancel"'
    assert said[-1]["error"]["code"] == "upstream_malformed"


def test_d31_integers_of_recorded_outputs_are_exact() -> None:
    pipeline = opened(takes_host_events=True)
    output = json.dumps({**OUTPUT, "output": 2**70}).encode()
    said = read(pipeline.feed(sse(CALL) + b"data: " + output + b"\n\n"))
    assert [event["output"] for event in said if event["kind"] == "tool.output"] == [str(2**70)]


def test_d30_what_was_not_said_is_counted_once() -> None:
    pipeline = opened(run=True)
    pipeline.feed(sse(CREATED, {"type": "odd"}) + b"data: 5\n\n" + sse({"type": "odd"}, {"n": 1}, COMPLETED))
    expected = {"odd": 2, "(no object)": 1, "(no type)": 1}
    assert pipeline.dropped == expected
    pipeline.next_response()
    pipeline.close()
    assert pipeline.dropped == expected


def test_sse_output_is_data_only() -> None:
    said = opened(output_format="sse").feed(sse(CREATED))
    assert re.fullmatch(rb"data: \{[^\n]*\}\n\n", said)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"provider": "openai_response"},
            "unknown provider `openai_response`; known: `openai_responses`",
        ),
        ({"dialect": "public"}, "unknown dialect `public`; known: `public_sse_v1`"),
        ({"input_format": "csv"}, "unknown input format `csv`; known: `sse`, `auto`, `ndjson`"),
        ({"output_format": "json"}, "unknown output format `json`; known: `ndjson`, `sse`"),
        ({"profile": {"odd": 1}}, "profile of `openai_responses`: `odd` is unknown"),
        ({"policy": Policy(), "redactor": Redactor(Policy())}, "expected a policy or a redactor, not both"),
    ],
)
def test_names_that_are_not_known(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match="^" + re.escape(message)):
        opened(**settings)


def test_a_compiled_policy_serves_many_streams() -> None:
    redactor = Redactor(Policy.load({"registered": [{"value": "quay-7781"}]}))
    said = [opened(redactor=redactor).feed(sse({**HI, "delta": "at quay-7781."}, COMPLETED)) for _ in range(2)]
    assert all(read(data)[-1]["final"]["response_text"] == "at <redacted>." for data in said)


BANG: Final[Event] = {**HI, "delta": "Bang"}
HI_DONE: Final[Event] = {
    "type": "response.output_item.done",
    "output_index": 0,
    "item": {"type": "message", "id": "msg", "status": "completed"},
}


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([BANG], id="alone"),
        pytest.param([CALL, {**BANG, "output_index": 5, "item_id": "other"}], id="behind-an-item-that-was-not-sent"),
        pytest.param([HI_DONE, {**BANG, "output_index": 5, "item_id": "other"}], id="behind-an-end-that-was-not-sent"),
    ],
)
@pytest.mark.parametrize(
    ("owner", "member"),
    [
        pytest.param(OpenAIResponsesStage, "feed", id="the-provider-stage"),
        pytest.param(public_sse_v1.PublicSseV1, "feed", id="the-dialect"),
    ],
)
def test_d12_a_fault_of_ours_ends_the_stream(
    monkeypatch: pytest.MonkeyPatch, owner: type, member: str, events: list[Event]
) -> None:
    pipeline = opened()
    said = pipeline.feed(sse(CREATED, HI))
    original = getattr(owner, member)

    def fails(self: object, item: Any, /) -> object:
        if "Bang" in str(item):
            raise ZeroDivisionError("a secret of ours")
        return original(self, item)

    monkeypatch.setattr(owner, member, fails)
    said += pipeline.feed(sse(*events))
    assert pipeline.ended
    assert read(said)[-1]["error"] == FAULTS["internal_error"]._asdict()
    assert check_stream(said.splitlines()) == []
    assert pipeline.close() == b""


@pytest.mark.parametrize("dialect", ["public_sse_v1", "ag_ui", "openresponses"])
def test_a_listener_hears_each_frame_whatever_the_dialect_makes_of_it(dialect: str) -> None:
    heard: list[Frame] = []
    pipeline = build_pipeline(provider="openai_responses", dialect=dialect, on_frame=heard.append)
    pipeline.feed(sse(CREATED, HI, COMPLETED))
    public = [frame for frame in heard if frame["kind"] not in PRIVATE]
    assert [frame["event_id"] for frame in public] == list(range(1, len(public) + 1))
    assert (public[-1]["kind"], public[-1]["final"]["response_text"]) == ("final", "Hi ✓")


def test_the_runs_of_a_large_read_are_one() -> None:
    runs: list[list[int]] = []
    pipeline = build_pipeline(
        provider="openai_responses",
        dialect="public_sse_v1",
        output_format="ndjson",
        on_frame=lambda _: None,
        on_deltas=lambda run: runs.append(run.sequences),
    )
    events = [{**HI, "content_index": 0, "sequence_number": number} for number in range(1_000)]
    said = pipeline.feed(sse(CREATED, *events)) + pipeline.feed(sse(COMPLETED))
    assert len(runs) == 1
    assert runs[0] == [*range(1_000 - len(runs[0]), 1_000)]
    assert len(runs[0]) > 900
    frames = [codec.loads(line) for line in said.splitlines()]
    assert [frame["event_id"] for frame in frames] == [*range(1, len(frames) + 1)]


def on_frame_fails(frame: Frame) -> None:
    if frame["kind"] != "lifecycle":
        raise ZeroDivisionError("a secret of the host")


def on_deltas_fails(_deltas: DeltaFrames) -> None:
    raise ZeroDivisionError("a secret of the host")


@pytest.mark.parametrize(
    "hooks",
    [{"on_frame": on_frame_fails}, {"on_frame": lambda _: None, "on_deltas": on_deltas_fails}],
    ids=["a frame", "a run of deltas"],
)
def test_d12_a_listener_that_fails_ends_the_stream(hooks: dict[str, Any]) -> None:
    pipeline = build_pipeline(provider="openai_responses", dialect="public_sse_v1", output_format="ndjson", **hooks)
    events = [{**HI, "content_index": 0, "sequence_number": number} for number in range(8)]
    said = b"".join([pipeline.feed(sse(*read)) for read in ([CREATED, *events[:5]], events[5:], [COMPLETED])])
    assert pipeline.ended
    assert read(said)[-1]["error"] == FAULTS["internal_error"]._asdict()
    assert check_stream(said.splitlines()) == []


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("provider", ["openai_responses", "openai_chat"])
@pytest.mark.parametrize("end", ["close", "cancel", "fault"])
def test_an_ended_stream_keeps_nothing_of_what_it_said(provider: str, dialect: str, end: str) -> None:
    text = "x" * 10_000
    delta = {
        "openai_responses": {"type": "response.output_text.delta", "output_index": 0, "delta": text},
        "openai_chat": {"id": "c", "choices": [{"index": 0, "delta": {"content": text}}]},
    }[provider]

    def begun() -> Pipeline:
        # with an ID, because drawing one lets other threads run
        context = StreamContext(stream_id="s")
        pipeline = build_pipeline(provider=provider, dialect=dialect, run=True, context=context)
        for _ in range(100):
            pipeline.feed(b"data: " + json.dumps(delta).encode() + b"\n\n")
        return pipeline

    def ended(pipeline: Pipeline) -> None:
        ends = {"cancel": pipeline.cancel, "fault": lambda: pipeline.close(FAULTS["internal_error"])}
        ends.get(end, pipeline.close)()
        assert pipeline.ended

    def held_and_left() -> tuple[int, int]:
        gc.collect()
        tracemalloc.start()
        try:
            pipeline = begun()
            held = tracemalloc.get_traced_memory()[0]
            ended(pipeline)
            gc.collect()
            return held, tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()

    ended(begun())  # fills caches
    gc.freeze()  # or what earlier tests left is searched each time, which takes seconds
    with alone():
        held, left = map(min, zip(*(held_and_left() for _ in range(3)), strict=True))  # other threads only add
    pipeline = begun()
    ended(pipeline)
    assert held > 1_000_000
    assert left < 100_000  # a tenth of the text
    assert pipeline.feed(b"data: {}\n\n") == pipeline.close() == pipeline.cancel() == pipeline.next_response() == b""
    assert pipeline.host({"type": "projector.context", "agent": "a"}) == b""


@pytest.mark.parametrize("after", range(4))
def test_stored_frames_are_written_again_from_any_event_on(after: int) -> None:
    said = opened().feed(sse(CREATED, HI, CALL, COMPLETED))
    lines = said.splitlines(keepends=True)
    reader = StreamReplay(dialect="public_sse_v1", policy=Policy(), after=after, output_format="ndjson")
    assert b"".join(reader.feed([codec.loads(line)]) for line in lines) == b"".join(lines[after:])
    assert (reader.position, reader.ended, reader.interrupt("s", 0.0)) == (len(lines), True, b"")


@pytest.mark.parametrize("after", range(4))
def test_stored_frames_have_the_numbers_of_their_events(after: int) -> None:
    frames = [*map(codec.loads, opened().feed(sse(CREATED, HI, CALL, COMPLETED)).splitlines())]
    reader = StreamReplay(dialect="ag_ui", policy=Policy(), after=after)
    said = b"".join(reader.feed([frame]) for frame in frames)
    assert [*map(int, re.findall(rb"(?m)^id: (.*)$", said))] == [*range(after + 1, reader.position + 1)]


@pytest.mark.parametrize("count", range(4))
def test_stored_frames_without_a_terminal_get_one(count: int) -> None:
    lines = opened().feed(sse(CREATED, HI, CALL, COMPLETED)).splitlines(keepends=True)[:count]
    reader = StreamReplay(dialect="public_sse_v1", policy=Policy(), output_format="ndjson")
    said = reader.feed(map(codec.loads, lines)) + reader.interrupt("s", 1_765_800_001.0)
    assert check_stream(said.splitlines()) == []
    assert said.startswith(b"".join(lines))
    assert json.loads(said.splitlines()[-1])["error"]["code"] == "stream_interrupted"


def test_a_log_gets_what_is_sent_unless_it_was_truncated() -> None:
    output: list[Any] = []
    kept: list[bytes | None] = []

    def on_output(frames: Any, sent: list[bytes | None]) -> None:
        output.extend(frames_of(frames))
        kept.extend(sent)

    policy = Policy.load({"limits": {"frame_max_bytes": 4_096}})
    pipeline = opened(policy=policy, on_output=on_output)
    delta = {"type": "response.output_text.delta", "output_index": 0, "item_id": "m", "delta": "x y " * 500}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {"id": "r"}},
        *[{**delta, "sequence_number": at} for at in range(1, 6)],
        {"type": "response.completed", "response": {"id": "r", "status": "completed"}},
    ]
    sent = b"".join(pipeline.feed(b"data: %b\n\n" % codec.dumps(event)) for event in events).splitlines()
    whole = {frame["event_id"]: codec.dumps(frame) for frame in output if frame["kind"] not in PRIVATE}
    assert [data for data in kept if data is not None] == [data for data in whole.values() if data in sent]
    assert [data for data in whole.values() if data not in sent] == [whole[max(whole)]], "`final` was truncated"
    assert kept[-1] is None
