"""The test provider refuses what the OpenAI API refuses, and its streams are the recorded ones."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tests.asgi.in_process import post
from tests.clients.conftest import Recorded, fetch
from tests.clients.provider_checks import refuse_chat, refuse_responses
from tests.clients.recorded_provider import app
from tests.clients.recorded_streams import SCENARIOS, content, lines, turns_of

USER: Final = {"role": "user", "content": "Hi"}
CALL: Final = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "get_weather", "arguments": "{}"}
OUTPUT: Final = {"type": "function_call_output", "call_id": "call_1", "output": "4"}
REASONING: Final = {"type": "reasoning", "id": "rs_1", "summary": []}
CITATION: Final = {"type": "url_citation", "start_index": 0, "end_index": 1, "url": "https://a.example", "title": "A"}


def message(**members: Any) -> dict[str, Any]:
    part = {"type": "output_text", "text": "Hi", "annotations": [CITATION | members]}
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}


@pytest.mark.parametrize(
    ("items", "refused"),
    [
        ([USER], None),
        ([USER, REASONING, CALL, OUTPUT], None),
        ([USER, message(), USER], None),
        ([USER, OUTPUT], "No tool call found"),
        ([USER, CALL, USER], "No tool output found"),
        ([USER, REASONING], "without its required following item"),
        ([USER, CALL | {"id": "call_1"}, OUTPUT], "Expected an ID that begins with 'fc_'"),
        ([USER, CALL | {"notices": []}, OUTPUT], "Unknown parameter: 'input[1].notices'"),
        ([USER, message(notices=[])], "Unknown parameter: 'input[1].content[0].annotations[0].notices'"),
        ([{"type": "public-sse:notices"}], "Invalid value"),
    ],
)
def test_input_of_the_responses_api(items: list[dict[str, Any]], refused: str | None) -> None:
    refusal = refuse_responses({"input": items}, {})
    assert refusal is None if refused is None else refused in str(refusal)


@pytest.mark.parametrize(
    ("previous", "refused"),
    [("resp_1", None), ("resp_2", "not found"), (None, "No tool call found")],
)
def test_outputs_for_an_earlier_response(previous: str | None, refused: str | None) -> None:
    body = {"input": [OUTPUT], "previous_response_id": previous}
    refusal = refuse_responses(body, {"resp_1": frozenset({"call_1"})})
    assert refusal is None if refused is None else refused in str(refusal)


ASKS: Final = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}],
}
TELLS: Final = {"role": "tool", "tool_call_id": "call_1", "content": "4"}


@pytest.mark.parametrize(
    ("messages", "refused"),
    [
        ([USER], None),
        ([USER, ASKS, TELLS], None),
        ([USER, TELLS], "must be a response to a preceding message"),
        ([USER, ASKS, USER], "did not have response messages: call_1"),
        ([USER, ASKS], "have no tool messages"),
        ([USER, {"role": "assistant", "content": None}, USER], "expected a string, got null"),
        ([USER | {"public_sse": {}}], "Unknown parameter: 'messages[0].public_sse'"),
    ],
)
def test_messages_of_the_chat_api(messages: list[dict[str, Any]], refused: str | None) -> None:
    refusal = refuse_chat({"messages": messages, "stream_options": {"include_usage": True}})
    assert refusal is None if refused is None else refused in str(refusal)


TURNS: Final = [
    (api, model, turn)
    for api, models in SCENARIOS.items()
    for model, turns in models.items()
    for turn in range(len(turns))
]


@pytest.mark.parametrize(("api", "model", "turn"), TURNS)
def test_every_stream_exists(api: str, model: str, turn: int) -> None:
    said = content(api, model, turn)
    assert said.text or said.refusal or said.calls or model in {"image", "incomplete"}
    assert len(lines(api, turns_of(api, model)[turn])) > 1


async def test_a_request_without_the_key_is_refused_and_counted() -> None:
    provider = app()
    assert (await post(provider, "/v1/responses", model="text", input="Hi", stream=True)).status == 401


def test_the_server_reaches_the_provider(projector_url: str, recorded: Recorded) -> None:
    recorded.reset()
    body = {"model": "text", "input": "Hi", "stream": True}
    _, stream = fetch(f"{projector_url}/responses?dialect=public_sse_v1", "POST", body)
    final = json.loads(stream.split(b"data: ")[-1])
    assert final["final"]["response_text"] == content("responses", "text").text
    assert recorded.calls() == {"text": 1}
