"""The `chat.completion` object: usage, failures, and the JSON answer to a request that does not stream."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, Final

from projector.contracts import codec
from projector.core.canonical import Frame
from projector.core.faults import FAULTS
from projector.dialects.descriptor import JsonAnswer
from projector.dialects.openai_errors import error_object, status_of

ANSWER_MAX_BYTES: Final = 16 * 1024 * 1024
"""Limit of the content of a JSON answer (CONTRACT D37)."""

ERROR_PREFIX: Final = b'{"error":'
"""Start of the data of an error, as this dialect encodes it."""

HEAD: Final = ("id", "created", "model", "service_tier")
"""Members of a chunk that a completion has too."""

TEXTS: Final = ("content", "refusal", "reasoning_content")
"""Members of a delta that are joined."""

TRUNCATED: Final = "length"
"""Finish reason of an answer that is not complete."""


def usage_of(usage: Mapping[str, int]) -> dict[str, Any]:
    """Return the usage with the members of Chat Completions. The three counts are required, so an unknown one is 0."""
    read, written = usage.get("input_tokens", 0), usage.get("output_tokens", 0)
    total = usage.get("total_tokens", read + written)
    counts: dict[str, Any] = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": total}
    if "cached_input_tokens" in usage:
        counts["prompt_tokens_details"] = {"cached_tokens": usage["cached_input_tokens"]}
    if "reasoning_output_tokens" in usage:
        counts["completion_tokens_details"] = {"reasoning_tokens": usage["reasoning_output_tokens"]}
    return counts


def failure(reason: str | None, reported: Frame) -> dict[str, Any]:
    """Return the `error` of a response that the provider ended as failed, as the provider reported it."""
    fault = FAULTS["provider_error"]
    code = reported.get("code") or reason or fault.code
    message = reported.get("message", fault.message)
    return error_object(code, message, reported.get("param"), reported.get("type"))


class CompletionAssembly:
    """Builder of the JSON answer, from the chunks of a stream."""

    def __init__(self, max_bytes: int = ANSWER_MAX_BYTES) -> None:
        self._error = b""
        self._head: dict[str, Any] = {}
        self._finish: str | None = None
        self._usage: Mapping[str, Any] | None = None
        self._texts: dict[str, io.StringIO] = {}
        self._calls: list[dict[str, Any]] = []
        self._inputs: list[io.StringIO] = []
        self._annotations: list[Any] = []
        self._extensions: list[Any] = []
        self._max_bytes = max_bytes
        self._held = 0
        self._is_truncated = False

    @property
    def held_bytes(self) -> int:
        """Bytes kept for the answer so far."""
        return self._held

    def feed(self, event: bytes, /) -> None:
        """Add the data of an event."""
        if event.startswith(ERROR_PREFIX):
            self._error = event
            self._held += len(event)
            return
        chunk = codec.loads(event)
        self._head = self._head or {name: chunk[name] for name in HEAD if name in chunk}
        self._usage = chunk.get("usage") or self._usage
        if "public_sse" in chunk and self._fits(chunk["public_sse"]):
            self._extensions.append(chunk["public_sse"])
        for choice in chunk["choices"]:
            self._finish = choice["finish_reason"] or self._finish
            self._add(choice["delta"])

    def close(self) -> JsonAnswer:
        """Return the `chat.completion` or `{"error": ...}`, or raise `ValueError` if the stream did not end."""
        if self._error:
            error = codec.loads(self._error)["error"]
            return JsonAnswer(status_of(error["code"], error["type"]), {"error": error})
        if self._finish is None:
            raise ValueError("expected a complete Chat Completions stream, but no chunk has a finish reason")
        finish = TRUNCATED if self._is_truncated else self._finish
        body: dict[str, Any] = {**self._head, "object": "chat.completion"}
        body["choices"] = [{"index": 0, "message": self._message(), "logprobs": None, "finish_reason": finish}]
        if self._usage is not None:
            body["usage"] = self._usage
        if self._extensions:
            body["public_sse"] = self._extensions
        return JsonAnswer(200, body)

    def _message(self) -> dict[str, Any]:
        texts = {name: text for name, joined in self._texts.items() if (text := joined.getvalue())}
        message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None, **texts}
        if self._annotations:
            message["annotations"] = self._annotations
        if self._calls:
            message["tool_calls"] = [
                _whole(call, joined) for call, joined in zip(self._calls, self._inputs, strict=True)
            ]
        return message

    def _add(self, delta: Mapping[str, Any]) -> None:
        for name in TEXTS:
            if (text := delta.get(name)) and self._fits(text):
                self._texts.setdefault(name, io.StringIO()).write(text)
        for entry in delta.get("tool_calls", ()):
            self._add_call(entry)
        if "annotations" in delta and self._fits(delta["annotations"]):
            self._annotations += delta["annotations"]

    def _add_call(self, entry: Mapping[str, Any]) -> None:
        kind = "custom" if "custom" in entry else "function"  # a custom call is written in both forms
        body = entry[kind]
        if "id" in entry and self._fits([entry["id"], body["name"]]):
            self._calls.append({"id": entry["id"], "type": kind, kind: {"name": body["name"]}})
            self._inputs.append(io.StringIO())
        fragment = body[_input_of(kind)]
        if fragment and self._fits(fragment):
            self._inputs[entry["index"]].write(fragment)

    def _fits(self, value: object) -> bool:
        """Count the bytes of a value. Once one exceeds the limit, nothing more is kept."""
        size = len(codec.dumps(value))
        self._is_truncated = self._is_truncated or self._held + size > self._max_bytes
        self._held += 0 if self._is_truncated else size
        return not self._is_truncated


def _input_of(kind: str) -> str:
    return "input" if kind == "custom" else "arguments"


def _whole(call: Mapping[str, Any], joined: io.StringIO) -> dict[str, Any]:
    """Return a call with its whole input."""
    kind = call["type"]
    return {**call, kind: {**call[kind], _input_of(kind): joined.getvalue()}}
