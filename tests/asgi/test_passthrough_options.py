"""What a request to a passthrough route selects: dialect, stream or JSON, usage, extensions (CONTRACT D38)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

EXAMPLES: Final = Path(__file__).parents[2] / "examples_ndjson"
RESPONSES: Final = "/v1/responses"
CHAT: Final = "/v1/chat/completions"
BODIES: Final[dict[str, dict[str, Any]]] = {
    RESPONSES: {"model": "m", "input": "hi"},
    CHAT: {"model": "m", "messages": [{"role": "user", "content": "hi"}]},
}
CASES: Final = {RESPONSES: "openai_responses/chat-web-search", CHAT: "openai_chat/chat-completions-text"}


def plays(case: str) -> Any:
    lines = (EXAMPLES / f"{case}.ndjson").read_bytes().splitlines()

    async def script(peer: Any) -> None:
        await peer.start()
        for line in lines:
            await peer.chunk(b"data: " + line + b"\n\n")
        await peer.end()

    return script


async def events(answer: Any) -> list[Any]:
    data = [line.removeprefix(b"data: ") for line in (await answer.rest()).splitlines() if line.startswith(b"data: ")]
    return [json.loads(line) for line in data if line != b"[DONE]"]


@pytest.mark.parametrize(
    ("path", "stream", "query", "kind"),
    [
        (RESPONSES, None, "", "response"),
        (RESPONSES, False, "", "response"),
        (RESPONSES, True, "", "response.created"),
        (CHAT, None, "", "chat.completion"),
        (CHAT, False, "", "chat.completion"),
        (CHAT, True, "", "chat.completion.chunk"),
        (CHAT, None, "?dialect=responses", "response"),
        (RESPONSES, None, "?dialect=public_sse_v1", "lifecycle"),
        (RESPONSES, True, "?dialect=chat_completions", "chat.completion.chunk"),
    ],
)
async def test_a_route_answers_in_the_format_of_its_api(
    serve: Any, upstream: Any, path: str, query: str, kind: str, *, stream: bool | None
) -> None:
    await upstream(plays(CASES[path]))
    answer = await serve().ask(path + query, BODIES[path] | ({} if stream is None else {"stream": stream}))
    is_json = answer.headers["content-type"] == "application/json"
    first = json.loads(await answer.rest()) if is_json else (await events(answer))[0]
    assert (first.get("type") or first.get("object") or first.get("kind")) == kind


@pytest.mark.parametrize(
    ("options", "has_usage"),
    [({}, False), ({"include_usage": False}, False), ({"include_usage": None}, False), ({"include_usage": True}, True)],
)
async def test_a_stream_has_usage_if_the_request_includes_it(
    serve: Any, upstream: Any, options: dict[str, Any], *, has_usage: bool
) -> None:
    provider = await upstream(plays(CASES[CHAT]))
    answer = await serve().ask(CHAT, BODIES[CHAT] | {"stream": True, "stream_options": options})
    assert any(chunk.get("usage") for chunk in await events(answer)) is has_usage
    assert (await provider.peers.get()).body["stream_options"]["include_usage"] is True


async def test_a_json_response_always_has_usage(serve: Any, upstream: Any) -> None:
    await upstream(plays(CASES[CHAT]))
    answer = await serve().ask(CHAT, BODIES[CHAT])
    assert json.loads(await answer.rest())["usage"]["total_tokens"] > 0


@pytest.mark.parametrize(
    ("query", "has_extensions"), [("", False), ("?extensions=false", False), ("?extensions=true", True)]
)
@pytest.mark.parametrize("path", [RESPONSES, f"{RESPONSES}?dialect=chat_completions"])
async def test_extensions_are_written_on_request(
    serve: Any, upstream: Any, path: str, query: str, *, has_extensions: bool
) -> None:
    await upstream(plays("openai_responses/chat-failed-tools"))
    target = path + (query.replace("?", "&") if "?" in path else query)
    answer = await serve().ask(target, BODIES[RESPONSES] | {"stream": True})
    text = (await answer.rest()).decode()
    assert ("public_sse" in text or "public-sse:" in text) is has_extensions


@pytest.mark.parametrize(("query", "kinds"), [("", {"error"}), ("&level=5", {"error"}), ("&level=7", {"finish"})])
async def test_the_level_of_ai_sdk_is_that_of_the_request(
    serve: Any, upstream: Any, query: str, kinds: set[str]
) -> None:
    async def script(peer: Any) -> None:
        await peer.start()
        await peer.event({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}})
        await peer.end()

    await upstream(script)
    answer = await serve().ask(f"{RESPONSES}?dialect=ai_sdk{query}", BODIES[RESPONSES] | {"stream": True})
    assert answer.headers["x-vercel-ai-ui-message-stream"] == "v1"
    lines = (await answer.rest()).decode().splitlines()
    assert lines[-2] == "data: [DONE]"
    assert json.loads(lines[-4].removeprefix("data: "))["type"] in kinds


@pytest.mark.parametrize("level", ["4", "8", "six", ""])
async def test_an_unknown_level_is_refused(serve: Any, level: str) -> None:
    answer = await serve().ask(f"{RESPONSES}?dialect=ai_sdk&level={level}", BODIES[RESPONSES] | {"stream": True})
    error = json.loads(await answer.rest())["error"]
    assert (answer.status, error["param"]) == (400, "level")


async def test_long_arguments_are_whole(serve: Any, upstream: Any) -> None:
    arguments = json.dumps({"text": "a fjord " * 20_000})
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "write", "arguments": arguments}

    async def script(peer: Any) -> None:
        await peer.start()
        await peer.event({"type": "response.output_item.done", "output_index": 0, "item": call})
        await peer.event({"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}})
        await peer.end()

    await upstream(script)
    answer = await serve().ask(RESPONSES, BODIES[RESPONSES])
    assert json.loads(await answer.rest())["output"][0]["arguments"] == arguments
