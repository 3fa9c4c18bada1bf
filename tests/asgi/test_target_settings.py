"""Settings of several targets: what is checked, how they are printed, and the routes that they turn on."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

from projector.server.catalog import Catalog
from projector.server.config.config_dump import to_toml
from projector.server.config.loading import SettingsError, read
from projector.server.http.problems import Problem

UPSTREAMS: Final = """
[upstreams.a]
[upstreams.b]
[upstreams.chat]
api = "openai_chat"
"""
TWO: Final = 'targets = [{upstream = "a", model = "m"}, {upstream = "b", model = "n"}]'


def two(one: str, other: str) -> str:
    """Return an agent with two targets, in which a text is replaced by another one."""
    return "[agents.x]\n" + TWO.replace(one, other)


def loaded(tmp_path: Path, text: str) -> Any:
    config = tmp_path / "projector.toml"
    config.write_text(UPSTREAMS + text, encoding="utf-8")
    return read({}, config=config)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[agents.x]", "expected `upstream` and `model`, or `targets`"),
        ('[agents.x]\nupstream = "a"', "expected `upstream` and `model`, or `targets`"),
        (f'[agents.x]\nupstream = "a"\n{TWO}', "`upstream` cannot be combined with `targets`"),
        (f'[agents.x]\nmodel = "a"\n{TWO}', "`model` cannot be combined with `targets`"),
        (two('"b"', '"bb"'), "unknown upstream of agent `x`: `bb`"),
        (
            two('"b"', '"chat"'),
            "agent `x`: expected targets with the same api: `a` has `openai_responses`, `chat` has `openai_chat`",
        ),
        (two('"b", model = "n"', '"a", model = "m"'), "the model `m` of `a` is listed twice"),
        (two('"n"', '"n", weight = 2'), "`weight` of a target has an effect only with"),
        (two('"n"', '"n", weight = 0'), "weight` must be at least 1"),
        (two("upstream", "upstraem"), "did you mean"),
        ('[models."fast"]\ntargets = []', "targets"),
        (f'[models."fast"]\n{TWO}\nbalance = "random"', "balance` must be"),
        ('[models."fast"]\n' + TWO.replace('"b"', '"chat"'), "model `fast`: expected targets with the same api"),
        ('[models."fast"]\ntargets = [{upstream = "x", model = "m"}]', "unknown upstream of model `fast`: `x`"),
    ],
)
def test_invalid_targets(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        loaded(tmp_path, text)
    assert message in str(caught.value)


def test_printed_settings_can_be_read_again(tmp_path: Path) -> None:
    text = f'[agents.x]\n{TWO}\n[agents.y]\nupstream = "a"\nmodel = "m"\n[models."gpt.5"]\n{TWO}\nbalance = "weight"'
    first = loaded(tmp_path, text)
    printed = to_toml(first)
    (tmp_path / "again.toml").write_text(printed, encoding="utf-8")
    assert read({}, config=tmp_path / "again.toml").settings == first.settings
    assert tomllib.loads(printed)["models"]["gpt.5"]["balance"] == "weight"


def test_a_model_turns_on_the_route_of_its_api(tmp_path: Path) -> None:
    text = f'[models."fast"]\n{TWO}\n[passthrough]\nchat_completions = "chat"'
    catalog = Catalog(loaded(tmp_path, text).settings)
    assert set(catalog.passthrough) == {"responses", "chat_completions"}
    route = catalog.passthrough["responses"]
    assert [target.model for target in route.binding("fast").targets.targets] == ["m", "n"]
    with pytest.raises(Problem, match="model_not_found"):
        route.binding("m")
    assert catalog.passthrough["chat_completions"].binding("fast").provider.name == "chat"
    assert catalog.keys == {("a", "m"), ("b", "n"), ("chat", "")}


def test_a_recording_of_each_target_has_its_profile(tmp_path: Path) -> None:
    """They share the folder and its limit."""
    text = f'[agents.x]\n{TWO}\n[agents.x.record]\nfolder = "{tmp_path.as_posix()}"'
    targets = Catalog(loaded(tmp_path, text).settings).agent("x").targets.targets
    one, other = (target.provider.upstream for target in targets)
    assert one is not other
    assert one._copies is other._copies  # type: ignore[attr-defined]
