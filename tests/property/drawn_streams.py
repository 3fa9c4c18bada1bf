"""Streams of the draws of `test_redaction_draws.py`: places of a text in a stream, and what can be read from output."""

from __future__ import annotations

import html
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import unquote

from projector.core.context import StreamContext
from projector.core.pipeline import build_pipeline
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from tests.property.canaries import Event, done
from tests.property.drawn_secrets import REGISTERED

Deliver: TypeAlias = Callable[[str], list[str]]
Write: TypeAlias = Callable[[int, str, Deliver], list[Event]]


class Place(NamedTuple):
    """Where a text stands in a stream: its events, given the index of an item and the way to cut deltas."""

    events: Write
    provider: str = "openai_responses"
    is_end: bool = False
    """Whether the events end the stream."""


def _deltas(name: str, slot: int, pieces: list[str], **members: object) -> list[Event]:
    item = {"item_id": f"it_{slot}", "output_index": slot, **members}
    return [{"type": f"response.{name}.delta", "delta": piece, **item} for piece in pieces]


def _added(slot: int, item_type: str, **item: object) -> Event:
    new = {"type": item_type, "id": f"it_{slot}", "call_id": f"call_{slot}", "name": "tool", **item}
    return {"type": "response.output_item.added", "output_index": slot, "item": new}


def _closed(slot: int, item_type: str, **item: object) -> Event:
    return done(slot, item_type, **{"id": f"it_{slot}", "call_id": f"call_{slot}", "name": "tool", **item})


def _arguments(item_type: str, name: str, whole: Callable[[str], str]) -> Write:
    """Return the arguments of a call as deltas, `done` and snapshot, or only some of them."""

    def events(slot: int, text: str, deliver: Deliver) -> list[Event]:
        text = whole(text)
        pieces = deliver(text)
        member = "input" if item_type == "custom_tool_call" else "arguments"
        end = {"type": f"response.{name}.done", "item_id": f"it_{slot}", "output_index": slot, member: text}
        ways = [
            [*_deltas(name, slot, pieces), end, _closed(slot, item_type, **{member: text})],
            [*_deltas(name, slot, pieces), _closed(slot, item_type, **{member: text})],
            _deltas(name, slot, pieces),
            [end],
            [_closed(slot, item_type, **{member: text})],
        ]
        return [_added(slot, item_type, **{member: ""}), *ways[(slot + len(pieces)) % len(ways)]]

    return events


def _code(slot: int, text: str, deliver: Deliver) -> list[Event]:
    name = "code_interpreter_call_code"
    end = {"type": f"response.{name}.done", "item_id": f"it_{slot}", "output_index": slot, "code": text}
    ways = [_deltas(name, slot, deliver(text)), [end], []]
    way = ways[slot % len(ways)]
    return [_added(slot, "code_interpreter_call"), *way, _closed(slot, "code_interpreter_call", code=text)]


def _item(item_type: str, item: Callable[[str], dict[str, object]]) -> Write:
    return lambda slot, text, _deliver: [_closed(slot, item_type, **item(text))]


def _log_entries(slot: int, text: str, deliver: Deliver) -> list[Event]:
    logs = [{"type": "logs", "logs": piece} for piece in deliver(text)]
    return [_closed(slot, "code_interpreter_call", code="run()", outputs=logs)]


def _host_output(tree: Callable[[str], object]) -> Write:
    def events(slot: int, text: str, _deliver: Deliver) -> list[Event]:
        output = {"type": "projector.tool_output", "call_id": f"call_{slot}", "output": tree(text)}
        return [_closed(slot, "function_call", arguments="{}"), output]

    return events


def _message(slot: int, text: str, deliver: Deliver) -> list[Event]:
    part = {"type": "output_text", "text": text, "annotations": []}
    ends = [[], [_closed(slot, "message", role="assistant", content=[part])]]
    return [_added(slot, "message", content=[]), *_deltas("output_text", slot, deliver(text)), *ends[slot % 2]]


def _citation(slot: int, text: str, _deliver: Deliver) -> list[Event]:
    cited = {"type": "url_citation", "title": text, "url": "https://example.org/a"}
    return [_closed(slot, "message", content=[{"type": "output_text", "text": "See.", "annotations": [cited]}])]


def _structured(slot: int, text: str, deliver: Deliver) -> list[Event]:
    created = {"id": "resp_1", "status": "in_progress", "text": {"format": {"type": "json_schema"}}}
    whole = json.dumps({"v": text})
    return [
        {"type": "response.created", "response": created},
        *_message(slot, whole, deliver),
        {"type": "response.completed", "response": {**created, "status": "completed"}},
    ]


def _incomplete(slot: int, text: str, _deliver: Deliver) -> list[Event]:
    response = {"id": "resp_1", "status": "incomplete", "incomplete_details": {"reason": text}}
    return [_closed(slot, "function_call", arguments="{}"), {"type": "response.incomplete", "response": response}]


def _error(event: Callable[[str], Event]) -> Write:
    return lambda _slot, text, _deliver: [event(text)]


def _chat(delta: Event, **members: object) -> Event:
    choice = {"index": 0, "delta": delta, "finish_reason": None, **members}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def _chat_arguments(slot: int, text: str, deliver: Deliver) -> list[Event]:
    call = {"index": slot, "id": f"call_{slot}", "type": "function", "function": {"name": "tool", "arguments": ""}}
    pieces = [{"index": slot, "function": {"arguments": piece}} for piece in deliver(json.dumps({"q": text}))]
    return [_chat({"tool_calls": [each]}) for each in (call, *pieces)]


def _chat_text(_slot: int, text: str, deliver: Deliver) -> list[Event]:
    return [_chat({"content": piece}) for piece in deliver(text)]


_FUNCTION: Final = ("function_call", "function_call_arguments")
PLACES: Final[Mapping[str, Place]] = {
    "arguments": Place(_arguments(*_FUNCTION, lambda text: json.dumps({"q": text}))),
    "arguments utf-8": Place(_arguments(*_FUNCTION, lambda text: json.dumps({"a": [1, text]}, ensure_ascii=False))),
    "arguments key": Place(_arguments(*_FUNCTION, lambda text: json.dumps({text: 1}))),
    "arguments tree": Place(_arguments(*_FUNCTION, str)),
    "arguments broken": Place(_arguments(*_FUNCTION, lambda text: '{"q": ' + json.dumps(text))),
    "mcp arguments": Place(_arguments("mcp_call", "mcp_call_arguments", lambda text: json.dumps([{"q": text}]))),
    "mcp output": Place(_item("mcp_call", lambda text: {"arguments": "{}", "output": text})),
    "mcp error": Place(_item("mcp_call", lambda text: {"arguments": "{}", "error": {"message": text}})),
    "mcp approval": Place(
        _item("mcp_approval_request", lambda text: {"server_label": "s", "arguments": json.dumps({"q": text})})
    ),
    "custom input": Place(_arguments("custom_tool_call", "custom_tool_call_input", str)),
    "code": Place(_code),
    "logs": Place(
        _item("code_interpreter_call", lambda text: {"code": "x", "outputs": [{"type": "logs", "logs": text}]})
    ),
    "log entries": Place(_log_entries),
    "file text": Place(_item("file_search_call", lambda text: {"queries": ["q"], "results": [{"text": text}]})),
    "file attribute": Place(
        _item(
            "file_search_call", lambda text: {"queries": ["q"], "results": [{"text": "t", "attributes": {"a": text}}]}
        )
    ),
    "file name": Place(
        _item("file_search_call", lambda text: {"queries": ["q"], "results": [{"text": "t", "filename": text}]})
    ),
    "file query": Place(_item("file_search_call", lambda text: {"queries": [text], "results": []})),
    "web query": Place(_item("web_search_call", lambda text: {"action": {"type": "search", "query": text}})),
    "web source": Place(
        _item("web_search_call", lambda text: {"action": {"type": "search", "query": "q", "sources": [{"url": text}]}})
    ),
    "function output": Place(
        lambda slot, text, _deliver: [
            _closed(slot, "function_call", arguments="{}"),
            done(slot + 1, "function_call_output", call_id=f"call_{slot}", output=text),
        ]
    ),
    "host output": Place(_host_output(str)),
    "host output tree": Place(_host_output(lambda text: {"rows": [{"a": text}]})),
    "host output key": Place(_host_output(lambda text: {"rows": {text: 1}})),
    "host output JSON": Place(_host_output(lambda text: json.dumps([[text]]))),
    "image prompt": Place(_item("image_generation_call", lambda text: {"revised_prompt": text})),
    "citation title": Place(_citation),
    "message": Place(_message),
    "chat message": Place(_chat_text, "openai_chat"),
    "chat arguments": Place(_chat_arguments, "openai_chat"),
    "tool name": Place(_item("function_call", lambda text: {"name": text, "arguments": "{}"})),
    "server label": Place(_item("mcp_call", lambda text: {"server_label": text, "arguments": "{}"})),
    "call id": Place(_item("function_call", lambda text: {"call_id": text, "arguments": "{}"})),
    "item id": Place(_item("function_call", lambda text: {"id": text, "arguments": "{}"})),
    "file id": Place(
        _item("file_search_call", lambda text: {"queries": ["q"], "results": [{"text": "t", "file_id": text}]})
    ),
    "structured output": Place(_structured, is_end=True),
    "reason": Place(_incomplete, is_end=True),
    "error message": Place(
        _error(lambda text: {"type": "error", "code": "server_error", "message": text}), is_end=True
    ),
    "error object": Place(_error(lambda text: {"type": "error", "error": {"message": text}}), is_end=True),
    "error code": Place(_error(lambda text: {"type": "error", "code": text, "message": "failed"}), is_end=True),
    "chat error": Place(_error(lambda text: {"error": {"message": text}}), "openai_chat", is_end=True),
}
"""Every place of a text in a stream."""
TEXT_PLACES: Final = ("message", "chat message")
ID_PLACES: Final = ("tool name", "server label", "call id", "item id", "file id", "reason", "error code")

_POLICY: Final = {
    "registered": [{"value": value} for value in REGISTERED.values()],
    "error_messages": "provider",
    "reasoning": "full",
}


@cache
def redactor() -> Redactor:
    """Return the redactor of all draws: the default rules, and the registered values."""
    return Redactor(Policy.load(_POLICY))


def played(events: list[Event], provider: str, dialect: str, cuts: Callable[[bytes], Iterator[bytes]]) -> bytes:
    """Return the output of a stream of SSE messages, of which the pipeline gets the pieces that `cuts` makes."""
    pipeline = build_pipeline(
        provider=provider,
        dialect=dialect,
        context=StreamContext(stream_id="stream_1"),
        redactor=redactor(),
        takes_host_events=True,
        input_format="sse",
        output_format="ndjson",
        clock=lambda: 1_765_800_000.0,
    )
    data = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    said = b"".join([*map(pipeline.feed, cuts(data)), pipeline.close()])
    assert pipeline.ended
    return said


TERMINALS: Final[Mapping[str, Callable[[Event], bool]]] = {
    "public_sse_v1": lambda event: event["kind"] in {"final", "error"},
    "ai_sdk": lambda event: event["type"] in {"finish", "abort", "error"},
    "ag_ui": lambda event: event["type"] in {"RUN_FINISHED", "RUN_ERROR"},
    "responses": lambda event: event["type"] in _RESPONSE_ENDS,
    "openresponses": lambda event: event["type"] in _RESPONSE_ENDS,
    "anthropic_messages": lambda event: event["type"] in {"message_stop", "error"},
    "chat_completions": lambda event: (
        "error" in event or any(choice.get("finish_reason") for choice in event.get("choices", ()))
    ),
    "openwop": lambda event: event["type"] in {"run.completed", "run.failed", "run.cancelled"},
}
"""Dialect -> whether an event is its terminal."""
PAUSES: Final[Mapping[str, bytes]] = {"openwop": b'"node.suspended"'}
"""Dialect -> what a stream contains that waits for an approval, and may end without a terminal."""
_RESPONSE_ENDS: Final = {"response.completed", "response.incomplete", "response.failed", "response.cancelled"}


def random_cuts(random: Random) -> Callable[[bytes], Iterator[bytes]]:
    """Cut bytes anywhere: at random positions, and into single bytes for a while."""

    def cuts(data: bytes) -> Iterator[bytes]:
        single = random.randrange(len(data))
        edges = {random.randrange(len(data)) for _ in range(random.choice((0, 4, 60)))}
        edges.update(range(single, min(len(data), single + _SINGLE_BYTES)))
        yield from (data[start:end] for start, end in pairwise(sorted({0, *edges, len(data)})))

    return cuts


_SINGLE_BYTES: Final = 100


def random_pieces(random: Random) -> Deliver:
    """Cut a text into a few deltas at random positions, or, rarely because each delta costs, into single characters."""
    is_single = random.random() < _SINGLE
    most = random.choice(_CUTS)

    def deliver(text: str) -> list[str]:
        edges = range(len(text)) if is_single else (random.randrange(len(text) + 1) for _ in range(most))
        return [text[start:end] for start, end in pairwise(sorted({0, *edges, len(text)}))] or [""]

    return deliver


_SINGLE: Final = 0.04
_CUTS: Final = (0, 1, 1, 2, 3, 8)


# what can be read

_ESCAPE: Final = re.compile(r"\\u([0-9a-fA-F]{4})|\\(.)", re.DOTALL)
_INVISIBLE: Final = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]|\x1b\\[[0-9;]*m")
_UNREAD: Final = frozenset({"schema", "stream_id", "server_timestamp", "object", "status", "tool_type", "item_type"})
"""Members with constants of the protocols."""
_LEVELS: Final = 6


def readable(said: bytes) -> set[str]:
    """Return all strings of a stream, as they are and with what can be undone: escapes, splits, encodings."""
    texts: set[str] = set()
    joined: dict[str, list[str]] = defaultdict(list)

    def take(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        for name, value in pairs:
            texts.add(name)
            if name not in _UNREAD:
                _strings(value, joined[name], texts)
        return dict(pairs)

    for line in said.splitlines():
        if line.startswith(b"{"):
            json.loads(line, object_pairs_hook=take)
    texts.update("".join(parts) for parts in joined.values())
    found = set(texts)
    for _ in range(_LEVELS):
        texts = {_undone(text) for text in texts if "\\" in text} - found
        found |= texts
    found |= {_INVISIBLE.sub("", text) for text in found if not text.isascii() or "\x1b" in text}
    found |= {unquote(unquote(text)) for text in found if "%" in text}
    return found | {html.unescape(text) for text in found if "&" in text}


def _strings(value: object, parts: list[str], texts: set[str]) -> None:
    if isinstance(value, str):
        texts.add(value)
        parts.append(value)
    elif isinstance(value, list):
        row: list[str] = []
        for each in value:
            _strings(each, row, texts)
        if row:
            texts.add("".join(row))
            parts.extend(row)


def _undone(text: str) -> str:
    return _ESCAPE.sub(_unescaped, text)


def _unescaped(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else {"n": "\n", "r": "\r", "t": "\t"}.get(match[2], match[2])
