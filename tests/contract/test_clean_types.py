"""mypy rejects values that were not redacted, and only the redaction package creates clean values."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

HEAD = """
from collections.abc import Mapping
from projector.redaction.clean import CleanArguments, Cleaned, CleanJson, CleanText
from projector.redaction.redactor import Redactor
from projector.redaction.policy import Policy

def say_text(text: CleanText) -> None: ...
def say_cleaned(text: Cleaned[CleanText]) -> None: ...
def say_json(value: CleanJson) -> None: ...
def say_tree(value: Cleaned[CleanJson]) -> None: ...

redactor = Redactor(Policy())
event: Mapping[str, object] = {}
raw: str = "raw"
"""

REJECTED = {
    "a raw string": "say_text(raw)",
    "a literal": 'say_text("text")',
    "a value of an event": 'say_text(event["delta"])',
    "a value of an event that was checked": 'delta = event["delta"]\nassert isinstance(delta, str)\nsay_text(delta)',
    "a part of clean text": "say_text(redactor.identifier(raw)[:5])",
    "clean text with raw text": "say_text(redactor.identifier(raw) + raw)",
    "a string as a cleaned one": "say_cleaned(Cleaned(raw))",
    "a tuple of the class": "say_cleaned(tuple.__new__(Cleaned, (raw, ())))",
    "a tuple by another name": "make = tuple.__new__\nsay_cleaned(make(Cleaned, (raw, ())))",
    "a tuple made of the class": "say_cleaned(Cleaned._make((raw, ())))",
    "a replaced value": "say_cleaned(redactor.text(raw)._replace(value=raw))",
    "an assigned value": "changed = redactor.text(raw)\nchanged.value = raw",
    "a raw object": 'say_json({"a": raw})',
    "a raw list": "say_json([raw])",
    "an event": "say_json(event)",
    "a value of an event as json": 'say_json(event["output"])',
    "a cleaned raw object": 'say_tree(Cleaned({"a": raw}))',
    "cleaned text where its value is needed": "say_text(redactor.text(raw))",
    "raw arguments": "CleanArguments(Cleaned(raw), None)",
}

ACCEPTED = {
    "an id": "say_text(redactor.identifier(raw))",
    "a label": "say_cleaned(redactor.label(raw))",
    "a text": "say_cleaned(redactor.text(raw, 5))",
    "a delta": "say_cleaned(redactor.argument_stream().feed(raw))",
    "a message": "say_cleaned(redactor.message_stream().close())",
    "a tree": 'say_tree(redactor.json(event["output"], string_max_chars=5))',
    "parsed arguments": "parsed = redactor.arguments(raw).json\nif parsed is not None:\n    say_json(parsed.value)",
}


def errors_of(folder: Path) -> dict[str, list[str]]:
    """Return mypy's errors for each snippet, from one run over all of them."""
    names = {f"snippet_{number}": name for number, name in enumerate([*REJECTED, *ACCEPTED])}
    for (file, _name), code in zip(names.items(), [*REJECTED.values(), *ACCEPTED.values()], strict=True):
        (folder / f"{file}.py").write_text(HEAD + code + "\n")
    options = ["--strict", "--no-error-summary", "--config-file", str(ROOT / "pyproject.toml")]
    command = [sys.executable, "-m", "mypy", *options, *(str(folder / f"{file}.py") for file in names)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280)
    found: dict[str, list[str]] = {name: [] for name in names.values()}
    for line in result.stdout.splitlines():
        found[names[Path(line.split(":")[0]).stem]].append(line)
    return found


CODES = ("arg-type", "assignment", "attr-defined", "type-var")


def test_mypy_tells_clean_values_from_others(tmp_path: Path) -> None:
    """One test, because mypy takes seconds: the tests of a table may run in several processes."""
    errors = errors_of(tmp_path)
    passed = [name for name in REJECTED if not any(f"[{code}]" in line for code in CODES for line in errors[name])]
    assert passed == []
    assert {name: errors[name] for name in ACCEPTED if errors[name]} == {}


MINTS = frozenset({"CleanText", "CleanJson"})
OWN_WORDS = {"fault.code", "fault.message", "item_type", "status", "phase", "sealed"}
"""Sources of text that needs no redaction: constants of `projector.core.faults`, keys of tables of the handlers, and
what the server has sealed."""


def minted(tree: ast.AST) -> Iterator[str]:
    """Yield each expression of a module that creates a clean value, or makes the type checker accept one."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in MINTS:
            yield f"line {node.lineno}: {called}(...)"
        if called == "cast" and any(name in ast.dump(node.args[0]) for name in MINTS):
            yield f"line {node.lineno}: cast to a Clean type"
        if called == "own_words" and ast.unparse(node.args[0]) not in OWN_WORDS:
            yield f"line {node.lineno}: own_words(...) of somebody else"


def test_only_redaction_makes_clean_values() -> None:
    paths = [
        path for path in sorted((ROOT / "projector").rglob("*.py")) if path.parts[len(ROOT.parts) + 1] != "redaction"
    ]
    modules = {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}
    found = {str(path.relative_to(ROOT)): list(minted(tree)) for path, tree in modules.items()}
    assert {module: ways for module, ways in found.items() if ways} == {}


@pytest.mark.parametrize(
    ("code", "ways"),
    [
        ("CleanText(x)", 1),
        ("clean.CleanJson({})", 1),
        ("typing.cast(CleanText, x)", 1),
        ('cast("Cleaned[CleanText]", x)', 1),
        ("compose.own_words(event)", 1),
        ("compose.own_words(fault.code)", 0),
        ("redactor.text(x)", 0),
        ("x: CleanText", 0),
    ],
)
def test_the_search_knows_the_ways(code: str, ways: int) -> None:
    assert len(list(minted(ast.parse(code)))) == ways
