"""The pages of providers and of what is withheld name all there are; configurations are valid, and show no secret."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from projector.providers import PROVIDERS as PROVIDERS_TABLE
from projector.server.config.config_dump import to_toml
from projector.server.config.loading import read
from projector.server.config.settings import secret_values

DOCS = Path(__file__).parents[2] / "docs"
PROVIDERS = (DOCS / "providers.md").read_text(encoding="utf-8")
MODELS = (DOCS / "operations.md").read_text(encoding="utf-8").partition("### Models and several upstreams")[2]
EXAMPLES = re.findall(r"```toml\n(.*?)```", PROVIDERS + MODELS.partition("\n## ")[0], re.DOTALL)
SECRET = "secret-of-the-environment"


@pytest.mark.parametrize("provider", PROVIDERS_TABLE)
def test_a_provider_has_its_section(provider: str) -> None:
    assert f"\n## {provider}\n" in PROVIDERS


def test_formats_are_counted() -> None:
    folder = DOCS.parent / "redaction" / "formats"
    entries = sum(file.read_text(encoding="utf-8").count("\n[[format]]") for file in folder.glob("*.toml"))
    for page in (DOCS / "withheld.md", DOCS.parent / "CHANGELOG.md"):
        counted = re.findall(r"([0-9]+) formats", page.read_text(encoding="utf-8"))
        assert counted == [str(entries)], f"{page.name}: expected `{entries} formats`, the entries of redaction/formats"


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 5


@pytest.mark.parametrize("text", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example(text: str, tmp_path: Path) -> None:
    file = tmp_path / "projector.toml"
    file.write_text(text.replace("RESOURCE", "ours").replace("DEPLOYMENT", "chat"), encoding="utf-8")
    environ = dict.fromkeys(re.findall(r"\$\{(\w+)\}", text), SECRET)
    loaded = read(environ, config=file)
    assert secret_values(loaded.settings) != ()
    printed = to_toml(loaded)
    assert SECRET not in printed
    file.write_text(printed, encoding="utf-8")
    assert read(environ, config=file).settings.upstreams == loaded.settings.upstreams
