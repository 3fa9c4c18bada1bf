"""The JSON answer of Chat Completions, made of the chunks of a stream."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, Final

from projector.contracts import codec
from projector.dialects.answer_stream import ANSWER_MAX_BYTES, LimitedAnswer
from projector.dialects.chat_completions.writer import FINAL_TEXTS, TRUNCATED
from projector.dialects.descriptor import JsonAnswer
from projector.dialects.openai_errors import status_of_error

ERROR_PREFIX: Final = b'{"error":'
"""Start of the data of an error, as this dialect encodes it."""

HEAD: Final = ("id", "created", "model", "service_tier")
"""Members of a chunk that a completion has too."""


class CompletionAssembly(LimitedAnswer):
    """Builder of the JSON answer, from the chunks of a stream."""

    def __init__(self, max_bytes: int = ANSWER_MAX_BYTES) -> None:
        super().__init__(max_bytes)
        self._error = b""
        self._head: dict[str, Any] = {}
        self._finish: str | None = None
        self._usage: Mapping[str, Any] | None = None
        self._texts: dict[str, io.StringIO] = {}
        self._calls: list[dict[str, Any]] = []
        """Calls, each with the text of its input as a buffer."""
        self._annotations: list[Any] = []
        self._extensions: list[Any] = []

    def feed(self, event: bytes, /) -> None:
        """Add the data of an event."""
        if event.startswith(ERROR_PREFIX):
            self._error = event
            self._fits(len(event), is_needed=True)
            return
        chunk = codec.loads(event)
        self._head = self._head or {name: chunk[name] for name in HEAD if name in chunk}
        self._usage = chunk.get("usage") or self._usage
        if "public_sse" in chunk and self._fits(len(codec.dumps(chunk["public_sse"]))):
            self._extensions.append(chunk["public_sse"])
        for choice in chunk["choices"]:
            self._finish = choice["finish_reason"] or self._finish
            self._add(choice["delta"])

    def close(self) -> JsonAnswer:
        """Return the `chat.completion` or `{"error": ...}`, or raise `ValueError` if the stream did not end."""
        if self._error:
            error = codec.loads(self._error)["error"]
            return JsonAnswer(status_of_error(error), {"error": error})
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
            message["tool_calls"] = [_whole_call(call) for call in self._calls]
        return message

    def _add(self, delta: Mapping[str, Any]) -> None:
        for name in FINAL_TEXTS:
            if (text := delta.get(name)) and self._fits(len(codec.dumps(text))):
                self._texts.setdefault(name, io.StringIO()).write(text)
        for entry in delta.get("tool_calls", ()):
            self._add_call(entry)
        if "annotations" in delta and self._fits(len(codec.dumps(delta["annotations"]))):
            self._annotations += delta["annotations"]

    def _add_call(self, entry: Mapping[str, Any]) -> None:
        kind = "custom" if "custom" in entry else "function"  # a custom call is written in both forms
        body, member = entry[kind], _INPUTS[kind]
        if "id" in entry and self._fits(len(codec.dumps([entry["id"], body["name"]]))):
            self._calls.append({"id": entry["id"], "type": kind, kind: {"name": body["name"], member: io.StringIO()}})
        if "extra_content" in entry and self._fits(len(codec.dumps(entry["extra_content"]))):
            self._calls[entry["index"]]["extra_content"] = entry["extra_content"]
        fragment = body[member]
        if fragment and self._fits(len(codec.dumps(fragment))):
            self._calls[entry["index"]][kind][member].write(fragment)


_INPUTS: Final = {"custom": "input", "function": "arguments"}
"""Kind of a call -> its member with the input."""


def _whole_call(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call with the text of its input."""
    kind, member = call["type"], _INPUTS[call["type"]]
    return {**call, kind: {**call[kind], member: call[kind][member].getvalue()}}
