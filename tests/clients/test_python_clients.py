"""Python clients of the OpenAI API against the server: each cell of their rows in docs/clients.md, and more.

Each client runs once, in the venv `.clients`, and prints what it reads (`tests/clients/python/`).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from tests.clients.clients_table import BEHAVIOURS, Row
from tests.clients.conftest import ROOT, Recorded, running
from tests.clients.observed import JUDGES
from tests.clients.recorded_provider import KEY
from tests.clients.recorded_streams import content
from tests.clients.rows_python import ROWS

Lines: TypeAlias = Mapping[tuple[str, str], dict[str, Any]]
"""API and behaviour -> the line that the client's script printed."""

SCRIPTS: Final = {
    "openai (Python)": "client_openai",
    "langchain-openai": "client_langchain",
    "pydantic-ai": "client_pydantic_ai",
    "openai-agents": "client_agents",
    "llm": "client_llm",
}
TIMEOUT_S: Final = 300
"""Of a client with all its probes, which takes about ten seconds on an idle machine."""


@pytest.fixture(scope="session")
def lines(python_clients: Path, projector_url: str, recorded: Recorded) -> Callable[[str], Lines]:
    """Return what a client's script prints; each one runs once."""
    found: dict[str, Lines] = {}

    def run(client: str) -> Lines:
        if client not in found:
            found[client] = run_client(python_clients, SCRIPTS[client], projector_url, recorded.url)
        return found[client]

    return run


def run_client(python: Path, script: str, *urls: str) -> Lines:
    command = [str(python), str(ROOT / "tests/clients/python" / f"{script}.py"), *urls]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    assert result.returncode == 0, result.stderr
    printed = [json.loads(line) for line in result.stdout.splitlines()]
    return {(line["api"], line["behaviour"]): line for line in printed}


def result_of(lines: Lines, api: str, behaviour: str) -> Any:
    line = lines[api, behaviour]
    assert "raised" not in line, line["raised"]
    return line["result"]


pytestmark = pytest.mark.timeout(TIMEOUT_S)
each_row: Final = pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.client}-{row.api}")


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
@each_row
def test_a_client_reads_what_the_table_says(lines: Callable[[str], Lines], row: Row, behaviour: str) -> None:
    probe, judge = JUDGES[behaviour]
    assert judge(row.api, result_of(lines(row.client), row.api, probe)) == row.cells[behaviour]


@each_row
def test_a_tool_loop_takes_two_calls(lines: Callable[[str], Lines], row: Row) -> None:
    for behaviour in ("tools", "parallel"):
        ways = result_of(lines(row.client), row.api, behaviour)
        assert lines(row.client)[row.api, behaviour]["calls"] == 2 * len(ways)


def test_a_stored_response_is_continued(lines: Callable[[str], Lines]) -> None:
    text = content("responses", "parallel-tools", 1).text
    assert result_of(lines("openai (Python)"), "responses", "stored") == text


def test_a_response_is_read_again_after_each_event(lines: Callable[[str], Lines]) -> None:
    read = result_of(lines("openai (Python)"), "responses", "resumed")
    assert len(read["after each event"]) > 1
    assert all(same for found in read.values() for same in found), read


@each_row
def test_an_error_that_goes_away_is_retried_by_the_server(lines: Callable[[str], Lines], row: Row) -> None:
    assert result_of(lines(row.client), row.api, "retried") == content(row.api, "fails-once").text
    assert lines(row.client)[row.api, "retried"]["calls"] == 2


WHOLE: Final = ("without stream", "invoke", "run")
"""Ways of calling a client that do not stream, and are repeated by the client when the failure may go away."""


@each_row
def test_a_failing_stream_is_not_repeated(lines: Callable[[str], Lines], row: Row) -> None:
    failures = result_of(lines(row.client), row.api, "stream_error")
    calls = {way: failure["calls"] for ways in failures.values() for way, failure in ways.items() if way not in WHOLE}
    assert set(calls.values()) == {1}, calls


@pytest.mark.parametrize("api", ["responses", "chat"])
def test_a_long_pause_is_left_to_the_client(lines: Callable[[str], Lines], api: str) -> None:
    assert result_of(lines("openai (Python)"), api, "later") == "60"
    assert lines("openai (Python)")[api, "later"]["calls"] == 1


def test_every_script_reads_text_of_many_scripts(lines: Callable[[str], Lines]) -> None:
    read = result_of(lines("openai (Python)"), "responses", "unicode")
    assert set(read.values()) == {content("responses", "unicode").text}


SECRETS: Final = {
    "responses": ("hunter2-inner", "cs-example", "k-example-deep", "hunter2-broken"),
    "chat": ("not-for-pages",),
}
"""API -> what is withheld from the arguments of the model `secrets`."""


@pytest.mark.parametrize("api", SECRETS)
@pytest.mark.parametrize("client", ["openai (Python)", "langchain-openai"])
def test_withheld_secrets_leave_arguments_that_parse(lines: Callable[[str], Lines], client: str, api: str) -> None:
    read = result_of(lines(client), api, "secrets")
    [(_, _, arguments)] = content(api, "secrets").calls
    assert all(secret in arguments for secret in SECRETS[api])
    assert not any(secret in json.dumps(read) for secret in SECRETS[api])
    for value in read.values():
        parsed = json.loads(value) if isinstance(value, str) else value[0]
        assert parsed.keys() == json.loads(arguments).keys()


README: Final = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_first_example_of_the_readme_with_a_key(python_clients: Path, recorded: Recorded) -> None:
    """Run it with the same command for the server; only the port and the model are others."""
    section = README.partition("## With a client of the OpenAI or Anthropic API")[2]
    [example] = re.findall(r"^```python\n(.*?)^```", section.partition("\n## ")[0], re.MULTILINE | re.DOTALL)
    assert "`OPENAI_API_KEY=... projector serve`" in section
    assert section.index("OpenAI(base_url") < section.index("before: OpenAI()")
    command = [sys.executable, "-m", "projector", "serve", "--port", "0"]
    with running(command, OPENAI_API_KEY=KEY, OPENAI_BASE_URL=f"{recorded.url}/v1") as url:
        program = example.replace("http://127.0.0.1:8000", url).replace("gpt-5.4-mini", "text")
        assert program.count(url) == program.count('"text"') == 1
        environment = {"OPENAI_API_KEY": "sk-client", "PYTHONIOENCODING": "utf-8"}
        command = [str(python_clients), "-W", "error::UserWarning", "-c", program]
        result = subprocess.run(
            command, capture_output=True, encoding="utf-8", env=environment, check=False, timeout=240
        )
    assert (result.stdout, result.stderr) == (content("responses", "text").text, "")
