"""Checker of the rules over a whole AG-UI stream, without I/O. Bad input is a violation, never an exception."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from pydantic import ValidationError

from projector._validation import sentences
from projector.contracts import codec
from projector.contracts.stream_rules.table import Finding, Rule, Violation, violations
from tests.protocols.ag_ui.events import parse_event

_ROWS: Final = (
    # one event
    Rule("json", "spec", "each line is one JSON object in UTF-8", "AG-UI 1.0"),
    Rule("shape", "spec", "each event is one that we emit, with the right members", "AG-UI 1.0"),
    Rule("timestamp_order", "project", "`timestamp` never decreases", "docs/dialects.md"),
    # the run
    Rule("run_started", "spec", "`RUN_STARTED` is the first event, and occurs once", "AG-UI 1.0"),
    Rule("one_run", "spec", "`RUN_FINISHED` has the thread and the run of `RUN_STARTED`", "AG-UI 1.0"),
    Rule("one_terminal", "spec", "`RUN_FINISHED` or `RUN_ERROR` is the last event", "AG-UI 1.0"),
    Rule("terminal_missing", "spec", "a stream ends with the end of its run", "AG-UI 1.0"),
    # messages, calls, steps and activities
    Rule("id_unique", "spec", "a message and a call start once", "AG-UI 1.0"),
    Rule("not_open", "spec", "content comes between its start and its end", "AG-UI 1.0"),
    Rule("not_closed", "spec", "everything has ended before `RUN_FINISHED`", "AG-UI 1.0"),
    Rule("call_known", "project", "a result belongs to a call that has ended", "docs/dialects.md"),
    Rule("activity_known", "spec", "a delta belongs to an activity that has started", "AG-UI 1.0"),
)
RULES: Final[Mapping[str, Rule]] = {row.name: row for row in _ROWS}


class _Part(NamedTuple):
    """What an event does to a message, call or step."""

    family: str
    name: str
    """Member with its ID."""
    action: Literal["start", "continue", "end"]


STEP: Final = "step"
CALL: Final = "call"

_PARTS: Final[Mapping[str, _Part]] = {
    "STEP_STARTED": _Part(STEP, "stepName", "start"),
    "STEP_FINISHED": _Part(STEP, "stepName", "end"),
    "TEXT_MESSAGE_START": _Part("message", "messageId", "start"),
    "TEXT_MESSAGE_CONTENT": _Part("message", "messageId", "continue"),
    "TEXT_MESSAGE_END": _Part("message", "messageId", "end"),
    "REASONING_START": _Part("reasoning", "messageId", "start"),
    "REASONING_END": _Part("reasoning", "messageId", "end"),
    "REASONING_MESSAGE_START": _Part("reasoning message", "messageId", "start"),
    "REASONING_MESSAGE_CONTENT": _Part("reasoning message", "messageId", "continue"),
    "REASONING_MESSAGE_END": _Part("reasoning message", "messageId", "end"),
    "TOOL_CALL_START": _Part(CALL, "toolCallId", "start"),
    "TOOL_CALL_ARGS": _Part(CALL, "toolCallId", "continue"),
    "TOOL_CALL_END": _Part(CALL, "toolCallId", "end"),
}
_TERMINALS: Final = frozenset({"RUN_FINISHED", "RUN_ERROR"})


class AgUiChecker:
    """Checker of one stream, given as lines of JSON."""

    def __init__(self) -> None:
        self._line = 0
        self._at = 0
        self._run: tuple[str, str] | None = None
        self._has_ended = False
        self._open: set[tuple[str, str]] = set()
        self._begun: set[tuple[str, str]] = set()
        self._activities: set[str] = set()

    def feed(self, line_no: int, line: bytes | str, /) -> list[Violation]:
        """Check one line. A blank line is ignored."""
        line = line.strip()
        if not line:
            return []
        self._line = line_no
        try:
            event = codec.loads(line)
            parse_event(event)
        except codec.CodecError:
            return self._violations([Finding("json", "expected JSON in UTF-8")])
        except ValidationError as error:
            return self._violations([Finding("shape", text) for text in sentences(error, event, root="event")])
        return self._violations([*self._check_run(event), *self._check_part(event)])

    def close(self) -> list[Violation]:
        """Check the end of the stream."""
        if self._has_ended:
            return []
        return self._violations([Finding("terminal_missing", "expected `RUN_FINISHED` or `RUN_ERROR`")])

    def _check_run(self, event: Mapping[str, Any]) -> list[Finding]:
        kind, found = event["type"], []
        if self._has_ended:
            found.append(Finding("one_terminal", f"expected no `{kind}` after the end of the run"))
        if event["timestamp"] < self._at:
            found.append(Finding("timestamp_order", "expected a time no earlier than that of the previous event"))
        self._at = event["timestamp"]
        if (kind == "RUN_STARTED") != (self._run is None):
            found.append(Finding("run_started", f"expected `RUN_STARTED` first and once, found `{kind}`"))
        if self._run is None or kind == "RUN_FINISHED":
            run = (event.get("threadId", ""), event.get("runId", ""))
            self._run = self._run or run
            if run != self._run:
                found.append(Finding("one_run", "expected the `threadId` and the `runId` of `RUN_STARTED`"))
        if kind == "RUN_FINISHED":
            found += [Finding("not_closed", f"expected the end of each {family}") for family, _ in sorted(self._open)]
        self._has_ended |= kind in _TERMINALS
        return found

    def _check_part(self, event: Mapping[str, Any]) -> list[Finding]:
        kind = event["type"]
        if (part := _PARTS.get(kind)) is not None:
            return self._follow(part, (part.family, event[part.name]))
        if kind == "TOOL_CALL_RESULT":
            call = (CALL, event["toolCallId"])
            is_known = call in self._begun and call not in self._open
            return [] if is_known else [Finding("call_known", "expected the `toolCallId` of a call that has ended")]
        if kind == "ACTIVITY_SNAPSHOT":
            self._activities.add(event["messageId"])
        elif kind == "ACTIVITY_DELTA" and event["messageId"] not in self._activities:
            return [Finding("activity_known", "expected the `messageId` of an activity")]
        return []

    def _follow(self, part: _Part, key: tuple[str, str]) -> list[Finding]:
        if part.action == "start":
            is_new = key not in (self._open if part.family == STEP else self._begun)
            self._open.add(key)
            self._begun.add(key)
            return [] if is_new else [Finding("id_unique", f"expected a new `{part.name}`")]
        is_open = key in self._open
        if part.action == "end":
            self._open.discard(key)
        return [] if is_open else [Finding("not_open", f"expected the `{part.name}` of an open {part.family}")]

    def _violations(self, found: list[Finding]) -> list[Violation]:
        return violations(RULES, self._line, None, found)
