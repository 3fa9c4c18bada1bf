"""Properties of AG-UI streams for any input: the protocol's rules hold, and nothing private is emitted."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from ag_ui_validate.pytest_plugin import validate_agui
from hypothesis import given
from hypothesis import strategies as st

from projector.contracts.stream_rules.table import check_lines
from projector.core.context import StreamContext
from projector.core.faults import FAULTS
from projector.core.pipeline import Pipeline, build_pipeline
from projector.core.sse import encode_sse
from projector.dialects.descriptor import DialectOptions
from projector.recording.replay import Case, CaseSettings
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from tests.property.canaries import everywhere, leaks, secret_of
from tests.property.mutations import CASES, Lines, lines_of, spoiled, weave
from tests.property.soundness import CALLS, OURS, examples, interrupted
from tests.protocols.ag_ui.checker import AgUiChecker
from tests.rule_samples import FORMATS, Format

Event = dict[str, Any]

CLIENT: Final = ("ag-ui-clients.mjs", "@ag-ui/client")
TERMINALS: Final = {"RUN_FINISHED", "RUN_ERROR"}
PAIRS: Final = {
    "STEP_STARTED": ("STEP_FINISHED", "stepName"),
    "TEXT_MESSAGE_START": ("TEXT_MESSAGE_END", "messageId"),
    "REASONING_START": ("REASONING_END", "messageId"),
    "REASONING_MESSAGE_START": ("REASONING_MESSAGE_END", "messageId"),
    "TOOL_CALL_START": ("TOOL_CALL_END", "toolCallId"),
}
"""Start event -> its end event, and the member that identifies the pair."""

each_case: Final = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@cache
def redactor(policy: str) -> Redactor:
    return Redactor(Policy.load(json.loads(policy)))


def open_pipeline(provider: str, settings: CaseSettings, options: DialectOptions | None = None) -> Pipeline:
    now = datetime.fromisoformat(settings.clock).timestamp()
    return build_pipeline(
        provider=provider,
        dialect="ag_ui",
        context=StreamContext(stream_id=settings.stream_id, **settings.context.model_dump()),
        run=settings.run,
        profile=settings.profile,
        input_format="ndjson",
        output_format="ndjson",
        takes_host_events=settings.host_events,
        clock=lambda: now,
        redactor=redactor(json.dumps(settings.policy)),
        options=options,
    )


def play(case: Case, lines: Lines, **policy: object) -> list[Event]:
    settings = case.settings.model_copy(update={"policy": {**case.settings.policy, **policy}})
    pipeline = open_pipeline(case.provider, settings)
    said = pipeline.feed(b"\n".join(lines)) + pipeline.close(FAULTS[settings.close] if settings.close else None)
    return events_of(said)


def events_of(said: bytes) -> list[Event]:
    return [json.loads(line) for line in said.splitlines()]


def assert_valid(events: list[Event]) -> None:
    """Our models and rules, the rules of the validator, and those of the client that the validator does not have."""
    lines = [json.dumps(event) for event in events]
    assert check_lines(AgUiChecker(), lines) == []
    report = validate_agui(lines, severity_overrides={"AGUI204": "off"})
    assert [found for found in report.diagnostics if found.severity != "info"] == []
    types = [event["type"] for event in events]
    assert types[0] == "RUN_STARTED"
    assert [kind in TERMINALS for kind in types] == [False] * (len(types) - 1) + [True]
    for opening, (closing, member) in PAIRS.items():
        opened = Counter(event[member] for event in events if event["type"] == opening)
        closed = Counter(event[member] for event in events if event["type"] == closing)
        assert opened == closed or (types[-1] == "RUN_ERROR" and opening == "STEP_STARTED")
        assert opening == "STEP_STARTED" or set(opened.values()) <= {1}
    made = ("TEXT_MESSAGE_START", "REASONING_MESSAGE_START", "TOOL_CALL_RESULT", "ACTIVITY_SNAPSHOT")
    ids = Counter(event["messageId"] for event in events if event["type"] in made)
    assert set(ids.values()) <= {1}
    assert events[-1].get("code") not in OURS


@each_case
def test_a_stream_may_end_after_any_event(case: Case) -> None:
    lines = lines_of(case)
    for end in range(len(lines)):
        assert_valid(play(case, lines[:end]))


@examples(250)
@given(spoiled())
def test_any_stream_is_a_valid_run(stream: tuple[Case, Lines]) -> None:
    case, lines = stream
    assert_valid(play(case, lines, reasoning="full", encrypted_reasoning=True))


@examples(120)
@given(st.sampled_from(CASES), st.randoms(use_true_random=False))
def test_interleaved_streams_are_a_valid_run(case: Case, random: Any) -> None:
    assert_valid(play(case, weave(random, lines_of(case))))


@examples(120)
@given(stream=spoiled(most=2), run=st.booleans(), calls=st.lists(st.tuples(st.integers(0, 40), CALLS), max_size=3))
def test_host_events_at_any_time_keep_the_run_valid(
    *, stream: tuple[Case, Lines], run: bool, calls: list[tuple[int, tuple[Any, ...]]]
) -> None:
    case, lines = stream
    pipeline = open_pipeline(case.provider, case.settings.model_copy(update={"run": run}))
    assert_valid(events_of(interrupted(pipeline, lines, calls)))


@each_case
def test_ids_of_the_thread_are_not_reused(case: Case) -> None:
    settings, lines = case.settings, b"\n".join(lines_of(case))
    first = open_pipeline(case.provider, settings)
    before = events_of(first.feed(lines) + first.close())
    names = ("messageId", "toolCallId", "parentMessageId")
    taken = frozenset(event[name] for event in before for name in names if name in event)
    again = open_pipeline(case.provider, settings, DialectOptions(taken_ids=taken))
    after = events_of(again.feed(lines) + again.close())
    assert_valid(after)
    spans = ("REASONING_START", "REASONING_END")  # a span is in no list of messages
    assert not {event[name] for event in after if event["type"] not in spans for name in names if name in event} & taken


@pytest.mark.node
def test_the_client_agrees(node_modules: Path) -> None:
    """The protocol's own client accepts streams that are cut off after each third."""
    streams = [play(case, lines_of(case)[: len(lines_of(case)) * third // 3]) for case in CASES for third in (1, 2)]
    data = [b"".join(encode_sse(json.dumps(event).encode()) for event in events).decode() for events in streams]
    lines = "\n".join(json.dumps({"declared": sse}) for sse in data).encode()
    command = ["node", *CLIENT]
    said = subprocess.run(command, input=lines, stdout=subprocess.PIPE, check=True, cwd=node_modules).stdout
    heard = [json.loads(line) for line in said.split(b"\n")[:-1]]
    assert [(one["thrown"], one["warnings"]) for one in heard] == [(None, [])] * len(streams)


# nothing private is emitted


@pytest.mark.parametrize("row", FORMATS, ids=[row.name for row in FORMATS])
def test_no_credential_is_written(row: Format) -> None:
    pipeline = open_pipeline("openai_responses", CaseSettings(host_events=True))
    said = b"".join(pipeline.feed(json.dumps(event).encode() + b"\n") for event in everywhere(row.matches[0]))
    events = events_of(said + pipeline.close())
    assert_valid(events)
    assert leaks(b"\n".join(as_frames(events)), *secret_of(row)) == set()


def as_frames(events: Iterable[Event]) -> Iterable[bytes]:
    """Yield events with their deltas in the fields that the search for leaks joins."""
    for event in events:
        place = {"kind": event["type"], "item_id": event.get("messageId", event.get("toolCallId", ""))}
        pieces = [step["value"] for step in event.get("patch", ()) if step["path"].startswith("/code")]
        for piece in pieces:
            yield json.dumps({**place, "delta": "".join(piece)}).encode()
        yield json.dumps({**event, **place}).encode()


RESPONSES_CASES: Final = [case for case in CASES if case.provider == "openai_responses"]
CANARY: Final = "the cellar door was never locked"
THOUGHTS: Final = [
    {"type": "response.reasoning_text.delta", "item_id": "rs_canary", "output_index": 90, "delta": CANARY},
    {"type": "response.reasoning_text.done", "item_id": "rs_canary", "output_index": 90, "text": CANARY},
    {
        "type": "response.output_item.done",
        "output_index": 91,
        "item": {
            "type": "reasoning",
            "id": "rs_whole",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": CANARY}],
            "encrypted_content": "gAAAA-sealed",
        },
    },
]


@pytest.mark.parametrize(
    ("policy", "says_text", "says_value"),
    [
        ({"reasoning": "off"}, False, False),
        ({"reasoning": "summary"}, False, False),
        ({"reasoning": "summary", "encrypted_reasoning": True}, False, True),
        ({"reasoning": "full"}, True, False),
        ({"reasoning": "full", "encrypted_reasoning": True}, True, True),
    ],
)
def test_reasoning_is_written_only_if_the_policy_allows_it(
    policy: dict[str, object], *, says_text: bool, says_value: bool
) -> None:
    seen = ""
    for case in CASES:
        if case.provider != "openai_responses":
            continue
        lines = lines_of(case)
        at = len(lines) // 2
        own_policy = {"reasoning": "off", "encrypted_reasoning": False, **policy}
        said = json.dumps(
            play(case, [*lines[:at], *(json.dumps(event).encode() for event in THOUGHTS), *lines[at:]], **own_policy)
        )
        assert CANARY not in said or says_text, case.name
        assert "gAAAA-sealed" not in said or says_value, case.name
        seen += said
    assert (CANARY in seen, "gAAAA-sealed" in seen) == (says_text, says_value)
