"""Each block of code in the pages is run by a test, or is in the table with the reason why not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from projector.server.config.loading import read
from tests.docs.blocks import BLOCKS, ROOT, SHELL, Block, commands

TESTS: Final = {
    ("README.md", "python"): ("contract/test_readme.py", "clients/test_python_clients.py"),
    ("README.md", "ts"): ("clients/test_client_package.py",),
    ("contracts/ai_sdk/README.md", "tsx"): ("deploy/test_examples.py",),
    ("docs/agents_sdk.md", "python"): ("asgi/test_agents_sdk_page.py",),
    ("docs/frontend-events.md", "tsx"): ("docs/test_frontend_page.py", "clients/test_frontend_events.py"),
    ("docs/library.md", "python"): ("asgi/test_library_page.py",),
    ("docs/providers.md", "python"): ("contract/test_readme.py",),
    ("docs/recording.md", "python"): ("docs/test_recording_page.py",),
    ("docs/workflows.md", "python"): ("asgi/test_workflows_page.py",),
}
"""Page and language -> the tests that run the blocks. Here: `toml`; in tests/deploy/test_page_commands.py: shells."""
NOT_RUN: Final = {
    ("contracts/ag_ui/README.md", "js"): "tests/clients/test_ag_ui_clients.py makes the same calls, in node",
    (
        "docs/deployment.md",
        "yaml",
    ): "Prometheus reads it; tests/deploy/test_monitoring.py checks its rules",
}
"""Page and language -> why no test runs the very text."""
SHOWN: Final = frozenset({"json", "text"})
"""Languages that nothing runs; samples in JSON are checked by the tests of their pages."""

HASH: Final = f"sha256:{64 * '0'}"
UPSTREAMS: Final = {
    "PROJECTOR_UPSTREAMS__OPENAI__API_KEY": "sk-test",
    "PROJECTOR_UPSTREAMS__AZURE__API_KEY": "sk-test",
}


def agent(name: str) -> dict[str, str]:
    return {f"PROJECTOR_AGENTS__{name}__UPSTREAM": "openai", f"PROJECTOR_AGENTS__{name}__MODEL": "m"}


CONTEXT: Final[dict[str, dict[str, str]]] = {
    "docs/recipes.md": UPSTREAMS | agent("HELPER"),
    "docs/recording.md": UPSTREAMS | agent("HELPER"),
    "docs/withheld.md": UPSTREAMS | agent("SUPPORT"),
    "targets = [": UPSTREAMS,
    "[callers.default]                         # every caller": {
        **UPSTREAMS,
        **agent("HELPER"),
        **agent("REPORTS"),
        "PROJECTOR_MODELS__FAST__TARGETS": '[{"upstream": "openai", "model": "m"}]',
        "PROJECTOR_AUTH__API_KEYS": f'{{"frontend": "{HASH}"}}',
        "PROJECTOR_AUTH__JWT__ISSUER": "https://login.example",
        "PROJECTOR_AUTH__JWT__AUDIENCE": "projector",
        "PROJECTOR_AUTH__JWT__JWKS_URL": "https://login.example/keys",
        "PROJECTOR_AUTH__JWT__GROUPS_CLAIM": "roles",
    },
}
"""Words of a block, or its page -> variables with the rest of a configuration that the block is a part of."""
OTHER_FILES: Final = ("[tool.", "model_provider =")
"""First words of blocks that are a part of another file than the configuration."""

TOML: Final = [block for block in BLOCKS if block.language == "toml" and not block.text.startswith(OTHER_FILES)]


def test_there_are_blocks() -> None:
    assert len(BLOCKS) > 60
    assert len(TOML) > 20


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block.page}-{block.language}-{block.number}")
def test_a_block_is_covered(block: Block) -> None:
    if block.language in SHELL | SHOWN or block.language == "toml":
        return
    where = (block.page, block.language)
    assert where in TESTS or where in NOT_RUN, "add a test that runs it, or the reason why not"


@pytest.mark.parametrize(("page", "language"), [*TESTS, *NOT_RUN])
def test_the_tables_are_true(page: str, language: str) -> None:
    assert any((block.page, block.language) == (page, language) for block in BLOCKS)
    for name in TESTS.get((page, language), ()):
        assert page.rpartition("/")[2] in (ROOT / "tests" / name).read_text(encoding="utf-8")
    for name in re.findall(r"tests/\S+\.py", NOT_RUN.get((page, language), "")):
        assert (ROOT / name).is_file()


def test_shell_blocks_have_commands() -> None:
    assert [block for block in BLOCKS if block.language in SHELL and not commands(block)] == []


@pytest.mark.parametrize("block", TOML, ids=lambda block: f"{block.page}-{block.number}")
def test_a_configuration_is_valid(block: Block, tmp_path: Path) -> None:
    """A block that is a part gets the rest; references get values, and files exist."""
    (tmp_path / "helper.md").write_text("Be brief.")
    text = block.text.replace("sha256:...", HASH).replace("RESOURCE", "ours").replace("DEPLOYMENT", "chat")
    (tmp_path / "projector.toml").write_text(text)
    key = next((key for key in CONTEXT if "\n" + key in "\n" + block.text), block.page)
    references = dict.fromkeys(re.findall(r"\$\{(\w+)\}", block.text), "a-value-for-a-test")
    assert read(references | CONTEXT.get(key, {}), config=tmp_path / "projector.toml").settings
