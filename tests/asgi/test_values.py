"""The limit on JSON values of a request; counting them is linear."""

from __future__ import annotations

import json
from typing import Any

import pytest

from projector.contracts.json_values import count_values
from projector.server.http.requests import VALUES_MAX
from tests.asgi.conftest import plays

MANY = VALUES_MAX + 1


def many(value: str) -> bytes:
    return b'{"input":[' + ",".join([value] * MANY).encode() + b"]}"


@pytest.mark.parametrize("value", ["{}", "[]", "1", '"a"', '{"a":"b"}', "null", '"\\\\"', '"\\""'])
async def test_too_many_values_are_rejected(serve: Any, value: str) -> None:
    refused = await serve().ask("/v1/responses", many(value))
    detail = f"The request body must have at most {VALUES_MAX} JSON values."
    assert (refused.status, (await refused.openai_error())["message"]) == (413, detail)


@pytest.mark.parametrize("text", [", " * MANY, "{[" * MANY, '\\"{,' * MANY, "\\" * MANY + "," * MANY, '",' * MANY])
async def test_a_string_is_one_value(text: str) -> None:
    assert count_values(json.dumps({"input": [text, text]}).encode(), VALUES_MAX) == 4


async def test_a_long_conversation_is_accepted(serve: Any, upstream: Any, text_events: Any) -> None:
    provider = await upstream(plays([text_events[-1]]))
    messages = [{"role": "user", "content": [{"type": "input_text", "text": "a, b"}]}] * 10_000
    answer = await serve().ask("/v1/responses", {"input": messages})
    assert json.loads(await answer.rest())["status"] == "completed"
    assert (await provider.peers.get()).body["input"] == messages


@pytest.mark.parametrize("piece", [b'"', b'\\"', b'"a', b'"\\\\', b"\\", b'"\\', b"{,", b'"{,'])
def test_counting_a_long_hostile_text_ends(piece: bytes) -> None:
    """A cost that is not linear would exceed pytest's time limit many times over."""
    assert count_values(b"," * MANY + piece * (8_000_000 // len(piece)), VALUES_MAX) == MANY
