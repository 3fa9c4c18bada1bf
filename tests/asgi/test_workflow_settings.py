"""Tables `[workflows.NAME]` of a configuration file: defaults and validation errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from projector import cli
from projector.redaction.policy import Policy
from projector.server.catalog import Catalog
from projector.server.config.config_dump import to_toml
from projector.server.config.loading import SettingsError, load, read
from projector.server.upstream.demo import DemoUpstream

AGENTS = """
[agents.writer]
upstream = "default"
model = "m"

[agents.auditor]
upstream = "default"
model = "m"
"""
STAGE = """
[[workflows.review.stages]]
name = "first"
steps = [{ name = "a", agent = "writer" }]
"""


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "projector.toml"
    file.write_text(AGENTS + text, encoding="utf-8")
    return file


def stage(name: str, *steps: str) -> str:
    return f'[[workflows.review.stages]]\nname = "{name}"\nsteps = [{", ".join(steps)}]\n'


def step(name: str, agent: str = "writer", **members: str) -> str:
    extra = "".join(f', {key} = "{value}"' for key, value in members.items())
    return f'{{ name = "{name}", agent = "{agent}"{extra} }}'


def test_a_workflow_with_its_defaults(tmp_path: Path) -> None:
    settings = load({}, config=written(tmp_path, STAGE))
    workflow = settings.workflows["review"]
    assert (workflow.dialects, workflow.max_parallel, workflow.stages[0].steps[0].on_failure) == (
        ("public_sse_v1",),
        8,
        "fail",
    )
    assert workflow.stages[0].steps[0].input == "{{request.message}}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(stage("s", step("a", "writr")), "unknown agent of workflow `review`: `writr`", id="no-such-agent"),
        pytest.param(
            stage("s", step("a", input="{{steps.b.text}}")),
            "`workflows.review`: step `a`: input: `{{steps.b.text}}` is not available here; available: request.message",
            id="no-such-name",
        ),
        pytest.param(stage("s", step("a", input="{{request.message")), "braces", id="open-braces"),
        pytest.param(stage("s", step("a"), step("a")), "step `a`: expected a unique name", id="a-step-twice"),
        pytest.param(
            stage("s", step("a")) + stage("s", step("b")), "stage `s`: expected a unique name", id="a-stage-twice"
        ),
        pytest.param(stage("s"), "`workflows.review.stages[0].steps`", id="no-steps"),
        pytest.param(stage("s", step("a", on_failure="ignore")), "on_failure", id="no-such-policy"),
        pytest.param(stage("s", step("a", retries="2")), "retries` is unknown", id="an-unknown-member"),
        pytest.param("[workflows.review]\ndialects = ['none']\n" + STAGE, "workflows.review.dialects", id="dialect"),
        pytest.param("[workflows.review]\n", "workflows.review.stages", id="no-stages"),
        pytest.param("[workflows.'Re view']\n" + STAGE, "workflows.Re view", id="a-name-that-is-none"),
        pytest.param(
            stage("s", step("a"), step("b", "auditor")) + "[agents.auditor.policy]\nimages = 'host'\n",
            "workflow `review`: expected a `policy`, because its agents have different ones",
            id="two-policies",
        ),
    ],
)
def test_invalid_workflows(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, expected: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(SettingsError) as refused:
        load({}, config=file)
    assert expected in str(refused.value)
    assert cli.main(["config", "check", str(file)]) == 2
    assert expected in capsys.readouterr().err


async def test_the_policy_of_a_workflow(tmp_path: Path) -> None:
    own = "[agents.writer.policy]\nimages = 'host'\n[agents.auditor.policy]\nimages = 'host'\n"
    both = stage("s", step("a"), step("b", "auditor"))
    for text, images in (
        (own + both, "host"),
        (own + "[workflows.review.policy]\nimages = 'chunks'\n" + both, "chunks"),
    ):
        settings = load({}, config=written(tmp_path, text))
        catalog = Catalog(settings, lambda *_: DemoUpstream(0))
        assert catalog.workflows["review"].redactor.policy == Policy.load({"images": images})
        await catalog.aclose()


def test_the_printed_configuration_can_be_loaded(tmp_path: Path) -> None:
    loaded = read({}, config=written(tmp_path, stage("s", step("a", input="say: {{request.message}}"), step("b"))))
    again = tmp_path / "again.toml"
    again.write_text(to_toml(loaded), encoding="utf-8")
    assert load({}, config=again).workflows == loaded.settings.workflows


def test_stages_may_come_from_a_variable() -> None:
    stages = '[{"name": "s", "steps": [{"name": "a", "agent": "default"}]}]'
    settings = load({"PROJECTOR_WORKFLOWS__REVIEW__STAGES": stages})
    assert settings.workflows["review"].definition.agents == ["default"]
