"""Checker of the rules over a whole UI message stream, without I/O. Bad input is a violation, never an exception."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from projector._validation import sentences
from projector.contracts import codec
from projector.contracts.stream_rules.table import Finding, Rule, Violation, violations
from tests.protocols.ai_sdk.events import parse_chunk

_SOURCE: Final = "UI message stream 1"
_ROWS: Final = (
    # one chunk
    Rule("json", "spec", "each line is one JSON object in UTF-8, or `[DONE]`", _SOURCE),
    Rule("shape", "spec", "each chunk is one that we emit, with the right members", _SOURCE),
    # the message
    Rule("start", "spec", "`start` is the first chunk, and occurs once", _SOURCE),
    Rule("one_end", "project", "`finish`, `abort` or `error` is the last chunk, and occurs once", "docs/dialects.md"),
    Rule("end_missing", "project", "a stream ends with `finish`, `abort` or `error`", "docs/dialects.md"),
    Rule("done", "spec", "`[DONE]` follows the last chunk, and is the last line", _SOURCE),
    # steps and parts
    Rule("step_order", "spec", "steps start and finish in turn", _SOURCE),
    Rule("not_open", "spec", "a delta and an end belong to a part that has started", _SOURCE),
    Rule("already_open", "spec", "a part that is open does not start again", _SOURCE),
    Rule("not_closed", "project", "parts have ended before their step finishes", "docs/dialects.md"),
    Rule("call_step", "spec", "a call has its complete input before the next step starts", _SOURCE),
    # calls
    Rule("call_unique", "project", "a call starts once", "docs/dialects.md"),
    Rule("call_known", "spec", "chunks of a call follow its start", _SOURCE),
    Rule("call_input", "project", "no delta follows the complete input, and an output follows it", "docs/dialects.md"),
    Rule("call_executed", "spec", "all chunks of a call agree on `providerExecuted` and `dynamic`", _SOURCE),
)
RULES: Final[Mapping[str, Rule]] = {row.name: row for row in _ROWS}

DONE: Final = "[DONE]"

_ENDS: Final = frozenset({"finish", "abort", "error"})
_INPUTS: Final = frozenset({"tool-input-available", "tool-input-error"})
_OUTPUTS: Final = frozenset({"tool-output-available", "tool-output-error", "tool-approval-request"})


class AiSdkChecker:
    """Checker of one stream, given as lines: the data of each SSE message."""

    def __init__(self) -> None:
        self._line = 0
        self._has_started = self._has_ended = self._is_done = False
        self._is_in_step = False
        self._open: set[tuple[str, str]] = set()
        self._calls: dict[str, tuple[object, object]] = {}
        """ID of a call -> whether it is executed elsewhere."""
        self._complete: set[str] = set()
        """Calls whose input is complete."""

    def feed(self, line_no: int, line: bytes | str, /) -> list[Violation]:
        """Check one line. A blank line is ignored."""
        line = (line.decode("utf-8", "replace") if isinstance(line, bytes) else line).strip()
        if not line:
            return []
        self._line = line_no
        if line == DONE:
            return self._violations(self._check_done())
        try:
            chunk = codec.loads(line)
            parse_chunk(chunk)
        except codec.CodecError:
            return self._violations([Finding("json", "expected JSON in UTF-8")])
        except ValidationError as error:
            return self._violations([Finding("shape", text) for text in sentences(error, chunk, root="chunk")])
        return self._violations([*self._check_message(chunk), *self._check_part(chunk), *self._check_call(chunk)])

    def close(self) -> list[Violation]:
        """Check the end of the stream."""
        found = [] if self._has_ended else [Finding("end_missing", "expected `finish`, `abort` or `error`")]
        if not self._is_done:
            found.append(Finding("done", "expected `[DONE]` after the last chunk"))
        return self._violations(found)

    def _check_done(self) -> list[Finding]:
        is_right = self._has_ended and not self._is_done
        self._is_done = True
        return [] if is_right else [Finding("done", "expected `[DONE]` once, after the last chunk")]

    def _check_message(self, chunk: Mapping[str, Any]) -> list[Finding]:
        kind, found = chunk["type"], []
        if self._is_done:
            found.append(Finding("done", f"expected nothing after `[DONE]`, found `{kind}`"))
        elif self._has_ended:
            found.append(Finding("one_end", f"expected no `{kind}` after the end of the message"))
        if (kind == "start") == self._has_started:
            found.append(Finding("start", f"expected `start` first and once, found `{kind}`"))
        self._has_started = True
        if kind in {"start-step", "finish-step"}:
            found += self._check_step(is_start=kind == "start-step")
        if kind in _ENDS:
            self._has_ended = True
            found += self._check_closed(is_step=self._is_in_step)
        return found

    def _check_step(self, *, is_start: bool) -> list[Finding]:
        found = [] if self._is_in_step != is_start else [Finding("step_order", "expected steps in turn")]
        self._is_in_step = is_start
        if is_start and self._calls.keys() - self._complete:
            found.append(Finding("call_step", "expected the complete input of each call before the next step"))
        return found + ([] if is_start else self._check_closed(is_step=False))

    def _check_closed(self, *, is_step: bool) -> list[Finding]:
        found = [Finding("not_closed", f"expected the end of each {kind} part") for kind, _ in sorted(self._open)]
        return found + ([Finding("step_order", "expected `finish-step` before the end")] if is_step else [])

    def _check_part(self, chunk: Mapping[str, Any]) -> list[Finding]:
        kind, _, action = chunk["type"].partition("-")
        if kind not in {"text", "reasoning"}:
            return []
        key = (kind, chunk["id"])
        is_open = key in self._open
        if action == "start":
            self._open.add(key)
            return [Finding("already_open", f"expected the `id` of a new {kind} part")] if is_open else []
        if action == "end":
            self._open.discard(key)
        return [] if is_open else [Finding("not_open", f"expected the `id` of an open {kind} part")]

    def _check_call(self, chunk: Mapping[str, Any]) -> list[Finding]:
        kind, call = chunk["type"], chunk.get("toolCallId")
        if call is None:
            return []
        executed = (chunk.get("providerExecuted"), chunk.get("dynamic"))
        is_known = call in self._calls
        if kind == "tool-input-start":
            self._calls[call] = executed
            return [Finding("call_unique", "expected a new `toolCallId`")] if is_known else []
        found = [] if is_known else [Finding("call_known", "expected the `toolCallId` of a call that has started")]
        is_complete = call in self._complete
        if (kind == "tool-input-delta" and is_complete) or (kind in _OUTPUTS and not is_complete):
            found.append(Finding("call_input", f"expected `{kind}` on the other side of the complete input"))
        if kind not in {"tool-input-delta", "tool-approval-request"} and self._calls.get(call, executed) != executed:
            found.append(Finding("call_executed", "expected `providerExecuted` and `dynamic` of the start"))
        if kind in _INPUTS:
            self._complete.add(call)
        return found

    def _violations(self, found: list[Finding]) -> list[Violation]:
        return violations(RULES, self._line, None, found)
