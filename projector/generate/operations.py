"""Lists of docs/operations.md: settings with the docstrings of their fields, and metrics."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import pairwise

from pydantic.fields import FieldInfo

from projector.redaction.policy import Policy
from projector.server.config.config_base import Table
from projector.server.config.loading import FILE
from projector.server.config.setting_names import fields, variable
from projector.server.telemetry.metrics import METRICS


def settings_list() -> list[str]:
    """Return the settings by their variables, each with its default and docstring; equal ones share a line.

    `X_file` shares the line of `X`. Links in docstrings are relative to the folder of the page.
    """
    found = dict(fields())
    lines: dict[tuple[str, str], list[str]] = {}
    for path in found:
        described = (*path[:-1], path[-1].removesuffix(FILE))
        described = described if described in found else path
        table, name = found[described], described[-1]
        about = _default(table.model_fields[name]), _about(table, name)
        lines.setdefault(about, []).append(f"`{variable(path)}`")
    return [_line(names, default, about) for (default, about), names in lines.items()]


def _default(field: FieldInfo) -> str:
    """Return the default of a field as text, empty if it is nothing."""
    default = field.default
    if field.is_required():
        return "required"
    if isinstance(default, tuple | frozenset):
        return ", ".join(sorted(default))
    if isinstance(default, Policy):
        return "the contract's"
    return "" if default is None or default == {} else str(default)


def _about(table: type[Table], name: str) -> str:
    """Return the description of a field, or its docstring in its class or the nearest parent that has one."""
    owners = (_docstrings(one) for one in table.__mro__ if issubclass(one, Table))
    return table.model_fields[name].description or next(owner[name] for owner in owners if name in owner)


@cache
def _docstrings(table: type[Table]) -> Mapping[str, str]:
    """Return the docstrings of the fields that the source of a class has; pydantic would read them at each start."""
    module = ast.parse(inspect.getsource(sys.modules[table.__module__]))
    found = {}
    for one in module.body:
        if isinstance(one, ast.ClassDef) and one.name == table.__name__:
            for statement, following in pairwise(one.body):
                match statement, following:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                        found[name] = " ".join(text.split())
    return found


def metrics_list() -> list[str]:
    """Return the metrics by the names of their samples, each with its labels and description."""
    return [_line([f"`{row.exposed}`"], ", ".join(f"`{label}`" for label in row.labels), row.about) for row in METRICS]


def _line(names: Iterable[str], value: str, about: str) -> str:
    return f"- {', '.join(names)}{f' ({value})' if value else ''}: {about}"
