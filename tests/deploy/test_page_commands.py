"""The commands of the pages, run in the order of their page, with a provider on a loopback address.

A server listens on any free port instead of the page's. Keys and IDs that a page shortens with `...` are replaced.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.docs.blocks import BLOCKS, ROOT, SHELL, Block, Command, commands

pytestmark = pytest.mark.timeout(600)

SERVES: Final = re.compile(r"\b(projector (?:serve|demo)|uvicorn \S+)(?!\S)")
ADDRESS: Final = re.compile(r"https?://[\d.]+:(\d+)")
ID: Final = re.compile(r"\b(run|stream)_[0-9a-f]{32}")
SHORT_ID: Final = re.compile(r"\b(run|stream)_[0-9a-f]*\.\.\.")
OTHERS: Final = ("PROJECTOR_", "OPENAI_", "PYTEST_")
"""First words of variables that would change what a command does."""
NOT_RUN: Final = {
    "docker ": "needs a container engine; tests/deploy/test_image.py and tests/deploy/test_manifests.py check it",
    "kubectl ": "needs a cluster",
    "for pod in $(kubectl ": "the same",
    "projector record --dir tests/streams --again": "tests/asgi/test_record_command.py records saved requests again",
    "curl -OJ http://localhost:9090/streams/": "tests/asgi/test_recent_streams.py saves a stream",
    "projector replay stream_": "the same",
    "unzip -d tests/stopped ": "the same",
    "make ": "CI runs the targets, and `make release-check` the demo",
    "pip install ": "`make release-check` installs the package",
    "npm ci --prefix PATH/": "`make release-check` installs the package",
    "eval ": "tests/unit/test_completion.py sources the scripts",
    "projector completion fish ": "tests/unit/test_completion.py sources the scripts",
}
"""First words of a command -> why it is not run."""
QUESTION: Final = (
    "curl localhost:8000/api/v1/chat/stream -H 'content-type: application/json' -d '{\"message\": \"Hi\"}'"
)
CASE: Final = "chat-web-search"
"""The case that the README names."""
TOOLS: Final = [{"type": "web_search"}]
REQUEST: Final = json.dumps({"model": "gpt-5.4-mini", "input": "What is the weather in Oslo?", "tools": TOOLS}) + "\n"


class Shell:
    """A folder, variables, and the servers that were started in it."""

    def __init__(self, folder: Path, provider: str) -> None:
        self.folder = folder
        self.provider = provider
        self.port = ""
        self.ids: dict[str, str] = {}
        self.servers: list[subprocess.Popen[str]] = []
        kept = {name: value for name, value in os.environ.items() if not name.startswith(OTHERS)}
        path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
        self.environ = kept | {"PATH": path, "PYTHONPATH": str(ROOT), "OPENAI_BASE_URL": provider, "NO_COLOR": "1"}

    def run(self, command: str) -> str:
        """Run a command as it is written and return what it prints on both streams."""
        if match := re.fullmatch(r"export (\w+)=(\S+)", command):
            self.environ[match[1]] = match[2]
            return ""
        if SERVES.search(command):
            self.serve(command)
            return ""
        command = command.replace("localhost:8000", f"127.0.0.1:{self.port}").replace("PID", self.process_id())
        command = SHORT_ID.sub(lambda match: self.ids[match[1]], command)
        command = re.sub(r"\bcurl ", "curl --fail --silent --show-error --max-time 300 ", command)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],  # noqa: S607 - any bash
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (command, done.stdout[-500:], done.stderr[-1500:])
        for found in ID.finditer(done.stdout):
            self.ids[found[1]] = found[0]
        return done.stdout + done.stderr

    def serve(self, command: str) -> None:
        """Start a server and wait until it prints its address."""
        server = subprocess.Popen(
            ["bash", "-c", SERVES.sub(r"exec \1 --port 0", command)],  # noqa: S607 - any bash
            cwd=self.folder,
            env=self.environ | {"PROJECTOR_DEMO_PACE_S": "0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if command.startswith("uvicorn") else subprocess.DEVNULL,  # where it prints it
            text=True,
        )
        self.servers.append(server)
        assert server.stdout is not None
        match = next(filter(None, map(ADDRESS.search, server.stdout)), None)
        assert match is not None, command
        self.port = match[1]

    def process_id(self) -> str:
        return str(self.servers[-1].pid) if self.servers else "PID"

    def upstream(self, name: str) -> None:
        """Replace the address of an upstream of the configuration."""
        self.environ[f"PROJECTOR_UPSTREAMS__{name.upper()}__BASE_URL"] = self.provider

    def write(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)

    def close(self) -> None:
        for server in self.servers:
            server.send_signal(signal.SIGKILL)
            server.wait()
            if server.stdout is not None:
                server.stdout.close()


def toml(page: str, number: int) -> str:
    [text] = [one.text for one in BLOCKS if (one.page, one.language, one.number) == (page, "toml", number)]
    return text


def _readme(shell: Shell) -> None:
    for path in ROOT.glob(f"examples_ndjson/*/{CASE}.ndjson"):  # all cases would take a minute on a busy machine
        shell.write(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))
    settings = (ROOT / "examples_ndjson" / "cases.toml").read_text(encoding="utf-8")
    tables = re.findall(rf"^\[(?:defaults|cases\.{CASE})\]\n(?:(?!\[|#).*\n)*", settings, re.MULTILINE)
    shell.write("examples_ndjson/cases.toml", "".join(tables))
    shell.write("request.json", REQUEST)
    shell.environ["OPENAI_API_KEY"] = "sk-test"


def _quickstart_azure(shell: Shell) -> None:
    shell.upstream("azure")
    shell.environ["PROJECTOR_AGENTS__HELPER__MODEL"] = "chat"


def _quickstart_ollama(shell: Shell) -> None:
    del shell.environ["PROJECTOR_UPSTREAMS__AZURE__BASE_URL"], shell.environ["PROJECTOR_AGENTS__HELPER__MODEL"]
    shell.write("projector.toml", toml("docs/quickstart.md", 1))
    shell.upstream("local")


def _recording(shell: Shell) -> None:
    shell.environ["OPENAI_API_KEY"] = "sk-test"
    shell.write("request.json", REQUEST)


def _recorded(shell: Shell) -> None:
    shell.run("projector replay tests/streams --update")
    shell.write("pyproject.toml", toml("docs/recording.md", 2))


def _library(shell: Shell) -> None:
    [text] = [one.text for one in BLOCKS if (one.page, one.language, one.number) == ("docs/library.md", "python", 1)]
    shell.write("chat.py", text)


def _agents_sdk(shell: Shell) -> None:
    [text] = [one.text for one in BLOCKS if (one.page, one.language, one.number) == ("docs/agents_sdk.md", "python", 1)]
    shell.write("app.py", text)
    shell.environ["OPENAI_API_KEY"] = "sk-test"


def _openwop(shell: Shell) -> None:
    shell.environ["OPENAI_API_KEY"] = "sk-test"
    shell.write("projector.toml", toml("docs/openwop.md", 1))
    shell.upstream("openai")


def _openwop_suite(shell: Shell) -> None:
    for path in (ROOT / "projector" / "openwop" / "fixtures").iterdir():
        shell.write(f"openwop/conformance/fixtures/{path.name}", path.read_text(encoding="utf-8"))


def _workflows(shell: Shell) -> None:
    shell.environ["OPENAI_API_KEY"] = "sk-test"
    shell.write("projector.toml", toml("docs/workflows.md", 1))
    shell.upstream("openai")
    shell.serve("projector serve --config projector.toml")


def _operations_file(shell: Shell) -> None:
    shell.environ["OPENAI_API_KEY"] = "sk-test"
    shell.upstream("openai")


BEFORE: Final[dict[tuple[str, int], Callable[[Shell], object]]] = {
    ("README.md", 2): _readme,
    ("docs/agents_sdk.md", 1): _agents_sdk,
    ("docs/library.md", 1): _library,
    ("docs/openwop.md", 1): _openwop_suite,
    ("docs/openwop.md", 2): _openwop,
    ("docs/operations.md", 1): _operations_file,
    ("docs/operations.md", 5): lambda shell: shell.run(QUESTION),
    ("docs/quickstart.md", 4): _quickstart_azure,
    ("docs/quickstart.md", 5): _quickstart_ollama,
    ("docs/recording.md", 1): _recording,
    ("docs/recording.md", 3): _recorded,
    ("docs/workflows.md", 1): _workflows,
}
"""Page and number of a shell block -> what must be there first."""


def is_run(command: Command) -> bool:
    return not command.text.startswith(tuple(NOT_RUN))


SHELLS: Final = [block for block in BLOCKS if block.language in SHELL]
RUN: Final = [block for block in SHELLS if any(map(is_run, commands(block)))]


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of a provider with both APIs: the server of the demo."""
    shell = Shell(tmp_path_factory.mktemp("provider"), "")
    try:
        shell.serve("projector demo")
        yield f"http://127.0.0.1:{shell.port}/v1"
    finally:
        shell.close()


@pytest.mark.parametrize("page", dict.fromkeys(block.page for block in RUN))
def test_the_commands_of_a_page(page: str, provider: str, tmp_path: Path, curl: str) -> None:
    assert curl
    shell = Shell(tmp_path, provider)
    try:
        for block in RUN:
            if block.page == page:
                run(shell, block)
    finally:
        shell.close()


def run(shell: Shell, block: Block) -> None:
    BEFORE.get((block.page, block.number), lambda _: None)(shell)
    for command in filter(is_run, commands(block)):
        printed = shell.run(command.text)
        if "/chat/stream" in command.text:
            assert '"status":"completed"' in printed.splitlines()[-2], command.text
        if command.printed:
            expected = [line_pattern(line) for line in command.printed]
            assert re.fullmatch("\n".join(expected), printed.strip()), (command.text, printed)


def line_pattern(line: str) -> str:
    """Return a pattern of a line of the page, with any number for each number, and anything for `...`."""
    return re.sub(r"\d+", r"\\d+", re.escape(line)).replace(re.escape("..."), ".*")


def test_each_preparation_is_of_a_block() -> None:
    assert BEFORE.keys() <= {(block.page, block.number) for block in RUN}


@pytest.mark.parametrize("words", NOT_RUN)
def test_each_reason_is_of_a_command(words: str) -> None:
    assert any(command.text.startswith(words) for block in SHELLS for command in commands(block))
