"""A parsed tree within its bounds stays as it is; any other is cut to them (CONTRACT D24, D31)."""

from __future__ import annotations

from typing import Any, Final

import pytest

from projector.redaction.policy import Limits
from projector.redaction.whole_values import clean_tree

LIMITS: Final = Limits(container_max_entries=2, container_max_depth=2, key_max_chars=3)
MAX_CHARS: Final = 4
HALF: Final = chr(0xD83D)

WITHIN: Final[list[Any]] = [
    {},
    {"abc": "abcd", "é": "\u2013😀"},
    {"a": [1, 2.5], "b": {"c": None, "d": True}},
    {"a": 2**64 - 1, "b": -(2**63)},
    {"a": [[], 1]},
]
NOT_WITHIN: Final[list[tuple[str, Any, Any]]] = [
    ("a long string", {"a": "abcde"}, {"a": "abcd"}),
    ("a long string in a list", {"a": ["abcde"]}, {"a": ["abcd"]}),
    ("half of a character", {"a": HALF}, {"a": "\ufffd"}),
    ("a long key", {"abcd": 1}, {"abc": 1}),
    ("half of a character in a key", {HALF: 1}, {"\ufffd": 1}),
    ("many members", {"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2}),
    ("many entries", {"a": [1, 2, 3]}, {"a": [1, 2]}),
    ("many levels", {"a": {"b": {"c": 1}}}, {"a": {"b": {}}}),
    ("a large number", {"a": 2**64}, {"a": str(2**64)}),
    ("a small number", {"a": [-(2**63) - 1]}, {"a": [str(-(2**63) - 1)]}),
    ("no number", {"a": float("inf")}, {"a": None}),
]


@pytest.mark.parametrize(
    ("tree", "shown"), [*((tree, tree) for tree in WITHIN), *((tree, shown) for _, tree, shown in NOT_WITHIN)]
)
def test_a_tree_is_cut_to_its_bounds(tree: object, shown: object) -> None:
    cleaned: Any = clean_tree(tree, LIMITS, MAX_CHARS)
    assert cleaned.value == shown
    assert cleaned.notices == () or shown is not tree
