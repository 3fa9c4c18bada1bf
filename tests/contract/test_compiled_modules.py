"""The modules that mypyc may compile have nothing that it compiles to something else, or to something unsafe."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from deploy.compiled.build_hook import MODULES

ROOT: Final = Path(__file__).parents[2]
TREES: Final = {path: ast.parse((ROOT / path).read_text(encoding="utf-8")) for path in MODULES}

FORBIDDEN: Final = {
    "cached_property": "a compiled class has no dict, so it would compute its value at each access",
    "copy": "a compiled class has no dict, so a copy would be empty",
}
CALL_THEMSELVES: Final = {
    ("projector/core/projector.py", "_signal"): "a signal that drops an event is followed by at most one other",
    ("projector/core/projector.py", "_drop"): "the same",
    ("projector/core/projector.py", "feed"): "the same",
    ("projector/core/projector.py", "_dispatch"): "the same",
    ("projector/redaction/detector.py", "_then"): "eight characters of a registered value",
    ("projector/redaction/format_search.py", "first"): "once, with a blank before the text",
    ("projector/redaction/string_filter.py", "feed"): "a text is read again once, as plain text",
    ("projector/redaction/string_filter.py", "_begin"): "the same",
    ("projector/redaction/string_filter.py", "_guarded_document"): "the same",
    ("projector/redaction/string_filter.py", "_read_rest"): "the same",
    ("projector/redaction/text_stream.py", "feed"): "a fragment that begins a text is read again once",
    ("projector/redaction/text_stream.py", "_slowly"): "the same",
}
"""Functions that reach themselves, with what limits their depth: too many calls end the process of compiled code."""


@pytest.mark.parametrize("path", MODULES)
def test_it_uses_nothing_that_would_differ(path: str) -> None:
    names = {node.id if isinstance(node, ast.Name) else node.attr for node in _names(TREES[path])}
    imported = {name.name for node in ast.walk(TREES[path]) if isinstance(node, ast.ImportFrom) for name in node.names}
    assert not FORBIDDEN.keys() & (imported | (names - {"copy"}))
    texts = [node.value for node in ast.walk(TREES[path]) if isinstance(node, ast.Constant)]
    assert not [text for text in texts if isinstance(text, str) and any("\ud800" <= char <= "\udfff" for char in text)]


def test_a_function_that_calls_itself_has_a_limit() -> None:
    found = {(path, name) for path, tree in TREES.items() for name in _recursive(tree)}
    assert found == CALL_THEMSELVES.keys()


def test_no_tuple_has_a_truth_of_its_own() -> None:
    classes = [
        node
        for path in (ROOT / "projector").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and any("NamedTuple" in ast.unparse(base) for base in node.bases)
    ]
    methods = [(node.name, one.name) for node in classes for one in node.body if isinstance(one, ast.FunctionDef)]
    assert classes
    assert [row for row in methods if row[1] in {"__bool__", "__len__", "__eq__", "__contains__"}] == []


def _names(tree: ast.AST) -> Iterator[ast.Name | ast.Attribute]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute))


def _recursive(tree: ast.AST) -> Iterator[str]:
    """Yield the functions of a module that call themselves by their name, or through others."""
    calls: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            calls.setdefault(node.name, set()).update(filter(None, map(_called, ast.walk(node))))
    for name, called in calls.items():
        reached, left = set[str](), [*called]
        while left:
            other = left.pop()
            if other not in reached:
                reached.add(other)
                left += calls.get(other, ())
        if name in reached:
            yield name


def _called(node: ast.AST) -> str:
    """Return the name of what a call calls in its own module or object."""
    function = node.func if isinstance(node, ast.Call) else None
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "self":
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
