"""The checker of AG-UI: every rule is broken by a row of its own, and no golden breaks one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from projector.contracts.stream_rules.table import check_lines
from tests.protocols.ag_ui.checker import RULES, AgUiChecker

EXAMPLES: Final = Path(__file__).parents[2] / "examples_ndjson" / "ag_ui"
Event = dict[str, Any]
Edit = Callable[[list[Event]], None]


def events_of(name: str) -> list[Event]:
    return [json.loads(line) for line in (EXAMPLES / f"{name}.ndjson").read_bytes().splitlines()]


def at(events: list[Event], kind: str) -> int:
    return next(place for place, event in enumerate(events) if event["type"] == kind)


def drop(kind: str) -> Edit:
    return lambda events: events.__delitem__(at(events, kind))


def again(kind: str) -> Edit:
    return lambda events: events.insert(at(events, kind), events[at(events, kind)])


def last(kind: str) -> Edit:
    return lambda events: events.append(events[at(events, kind)])


def put(kind: str, **members: object) -> Edit:
    return lambda events: events[at(events, kind)].update(members)


ROWS: Final[list[tuple[str, str, Edit]]] = [
    ("shape", "chat-function-tool", put("TEXT_MESSAGE_START", role="hunter2")),
    ("shape", "chat-function-tool", put("TEXT_MESSAGE_START", **{"is it hunter2?": "x"})),
    ("shape", "chat-function-tool", put("RUN_STARTED", type="hunter2")),
    ("timestamp_order", "chat-function-tool", put("TEXT_MESSAGE_START", timestamp=1)),
    ("run_started", "chat-function-tool", drop("RUN_STARTED")),
    ("run_started", "chat-function-tool", again("RUN_STARTED")),
    ("one_run", "chat-function-tool", put("RUN_FINISHED", runId="hunter2")),
    ("one_terminal", "chat-function-tool", last("RUN_FINISHED")),
    ("one_terminal", "chat-function-tool", last("CUSTOM")),
    ("terminal_missing", "chat-function-tool", drop("RUN_FINISHED")),
    ("id_unique", "chat-function-tool", again("TEXT_MESSAGE_START")),
    ("id_unique", "chat-function-tool", again("TOOL_CALL_START")),
    ("id_unique", "workflow-sequence", again("STEP_STARTED")),
    ("not_open", "chat-function-tool", drop("TEXT_MESSAGE_START")),
    ("not_open", "chat-function-tool", put("TEXT_MESSAGE_CONTENT", messageId="hunter2")),
    ("not_open", "chat-function-tool", drop("TOOL_CALL_START")),
    ("not_open", "chat-reasoning-summary", drop("REASONING_START")),
    ("not_open", "chat-reasoning-summary", drop("REASONING_MESSAGE_START")),
    ("not_open", "workflow-sequence", drop("STEP_STARTED")),
    ("not_closed", "chat-function-tool", drop("TEXT_MESSAGE_END")),
    ("not_closed", "chat-function-tool", drop("TOOL_CALL_END")),
    ("not_closed", "chat-reasoning-summary", drop("REASONING_END")),
    ("call_known", "chat-function-tool", put("TOOL_CALL_RESULT", toolCallId="hunter2")),
    ("call_known", "chat-function-tool", drop("TOOL_CALL_END")),
    ("activity_known", "chat-web-search", drop("ACTIVITY_SNAPSHOT")),
]


@pytest.mark.parametrize(("rule", "stream", "edit"), ROWS)
def test_each_rule_can_be_violated(rule: str, stream: str, edit: Edit) -> None:
    events = events_of(stream)
    edit(events)
    found = check_lines(AgUiChecker(), [json.dumps(event) for event in events])
    assert rule in {violation.rule for violation in found}
    assert "hunter2" not in repr(found)


@pytest.mark.parametrize("line", [b"{", b"[]", b"1", b'"x"', b"{}", b"\xff", b"[" * 100_000])
def test_invalid_lines(line: bytes) -> None:
    assert {violation.rule for violation in check_lines(AgUiChecker(), [line])} <= {"json", "shape", "terminal_missing"}
    assert check_lines(AgUiChecker(), [line])[0].line == 1


def test_every_rule_has_a_row() -> None:
    assert RULES.keys() - {rule for rule, _, _ in ROWS} == {"json"}
