"""The registry imports a row when it is looked up, and not before."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from projector import UsageError
from projector._registry import Registry


def test_a_row_is_an_object_or_the_name_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some_rows.py").write_text("ROW = 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry: Registry[int] = Registry({"here": 1, "there": "some_rows:ROW"})
    assert (list(registry), len(registry)) == (["here", "there"], 2)
    assert "there" in registry
    assert "some_rows" not in sys.modules
    assert dict(registry) == {"here": 1, "there": 7}
    monkeypatch.delitem(sys.modules, "some_rows")
    assert registry["there"] == 7


def test_a_name_is_registered_once() -> None:
    registry: Registry[int] = Registry({})
    registry.register("one", 1)
    with pytest.raises(UsageError, match="`one` is already registered"):
        registry.register("one", 2)
    assert registry["one"] == 1


def test_an_unknown_name_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        Registry[int]({})["one"]
