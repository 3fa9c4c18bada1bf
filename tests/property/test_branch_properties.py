"""For any branches and any order of their bytes, the interleaved output equals the output of each branch alone."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projector import Pipeline, Policy, StreamContext, build_pipeline
from projector.core.context import BranchContext
from projector.core.faults import FAULTS
from projector.dialects import DIALECTS
from projector.providers import PROVIDERS
from projector.redaction.redactor import Redactor
from tests.dialect_checks import violations_of
from tests.property.dialect_streams import CHECKS
from tests.property.mutations import CASES, lines_of, spoiled
from tests.property.soundness import OURS, assert_sound, cut, examples, frames_of

PLAIN: Final = [
    case
    for case in CASES
    if not (case.settings.run or case.settings.host_events or case.settings.close or case.settings.policy)
]
"""Cases with one unchanged provider response and the default policy."""

REDACTOR: Final = Redactor(Policy())
BRANCHES: Final = st.lists(
    st.tuples(st.sampled_from(PLAIN), st.lists(st.integers(0, 100_000), max_size=6), st.booleans()),
    min_size=2,
    max_size=3,
)
"""For each branch: its content, the cuts of its bytes, and whether it is optional."""


def assert_rules_kept(dialect: str, stream: bytes) -> None:
    assert violations_of(dialect, stream.splitlines()) == []
    if dialect in CHECKS:
        CHECKS[dialect](stream)
    elif dialect == "public_sse_v1":
        assert_sound(stream)


def run_of(dialect: str) -> Pipeline:
    workflow = {"workflow_key": "k", "workflow_run_id": "run_1"}
    return build_pipeline(
        provider="openai_responses",
        dialect=dialect,
        context=StreamContext("stream_1", workflow=workflow),
        run=True,
        input_format="ndjson",
        output_format="ndjson",
        redactor=REDACTOR,
        clock=lambda: 1_765_800_000.0,
    )


def context_of(branch: int, *, optional: bool) -> BranchContext:
    workflow = {"workflow_key": "k", "workflow_run_id": "run_1", "stage_name": "s", "step_name": f"step-{branch}"}
    place = {"parallel_group": "s", "branch_index": branch}
    return BranchContext(f"agent-{branch}", workflow | place, stage=1, is_optional=optional)


def reads_of(case: Any, cuts: list[int]) -> list[bytes]:
    return cut(b"".join(line + b"\n" for line in lines_of(case)), cuts)


def play(dialect: str, branches: list[Any], order: list[int], ends: list[Any] | None = None) -> bytes:
    """Feed the reads of the branches in the given order as far as possible, then end each branch in its own way."""
    run = run_of(dialect)
    opened = [
        run.branch(context_of(at, optional=optional), provider=case.provider, profile=case.settings.profile)
        for at, (case, _, optional) in enumerate(branches)
    ]
    left = [reads_of(case, cuts) for case, cuts, _ in branches]
    said = b""
    for turn in order:
        at = turn % len(opened)
        said += opened[at].feed(left[at].pop(0)) if left[at] else b""
    for at, branch in enumerate(opened):
        end = ends[at] if ends is not None else None
        if end is None:
            said += b"".join(map(branch.feed, left[at]))
        said += branch.close(FAULTS[end]) if end else branch.close()
    said += run.close()
    assert run.close() + run.cancel() + opened[0].feed(b"{}\n") + opened[0].close() == b""
    return said


def gist(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the frames of a branch without stream-wide numbers, with ids replaced by their order of appearance."""
    names: dict[object, str] = {}
    for frame in frames:
        tool = frame.get("tool", {})
        for value in (frame.get("item_id"), frame.get("tool_call_id"), tool.get("tool_call_id")):
            names.setdefault(value, f"id-{len(names)}")
    told = []
    for frame in frames:
        kept = {name: value for name, value in frame.items() if name not in {"event_id", "output_index"}}
        for name in ("item_id", "tool_call_id"):
            if name in kept:
                kept[name] = names[kept[name]]
        if "tool" in kept:
            kept["tool"] = {**kept["tool"], "tool_call_id": names[kept["tool"]["tool_call_id"]]}
        if "target" in kept:
            kept["target"] = {**kept["target"], "entity_id": names[kept["target"]["entity_id"]]}
        told.append(kept)
    return told


ORDER: Final = st.lists(st.integers(0, 5), max_size=20)


@examples(150)
@given(branches=BRANCHES, order=ORDER)
def test_a_branch_says_what_it_says_alone(branches: list[Any], order: list[int]) -> None:
    branches = [(case, cuts, True) for case, cuts, _ in branches]
    said = play("public_sse_v1", branches, order)
    assert_sound(said)
    frames = frames_of(said)
    total: Counter[str] = Counter()
    for at, branch in enumerate(branches):
        run = run_of("public_sse_v1")
        case, cuts, _ = branch
        alone_branch = run.branch(context_of(at, optional=True), provider=case.provider, profile=case.settings.profile)
        alone = frames_of(b"".join(map(alone_branch.feed, reads_of(case, cuts))) + alone_branch.close() + run.close())
        beside = [frame for frame in frames if frame["workflow"].get("branch_index") == at]
        assert gist(beside) == gist(alone[:-1])
        total.update(alone[-1]["final"].get("usage", {}))
    assert frames[-1]["kind"] == "final"
    assert frames[-1]["final"].get("usage", {}) == dict(total)


@examples(150)
@given(branches=BRANCHES, order=ORDER)
def test_final_does_not_depend_on_the_order(branches: list[Any], order: list[int]) -> None:
    branches = [(case, cuts, True) for case, cuts, _ in branches]
    finals = [frames_of(play("public_sse_v1", branches, way))[-1]["final"] for way in (order, order[::-1], [])]
    assert finals[0] == finals[1] == finals[2]


ENDS: Final = st.sampled_from([None, "", *(code for code in FAULTS if code not in OURS)])
"""End of a branch: complete, cut off, or with a fault."""


@pytest.mark.parametrize("dialect", DIALECTS)
@examples(60)
@given(branches=BRANCHES, order=ORDER, ends=st.lists(ENDS, min_size=3, max_size=3))
def test_however_branches_end_every_dialect_keeps_its_rules(
    dialect: str, branches: list[Any], order: list[int], ends: list[Any]
) -> None:
    said = play(dialect, branches, order, ends)
    assert_rules_kept(dialect, said)


@pytest.mark.parametrize("dialect", DIALECTS)
@examples(60)
@given(streams=st.lists(spoiled(most=2), min_size=2, max_size=2), order=ORDER, are_optional=st.booleans())
def test_whatever_branches_say_every_dialect_keeps_its_rules(
    *, dialect: str, streams: list[Any], order: list[int], are_optional: bool
) -> None:
    run = run_of(dialect)
    branches = [
        run.branch(context_of(at, optional=are_optional), provider=case.provider, profile=case.settings.profile)
        for at, (case, _) in enumerate(streams)
    ]
    left = [[line + b"\n" for line in lines] for _, lines in streams]
    said = b""
    for turn in order:
        branch = turn % len(branches)
        said += branches[branch].feed(left[branch].pop(0)) if left[branch] else b""
    said += b"".join(branch.feed(b"".join(rest)) + branch.close() for branch, rest in zip(branches, left, strict=True))
    said += run.close()
    assert_rules_kept(dialect, said)


@examples(100)
@given(branches=BRANCHES, order=ORDER, when=st.integers(0, 20), how=st.sampled_from(["cancel", "stop", "close"]))
def test_whenever_the_host_ends_it_there_is_one_end(branches: list[Any], order: list[int], when: int, how: str) -> None:
    run = run_of("public_sse_v1")
    opened = [
        run.branch(context_of(at, optional=optional), provider=case.provider, profile=case.settings.profile)
        for at, (case, _, optional) in enumerate(branches)
    ]
    left = [reads_of(case, cuts) for case, cuts, _ in branches]
    said = b""
    for at, turn in enumerate(order):
        if at == when:
            said += {"cancel": run.cancel, "stop": opened[0].stop, "close": run.close}[how]()
        index = turn % len(opened)
        said += opened[index].feed(left[index].pop(0)) if left[index] else b""
    said += b"".join(branch.close() for branch in opened) + run.close()
    assert_sound(said)


def test_the_cases_are_many() -> None:
    assert len(PLAIN) > 40
    assert {case.provider for case in PLAIN} == {*PROVIDERS}
    assert json.loads(lines_of(PLAIN[0])[0])
