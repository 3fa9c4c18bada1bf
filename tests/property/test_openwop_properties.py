"""Properties of OpenWOP logs for any input: the rules hold, and nothing is leaked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projector.core.context import BranchContext, StreamContext
from projector.core.faults import FAULTS
from projector.core.pipeline import Pipeline, build_pipeline
from projector.openwop.checker import RULES
from projector.openwop.event_log import RUN_TERMINALS
from projector.recording.replay import Case, CaseSettings
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from tests.openwop_reader import check_log, content_of
from tests.property.canaries import everywhere, leaks, secret_of
from tests.property.mutations import CASES, MUTATIONS, Lines, lines_of, spoiled, weave
from tests.property.soundness import CALLS, OURS, examples, interrupted
from tests.rule_samples import FORMATS, Format

Event = dict[str, Any]

EXAMPLES: Final = Path(__file__).parents[2] / "examples_ndjson" / "openwop"
DELTA: Final = "agent.reasoning.delta"
CLOSING: Final = "agent.reasoned"

RESPONSES_CASES: Final = [case for case in CASES if case.provider == "openai_responses"]
AGENTS: Final = (None, "one", "two")

each_case: Final = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@cache
def redactor(policy: str) -> Redactor:
    return Redactor(Policy.load(json.loads(policy)))


def open_pipeline(provider: str, settings: CaseSettings) -> Pipeline:
    now = datetime.fromisoformat(settings.clock).timestamp()
    return build_pipeline(
        provider=provider,
        dialect="openwop",
        context=StreamContext(stream_id=settings.stream_id, **settings.context.model_dump()),
        run=settings.run,
        profile=settings.profile,
        input_format="ndjson",
        output_format="ndjson",
        takes_host_events=settings.host_events,
        clock=lambda: now,
        redactor=redactor(json.dumps(settings.policy)),
    )


def play(case: Case, lines: Lines, **policy: object) -> list[Event]:
    settings = case.settings.model_copy(update={"policy": {**case.settings.policy, **policy}})
    pipeline = open_pipeline(case.provider, settings)
    said = pipeline.feed(b"\n".join(lines)) + pipeline.close(FAULTS[settings.close] if settings.close else None)
    return events_of(said)


def events_of(said: bytes) -> list[Event]:
    return [json.loads(line) for line in said.splitlines()]


def written(events: Iterable[Event]) -> list[bytes]:
    return [json.dumps(event).encode() for event in events]


def assert_valid(events: list[Event]) -> None:
    """Check models and rules, ids, and that a reader has the same content."""
    assert check_log(written(events)) == []
    assert [event["eventId"] for event in events] == [f"{events[0]['runId']}:{at}" for at in range(len(events))]
    assert events[-1]["payload"].get("error", {}).get("code") not in OURS
    content = content_of(events)
    assert content.thoughts == content.closings
    assert (content.status == "waiting-approval") == (events[-1]["type"] not in RUN_TERMINALS)


@each_case
def test_a_stream_may_end_after_any_event(case: Case) -> None:
    lines = lines_of(case)
    for end in range(len(lines)):
        assert_valid(play(case, lines[:end]))


@examples(250)
@given(spoiled())
def test_the_log_is_valid_for_any_input(stream: tuple[Case, Lines]) -> None:
    case, lines = stream
    assert_valid(play(case, lines, reasoning="full", encrypted_reasoning=True))


@examples(120)
@given(st.sampled_from(CASES), st.randoms(use_true_random=False))
def test_streams_may_be_interleaved(case: Case, random: Any) -> None:
    assert_valid(play(case, weave(random, lines_of(case))))


@examples(120)
@given(stream=spoiled(most=2), run=st.booleans(), calls=st.lists(st.tuples(st.integers(0, 40), CALLS), max_size=3))
def test_host_events_may_come_at_any_time(
    *, stream: tuple[Case, Lines], run: bool, calls: list[tuple[int, tuple[Any, ...]]]
) -> None:
    case, lines = stream
    pipeline = open_pipeline(case.provider, case.settings.model_copy(update={"run": run}))
    assert_valid(events_of(interrupted(pipeline, lines, calls)))


# other hosts

LOGS: Final = [path.read_bytes().splitlines() for path in sorted(EXAMPLES.glob("*.ndjson"))]


def spoiled_log(random: Random) -> Lines:
    lines = random.choice(LOGS)
    for _ in range(random.randint(1, 4)):
        lines = random.choice(MUTATIONS)(random, lines)
    return lines


@examples(300)
@given(st.randoms(use_true_random=False).map(spoiled_log))
def test_the_checker_accepts_any_input(lines: Lines) -> None:
    assert all(violation.rule in RULES for violation in check_log(lines))


# branches


@examples(60)
@given(st.lists(st.sampled_from(RESPONSES_CASES), min_size=2, max_size=3), st.randoms(use_true_random=False))
def test_branches_may_interleave(cases: list[Case], random: Any) -> None:
    pipeline = open_pipeline("openai_responses", CaseSettings(run=True, policy={"reasoning": "full"}))
    places = [{"stage_name": "s", "parallel_group": "g", "branch_index": number} for number in range(len(cases))]
    branches = [
        (pipeline.branch(BranchContext(random.choice(AGENTS), place, stage=0, is_optional=True)), lines_of(case))
        for case, place in zip(cases, places, strict=True)
    ]
    out = b""
    while any(lines for _, lines in branches):
        branch, lines = random.choice([row for row in branches if row[1]])
        out += branch.feed(lines.pop(0) + b"\n")
        if not lines:
            out += branch.close()
    assert_valid(events_of(out + pipeline.close()))


# nothing private is emitted


@pytest.mark.parametrize("row", FORMATS, ids=[row.name for row in FORMATS])
def test_no_credential_is_emitted(row: Format) -> None:
    pipeline = open_pipeline("openai_responses", CaseSettings(host_events=True))
    out = b"".join(pipeline.feed(json.dumps(event).encode() + b"\n") for event in everywhere(row.matches[0]))
    events = events_of(out + pipeline.close())
    assert_valid(events)
    assert leaks(b"\n".join(as_frames(events)), *secret_of(row)) == set()


def as_frames(events: Iterable[Event]) -> Iterator[bytes]:
    """Return events so that the search for leaks joins their deltas."""
    for event in events:
        payload = event["payload"]
        place = {"kind": event["type"], "item_id": payload.get("channel", payload.get("agentId", ""))}
        text = {"delta": payload["chunk"]} if "chunk" in payload else {}
        yield json.dumps({**payload, **place, **text}).encode()


VALUE: Final = "harbour-master-7781"
REGISTERED: Final = {"registered": [{"id": "dock-code", "value": VALUE}], "reasoning": "full"}
MARK: Final = "[REDACTED:dock-code]"


@pytest.mark.parametrize("kind", ["reasoning_text", "reasoning_summary_text"])
def test_a_secret_split_over_deltas_is_withheld(kind: str) -> None:
    text = f"the code is {VALUE}!"
    for at in range(len(text) + 1):
        pipeline = open_pipeline("openai_responses", CaseSettings(policy=REGISTERED))
        out = b"".join(
            pipeline.feed(
                json.dumps({"type": f"response.{kind}.delta", "item_id": "rs", "delta": piece}).encode() + b"\n"
            )
            for piece in (text[:at], text[at:])
        )
        events = events_of(out + pipeline.close())
        assert_valid(events)
        closing = [event for event in events if event["type"] == CLOSING]
        assert [event["payload"]["reasoning"] for event in closing] == [f"the code is {MARK}!"]
        assert VALUE[:4] not in json.dumps(events)
        assert closing[0]["public-sse.notices"][0]["type"] == "redacted"


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


@pytest.mark.parametrize("verbosity", ["off", "summary", "full"])
def test_reasoning_follows_the_policy(verbosity: str) -> None:
    heard = 0
    for case in RESPONSES_CASES:
        lines = lines_of(case)
        at = len(lines) // 2
        woven = [*lines[:at], *(json.dumps(event).encode() for event in THOUGHTS), *lines[at:]]
        events = play(case, woven, reasoning=verbosity, encrypted_reasoning=True)
        assert_valid(events)
        types = {event["type"] for event in events}
        assert "gAAAA-sealed" not in json.dumps(events)
        heard += CANARY in json.dumps(events)
        assert verbosity != "off" or not types & {DELTA, CLOSING}, case.name
    assert (heard > 0) == (verbosity == "full")
