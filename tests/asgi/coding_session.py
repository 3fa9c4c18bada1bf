"""A coding session for agents of the Responses API: a provider with a script.

The model repeats a secret wherever it can. The provider refuses a request as OpenAI does: a call without its output or
its namespace, and reasoning that it has not stored and cannot read.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator
from typing import Any, Final

from tests.asgi.conftest import Peer

Item = dict[str, Any]

SECRET: Final = "ghp_" + "Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z" + "ABCD"
NAMESPACE: Final = "mcp__notes"
ENCRYPTED: Final = "gAAAAAB" + "q" * 60
STEP_CHARS: Final = 7
"""Length of the deltas: each is shorter than the secret."""
FULL: Final = 200_000
"""Tokens of a context that the agent must compact."""
SCRIPTS: Final[dict[str, tuple[str, str]]] = {
    "message": ("output_text", "text"),
    "function_call": ("function_call_arguments", "arguments"),
    "custom_tool_call": ("custom_tool_call_input", "input"),
    "reasoning": ("reasoning_summary_text", "text"),
}
"""Type of an item -> what its delta events are called, and the member of `done` with the text."""


def message(text: str) -> Item:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "role": "assistant", "status": "completed", "content": [part]}


def call(name: str, arguments: Item | str, **members: str) -> Item:
    """Return a call of a function, or of a custom tool if its input is text."""
    if isinstance(arguments, str):
        return {"type": "custom_tool_call", "name": name, "input": arguments, "status": "completed", **members}
    return {
        "type": "function_call",
        "name": name,
        "arguments": json.dumps(arguments),
        "status": "completed",
        **members,
    }


def thought() -> Item:
    summary = [{"type": "summary_text", "text": f"The token is {SECRET}, so I use it."}]
    return {"type": "reasoning", "summary": summary, "encrypted_content": ENCRYPTED}


PATCH: Final = f"*** Begin Patch\n*** Add File: b.env\n+DEPLOY={SECRET}\n*** End Patch\n"
EDIT: Final = f"*** Begin Patch\n*** Update File: b.env\n@@\n-DEPLOY={SECRET}\n+RELEASE={SECRET}\n*** End Patch\n"
"""A change of the line that `PATCH` wrote: the line of the file has the mark, and so has this one."""
TURNS: Final[list[list[Item]]] = [
    [
        thought(),
        call("exec_command", {"cmd": f"echo 'DEPLOY={SECRET}' > a.env; seq 1 6000"}),
        call("read_note", {"name": SECRET}, namespace=NAMESPACE),
    ],
    [thought(), call("apply_patch", PATCH)],
    [call("exec_command", {"cmd": "cat a.env"}), call("exec_command", {"cmd": "cat b.env"})],
    [thought(), call("apply_patch", EDIT)],
    [call("exec_command", {"cmd": f"grep -c '{SECRET}' a.env b.env; true"})],
    [call("read_note", {"name": f"a {SECRET}"}, namespace=NAMESPACE)],
    [thought(), call("exec_command", {"cmd": "ls"})],
    [thought(), call("exec_command", {"cmd": "cat a.env b.env"})],
    [message(f"I have used {SECRET} twice.")],
    [thought(), call("exec_command", {"cmd": "ls"})],
    [call("read_note", {"name": f"b {SECRET}"}, namespace=NAMESPACE)],
    [message(f"Done: {SECRET}.")],
]
"""The answers to the requests of the first run."""
FILLING: Final = 7
"""The answer that fills the context; the next one is the summary."""
LAST: Final[list[list[Item]]] = [
    [thought(), call("exec_command", {"cmd": "ls"})],
    [message(f"All is there, also {SECRET}.")],
]
"""The answers after an interruption."""


class CodingProvider:
    """Answers in the order of the requests. An empty answer begins and does not end."""

    def __init__(self, answers: list[list[Item]]) -> None:
        self._answers = answers
        self.requests: list[dict[str, Any]] = []
        self.refused: list[str] = []
        self.waiting: asyncio.Queue[Peer] = asyncio.Queue()
        """Requests whose answer does not end."""

    async def __call__(self, peer: Peer) -> None:
        """Answer a request."""
        number = len(self.requests)
        self.requests.append(peer.body)
        if reason := refusal(peer.body):
            self.refused.append(reason)
            error = json.dumps({"error": {"message": reason, "type": "invalid_request_error"}}).encode()
            head = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n"
            await peer.send(head + b"content-length: %d\r\n\r\n" % len(error) + error)
            return
        answer = self._answers[number]
        if peer.body["input"][-1] == {"type": "compaction_trigger"}:
            answer = [{"type": "compaction", "encrypted_content": ENCRYPTED}]
        await peer.start()
        tokens = FULL if number == FILLING else 1_000
        for event in events_of(number, answer or [message("I begin to")], tokens, is_whole=bool(answer)):
            await peer.event(event)
        if not answer:
            self.waiting.put_nowait(peer)
            await peer.gone.wait()
        await peer.end()


def refusal(body: dict[str, Any]) -> str:
    """Return why OpenAI refuses a request; empty if it does not."""
    calls, outputs = set(), set()
    for item in body["input"]:
        kind = item["type"]
        if kind in {"function_call", "custom_tool_call"}:
            calls.add(item["call_id"])
            if item["name"] == "read_note" and item.get("namespace") != NAMESPACE:
                return "Missing namespace for function_call 'read_note'."
        elif kind.endswith("_call_output"):
            outputs.add(item["call_id"])
        elif kind == "reasoning" and not item.get("encrypted_content"):
            return f"Item with id '{item['id']}' not found. Items are not persisted when `store` is set to false."
        elif kind == "compaction" and item.get("encrypted_content") != ENCRYPTED:
            return "The compaction item could not be decrypted."
    return f"No tool output found for {calls ^ outputs}." if calls != outputs else ""


def events_of(number: int, items: list[Item], tokens: int, *, is_whole: bool) -> Iterator[dict[str, Any]]:
    """Yield the events of a response; without its end, unless it is whole."""
    count = itertools.count()
    response: dict[str, Any] = {"id": f"resp_{number}", "object": "response", "created_at": 1, "model": "gpt-5.5"}
    known: dict[str, Any] = {"tools": [], "tool_choice": "auto", "parallel_tool_calls": True, "output": []}

    def event(name: str, **members: Any) -> dict[str, Any]:
        return {"type": f"response.{name}", "sequence_number": next(count), **members}

    yield event("created", response={**response, **known, "status": "in_progress"})
    done = []
    for at, described in enumerate(items):
        item = {"id": f"it_{number}_{at}", **described}
        if item["type"].endswith("_call"):
            item["call_id"] = f"call_{number}_{at}"
        done.append(item)
        place = {"output_index": at, "item_id": item["id"]}
        begun = {name: "" if name in {"arguments", "input"} else value for name, value in item.items()}
        begun |= {name: [] for name in ("content", "summary") if name in item}
        yield event("output_item.added", output_index=at, item=begun)
        if item["type"] in SCRIPTS:
            name, member = SCRIPTS[item["type"]]
            inner = (item.get("content") or item.get("summary") or [item])[0]
            place |= {"summary_index": 0} if item["type"] == "reasoning" else {"content_index": 0}
            text = inner[member]
            for start in range(0, len(text), STEP_CHARS):
                yield event(f"{name}.delta", **place, delta=text[start : start + STEP_CHARS])
            if not is_whole:
                return
            yield event(f"{name}.done", **place, **{member: text})
        yield event("output_item.done", output_index=at, item=item)
    usage = {"input_tokens": tokens, "output_tokens": 5, "total_tokens": tokens + 5}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    yield event(
        "completed", response={**response, **known, "status": "completed", "output": done, "usage": usage | details}
    )
