"""The package with compiled modules writes the same bytes and passes the same tests, but for a few with a reason."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from deploy.compiled.build_hook import MODULES
from tests.deploy.image import ROOT

SUITES: Final = {
    "goldens": ("golden",),
    "properties": ("property",),
    "units of arguments and text": (
        *("unit/test_arguments.py", "unit/test_code.py", "unit/test_compose.py", "unit/test_crossing.py"),
        *("unit/test_growing_text.py", "unit/test_readings.py", "unit/test_redaction_*.py", "unit/test_text_*.py"),
        *("unit/test_secret_values.py", "unit/test_think.py"),
    ),
    "units of harmless texts": ("unit/test_harmless*.py", "unit/test_redactor.py"),
    "units of streams": (
        *("unit/test_branches.py", "unit/test_budgets.py", "unit/test_call_pairs.py", "unit/test_canonical.py"),
        *("unit/test_codec.py", "unit/test_context.py", "unit/test_endings.py", "unit/test_images.py"),
        *("unit/test_items.py", "unit/test_late_faults.py", "unit/test_lifecycle.py", "unit/test_messages.py"),
        *("unit/test_openai_*.py", "unit/test_outputs.py", "unit/test_pipeline.py", "unit/test_rate_limits.py"),
        *("unit/test_reasoning.py", "unit/test_recording.py", "unit/test_replay.py", "unit/test_response*.py"),
        *("unit/test_sse.py", "unit/test_state.py", "unit/test_structured_output.py", "unit/test_terminal.py"),
        *("unit/test_tools.py", "unit/test_truncation.py", "unit/test_workflows.py"),
    ),
    "contracts": ("contract/test_dialect_table.py", "contract/test_tables.py", "contract/test_toy_*.py"),
}
"""Suite -> its tests, as patterns."""

NOT_THE_SAME: Final = {
    "unit/test_pipeline.py::test_an_argument_of_another_type_is_named": "another type is a TypeError",
    "unit/test_pipeline.py::test_bytes_may_be_in_a_buffer": "the same",
    "unit/test_redaction_formats.py::test_a_search_reads_a_text_a_constant_number_of_times": (
        "counts in a subclass of the search"
    ),
    "unit/test_redaction_rule_files.py::test_the_engine_reads_what_the_files_hold": "reads the work tree",
    **dict.fromkeys(
        (
            f"unit/test_endings.py::test_a_failure_of_ours_ends_the_stream_closed[{failure}]"
            for failure in ("D12-a-handler", "D12-the-terminal-itself", "D12-a-closer")
        ),
        "replaces functions of compiled modules, which call each other directly",
    ),
    "property/test_delta_runs.py::test_a_long_text_is_one_run": "counts in the place of a method of a compiled class",
    "property/test_redaction_mutations.py": "replaces methods of classes, which compiled ones do not let it",
    "contract/test_toy_dialect.py::test_the_documents_describe_it": "the same",
}
"""Test -> why it cannot pass with compiled modules."""

WHERE: Final = """
import importlib, json, sys
print(json.dumps([importlib.import_module(name).__file__ for name in sys.argv[1:]]))
"""


def _run(compiled: Path, *words: str) -> str:
    """Return what Python prints that imports the compiled package."""
    ours = ("PYTEST", "PROJECTOR_", "PYTHON", "COV")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environ["PYTHONPATH"] = str(compiled)
    done = subprocess.run([sys.executable, "-P", *words], env=environ, cwd=ROOT, capture_output=True, text=True)  # noqa: PLW1510 - checked below
    assert done.returncode == 0, "\n".join((done.stdout + done.stderr).splitlines()[-60:])
    return done.stdout


def test_the_modules_are_compiled(compiled: Path) -> None:
    names = [module.removesuffix(".py").replace("/", ".") for module in MODULES]
    files = [Path(file) for file in json.loads(_run(compiled, "-c", WHERE, *names))]
    assert [file.suffix for file in files] == [".so"] * len(MODULES)
    assert all(file.is_relative_to(compiled) for file in files)


def test_it_writes_the_goldens(compiled: Path) -> None:
    assert _run(compiled, "-m", "projector", "replay", "examples_ndjson").rstrip().endswith(" 0 differ")


@pytest.mark.timeout(0)  # one after the other, in another process; each of its tests has a limit
@pytest.mark.parametrize("suite", SUITES)
def test_a_suite(compiled: Path, suite: str) -> None:
    found = [sorted((ROOT / "tests").glob(pattern)) for pattern in SUITES[suite]]
    assert all(found), "a pattern without a file"
    files = [str(path) for paths in found for path in paths]
    without = [word for test in NOT_THE_SAME for word in ("--deselect", f"tests/{test}")]
    _run(compiled, "-m", "pytest", "-q", "--tier", "test", "-p", "no:cacheprovider", *without, *files)


def test_each_exception_is_a_test(compiled: Path) -> None:
    for test in NOT_THE_SAME:
        _run(compiled, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", f"tests/{test}")
