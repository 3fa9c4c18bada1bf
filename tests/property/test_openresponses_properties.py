"""The `openai` SDK accepts Open Responses for any input."""

from __future__ import annotations

import json
import warnings
from typing import Final

import httpx2
import pytest
from hypothesis import given
from openai import APIError, OpenAI

from projector.core.sse import encode_sse
from projector.recording.replay import Case
from tests.property.dialect_streams import play_lines
from tests.property.mutations import CASES, Lines, lines_of, spoiled
from tests.property.soundness import examples

DIALECT: Final = "openresponses"


def assert_accepted(said: bytes) -> None:
    """The SDK's accumulator reads the stream to its end; it raises the error of an `error` event and no other."""
    lines = said.splitlines()
    body = b"".join(encode_sse(line, json.loads(line)["type"]) for line in lines[:-1]) + encode_sse(lines[-1])
    answer = httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body)
    transport = httpx2.MockTransport(lambda _request: answer)
    with OpenAI(api_key="none", http_client=httpx2.Client(transport=transport), max_retries=0) as client:
        try:
            with (
                warnings.catch_warnings(action="ignore", category=UserWarning),  # of items that it does not know
                client.responses.stream(model="any", input="Hi") as stream,
            ):
                names = [event.type for event in stream]
        except APIError:
            assert any(line.startswith(b'{"type":"error",') for line in lines)
        else:
            assert names == [json.loads(line)["type"] for line in lines[:-1]]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_client_accepts_a_truncated_stream(case: Case) -> None:
    lines = lines_of(case)
    for end in {len(lines) // 3, len(lines) * 2 // 3}:
        assert_accepted(play_lines(DIALECT, case, lines[:end], reasoning="full"))


@examples(120)
@given(spoiled())
def test_the_client_accepts_any_stream(stream: tuple[Case, Lines]) -> None:
    case, lines = stream
    assert_accepted(play_lines(DIALECT, case, lines, reasoning="full"))
