"""Input of any size leaves the stream running, the frames within limits, and small values complete (CONTRACT D27)."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import pytest

from projector import build_pipeline
from projector.contracts.limits import FRAME_MAX_BYTES
from projector.contracts.stream_rules import check_stream
from projector.core.sse import encode_sse

Event: TypeAlias = Mapping[str, Any]

CREATED: Final[Event] = {"type": "response.created", "response": {"id": "r", "status": "in_progress"}}
COMPLETED: Final[Event] = {
    "type": "response.completed",
    "response": {"id": "r", "status": "completed", "usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}},
}
CALL: Final[Event] = {
    "type": "response.output_item.added",
    "output_index": 0,
    "item": {"type": "function_call", "id": "fc", "call_id": "c", "name": "f"},
}
IMAGE: Final = base64.b64encode(bytes(range(256)) * 80 * 1024).decode()  # 20 MB before base64


def text(delta: str) -> Event:
    return {"type": "response.output_text.delta", "output_index": 0, "item_id": "m", "content_index": 0, "delta": delta}


def finished(**item: object) -> Event:
    return {"type": "response.output_item.done", "output_index": 0, "item": {"status": "completed", **item}}


def output(value: object) -> list[Event]:
    return [CALL, {"type": "projector.tool_output", "call_id": "c", "output": value}]


def nested(levels: int) -> object:
    value: object = "bottom"
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([finished(type="image_generation_call", id="ig", result=IMAGE)], id="a 20 MB image"),
        pytest.param([finished(type="code_interpreter_call", id="ci", code="x = 1\n" * 500_000)], id="3 MB of code"),
        pytest.param([text("word " * 600_000)], id="a 3 MB delta"),
        pytest.param([text("\x01" * 100_000)], id="100,000 control characters"),
        pytest.param(output(nested(600)), id="an output of 600 levels"),
        pytest.param(output(list(range(1_000_000))), id="an output of a million entries"),
        pytest.param(output({f"token{at}": "x" for at in range(10_000)}), id="10,000 redactions in one object"),
        pytest.param(output({f"key{at}": "é\x01" * 8_000 for at in range(200)}), id="many long strings"),
    ],
)
def test_a_stream_lives_with_any_size(events: list[Event]) -> None:
    pipeline = build_pipeline(
        provider="openai_responses",
        dialect="public_sse_v1",
        input_format="ndjson",
        output_format="ndjson",
        takes_host_events=True,
    )
    said = b"".join(pipeline.feed(json.dumps(event).encode() + b"\n") for event in [CREATED, *events, COMPLETED])
    lines = (said + pipeline.close()).splitlines()
    assert max(len(encode_sse(line)) for line in lines) <= FRAME_MAX_BYTES
    assert check_stream(lines) == []
    last = json.loads(lines[-1])
    assert (last["kind"], last["final"]["status"]) == ("final", "completed")
    assert last["final"]["usage"]["total_tokens"] == 3


def test_the_chunks_of_a_large_image_join_to_it() -> None:
    pipeline = build_pipeline(provider="openai_responses", dialect="public_sse_v1", output_format="ndjson")
    event = finished(type="image_generation_call", id="ig", result=IMAGE)
    frames = [json.loads(line) for line in pipeline.feed(encode_sse(json.dumps(event).encode())).splitlines()]
    pieces = [frame["data"] for frame in frames if frame["kind"] == "chunk.delta"]
    assert "".join(pieces) == IMAGE
    assert all(base64.b64decode(piece, validate=True) for piece in pieces)
