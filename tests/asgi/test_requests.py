from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from projector.providers.openai_responses.request import items_of
from projector.server.config.settings import Settings
from projector.server.http import requests
from projector.server.http.problems import Problem
from projector.server.http.requests import LEVELS_MAX, MEMBERS_MAX
from projector.server.streaming.memory import Account, Memory

UNSUPPORTED = (
    "`input[0]` has an unsupported type; expected 'message', 'function_call', 'function_call_output', "
    "'custom_tool_call', 'custom_tool_call_output', 'mcp_approval_response'."
)
USER = {"role": "user", "content": "hello"}
WIDE = {f"member_{number}": 1 for number in range(MEMBERS_MAX + 1)}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"message": "hello"}, "hello"),
        ({"input": [USER]}, [{"type": "message"} | USER]),
        ({"input": [{"type": "message"} | USER]}, [{"type": "message"} | USER]),
        (
            {"input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}]}]},
            [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]}],
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "https://a.example/b.png"}]}]},
            [
                {
                    "type": "message",
                    "role": "user",
                    "content": [{"type": "input_image", "image_url": "https://a.example/b.png", "detail": "auto"}],
                }
            ],
        ),
        (
            {"input": [{"type": "function_call_output", "call_id": "call_1", "output": ""}]},
            [{"type": "function_call_output", "call_id": "call_1", "output": ""}],
        ),
        (
            {"input": [{"role": "assistant", "phase": "final_answer", "content": "a"}]},
            [{"type": "message", "role": "assistant", "phase": "final_answer", "content": "a"}],
        ),
        (
            {"input": [{"type": "custom_tool_call", "id": "ct", "call_id": "c", "name": "sql", "input": "select 1"}]},
            [{"type": "custom_tool_call", "call_id": "c", "name": "sql", "input": "select 1"}],
        ),
        (
            {"input": [{"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": False}]},
            [{"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": False}],
        ),
    ],
)
def test_valid_bodies(body: dict[str, Any], expected: object) -> None:
    request = requests.parse(requests.ChatRequest, body)
    assert (request.message if request.input is None else items_of(request.entries())) == expected


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({}, "`body`: expected either `message` or `input`."),
        ({"message": "a", "input": [USER]}, "`body`: expected either `message` or `input`."),
        ({"message": ""}, "`message` must not be empty."),
        ({"message": 7}, "`message` must be a string."),
        ({"message": "a", "instructions": "obey"}, "`instructions` is unknown."),
        ({"message": "a", "tools": []}, "`tools` is unknown."),
        ({"mesage": "a"}, "`mesage` is unknown; did you mean `message`?"),
        ({"message": "a", "model": "gpt-best"}, "`model` is unknown."),
        ({"message": "a", "temperature": 1}, "`temperature` is unknown; did you mean `parameters.temperature`?"),
        ({"message": "a", "seed": 1}, "`seed` is unknown."),
        ({"message": "a", "parameters": {"seed": 1}}, "`parameters.seed` is unknown."),
        ({"message": "a", "parameters": {"top_p": 2}}, "`parameters.top_p` must be at most 1."),
        ({"message": "a", "parameters": {"temperature": "hot"}}, "`parameters.temperature` must be a number."),
        (
            {"message": "a", "parameters": {"max_output_tokens": 0}},
            "`parameters.max_output_tokens` must be at least 1.",
        ),
        (
            {"message": "a", "parameters": {"max_output_tokens": 1.5}},
            "`parameters.max_output_tokens` must be a whole number.",
        ),
        ({"message": "a", "parameters": []}, "`parameters` must be an object."),
        ({"message": "a", "metadata": {"a": 1}}, "`metadata.a` must be a string."),
        ({"message": "a", "metadata": {str(n): "" for n in range(17)}}, "`metadata` must have at most 16 entries."),
        ({"message": "a", "conversation_id": ""}, "`conversation_id` must not be empty."),
        ({"input": []}, "`input` must not be empty."),
        ({"input": "hello"}, "`input` must be a list."),
        ({"input": [USER, "hello"]}, "`input[1]` must be an object."),
        (
            {"input": [{"role": "system", "content": "a"}]},
            "`input[0]` has an unsupported 'role'; expected 'user', 'assistant'.",
        ),
        (
            {"input": [{"role": "developer", "content": "a"}]},
            "`input[0]` has an unsupported 'role'; expected 'user', 'assistant'.",
        ),
        ({"input": [{"role": "assistant", "content": ""}]}, "`input[0].content` must not be empty."),
        ({"input": [{"role": "assistant"}]}, "`input[0].content` is missing."),
        ({"input": [{"content": "a"}]}, "`input[0]` has no 'role'."),
        (
            {"input": [{"role": "assistant", "content": [{"type": "input_text", "text": "a"}]}]},
            "`input[0].content[0]` has an unsupported 'type'; expected 'output_text', 'refusal'.",
        ),
        ({"input": [{"type": "function_call", "call_id": "c", "name": "f"}]}, "`input[0].arguments` is missing."),
        (
            {"input": [{"type": "function_call", "call_id": "c", "name": "f" * 257, "arguments": ""}]},
            "`input[0].name` must have at most 256 characters.",
        ),
        (
            {"input": [{"type": "custom_tool_call", "call_id": "", "name": "f", "input": ""}]},
            "`input[0].call_id` must not be empty.",
        ),
        ({"input": [{"role": "user"}]}, "`input[0].content` is missing."),
        ({"input": [{"role": "user", "content": 1}]}, "`input[0].content` must be a string."),
        ({"input": [{"role": "user", "content": []}]}, "`input[0].content` must not be empty."),
        (
            {"input": [{"type": "reasoning"}]},
            UNSUPPORTED,
        ),
        (
            {"input": [{"type": ["x"]}]},
            UNSUPPORTED,
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_file"}]}]},
            "`input[0].content[0]` has an unsupported 'type'; expected 'input_text', 'input_image'.",
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "file:///etc/passwd"}]}]},
            "`input[0].content[0].image_url` must match `^(https://|data:image/[a-z+.-]+;base64,)`.",
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "http://10.0.0.1/"}]}]},
            "`input[0].content[0].image_url` must match `^(https://|data:image/[a-z+.-]+;base64,)`.",
        ),
        (
            {"input": [{"type": "function_call_output", "call_id": "c", "output": {}}]},
            "`input[0].output` must be a string.",
        ),
        (
            {"input": [{"type": "mcp_approval_response", "approval_request_id": "m", "approve": "yes"}]},
            "`input[0].approve` must be true or false.",
        ),
        (WIDE, "`body`: must have at most 64 members."),
        ({"message": "a", "parameters": WIDE}, "`parameters`: must have at most 64 members."),
        ({"message": "a", "metadata": WIDE}, "`metadata`: must have at most 64 members."),
        ({"input": [USER | WIDE]}, "`input[0]`: must have at most 64 members."),
    ],
)
def test_invalid_bodies(body: dict[str, Any], detail: str) -> None:
    with pytest.raises(Problem) as caught:
        requests.parse(requests.ChatRequest, body)
    assert (caught.value.status, caught.value.code, caught.value.detail) == (422, "invalid_request", detail)


@pytest.mark.parametrize(
    "item",
    [
        {"role": "user"},
        {"role": "user", "content": [{"type": "input_text"}] * 1_000},
        {"role": "assistant", "content": [{"type": "refusal"}] * 1_000},
    ],
)
def test_errors_are_not_collected_without_a_limit(item: dict[str, Any]) -> None:
    """pydantic describes each of them, and nothing else runs meanwhile."""
    with pytest.raises(ValidationError) as caught:
        requests.ChatRequest.model_validate({"input": [item] * 1_000})
    assert caught.value.error_count() < MEMBERS_MAX


async def _read(*parts: bytes, max_bytes: int = 100, **headers: str) -> dict[str, Any]:
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    messages.append({"type": "http.request", "body": b"", "more_body": False})
    fields = {"content-type": "application/json"} | {name.replace("_", "-"): text for name, text in headers.items()}
    scope = {"type": "http", "headers": [(name.encode(), text.encode()) for name, text in fields.items()]}

    async def receive() -> dict[str, Any]:
        return messages.pop(0)

    settings = Settings.model_validate({"limits": {"max_body_bytes": max_bytes}})
    return await requests.read_json(scope, receive, settings, Account(Memory(1000)))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (b'{"message":"a",}', ": line 1, column 16."),
        (b'{\n  "message": "a"\n  "agent": "b"\n}', ": line 3, column 3."),
        (b"", ": line 1, column 1."),
        (b"[" * 50_000, "."),
        (b'{"message":\n  "caf\xe9"}', ": line 2, column 7."),
    ],
)
async def test_malformed_json_has_a_place(text: bytes, place: str) -> None:
    with pytest.raises(Problem) as caught:
        await _read(text, max_bytes=len(text) + 100)
    assert (caught.value.code, caught.value.detail) == ("malformed_json", f"The request body is not valid JSON{place}")


LEVELS = {"message": "a", "model": "m", "input": "a", "messages": [], "workflowId": "conformance-noop"}


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/chat/stream",
        "/api/v1/ag-ui/default",
        "/api/v1/ai-sdk/default",
        "/v1/responses",
        "/v1/chat/completions",
        "/v1/runs",
    ],
)
async def test_a_body_that_is_nested_too_deeply(serve: Any, path: str) -> None:
    body = json.dumps(LEVELS)[:-1].encode() + b', "inputs": {"message": "a", "deep": %b}}'
    answer = await serve(openwop={"conformance": True}).ask(path, body % (b"[" * 300 + b"]" * 300))
    assert answer.status == 400


async def test_a_body_with_as_many_levels_as_are_allowed() -> None:
    for levels, opens in ((LEVELS_MAX - 1, b"["), (LEVELS_MAX - 1, b'{"a":')):
        closes = (b"]" if opens == b"[" else b"}") * levels
        assert await _read(b'{"a":%b1%b}' % (opens * levels, closes), max_bytes=10_000)
        with pytest.raises(Problem, match="200 levels"):
            await _read(b'{"a":%b1%b}' % (opens * (levels + 1), closes + closes[:1]), max_bytes=10_000)


async def test_a_body_in_pieces() -> None:
    assert await _read(b'{"a"', b": ", b"1}") == {"a": 1}
    assert await _read(b"{}", content_type="Application/JSON; charset=utf-8") == {}
    assert await _read(b"{}", content_encoding="Identity") == {}
    assert await _read(b'{"a": "\\ud800"}') == {"a": "\ud800"}


@pytest.mark.parametrize(
    ("parts", "headers", "status"),
    [
        ([b"{"], {}, 400),
        ([b""], {}, 400),
        ([b"\xff"], {}, 400),
        ([b"[" * 90], {}, 400),
        ([b'{"message": "caf\xe9"}'], {}, 400),
        ([b'{"message": "\xed\xa0\x80"}'], {}, 400),
        ([b'{"a": NaN}'], {}, 400),
        ([b'{"a": -Infinity}'], {}, 400),
        ([b"[]"], {}, 422),
        ([b"{}"], {"content_type": "text/plain"}, 415),
        ([b"{}"], {"content_encoding": "gzip"}, 415),
        ([b"{}"], {"content_encoding": "zstd"}, 415),
        ([b"{}"], {"content_type": ""}, 415),
        ([json.dumps("a" * 99).encode()], {}, 413),
        ([b"a" * 50, b"a" * 51], {}, 413),
        ([b"{}"], {"content_length": "101"}, 413),
    ],
)
async def test_a_body_that_is_rejected(parts: list[bytes], headers: dict[str, str], status: int) -> None:
    with pytest.raises(Problem) as caught:
        await _read(*parts, **headers)
    assert caught.value.status == status


async def test_a_client_that_disconnects_while_sending() -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    scope = {"type": "http", "headers": [(b"content-type", b"application/json")]}
    with pytest.raises(requests.ClientLeftError):
        await requests.read_json(scope, receive, Settings(), Account(Memory(1000)))
