"""The examples of README and docs/providers.md run, and their numbers are those of the code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

import pytest

from projector import cli
from projector.cli.commands import build_parser
from projector.contracts import limits, stream_rules
from projector.providers.anthropic_messages.api import MessagesProfile
from projector.providers.gemini.api import GeminiProfile
from projector.providers.openai_chat.chunk_fields import ChatProfile

ROOT: Final = Path(__file__).parents[2]
README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
PROVIDERS: Final = (ROOT / "docs" / "providers.md").read_text(encoding="utf-8")
BLOCKS: Final = dict(re.findall(r"^## (.+?)\n.*?^```\w+\n(.*?)^```", README, re.MULTILINE | re.DOTALL))


def test_the_library_example_streams(capsys: pytest.CaptureFixture[str]) -> None:
    example = BLOCKS["As a library"]
    assert len(example.splitlines()) <= 20
    exec(compile(example, "README.md", "exec"), {})  # noqa: S102 - the page's own words
    lines = [line.removeprefix("data: ") for line in capsys.readouterr().out.split("\n\n") if line]
    events = [json.loads(line) for line in lines]
    assert events[-1]["final"]["response_text"] == "It is [REDACTED:vault]."
    assert events[-1]["notices"]
    assert [event["status"] for event in events if event["kind"] == "output_item.done"] == ["completed"]
    assert stream_rules.check_stream(lines) == []


def test_the_command_lines_are_understood() -> None:
    lines = [line.partition("#")[0] for line in BLOCKS["On the command line"].splitlines()]
    calls = [call.split() for line in lines if line for call in line.split("|")]
    assert len(calls) > 5
    for name, *arguments in calls:
        assert name == "projector"
        build_parser().parse_args(arguments)


def test_the_stream_that_is_projected_obeys_the_rules(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    [name] = re.findall(r"projector project (\S+)", README)
    assert cli.main(["project", str(ROOT / name)]) == 0
    assert stream_rules.check_stream(capfdbinary.readouterr().out.splitlines()) == []


def test_the_event_that_is_explained_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    [event] = re.findall(r"projector explain ([a-z]\S+)", README)
    assert cli.main(["explain", event]) == 0
    assert "unknown" not in capsys.readouterr().out


def test_the_page_of_providers_tells_the_profile() -> None:
    [example] = re.findall(r"^```python\n(.*?)^```", PROVIDERS, re.MULTILINE | re.DOTALL)
    exec(compile(example, "docs/providers.md", "exec"), {})  # noqa: S102 - the page's own words
    models = {"openai_chat": ChatProfile, "anthropic_messages": MessagesProfile, "gemini": GeminiProfile}
    for provider, model in models.items():
        section = PROVIDERS.partition(f"## {provider}\n")[2].partition("\n## ")[0]
        rows = dict(re.findall(r"^- `(\w+)` \(`(.+?)`\): ", section, re.MULTILINE))
        is_json = ("[", "true", *"0123456789")
        told = {n: json.loads(t) if t.startswith(is_json) and "-" not in t else t for n, t in rows.items()}
        assert told == model().model_dump(mode="json")


def test_the_limit_of_a_frame() -> None:
    assert f"at most {limits.FRAME_MAX_BYTES:,} bytes" in README


def test_the_recorded_streams_are_counted(corpus: Path) -> None:
    kinds = ("chat_completions", "responses", "agents_sdk", "anthropic", "gemini", "gemini_interactions")
    numbers = [len(list((corpus / kind).glob("*.ndjson"))) for kind in kinds]
    assert f"{sum(numbers)} recorded streams" in README
    assert f"There are {sum(numbers)}:" in PROVIDERS
    lists = re.findall(r"^- (?:Chat Completions|Responses): (.*)$", PROVIDERS, re.MULTILINE)
    assert [sum(map(int, re.findall(r" (\d+)[,.]", one))) for one in lists] == numbers[:2]
