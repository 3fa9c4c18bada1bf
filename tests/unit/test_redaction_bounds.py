"""Truncation to a budget of encoded bytes: the order of cuts, the kept values, and the notices (CONTRACT D27)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projector.contracts import codec
from projector.contracts.paths import ABSENT, resolve
from projector.redaction.clean import CleanJson, CleanText
from projector.redaction.compose import shrink, shrink_text
from tests.property.soundness import examples


def size(value: object) -> int:
    return len(codec.dumps(value))


@pytest.mark.parametrize(
    ("text", "max_bytes", "said"),
    [
        ("abc", 5, "abc"),
        ("abc", 4, "ab"),
        ("abc", 2, ""),
        ("a\nb", 5, "a\n"),
        ("a\nb", 4, "a"),
        ("a\x00b", 8, "a"),
        ("é" * 4, 7, "éé"),
        ("😀" * 2, 9, "😀"),
        ("x <redacted> y", 10, "x "),
        ("x [REDACTED:abc]", 17, "x "),
    ],
)
def test_text_is_cut_by_what_it_takes(text: str, max_bytes: int, said: str) -> None:
    cut = shrink_text(CleanText(text), max_bytes)
    assert cut.value == said
    assert [n.type for n in cut.notices] == (["truncated"] if said != text else [])
    assert size(cut.value) <= max_bytes


def test_the_longest_strings_go_first_and_nothing_small_is_lost() -> None:
    tree: dict[str, Any] = {"a": "x" * 50_000, "b": ["y" * 400, {"c": "z" * 40_000}], "d": list(range(100))}
    cut = shrink(CleanJson(tree), 20_000)
    value: object = cut.value
    assert isinstance(value, dict)
    assert (value["b"][0], value["d"]) == (tree["b"][0], tree["d"])
    assert len(value["a"]) == len(value["b"][1]["c"])
    assert 19_990 <= size(value) <= 20_000
    assert [n.path for n in cut.notices] == [".a", ".b[1].c"]


def test_tails_of_containers_go_where_short_strings_are_too_many() -> None:
    rows = [["ab", number] for number in range(900)]
    tree: dict[str, Any] = {"rows": rows, "last": "kept", "keys": {str(n): n for n in range(900)}}
    cut = shrink(CleanJson(tree), 5_000)
    value: object = cut.value
    assert isinstance(value, dict)
    assert value["last"] == "kept"
    assert value["rows"] == tree["rows"][: len(value["rows"])]
    assert len(value["rows"]) == len(value["keys"]) > 100
    assert 4_900 <= size(value) <= 5_000
    assert [n.path for n in cut.notices] == [".rows", ".keys"]


def test_what_fits_is_the_same_value() -> None:
    tree = CleanJson({"a": [1, 2, "x"]})
    assert shrink(tree, size(tree)).value is tree
    assert shrink(tree, size(tree)).notices == ()


@pytest.mark.parametrize(("value", "least"), [({"a": 1}, {}), ([1], []), ([[1]], []), ("abc", "")])
def test_the_type_at_the_top_stays(value: object, least: object) -> None:
    assert shrink(CleanJson(value), 2).value == least


scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(max_size=30)
trees = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=6), inner, max_size=5)
)


@examples(60)
@given(
    tree=st.lists(trees, max_size=6) | st.dictionaries(st.text(max_size=5), trees, max_size=6), seed=st.integers(0, 99)
)
def test_the_budget_holds_and_notices_name_places(tree: object, seed: int) -> None:
    budget = Random(seed).randrange(2, size(tree) + 2)
    cut = shrink(CleanJson(tree), budget)
    assert size(cut.value) <= budget
    assert bool(cut.notices) is (cut.value != tree)
    for notice in cut.notices:
        assert notice.type == "truncated"
        assert resolve({"x": cut.value}, f"x{notice.path}") is not ABSENT
