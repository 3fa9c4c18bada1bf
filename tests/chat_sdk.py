"""Chunks of Chat Completions as the official SDK reads them, and the JSON answer to a whole stream."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable
from typing import Any

from openai._models import construct_type
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from projector.core.sse import DONE
from projector.dialects.chat_completions.completion import CompletionAssembly
from projector.dialects.descriptor import JsonAnswer


def assemble(lines: Iterable[bytes], assembly: CompletionAssembly | None = None) -> JsonAnswer:
    """Return the JSON answer of a stream, given as the data of its events or the lines of its NDJSON."""
    assembly = assembly or CompletionAssembly()
    for line in lines:
        if line.strip() not in {b"", DONE}:
            assembly.feed(line)
    return assembly.close()


def accumulate(lines: Iterable[bytes]) -> dict[str, Any] | None:
    """Return the completion that the SDK makes of a stream; None if the stream ends with an error.

    Every chunk must agree with the SDK's model, strictly and without a warning.
    """
    state: ChatCompletionStreamState[Any] = ChatCompletionStreamState()
    with warnings.catch_warnings(action="error"):
        for line in lines:
            if line == DONE:
                break
            value = json.loads(line)
            if "error" in value:
                return None
            ChatCompletionChunk.model_validate(value, strict=True).model_dump()
            list(state.handle_chunk(construct_type(type_=ChatCompletionChunk, value=value)))
        completion: dict[str, Any] = state.current_completion_snapshot.model_dump(warnings=False)
        return completion


def check_answer(answer: JsonAnswer) -> None:
    """Check a JSON answer with the SDK's model."""
    with warnings.catch_warnings(action="error"):
        ChatCompletion.model_validate(answer.body, strict=True).model_dump()


def message_of(completion: dict[str, Any]) -> dict[str, Any]:
    """Return the message of a completion without empty members, and its calls without what only a stream has."""
    message = completion["choices"][0]["message"]
    calls = [call_of(call) for call in message.get("tool_calls") or []]
    texts = {name: message.get(name) or "" for name in ("content", "refusal", "reasoning_content")}
    return {**texts, "tool_calls": calls, "annotations": message.get("annotations") or []}


def call_of(call: dict[str, Any]) -> tuple[str, str, str]:
    """Return ID, name and input of a call."""
    custom, function = call.get("custom"), call.get("function")
    body = custom or function or {}
    return call["id"], body["name"], body["input" if custom else "arguments"]
