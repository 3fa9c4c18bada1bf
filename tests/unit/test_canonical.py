"""Result of each reader for a member that is present, missing, null, or of a wrong type (CONTRACT D30)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from projector.core import canonical as read

UNREADABLE: Final = object()
MISSING: Final = object()


@pytest.mark.parametrize(
    ("reader", "value", "expected"),
    [
        (read.text, "Hi", "Hi"),
        (read.text, "", ""),
        (read.text, None, UNREADABLE),
        (read.text, 5, UNREADABLE),
        (read.text, MISSING, UNREADABLE),
        (read.text_or_none, "Hi", "Hi"),
        (read.text_or_none, "", None),
        (read.text_or_none, ["Hi"], None),
        (read.text_or_none, MISSING, None),
        (read.index, 3, 3),
        (read.index, 1_000_000, 1_000_000),
        pytest.param(read.index, MISSING, 0, id="D30-a-missing-index-is-0"),
        pytest.param(read.index, None, UNREADABLE, id="D30-null-costs-the-event"),
        (read.index, True, UNREADABLE),
        (read.index, 1.0, UNREADABLE),
        (read.index, -1, UNREADABLE),
        (read.index, 1_000_001, UNREADABLE),
        (read.index_or_none, 0, 0),
        (read.index_or_none, -1, None),
        (read.index_or_none, float("inf"), None),
        (read.index_or_none, float("nan"), None),
        (read.index_or_none, False, None),
        (read.index_or_none, 1_000_001, None),
        (read.index_or_none, MISSING, None),
        (read.count_or_none, 0, 0),
        (read.count_or_none, 2**53 - 1, 2**53 - 1),
        (read.count_or_none, 2**53, None),
        (read.count_or_none, -1, None),
        (read.count_or_none, 3.0, 3),
        (read.count_or_none, 1.5, None),
        (read.count_or_none, "3", None),
        pytest.param(read.count_or_none, None, None, id="D13-null-is-not-0"),
        (read.mapping, {"a": 1}, {"a": 1}),
        (read.mapping, [], UNREADABLE),
        (read.mapping, MISSING, UNREADABLE),
        (read.mapping_or_empty, {"a": 1}, {"a": 1}),
        (read.mapping_or_empty, None, {}),
        (read.mapping_or_empty, MISSING, {}),
        (read.mappings, [{"a": 1}, None, "x", {}], [{"a": 1}, {}]),
        (read.mappings, {"a": 1}, []),
        (read.mappings, MISSING, []),
        (read.texts, ["a", 1, None, "b"], ["a", "b"]),
        (read.texts, "ab", []),
        (read.texts, MISSING, []),
    ],
)
def test_readers(reader: Callable[[Mapping[str, object], str], Any], value: object, expected: object) -> None:
    event = {"type": "some.event"} if value is MISSING else {"type": "some.event", "member": value}
    if expected is not UNREADABLE:
        assert reader(event, "member") == expected
        return
    with pytest.raises(read.UnreadableEvent, match=r"^`some\.event`: `member` is not (text|an index|an object)$"):
        reader(event, "member")


@pytest.mark.parametrize("name", [None, 5, MISSING])
def test_an_event_without_a_type_has_a_name_in_errors(name: object) -> None:
    with pytest.raises(read.UnreadableEvent, match=r"^`event`: `delta` is not text$"):
        read.text({} if name is MISSING else {"type": name}, "delta")


@pytest.mark.parametrize(
    ("value", "text", "counted"),
    [
        ("x", "x", {}),
        ({"a": 1}, '{"a":1}', {}),
        (MISSING, "", {}),
        pytest.param(None, "", {}, id="D30-null-is-no-input"),
        pytest.param(["x"], "", {"call.input": 1}, id="D30-a-list-is-counted"),
    ],
)
def test_the_input_of_a_call(value: object, text: str, counted: dict[str, int]) -> None:
    drops = read.Drops()
    assert drops.input_of({} if value is MISSING else {"input": value}, "input", "call.input") == text
    assert drops == counted
