"""A provider on loopback whose answers are scripts, in four APIs: conversations with tools, and ways to fail.

`case=NAME` in the last message of a person chooses the script. Each request is answered with its next turn, and the
first one follows the last. `calls` counts the requests by script.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

Event: TypeAlias = dict[str, Any]

CASE: Final = re.compile(r"case=([\w-]+)")
PATHS: Final = {
    "/messages": "anthropic_messages",
    "/chat/completions": "openai_chat",
    "/responses": "openai_responses",
    "GenerateContent": "gemini",
}
"""End of a path -> API."""
HISTORIES: Final = {"openai_responses": "input", "gemini": "contents"}
"""API -> member of the request with the conversation, if it is not `messages`."""
OVERLOADED: Final = {"anthropic_messages": 529}
"""API -> status of an error, if it is not 503."""
UNFINISHED: Final = {"cut", "error", "wait"}
"""Ends of a turn without the end of its last block."""
SIGNATURE: Final = "c2lnbmF0dXJl"
CREATED: Final = 1_765_800_000
INPUT_TOKENS: Final = 10
OUTPUT_TOKENS: Final = 5


class Block(NamedTuple):
    """Thinking, text or the call of a tool."""

    kind: str
    """`thinking`, `text`, `tool`, or `custom`: a tool with a text as its input. Of the Messages API also `search`, a
    tool of the provider, and `found`: its result, with the title of a page."""
    pieces: tuple[str, ...]
    """Its text, or its arguments, as deltas."""
    call_id: str = ""
    name: str = ""

    @property
    def whole(self) -> str:
        """Return the pieces joined."""
        return "".join(self.pieces)

    @property
    def as_function(self) -> Block:
        """Return the call of a custom tool as that of a function, for APIs without such tools."""
        return self if self.kind != "custom" else call(self.name, self.call_id, {"input": self.whole})


class Turn(NamedTuple):
    """An answer."""

    blocks: tuple[Block, ...] = ()
    end: str = "stop"
    """`stop`, `refusal`, `max_tokens`, or in the last block: `cut` (nothing follows), `error` (an event) or `wait`
    (nothing follows until the client leaves)."""
    error: str = ""
    """Type of the error that answers the request instead, such as `overloaded_error`."""
    tokens: int = INPUT_TOKENS
    """Tokens of the request."""


def cut(text: str, secrets: Iterable[str], at: int) -> tuple[str, ...]:
    """Return the text in pieces: each secret in it is cut after `at` characters."""
    edges = {found.start() + min(at, len(one)) for one in secrets for found in re.finditer(re.escape(one), text)}
    return tuple(text[start:end] for start, end in pairwise(sorted({0, len(text), *edges})))


KEY: Final = "violet-otter-moonrise-42"
"""The key of the server at the provider, which is withheld from every stream."""
CREDENTIAL: Final = "AKIAIOSFODNN7EXAMPLE"
SECRETS: Final = (KEY, CREDENTIAL)
LEAK_CHARS: Final = 10
"""This many characters of a secret are a leak."""


PLACES: Final = range(max(map(len, SECRETS)) + 1)
"""Where the secrets are cut."""
THOUGHT: Final = f"They are {KEY} and {CREDENTIAL}."


def cut_blocks(blocks: Iterable[Block], place: int) -> Iterator[Block]:
    """Yield blocks whose secrets are cut at a place."""
    return (block._replace(pieces=cut(block.whole, SECRETS, place)) for block in blocks)


def repeating(calls: Callable[[int], Iterable[Block]], places_per_turn: int = 1) -> tuple[Turn, ...]:
    """Return a conversation that repeats both secrets in thinking, text and arguments, cut at each of `PLACES`.

    `calls` returns the calls of a place, with the secrets in them. The last turn is a text without any.
    """
    said = (Block("thinking", (THOUGHT,)), Block("text", (f"I send {CREDENTIAL} with {KEY}.",)))
    turns = []
    for first in PLACES[::places_per_turn]:
        places = PLACES[first : first + places_per_turn]
        beginnings = (block for place in places for block in cut_blocks(said, place))
        turns.append(Turn((*beginnings, *(block for place in places for block in cut_blocks(calls(place), place)))))
    return (*turns, Turn((Block("text", ("All ", "done.")),)))


def leaks(text: str, secrets: Iterable[str] = SECRETS) -> list[str]:
    """Return the pieces of secrets in a text."""
    pieces = {one[at : at + LEAK_CHARS] for one in secrets for at in range(len(one) - LEAK_CHARS + 1)}
    return sorted(piece for piece in pieces if piece in text)


def call(name: str, call_id: str, arguments: Mapping[str, object]) -> Block:
    """Return the call of a tool, in one piece."""
    return Block("tool", (json.dumps(arguments),), call_id, name)


CALLS_OF_MESSAGES: Final = {"tool": "tool_use", "search": "server_tool_use"}
"""Kind of a block -> type of a call in the Messages API."""


def messages_events(turn: Turn, response_id: str) -> Iterator[Event]:
    """Yield the events of the Messages API."""
    usage = {"input_tokens": turn.tokens, "output_tokens": 1}
    message = {"id": response_id, "type": "message", "role": "assistant", "model": "scripted", "content": []}
    yield {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}}
    for index, block in enumerate(one.as_function for one in turn.blocks):
        start: Event
        if block.kind in CALLS_OF_MESSAGES:
            start = {"type": CALLS_OF_MESSAGES[block.kind], "id": block.call_id, "name": block.name, "input": {}}
            name, delta_type = "partial_json", "input_json_delta"
        elif block.kind == "found":
            page = {"type": "web_search_result", "url": f"https://rivers.example/{block.whole}", "title": block.whole}
            start = {"type": "web_search_tool_result", "tool_use_id": block.call_id, "content": [page]}
            name = delta_type = ""
        else:
            start, name, delta_type = {"type": block.kind, block.kind: ""}, block.kind, f"{block.kind}_delta"
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for piece in block.pieces if name else ():
            yield {"type": "content_block_delta", "index": index, "delta": {"type": delta_type, name: piece}}
        if block.kind == "thinking":
            signed = {"type": "signature_delta", "signature": SIGNATURE}
            yield {"type": "content_block_delta", "index": index, "delta": signed}
        if turn.end in UNFINISHED and index == len(turn.blocks) - 1:
            break
        yield {"type": "content_block_stop", "index": index}
    if turn.end == "error":
        yield {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    if turn.end in UNFINISHED:
        return
    reason = turn.end if turn.end != "stop" else "tool_use" if _calls(turn) else "end_turn"
    delta = {"stop_reason": reason, "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": OUTPUT_TOKENS}}
    yield {"type": "message_stop"}


def chat_events(turn: Turn, response_id: str) -> Iterator[Event]:
    """Yield the chunks of Chat Completions."""
    head = {"id": response_id, "object": "chat.completion.chunk", "created": CREATED, "model": "scripted"}

    def chunk(delta: Event, reason: str | None = None) -> Event:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    yield chunk({"role": "assistant", "content": None})
    calls = _calls(turn)
    for block in turn.blocks:
        member = {"thinking": "reasoning_content", "text": "refusal" if turn.end == "refusal" else "content"}
        for at, piece in enumerate(block.pieces):
            if block.kind in member:
                yield chunk({member[block.kind]: piece})
                continue
            kind, name = ("function", "arguments") if block.kind == "tool" else ("custom", "input")
            opened = {"id": block.call_id, "type": kind} if at == 0 else {}
            called = {name: piece, **({"name": block.name} if at == 0 else {})}
            yield chunk({"tool_calls": [{"index": calls.index(block), **opened, kind: called}]})
    if turn.end == "error":
        yield {"error": {"message": "Overloaded", "type": "server_error", "code": "server_error"}}
    if turn.end in UNFINISHED:
        return
    yield chunk({}, "length" if turn.end == "max_tokens" else "tool_calls" if calls else "stop")
    counts = {"prompt_tokens": turn.tokens, "completion_tokens": OUTPUT_TOKENS}
    yield {**head, "choices": [], "usage": {**counts, "total_tokens": turn.tokens + OUTPUT_TOKENS}}


def responses_events(turn: Turn, response_id: str) -> Iterator[Event]:
    """Yield the events of the Responses API; thinking is a summary there."""
    response = {"id": response_id, "object": "response", "created_at": CREATED, "model": "scripted", "output": []}
    yield {"type": "response.created", "response": {**response, "status": "in_progress"}}
    output = []
    for index, block in enumerate(turn.blocks):
        item_id = f"item_{response_id}_{index}"
        at = {"item_id": item_id, "output_index": index}
        is_refusal = turn.end == "refusal"
        part = {"type": "refusal", "refusal": block.whole} if is_refusal else _text_part(block.whole)
        name, item, place = {
            "thinking": (
                "reasoning_summary_text",
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": block.whole}]},
                {"summary_index": 0},
            ),
            "text": (
                "refusal" if is_refusal else "output_text",
                {"type": "message", "role": "assistant", "status": "completed", "content": [part]},
                {"content_index": 0},
            ),
            "tool": (
                "function_call_arguments",
                {"type": "function_call", "call_id": block.call_id, "name": block.name, "arguments": block.whole},
                {},
            ),
        }[block.kind]
        empty = {"summary": [], "content": [], "arguments": ""}
        item = {"id": item_id, **item}
        new = {**item, **{member: value for member, value in empty.items() if member in item}}
        yield {"type": "response.output_item.added", "output_index": index, "item": new}
        for piece in block.pieces:
            yield {"type": f"response.{name}.delta", "delta": piece, **at, **place}
        if turn.end in UNFINISHED and block is turn.blocks[-1]:
            break
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
        output.append(item)
    if turn.end == "error":
        error = {"code": "server_error", "message": "Overloaded"}
        yield {"type": "response.failed", "response": {**response, "status": "failed", "error": error}}
    if turn.end in UNFINISHED:
        return
    counts = {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS}
    ended = {**response, "output": output, "usage": {**counts, "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS}}
    if turn.end == "max_tokens":
        ended |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
        yield {"type": "response.incomplete", "response": ended}
    else:
        yield {"type": "response.completed", "response": {**ended, "status": "completed"}}


def gemini_events(turn: Turn, response_id: str) -> Iterator[Event]:
    """Yield the chunks of `streamGenerateContent`. A call is whole or absent there."""
    head = {"responseId": response_id, "modelVersion": "scripted"}

    def chunk(part: Event, **members: object) -> Event:
        return {**head, "candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}, **members}]}

    for block in (one.as_function for one in turn.blocks):
        if block.kind == "tool":
            if turn.end not in UNFINISHED and block.whole.endswith("}"):
                called = {"id": block.call_id, "name": block.name, "args": json.loads(block.whole)}
                yield chunk({"functionCall": called, "thoughtSignature": SIGNATURE})
            continue
        for piece in block.pieces:
            yield chunk({"text": piece, **({"thought": True} if block.kind == "thinking" else {})})
    if turn.end == "error":
        yield {"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}}
    if turn.end in UNFINISHED:
        return
    reason = {"max_tokens": "MAX_TOKENS", "refusal": "SAFETY"}.get(turn.end, "STOP")
    counts = {"promptTokenCount": turn.tokens, "candidatesTokenCount": OUTPUT_TOKENS}
    usage = {**counts, "totalTokenCount": turn.tokens + OUTPUT_TOKENS}
    yield {**chunk({"text": ""}, finishReason=reason), "usageMetadata": usage}


def _text_part(text: str) -> Event:
    return {"type": "output_text", "text": text, "annotations": []}


EVENTS: Final = {
    "anthropic_messages": messages_events,
    "openai_chat": chat_events,
    "openai_responses": responses_events,
    "gemini": gemini_events,
}


def _calls(turn: Turn) -> list[Block]:
    return [block for block in turn.blocks if block.kind in {"tool", "custom"}]


class ScriptedProvider(ThreadingHTTPServer):
    """The server, with its scripts and the requests so far."""

    daemon_threads = True

    def __init__(self, scripts: Mapping[str, tuple[Turn, ...]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.scripts = scripts
        self.calls: Counter[str] = Counter()
        self.requests: list[tuple[str, Event]] = []
        self.waiting = threading.Event()
        """Set when an answer waits for its client to leave."""

    @property
    def url(self) -> str:
        """Return the base URL."""
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def serving(scripts: Mapping[str, tuple[Turn, ...]]) -> Iterator[ScriptedProvider]:
    """Serve scripts until the end of the block."""
    with ScriptedProvider(scripts) as provider:
        threading.Thread(target=provider.serve_forever, daemon=True).start()
        yield provider
        provider.shutdown()


class _Handler(BaseHTTPRequestHandler):
    server: ScriptedProvider

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        path = self.path.partition("?")[0]
        api = next(api for end, api in PATHS.items() if path.endswith(end))
        name = CASE.findall(json.dumps(body[HISTORIES.get(api, "messages")]))[-1]
        turns = self.server.scripts[name]
        turn = turns[self.server.calls[name] % len(turns)]
        self.server.calls[name] += 1
        self.server.requests.append((name, body))
        if turn.error:
            error = {"type": turn.error, "message": "No.", "code": None}
            self._head(OVERLOADED.get(api, 503), "application/json")
            self.wfile.write(json.dumps({"type": "error", "error": error}).encode())
            return
        self._head(200, "text/event-stream")
        for event in EVENTS[api](turn, f"{name}-{len(self.server.requests)}"):
            named = f"event: {event['type']}\n" if "type" in event else ""
            self.wfile.write(f"{named}data: {json.dumps(event)}\n\n".encode())
        if turn.end == "wait":
            self.server.waiting.set()
            self.connection.recv(1)  # until the client leaves
        elif api == "openai_chat" and turn.end != "cut":
            self.wfile.write(b"data: [DONE]\n\n")

    def _head(self, status: int, media_type: str) -> None:
        self.send_response(status)
        self.send_header("content-type", media_type)
        self.end_headers()

    def log_message(self, *_arguments: Any) -> None:
        """Write nothing."""
