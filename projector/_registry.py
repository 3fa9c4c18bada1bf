"""Registries of descriptors, imported on first use: `projector.dialects.DIALECTS`, `projector.providers.PROVIDERS`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Generic, TypeVar

from projector._errors import UsageError

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """Mapping of names to descriptors. A row is a descriptor or `"module:ATTRIBUTE"`, imported by the first look-up.

    Iterating yields names and imports nothing.
    """

    def __init__(self, rows: Mapping[str, T | str]) -> None:
        self._rows = dict(rows)

    def __getitem__(self, name: str) -> T:
        row = self._rows[name]
        if isinstance(row, str):
            row = self._rows[name] = resolve(row)
        return row

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def register(self, name: str, row: T | str) -> None:
        """Add a row; raise `UsageError` if the name is taken."""
        if name in self._rows:
            raise UsageError(f"`{name}` is already registered")
        self._rows[name] = row


@cache
def resolve(reference: str) -> Any:
    """Import `"module:NAME"`, once: each stream resolves several."""
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


def lazy(reference: str) -> Callable[..., Any]:
    """Return a function that imports `"module:name"` and calls it."""

    def call(*arguments: object) -> Any:
        return resolve(reference)(*arguments)

    return call
