"""A model for agents, on a real socket: its answers are defined once and sent in the format of either API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, NamedTuple, TypeAlias

Event: TypeAlias = dict[str, Any]
Script: TypeAlias = Callable[[Any], Awaitable[None]]

USAGE: Final = {"input_tokens": 7, "output_tokens": 2, "total_tokens": 9}
CHAT_USAGE: Final = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
DETAILS: Final = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}


class Text(NamedTuple):
    text: str


class Refusal(NamedTuple):
    text: str


class Reasoning(NamedTuple):
    text: str


class Call(NamedTuple):
    call_id: str
    name: str
    arguments: str = "{}"


Part: TypeAlias = Text | Refusal | Reasoning | Call


def item(part: Part, stem: str) -> Event:
    """Return a part of an answer as an item of the Responses API."""
    match part:
        case Text(text):
            content: list[Event] = [{"type": "output_text", "text": text, "annotations": []}]
        case Refusal(text):
            content = [{"type": "refusal", "refusal": text}]
        case Reasoning(text):
            return {"type": "reasoning", "id": f"rs_{stem}", "summary": [{"type": "summary_text", "text": text}]}
        case Call(call_id, name, arguments):
            call = {"type": "function_call", "id": f"fc_{stem}", "call_id": call_id, "name": name}
            return {**call, "arguments": arguments, "status": "completed"}
    return {"type": "message", "id": f"msg_{stem}", "role": "assistant", "status": "completed", "content": content}


def _deltas(part: Part, place: Event) -> Iterable[Event]:
    match part:
        case Text(text):
            for piece in (text[:2], text[2:]):
                yield {
                    "type": "response.output_text.delta",
                    "content_index": 0,
                    **place,
                    "delta": piece,
                    "logprobs": [],
                }
        case Refusal(text):
            yield {"type": "response.refusal.delta", "content_index": 0, **place, "delta": text}
        case Reasoning(text):
            yield {"type": "response.reasoning_summary_text.delta", "summary_index": 0, **place, "delta": text}
        case Call(_, name, arguments):
            yield {"type": "response.function_call_arguments.delta", **place, "delta": arguments}
            yield {"type": "response.function_call_arguments.done", **place, "arguments": arguments, "name": name}


def response(*parts: Part, response_id: str = "resp_1", status: str = "completed", **members: Any) -> list[Event]:
    """Return the events of one response."""
    items = [item(part, f"{response_id}_{index}") for index, part in enumerate(parts)]
    fixed = {"object": "response", "created_at": 1, "model": "m", "parallel_tool_calls": True, "tool_choice": "auto"}
    shell = {"id": response_id, **fixed, "tools": [], "instructions": "the-prompt-of-the-host", **members}
    events: list[Event] = [
        {"type": "response.created", "response": {**shell, "status": "in_progress", "output": []}},
    ]
    for index, (part, whole) in enumerate(zip(parts, items, strict=True)):
        place = {"output_index": index, "item_id": whole["id"]}
        bare = {name: value for name, value in whole.items() if name not in {"arguments", "content", "summary"}}
        empty = {"message": {"content": []}, "reasoning": {"summary": []}, "function_call": {"arguments": ""}}
        added = {**bare, **empty[whole["type"]], "status": "in_progress"}
        events += [
            {"type": "response.output_item.added", "output_index": index, "item": added},
            *_deltas(part, place),
            {"type": "response.output_item.done", "output_index": index, "item": whole},
        ]
    ended = {**shell, "status": status, "output": items, "usage": {**USAGE, **DETAILS}}
    events.append({"type": f"response.{status}", "response": ended})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def chunk(
    delta: Event | None = None, finish: str | None = None, *, response_id: str = "chat_1", **members: Any
) -> Event:
    """Return one chunk of a Chat Completions stream."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    shell = {"id": response_id, "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return {**shell, "choices": choices, **members}


def chat(*parts: Part, response_id: str = "chat_1", finish: str | None = None) -> list[Event]:
    """Return the chunks of one Chat Completions answer; calls are identified by index."""
    chunks = [chunk({"role": "assistant"}, response_id=response_id)]
    calls = 0
    for part in parts:
        match part:
            case Text(text):
                deltas: list[Event] = [{"content": text[:2]}, {"content": text[2:]}]
            case Refusal(text):
                deltas = [{"refusal": text}]
            case Reasoning(text):
                deltas = [{"reasoning_content": text}]
            case Call(call_id, name, arguments):
                function = {"name": name, "arguments": arguments[:1]}
                opened = {"index": calls, "id": call_id, "type": "function", "function": function}
                rest = {"index": calls, "function": {"arguments": arguments[1:]}}
                deltas = [{"tool_calls": [opened]}, {"tool_calls": [rest]}]
                calls += 1
        chunks += [chunk(delta, response_id=response_id) for delta in deltas]
    chunks.append(chunk({}, finish or ("tool_calls" if calls else "stop"), response_id=response_id))
    return [*chunks, chunk(response_id=response_id, usage=CHAT_USAGE)]


WRITERS: Final[dict[str, Callable[..., list[Event]]]] = {"responses": response, "chat": chat}


def streams(events: Iterable[Event]) -> Script:
    """Send events and end."""

    async def script(peer: Any) -> None:
        await peer.start()
        for event in events:
            await peer.event(event)
        await peer.end()

    return script


def hangs_after(events: Iterable[Event]) -> Script:
    """Send events, then nothing until the client disconnects."""

    async def script(peer: Any) -> None:
        await peer.start()
        for event in events:
            await peer.event(event)
        await peer.gone.wait()

    return script


def resets_after(events: Iterable[Event]) -> Script:
    """Send events, and break the connection."""

    async def script(peer: Any) -> None:
        await peer.start()
        for event in events:
            await peer.event(event)
        await peer.writer.drain()
        peer.reset()

    return script


def refuses(status: int, *, retry_after: int | None = None) -> Script:
    """Answer with an HTTP status and nothing else."""

    async def script(peer: Any) -> None:
        wait = f"retry-after: {retry_after}\r\n" if retry_after is not None else ""
        head = f"HTTP/1.1 {status} No\r\n{wait}content-length: 0\r\nconnection: close\r\n\r\n"
        await peer.send(head.encode())

    return script


def turns(*scripts: Script) -> Script:
    """Answer one request after the other."""
    left = list(scripts)

    async def script(peer: Any) -> None:
        await left.pop(0)(peer)

    return script
