"""Paths of notices: formatted paths parse back, and invalid paths are rejected."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projector.contracts.paths import ABSENT, find, join_index, join_key, resolve, steps

EVENT: Final[dict[str, Any]] = {
    "delta": "text",
    "tool": {"results": [{"text": "a"}, {"text": None, "attributes": {"x.y": 1, 'q"]': 2, "a b": 3, "0": 4, "é": 5}}]},
}
WRITTEN: Final = ['["x.y"]', '["q\\"]"]', '["a b"]', '["0"]', '["é"]']


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("delta", "text"),
        ("tool.results[0].text", "a"),
        ("tool.results[1].text", None),
        ('tool.results[1].attributes["x.y"]', 1),
        ('tool.results[1].attributes["q\\"]"]', 2),
        ('tool.results[1].attributes["\\u0071\\"]"]', 2),
        ("tool.results[1].attributes.a b", 3),
        ("tool.results[1].attributes.0", 4),
        ("tool.results[1].attributes.é", 5),
        ('["delta"]', "text"),
        ("", ABSENT),
        (".delta", ABSENT),
        ("delta.", ABSENT),
        ("delta.x", ABSENT),
        ("delta[0]", ABSENT),
        ("tool..results", ABSENT),
        ("tool.results.0", ABSENT),
        ("tool.results[2]", ABSENT),
        ("tool.results[-1]", ABSENT),
        ("tool.results[01]", ABSENT),
        ("tool.results[99999999999]", ABSENT),
        ("tool.results[0]text", ABSENT),
        ("tool.results[0", ABSENT),
        ("tool[results]", ABSENT),
        ('tool["results', ABSENT),
        ('tool["\\x"]', ABSENT),
        ("nothing", ABSENT),
    ],
)
def test_a_path_names_a_place(path: str, expected: object) -> None:
    assert resolve(EVENT, path) == expected


@pytest.mark.parametrize(
    ("key", "expected"),
    [("a", ".a"), ("x-api_key2", ".x-api_key2"), ("x.y", '["x.y"]'), ("0", '["0"]'), ("", '[""]'), ('"', '["\\""]')],
)
def test_a_key_that_is_no_plain_word_stands_in_brackets(key: str, expected: str) -> None:
    assert join_key("", key) == expected


KEYS: Final = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@given(root=st.sampled_from(["output", "tool"]), way=st.lists(KEYS | st.integers(0, 9_999), max_size=6))
def test_what_is_written_is_read_back(root: str, way: list[str | int]) -> None:
    path = root
    for step in way:
        path = join_key(path, step) if isinstance(step, str) else join_index(path, step)
    assert steps(path) == (root, *way)


@given(st.text(st.sampled_from('ab.[]"\\0*'), max_size=12))
def test_any_text_may_be_asked_for(path: str) -> None:
    resolve(EVENT, path)


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("delta", ["delta"]),
        ("tool.results.*.text", ["tool.results[0].text", "tool.results[1].text"]),
        ("tool.results[1].attributes.*", [f"tool.results[1].attributes{key}" for key in WRITTEN]),
        ("tool.*", ["tool.results"]),
        ("*.results", ["tool.results"]),
        ("delta.*", []),
        ("nothing.*", []),
        (".", []),
    ],
)
def test_a_pattern_names_places(pattern: str, paths: list[str]) -> None:
    found = find(EVENT, pattern)
    assert [path for path, _ in found] == paths
    assert [resolve(EVENT, path) for path in paths] == [value for _, value in found]
