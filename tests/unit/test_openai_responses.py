"""Messages of an OpenAI Responses stream as events (CONTRACT D12, D30, D31)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import pytest

from projector.core.faults import FAULTS
from projector.core.sse import SseMessage
from projector.providers.openai_responses.stage import OpenAIResponsesStage

MALFORMED: Final = FAULTS["upstream_malformed"]
DEEP: Final = b"[" * 100_000 + b"]" * 100_000


def error(code: str | None, message: str | None = None) -> dict[str, object]:
    return {"type": "error", "error": {"message": message, "type": None, "code": code, "param": None}}


@pytest.mark.parametrize(
    ("messages", "expected", "dropped"),
    [
        pytest.param(
            [(b'{"type": "keepalive", "code": 1}', "")], [{"type": "keepalive", "code": 1}], {}, id="an-event"
        ),
        pytest.param([(b'{"type": "keepalive"}', "b")], [{"type": "keepalive"}], {}, id="its-own-type-counts"),
        pytest.param(
            [(b'{"code": 1}', "keepalive")], [{"code": 1, "type": "keepalive"}], {}, id="the-type-is-the-messages-name"
        ),
        pytest.param([(b'{"type": null}', "keepalive")], [], {"(no type)": 1}, id="D30-a-null-type-is-one"),
        pytest.param([(b'{"error": {"code": 1}}', "")], [error("1")], {}, id="D12-nested"),
        pytest.param([(b'{"error": "x"}', "odd")], [error(None, "x")], {}, id="an-error-by-its-member"),
        pytest.param([(b'{"message": "x"}', "error")], [{"message": "x", "type": "error"}], {}, id="error-by-its-name"),
        pytest.param([(b'{"n": 1}', "")], [], {"(no type)": 1}, id="D30-no-type"),
        pytest.param([(b'{"error": null}', "")], [], {"(no type)": 1}, id="D30-no-error"),
        pytest.param([(b"5", ""), (b"[]", ""), (b"null", "x")], [], {"(no object)": 3}, id="D30-no-object"),
        pytest.param([(DEEP, "")], [], {"(too deep)": 1}, id="D31-too-deep-for-any-parser"),
        pytest.param([(b"[DONE]", ""), (b" [DONE]\n", "")], [], {}, id="end-marks"),
        pytest.param([(b"", ""), (b" ", ""), (b": keepalive", "x")], [], {"(comment)": 3}, id="D47-comments"),
        pytest.param([(b'[{"error": {"code": 1}}]', "")], [error("1")], {}, id="D48-a-list"),
        pytest.param(
            [(b'{"object": "response", "status": "incomplete"}', "")],
            [{"type": "response.incomplete", "response": {"object": "response", "status": "incomplete"}}],
            {},
            id="D48-a-whole-response",
        ),
        pytest.param(
            [(b'{"object": "response", "status": "queued"}', "")],
            [{"type": "response.in_progress", "response": {"object": "response", "status": "queued"}}],
            {},
            id="D48-a-response-that-goes-on",
        ),
        pytest.param([(b"oops", "")], [MALFORMED], {"(no JSON)": 1}, id="D12-no-json"),
        pytest.param(
            [(b'{"type": "keepalive"', ""), (b'{"type": "b"}', "")],
            [MALFORMED],
            {"(no JSON)": 1, "(after the end)": 1},
            id="D12-a-fault-is-the-last",
        ),
        pytest.param(
            [(b'{"type": "keepalive", "code": NaN}', "")], [{"type": "keepalive", "code": None}], {}, id="D31-nan"
        ),
        pytest.param([(b'{"type": "caf\xff"}', "")], [], {"caf\ufffd": 1}, id="malformed-utf-8"),
        pytest.param([(b'{"type": "ping"}', ""), (b"{}", "ping")], [], {"ping": 2}, id="D45-of-another-api"),
        pytest.param(
            [(b'{"type": "a", "response": {}}', "")], [{"type": "a", "response": {}}], {}, id="D45-with-a-response"
        ),
    ],
)
def test_messages(messages: Sequence[tuple[bytes, str]], expected: list[object], dropped: dict[str, int]) -> None:
    stage = OpenAIResponsesStage()
    events = [event for data, name in messages for event in stage.feed(SseMessage(data, name))]
    assert events == expected
    assert stage.close() == []
    assert stage.dropped == dropped


@pytest.mark.parametrize(
    ("kind", "event_type"), [("part", "content_part.added"), ("annotation", "output_text.annotation.added")]
)
def test_unknown_members_are_counted(kind: str, event_type: str) -> None:
    stage = OpenAIResponsesStage()
    event = {"type": f"response.{event_type}", kind: {"type": "x", "new": 1}}
    stage.feed(SseMessage(json.dumps(event).encode(), ""))
    assert dict(stage.dropped) == {f"{kind}.new": 1}
