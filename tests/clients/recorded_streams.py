"""The streams of the test provider, by API and model, and what a client should read from each.

They are inputs of `examples_ndjson`: `CASE#N` is response N of a case, without the events of the host.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

EXAMPLES: Final = Path(__file__).parents[2] / "examples_ndjson"
FOLDERS: Final = {"responses": "openai_responses", "chat": "openai_chat"}

RESPONSES: Final[Mapping[str, tuple[str, ...]]] = {
    "text": ("chat-weather-run#2",),
    "tools": ("chat-weather-run#0", "chat-weather-run#2"),
    "parallel-tools": ("chat-weather-run#1", "chat-weather-run#2"),
    "search": ("chat-web-search#0",),
    "files": ("chat-file-search#0",),
    "code": ("chat-code-interpreter#0",),
    "citations": ("chat-text-citations#0",),
    "image": ("chat-image-generation-partials#0",),
    "mcp": ("chat-mcp-tool#0",),
    "reasoning": ("chat-reasoning-summary#0",),
    "refusal": ("chat-refusal#0",),
    "structured": ("chat-structured-output#0",),
    "secrets": ("chat-secrets-in-nested-json#0",),
    "unicode": ("chat-unicode#0",),
    "incomplete": ("chat-incomplete#0",),
    "error-midstream": ("chat-provider-error#0",),
    "failed-midstream": ("chat-failed#0",),
    "truncated": ("chat-truncated#0",),
    "slow": ("chat-weather-run#2",),
    "fails-once": ("chat-weather-run#2",),
}
"""Model -> one response for each turn; a turn answers the tool outputs of the one before."""

CHAT: Final[Mapping[str, tuple[str, ...]]] = {
    "text": ("chat-completions-weather-run#2",),
    "tools": ("chat-completions-weather-run#0", "chat-completions-weather-run#2"),
    "parallel-tools": ("chat-completions-weather-run#1", "chat-completions-weather-run#2"),
    "search": ("chat-completions-annotations#0",),
    "reasoning": ("chat-completions-reasoning-content#0",),
    "refusal": ("chat-completions-refusal#0",),
    "structured": ("chat-completions-structured-output#0",),
    "secrets": ("chat-completions-secret-arguments#0",),
    "incomplete": ("chat-completions-length#0",),
    "error-midstream": ("chat-completions-error-chunk#0",),
    "truncated": ("chat-completions-truncated#0",),
    "slow": ("chat-completions-weather-run#2",),
    "fails-once": ("chat-completions-weather-run#2",),
}
SCENARIOS: Final = {"responses": RESPONSES, "chat": CHAT}


@cache
def lines(api: str, turn: str) -> tuple[str, ...]:
    """Return the data of the SSE messages of a response."""
    case, _, index = turn.partition("#")
    runs: list[list[str]] = [[]]
    for line in (EXAMPLES / FOLDERS[api] / f"{case}.ndjson").read_text(encoding="utf-8").splitlines():
        if line.startswith('{"type":"projector.next_response"'):
            runs.append([])
        elif not line.startswith('{"type":"projector.'):
            runs[-1].append(line)
    return tuple(runs[int(index)])


def turns_of(api: str, model: str) -> tuple[str, ...]:
    """Return the responses of a scenario."""
    return SCENARIOS[api][model]


class Content(NamedTuple):
    """Content of a provider's response."""

    text: str
    refusal: str
    summary: str
    calls: tuple[tuple[str, str, str], ...]
    """Call ID, name and arguments of each function call."""
    usage: dict[str, int] | None


@cache
def content(api: str, model: str, turn: int = 0) -> Content:
    """Return what the provider sends in a turn of a scenario, read from its events."""
    events = [json.loads(line) for line in lines(api, turns_of(api, model)[turn]) if line.startswith("{")]
    return _responses_content(events) if api == "responses" else _chat_content(events)


def _responses_content(events: Iterable[dict[str, Any]]) -> Content:
    joined = {"output_text": "", "refusal": "", "reasoning_summary_text": ""}
    calls, usage = [], None
    for event in events:
        name = event["type"].removeprefix("response.").removesuffix(".delta")
        if name in joined and "delta" in event:
            joined[name] += event["delta"]
        elif event["type"] == "response.output_item.done" and event["item"]["type"] == "function_call":
            calls.append((event["item"]["call_id"], event["item"]["name"], event["item"]["arguments"]))
        elif event["type"] in {"response.completed", "response.incomplete"}:
            counts = event["response"]["usage"] or {}
            usage = {key: counts[key] for key in ("input_tokens", "output_tokens", "total_tokens") if key in counts}
    return Content(*map(_paired, joined.values()), tuple(calls), usage or None)


def _chat_content(chunks: Iterable[dict[str, Any]]) -> Content:
    joined = {"content": "", "refusal": "", "reasoning_content": ""}
    calls: dict[int, list[str]] = {}
    usage = None
    for chunk in chunks:
        for choice in chunk.get("choices", ()):
            delta = choice["delta"]
            for name in joined:
                joined[name] += delta.get(name) or ""
            for call in delta.get("tool_calls", ()):
                known = calls.setdefault(call["index"], [call.get("id", ""), call["function"].get("name", ""), ""])
                known[2] += call["function"].get("arguments", "")
        counts = chunk.get("usage")
        if counts:
            names = {
                "prompt_tokens": "input_tokens",
                "completion_tokens": "output_tokens",
                "total_tokens": "total_tokens",
            }
            usage = {name: counts[key] for key, name in names.items()}
    return Content(*map(_paired, joined.values()), tuple((i, n, a) for i, n, a in calls.values()), usage)


def _paired(text: str) -> str:
    """Join surrogates that two deltas split, and replace lone ones as CONTRACT D31 says."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def expected() -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Return the content of every turn, by API and model, for clients in other languages (`GET /scenarios`)."""
    return {
        api: {
            model: [content(api, model, turn)._asdict() for turn in range(len(turns))]
            for model, turns in models.items()
        }
        for api, models in SCENARIOS.items()
    }
