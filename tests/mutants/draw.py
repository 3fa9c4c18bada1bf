"""Draw mutants: `python tests/mutants/draw.py SESSION COUNT SEED`, in the environment of cosmic-ray.

SESSION is a file of `cosmic-ray init`. A place is drawn before the mutation of it: an operator with ten replacements
would have ten chances otherwise. Each line of the output is one mutant with the whole mutated module.
"""

from __future__ import annotations

import ast
import json
import random
import sqlite3
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

Span = tuple[tuple[int, int], tuple[int, int]]

ROW: Final = """
    SELECT module_path, operator_name, occurrence, start_pos_row, start_pos_col, definition_name
    FROM mutation_specs ORDER BY 1, 4, 5, 2, 3
"""
LOGGERS: Final = {"debug", "info", "warning", "error", "exception", "log"}
STATE_TABLE: Final = {"Phase", "Signal", "TRANSITIONS", "_COMMITTED", "ResponseState"}
PARTS: Final = {"projector/server/streaming/response_writer.py": STATE_TABLE}
"""Module -> its definitions that are mutated, if not all are."""


def _span(node: ast.expr | ast.stmt) -> Span:
    return (node.lineno, node.col_offset), (node.end_lineno or node.lineno, node.end_col_offset or 0)


def _names(statement: ast.stmt) -> set[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return {getattr(statement, "name", ""), *(one.id for one in targets if isinstance(one, ast.Name))}


def _meaningless(tree: ast.Module, path: str) -> list[Span]:
    """Return the parts of a module in which a mutation changes nothing: types, texts of logs."""
    spans = [_span(one) for one in tree.body if path in PARTS and not _names(one) & PARTS[path]]
    for node in ast.walk(tree):
        match node:
            case ast.AnnAssign(annotation=ast.Name(id="TypeAlias")):
                spans.append(_span(node))
            case ast.AnnAssign(annotation=annotation) | ast.arg(annotation=ast.expr() as annotation):
                spans.append(_span(annotation))
            case ast.FunctionDef(returns=ast.expr() as returns):
                spans.append(_span(returns))
            case ast.Assign(value=ast.Call(func=ast.Name(id="TypeVar" | "NewType" | "ParamSpec"))):
                spans.append(_span(node))
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                spans.append(_span(node))
            case ast.Call(func=ast.Attribute(attr=name)) if name in LOGGERS:
                spans.append(_span(node))
            case ast.Call(func=ast.Name(id="cast"), args=[first, *_]):
                spans.append(_span(first))
    return spans


def _lines(statement: ast.stmt) -> tuple[int, int]:
    """Return the first and last line of a statement, with its decorators."""
    first = min([statement.lineno, *(one.lineno for one in getattr(statement, "decorator_list", ()))])
    return first, statement.end_lineno or first


def _is_program(source: str) -> bool:
    try:
        compile(source, "mutant", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):  # the two stars of keyword arguments are no operator
        return False
    return True


def draw(session: str, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Return random mutants, in random order."""
    places: dict[tuple[str, int, int], list[tuple[Any, ...]]] = defaultdict(list)
    spans: dict[str, list[Span]] = {}
    statements: dict[str, list[tuple[int, int]]] = {}
    rows = list(sqlite3.connect(session).execute(ROW))
    for row in rows:
        path, line, column = row[0], row[3], row[4]
        if path not in spans:
            tree = ast.parse(Path(path).read_text("utf-8"))
            spans[path] = _meaningless(tree, path)
            statements[path] = [_lines(one) for one in tree.body]
        if not any(start <= (line, column) < end for start, end in spans[path]):
            places[path, line, column].append(row)
    chance = random.Random(seed)
    for place in chance.sample(sorted(places), len(places)):
        path, operator, occurrence, line, column, definition = chance.choice(places[place])
        source = Path(path).read_text("utf-8")
        lines = source.splitlines(keepends=True)
        start, end = next(one for one in statements[path] if one[0] <= line <= one[1])
        before = sum(path == other[0] and operator == other[1] and other[3] < start for other in rows)
        part = "".join(lines[start - 1 : end])
        try:
            changed = mutate_code(part, get_operator(operator)(), occurrence - before)
        except AttributeError:  # cosmic-ray 8.7 cannot replace `module.Exception` in a tuple
            continue
        mutated = "".join([*lines[: start - 1], changed or part, *lines[end:]])
        if not _is_program(mutated) or ast.dump(ast.parse(mutated)) == ast.dump(ast.parse(source)):
            continue
        pairs = zip(source.splitlines(), mutated.splitlines(), strict=False)
        changes = [(before.strip(), after.strip()) for before, after in pairs if before != after]
        where = {"path": path, "line": line, "column": column, "in": definition}
        yield {**where, "operator": operator, "changes": changes[:3], "mutated": mutated}
        count -= 1
        if not count:
            break


if __name__ == "__main__":
    for one in draw(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])):
        sys.stdout.write(json.dumps(one) + "\n")
        sys.stdout.flush()
