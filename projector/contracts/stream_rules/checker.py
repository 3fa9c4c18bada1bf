"""`StreamChecker`: each line against its model, its envelope and every rule, in the order of the stream."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from projector._validation import invalid_fields
from projector.contracts import codec
from projector.contracts.kinds import TERMINAL_KINDS
from projector.contracts.limits import FRAME_MAX_BYTES
from projector.contracts.public_sse_v1 import PublicEvent, parse_event
from projector.contracts.stream_rules.calls import CallRules
from projector.contracts.stream_rules.items import STRAY, ChunkRules, ItemRules
from projector.contracts.stream_rules.responses import LifecycleRules, TextRules
from projector.contracts.stream_rules.table import RULES, Finding, RuleGroup, Violation, check_lines, violations
from projector.contracts.stream_rules.values import check_bounds, check_notices

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_MAYBE_SURROGATE: Final = re.compile("[\ud800-\udfff]|\\\\u[dD][89a-fA-F]")
_MODEL_RULES: Final = {
    "union_tag_not_found": "kind",
    "union_tag_invalid": "kind",
    "extra_forbidden": "extra_member",
}
"""Model errors that have a rule of their own; the first two at the root only."""


class ParsedLine(NamedTuple):
    """A parsed line: `members` is None if it is not a JSON object, `event` is None if it does not match its model."""

    members: dict[str, Any] | None
    event: PublicEvent | None
    found: list[Finding]


def read_line(line: bytes | str) -> ParsedLine:
    """Parse one line of a stream, without its line end."""
    found: list[Finding] = []
    size = len(line if isinstance(line, bytes) else line.encode("utf-8", "surrogatepass"))
    if size > FRAME_MAX_BYTES:
        found.append(Finding("frame_bytes", f"expected at most {FRAME_MAX_BYTES} bytes, found {size}"))
    try:
        text = line if isinstance(line, str) else line.decode()
        members = codec.loads_exact(text)
    except ValueError:
        return ParsedLine(None, None, [*found, Finding("json", "expected JSON in UTF-8")])
    if not isinstance(members, dict):
        return ParsedLine(None, None, [*found, Finding("json", "expected a JSON object")])
    if _MAYBE_SURROGATE.search(text) and _has_surrogate(members):
        return ParsedLine(members, None, [*found, Finding("surrogate", "expected text without lone surrogates")])
    try:
        return ParsedLine(members, parse_event(members), found)
    except ValidationError as error:
        return ParsedLine(members, None, found + _shape_violations(error, members))


def _shape_violations(error: ValidationError, members: Mapping[str, object]) -> list[Finding]:
    found = []
    for field in invalid_fields(error, members):
        rule = "shape" if field.path and field.type.startswith("union_tag") else _MODEL_RULES.get(field.type, "shape")
        rule = "schema" if field.path == ("schema",) and field.type != "missing" else rule
        found.append(Finding(rule, field.sentence(field.name or "event")))
    return found


def _has_surrogate(value: object) -> bool:
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, str) and _SURROGATE.search(value):
            return True
        if isinstance(value, dict):
            pending += [*value, *value.values()]
        elif isinstance(value, list):
            pending += value
    return False


_TIMESTAMP: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)


def event_id_of(members: Mapping[str, object]) -> int | None:
    """Return the ID of an event that may not match its model."""
    event_id = members.get("event_id")
    return event_id if isinstance(event_id, int) and not isinstance(event_id, bool) else None


class EnvelopeRules:
    """Rules of the envelope over a stream: IDs, times, context (seed section 6)."""

    def __init__(self) -> None:
        self._last_id = 0
        self._timestamp = ""
        self._stream_id: str | None = None
        self._conversation_id: str | None = None

    def check(self, event: PublicEvent, /) -> list[Finding]:
        """Check the envelope of the next event."""
        return [
            *self._event_id(event.event_id),
            *self._streams(event.stream_id, event.conversation_id),
            *self._time(event.server_timestamp),
        ]

    def skip(self, members: Mapping[str, object], /) -> None:
        """Count the ID of an event that does not match its model, so that one fault is not reported twice."""
        self._last_id = event_id_of(members) or self._last_id + 1

    def _event_id(self, event_id: int) -> list[Finding]:
        last, self._last_id = self._last_id, event_id
        if event_id <= last:
            return [Finding("event_id_rises", f"expected an `event_id` over {last}, found {event_id}")]
        if event_id != last + 1:
            return [Finding("event_id_gapless", f"expected `event_id` {last + 1}, found {event_id}")]
        return []

    def _streams(self, stream_id: str, conversation_id: str | None) -> list[Finding]:
        self._stream_id = self._stream_id or stream_id
        self._conversation_id = self._conversation_id or conversation_id
        found = []
        if stream_id != self._stream_id:
            found.append(Finding("one_stream", "expected the `stream_id` of the first event"))
        if conversation_id is not None and conversation_id != self._conversation_id:
            found.append(Finding("one_conversation", "expected the same `conversation_id` as before"))
        return found

    def _time(self, timestamp: str) -> list[Finding]:
        if not _is_time(timestamp):
            return [Finding("timestamp_form", "expected a time such as 2025-12-15T12:00:00.000Z")]
        last, self._timestamp = self._timestamp, timestamp
        if timestamp < last:  # times in this format sort as text
            return [Finding("timestamp_order", "expected a `server_timestamp` no earlier than the previous one")]
        return []


def _is_time(timestamp: str) -> bool:
    if _TIMESTAMP.fullmatch(timestamp) is None:
        return False
    try:
        datetime.fromisoformat(timestamp)
    except ValueError:
        return False
    return True


_UNFIT: Final = STRAY | {"container_levels"}
"""Rules whose violation ends the checks of an event: it belongs to no item, or is nested too deeply to compare."""


class StreamChecker:
    """Checker of one stream of NDJSON lines. Bad input is a violation, never an exception."""

    def __init__(self) -> None:
        self._envelope = EnvelopeRules()
        self._groups: tuple[RuleGroup, ...] = (LifecycleRules(), ItemRules(), CallRules(), ChunkRules(), TextRules())
        self._last_line = 0
        self._last_id: int | None = None
        self._is_ended = False

    def feed(self, line_no: int, line: bytes | str, /) -> list[Violation]:
        """Check one line, counted from 1, and return its violations. A blank line is skipped."""
        line = line.strip()
        if not line:
            return []
        reading = read_line(line)
        self._last_line, self._last_id = line_no, event_id_of(reading.members or {})
        found = reading.found
        if reading.members is not None:
            is_terminal = reading.members.get("kind") in [*TERMINAL_KINDS]  # a list: a `kind` may be of any type
            if self._is_ended:
                rule = "one_terminal" if is_terminal else "after_terminal"
                found.append(Finding(rule, "expected nothing after the terminal"))
            elif reading.event is None:
                self._envelope.skip(reading.members)
            else:
                found += self._event(reading.event, reading.members)
            self._is_ended |= is_terminal
        return self._violations(found)

    def close(self) -> list[Violation]:
        """Check the end of the stream; return what is missing."""
        if self._is_ended:
            return []
        return self._violations([Finding("terminal_missing", "expected `final` or `error` at the end")])

    def _event(self, event: PublicEvent, members: Mapping[str, object]) -> list[Finding]:
        found = [*self._envelope.check(event), *check_bounds(members), *check_notices(event, members)]
        for group in self._groups:
            if _UNFIT.intersection(violation.rule for violation in found):
                break
            found += group.check(event)
        return found

    def _violations(self, found: list[Finding]) -> list[Violation]:
        return violations(RULES, self._last_line, self._last_id, found)


def check_stream(lines: Iterable[bytes | str]) -> list[Violation]:
    """Check a whole stream and return all violations in order; lines are numbered from 1."""
    return check_lines(StreamChecker(), lines)
