"""Checker of the rules over a whole Chat Completions stream, without I/O. Bad input is a violation, no exception."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from pydantic import ValidationError

from projector._validation import sentences
from projector.contracts import codec
from projector.contracts.stream_rules.table import Violation
from tests.protocols.chat_completions.events import EVENT_ADAPTER

Event: TypeAlias = Mapping[str, Any]

END_MARK: Final = b"[DONE]"
IDENTITY: Final = ("id", "created", "model")
"""Members with the same value in every chunk."""


class ChatCompletionsChecker:
    """Checker of one stream, given as the data of its events. Every violation is of the rule `chat_completions`."""

    def __init__(self) -> None:
        self._line = 0
        self._identity: list[object] = []
        self._calls: list[bool] = []
        """Whether each call so far is one of a custom tool, by index."""
        self._length = 0
        """Length of the content in code points."""
        self._has_annotations = False
        self._finish: str | None = None
        self._is_over = False
        """Whether only the end mark may follow."""
        self._is_closed = False

    def feed(self, line_no: int, line: bytes | str, /) -> list[Violation]:
        """Check one event, or the end mark."""
        self._line = line_no
        return self._violations(self._check(line.encode() if isinstance(line, str) else line))

    def close(self) -> list[Violation]:
        """Check the end of the stream."""
        return self._violations([] if self._is_closed else ["the end mark"])

    def _violations(self, expected: list[str]) -> list[Violation]:
        return [Violation(self._line, None, "chat_completions", "spec", f"expected {one}") for one in expected]

    def _check(self, data: bytes) -> list[str]:
        if data == END_MARK:
            is_right = (self._is_over or self._finish is not None) and not self._is_closed
            self._is_closed = True
            return [] if is_right else ["one end mark, after a finish reason or an error"]
        try:
            event = codec.loads(data)
            EVENT_ADAPTER.validate_python(event)
        except codec.CodecError:
            return ["JSON"]
        except ValidationError as error:
            return [f"an event of the schema: {mistake}" for mistake in sentences(error, event, root="event")]
        if self._is_over or self._is_closed:
            return ["nothing after the end"]
        if "error" in event:
            self._is_over = True
            return ["no error after a finish reason"] if self._finish is not None else []
        return self._check_chunk(event)

    def _check_chunk(self, chunk: Event) -> list[str]:
        identity = [chunk[name] for name in IDENTITY]
        is_first = not self._identity
        self._identity = self._identity or identity
        found = [] if identity == self._identity else ["the same ID, time and model in every chunk"]
        if not chunk["choices"]:
            self._is_over = True
            is_usage = chunk.get("usage") is not None and self._finish is not None
            return found + ([] if is_usage else ["a choice, or the usage after the finish reason"])
        if chunk.get("usage") is not None:
            found.append("usage only without a choice")
        if self._finish is not None:
            return [*found, "nothing but the usage after the finish reason"]
        [choice] = chunk["choices"]
        delta = choice["delta"]
        if ("role" in delta) != is_first:
            found.append("the role in the first chunk only")
        for member, rule in RULES.items():
            if member in delta:
                found += rule(self, delta[member])
        self._finish = choice["finish_reason"]
        if self._finish == "tool_calls" and not self._calls:
            found.append("a call before the finish reason `tool_calls`")
        return found

    def _on_content(self, text: str) -> list[str]:
        self._length += len(text)
        return []

    def _on_calls(self, entries: list[Event]) -> list[str]:
        return [mistake for entry in entries for mistake in self._check_call(entry)]

    def _check_call(self, entry: Event) -> list[str]:
        index, is_new = entry["index"], "id" in entry
        function, custom = entry["function"], entry.get("custom")
        if is_new:
            self._calls.append(custom is not None)
        if index >= len(self._calls) or (is_new and index != len(self._calls) - 1):
            return ["calls numbered from 0, in order of appearance"]
        if not is_new == ("type" in entry) == ("name" in function):
            return ["ID, type and name in the first fragment only"]
        both = {"input": function["arguments"], **({"name": function["name"]} if is_new else {})}
        if custom != (both if self._calls[index] else None):
            return ["`custom` with the same content, in every fragment of a call of a custom tool and in no other"]
        return []

    def _on_annotations(self, annotations: list[Event]) -> list[str]:
        was_written, self._has_annotations = self._has_annotations, True
        ends = [annotation["url_citation"]["end_index"] for annotation in annotations]
        found = ["all annotations in one chunk"] if was_written else []
        return found + (["citations within the content"] if max(ends, default=0) > self._length else [])


RULES: Final[Mapping[str, Callable[[ChatCompletionsChecker, Any], list[str]]]] = {
    "content": ChatCompletionsChecker._on_content,
    "tool_calls": ChatCompletionsChecker._on_calls,
    "annotations": ChatCompletionsChecker._on_annotations,
}
"""Member of a delta -> its check."""
