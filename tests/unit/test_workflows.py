"""Workflows without I/O: templates, valid definitions, and the next steps of a run."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from projector import UsageError
from projector.workflows.definition import Plan, StepSource, Workflow, workflow_of
from projector.workflows.template import Template, names_of

KNOWN = names_of({"facts", "costs"})
VALUES = {
    "request.message": "ferry",
    "steps.facts.text": "{{steps.costs.text}}",
    "steps.facts.status": "completed",
    "steps.costs.text": "$1",
    "steps.costs.status": "failed",
}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("no names", "no names", id="plain"),
        pytest.param("{{request.message}}", "ferry", id="a-name-alone"),
        pytest.param("On {{ request.message }}: {{request.message}}!", "On ferry: ferry!", id="blanks-and-twice"),
        pytest.param("{{steps.facts.text}}", "{{steps.costs.text}}", id="a-value-is-never-read-as-a-template"),
        pytest.param("{{steps.costs.text}}|{{steps.costs.status}}", "$1|failed", id="a-step"),
        pytest.param("{one} } {", "{one} } {", id="single-braces-are-text"),
    ],
)
def test_templates(source: str, expected: str) -> None:
    assert Template(source, KNOWN).render(VALUES, 1_000) == expected


@pytest.mark.parametrize(
    "source",
    [
        "{{request.other}}",
        "{{steps.later.text}}",
        "{{steps.facts}}",
        "{{steps.facts.text.upper()}}",
        "{{}}",
        "{{request.message",
        "request.message}}",
        "{{ {{request.message}} }}",
    ],
)
def test_what_a_template_may_not_say(source: str) -> None:
    with pytest.raises(UsageError, match=r"available|braces"):
        Template(source, KNOWN)


TEXTS = st.text(st.sampled_from("ab{}. "), max_size=30)


@settings(deadline=None, max_examples=100)
@given(message=TEXTS, text=TEXTS, max_chars=st.integers(0, 60))
def test_the_output_is_bounded_and_keeps_the_words_of_the_template(message: str, text: str, max_chars: int) -> None:
    values = VALUES | {"request.message": message, "steps.facts.text": text}
    template = Template("<{{request.message}}|{{steps.facts.text}}>", KNOWN)
    said = template.render(values, max_chars)
    assert len(said) <= max_chars
    whole = f"<{message}|{text}>"
    if len(whole) <= max_chars:
        assert said == whole
    elif max_chars >= 3:
        assert said[0] == "<"
        assert said[-1] == ">"
        shorter, longer = sorted((message, text), key=len)
        assert shorter[: (max_chars - 3) // 2] in said, "the longest value is cut first"
        assert longer[: (max_chars - 3) // 2] in said


def step(name: str, text: str = "{{request.message}}", *, optional: bool = False) -> StepSource:
    return StepSource(name, f"agent-{name}", text, is_optional=optional)


def two_stages(*, optional: bool = False) -> Workflow:
    review = ("review", [step("costs", optional=optional), step("shifts", "{{request.message}}?")])
    return workflow_of([review, ("conclude", [step("end", "{{steps.costs.text}}/{{steps.costs.status}}")])])


def test_a_definition_says_where_each_step_stands() -> None:
    (costs, shifts), (end,) = two_stages().stages
    assert shifts.context("k", "run_1").workflow == {
        "workflow_key": "k",
        "workflow_run_id": "run_1",
        "stage_name": "review",
        "step_name": "shifts",
        "step_agent": "agent-shifts",
        "parallel_group": "review",
        "branch_index": 1,
    }
    assert (costs.context("k", "r").stage, end.context("k", "r").stage) == (0, 1)
    assert "branch_index" not in end.context("k", "r").workflow
    assert two_stages().agents == ["agent-costs", "agent-shifts", "agent-end"]


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        pytest.param([("s", [step("a")]), ("s", [step("b")])], "stage `s`", id="a-stage-twice"),
        pytest.param([("s", [step("a"), step("a")])], "step `a`", id="a-step-twice-in-a-stage"),
        pytest.param([("s", [step("a")]), ("t", [step("a")])], "step `a`", id="a-step-twice"),
        pytest.param([("s", [step("a"), step("b", "{{steps.a.text}}")])], "step `b`: input", id="a-step-beside"),
        pytest.param([("s", [step("a", "{{steps.b.text}}")]), ("t", [step("b")])], "step `a`: input", id="a-later"),
    ],
)
def test_what_a_definition_may_not_say(stages: list[tuple[str, list[StepSource]]], expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        workflow_of(stages)


def test_a_stage_follows_when_the_one_before_has_ended() -> None:
    plan = Plan(two_stages(), "ferry", 100)
    costs, shifts = plan.next()
    assert (plan.input_of(costs), plan.input_of(shifts)) == ("ferry", "ferry?")
    plan.on_end(shifts, "completed", "two")
    plan.on_end(costs, "incomplete", "one")
    (end,) = plan.next()
    assert plan.input_of(end) == "one/incomplete"
    plan.on_end(end, "completed", "done")
    assert plan.next() == ()
    assert not plan.is_failed


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_step_that_fails_ends_the_run_or_leaves_no_text(status: str) -> None:
    strict, lenient = (Plan(two_stages(optional=optional), "ferry", 100) for optional in (False, True))
    for plan in (strict, lenient):
        costs, shifts = plan.next()
        plan.on_end(shifts, "completed", "two")
        plan.on_end(costs, status, "on")
    assert (strict.next(), strict.is_failed) == ((), True)
    (end,) = lenient.next()
    assert lenient.input_of(end) == f"/{status}"
