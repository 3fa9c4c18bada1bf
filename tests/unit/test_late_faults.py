"""A finish reason is a clean end, whatever fault comes after it (CONTRACT D32)."""

from __future__ import annotations

import json

import pytest

from projector import FAULTS, Fault, Policy, build_pipeline

FINISHED = {
    "openai_chat": b'data: {"id":"c1","choices":[{"index":0,"delta":{"content":"Done."},"finish_reason":"stop"}]}\n\n',
    "gemini": b'data: {"candidates":[{"content":{"parts":[{"text":"Done."}]},"finishReason":"STOP"}]}\n\n',
    "anthropic_messages": b'data: {"type":"content_block_start","content_block":{"type":"text","text":"Done."}}\n\n'
    b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}\n\n',
}
LIMIT = 1_000


@pytest.mark.parametrize("provider", FINISHED)
@pytest.mark.parametrize(
    ("late", "fault"),
    [
        pytest.param(b"", None, id="end-of-input"),
        pytest.param(b"data: {broken\n\n", None, id="not-json"),
        pytest.param(b"data: " + b"x" * 2 * LIMIT, None, id="too-large"),
        pytest.param(b"data: {half", FAULTS["upstream_reset"], id="reset"),
        pytest.param(b'data: {"error":{"message":"late"}}\n\n', None, id="error-object"),
        pytest.param(b'data: {"type":"error","error":{"message":"late"}}\n\n', None, id="error-event"),
    ],
)
def test_a_finished_answer_stays_complete(provider: str, late: bytes, fault: Fault | None) -> None:
    policy = Policy.load({"limits": {"event_max_bytes": LIMIT}})
    pipeline = build_pipeline(
        provider=provider, dialect="public_sse_v1", policy=policy, output_format="ndjson", clock=lambda: 0.0
    )
    said = pipeline.feed(FINISHED[provider] + late) + pipeline.close(fault)
    last = json.loads(said.splitlines()[-1])
    assert (last["kind"], last["final"]["status"], last["final"]["response_text"]) == ("final", "completed", "Done.")
