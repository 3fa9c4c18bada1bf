"""Hints at what an unknown setting of a configuration file was meant to be."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from projector.server.config.loading import SettingsError, load
from projector.server.config.setting_names import MEANT, kind_of, members

AGENT: Final = '[agents.helper]\nupstream = "one"\nmodel = "m"\n'
DOTS: Final = "is unknown; a dot divides names: put a name with a dot in quotes"

CASES: Final = [
    # a setting of another table
    (f'{AGENT}api_key = "secret"', ["`agents.helper.api_key` is unknown; `api_key` belongs in `[upstreams.NAME]`"]),
    (f'{AGENT}base_url = "https://RESOURCE.example/v1"', ["unknown; `base_url` belongs in `[upstreams.NAME]`"]),
    ('[auth]\napi_key = "secret"', ["`auth.api_key` is unknown; did you mean `auth.api_keys`?"]),
    ('[upstreams]\napi_key = "secret"', ["`upstreams.api_key` is unknown; `api_key` belongs in `[upstreams.NAME]`"]),
    ('[agents]\nmodel = "secret"', ["`agents.model` is unknown; `model` belongs in `[agents.NAME]`"]),
    ('[upstreams.a]\nmodel = "secret"', ["`upstreams.a.model` is unknown; `model` belongs in `[agents.NAME]`"]),
    ("[upstreams.a]\nretries.max = 2", ["`upstreams.a.retries` is unknown; did you mean the table `[retries]`?"]),
    ("tokens_per_day = 3", ["belongs in `[callers.NAME.rate_limits]` or `[agents.NAME.rate_limits]`"]),
    ("[callers]\nrate_limits = { tokens_per_day = 3 }", ["unknown; `rate_limits` belongs in `[callers.default]`"]),
    ("[server]\nport = 1\nhost = 3", ["`server` is unknown; its settings belong above the first table"]),
    # another name
    ("[agents.a]\ntemperature = 1", ["unknown; `temperature` belongs in `[agents.a.parameters]`"]),
    ('[agents.a]\nsystem_prompt = "secret"', ["is unknown; did you mean `agents.a.instructions`?"]),
    ('[cors]\norigins = ["*"]', ["`cors` is unknown; did you mean `cors_origins`?"]),
    ('[passthrough]\nchat = "a"', ["`passthrough.chat` is unknown; did you mean `passthrough.chat_completions`?"]),
    ('[providers.openai]\napi_key = "secret"', ["`providers` is unknown; did you mean `upstreams`?"]),
    ('[agents.a.polcy]\nimages = "host"', ["`agents.a.polcy` is unknown; did you mean `agents.a.policy`?"]),
    # a dot in a name
    ("[models.gpt-5.4]\ntargets = []", [f"`models.gpt-5.4` {DOTS}", "`models.gpt-5.targets` is missing"]),
    # nothing to suggest
    ("foo = 1", ["`foo` is unknown"]),
    ("[models.a]\nfoo = 1", ["`models.a.foo` is unknown", "`models.a.targets` is missing"]),
    ('[agents.a]\ntargets = [{ upstream = "b", model = "m", foo = 1 }]', ["`agents.a.targets[0].foo` is unknown"]),
]


@pytest.mark.parametrize(("text", "messages"), CASES, ids=[text for text, _ in CASES])
def test_an_unknown_setting_is_reported_with_what_was_meant(tmp_path: Path, text: str, messages: list[str]) -> None:
    file = tmp_path / "projector.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        load({}, config=file)
    lines = str(caught.value).splitlines()
    assert len(lines) == len(messages)
    for line, message in zip(lines, messages, strict=True):
        assert line.startswith(f"{file}: ")
        assert message in line
        assert line.endswith(message.rpartition("unknown")[2]) or "; " in message
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("written", MEANT)
def test_a_meant_setting_exists_and_the_written_one_does_not(written: str) -> None:
    assert kind_of(tuple(MEANT[written].split("."))) is not None
    *table, name = written.split(".")
    assert name not in members(kind_of(tuple(table)))
