"""Every text that a frame builder accepts was redacted, or is in a table with the reason why it needs none."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import pytest

from projector.core import frames
from projector.redaction.clean import Cleaned, CleanJson, CleanText, Notice

CLEAN: Final = frozenset({CleanText, CleanJson, Notice, int, bool, float, NoneType})
"""Types that only redaction creates, and types without text."""

PLAIN: Final[Mapping[tuple[str, str], str]] = {
    ("lifecycle", "status"): "one of the statuses of `RUNNING` and `ENDED`",
    ("message_citation", "citation"): "a type of `CITATIONS`, positions, and IDs from the redactor",
    ("file_path", "citation"): "a type of `CITATIONS`, positions, and IDs from the redactor",
    ("tool_status", "tool"): "`ToolCall.payload`: types and statuses of ours, IDs and names from the redactor",
    ("chunk_delta", "target"): "made by `chunk_target`",
    ("chunk_done", "target"): "made by `chunk_target`",
    ("final", "status"): "one of `RUN_STATUS_ORDER`",
    ("late_texts", "names"): "names of members of ours",
}
"""Builder and parameter -> why its text needs no redaction."""

NOT_BUILDERS: Final = {"add_notices": "changes the notices of a frame only"}


def builders() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the public functions of `frames`."""
    for name, found in vars(frames).items():
        is_own = inspect.isfunction(found) and found.__module__ == frames.__name__
        if is_own and not name.startswith("_") and name not in NOT_BUILDERS:
            yield name, found


def is_clean(hint: Any) -> bool:
    """Return whether values of a type hold no text, constants, or clean text."""
    origin, members = get_origin(hint), get_args(hint)
    if origin is Literal:
        return True
    if origin in {Union, UnionType}:
        return all(map(is_clean, members))
    if origin is Cleaned:
        return all(map(is_clean, members))
    if origin is tuple:
        return all(is_clean(member) for member in members if member is not Ellipsis)
    if origin is Mapping:
        return members[0] is str and is_clean(members[1])  # keys are names of members
    return hint in CLEAN


def plain_parameters() -> set[tuple[str, str]]:
    found = set()
    for name, builder in builders():
        hints = get_type_hints(builder)
        hints.pop("return")
        found |= {(name, parameter) for parameter, hint in hints.items() if not is_clean(hint)}
    return found


def test_the_text_of_every_parameter_is_clean_or_has_a_reason() -> None:
    assert plain_parameters() == set(PLAIN)


def test_there_is_a_builder_for_each_kind() -> None:
    assert len(list(builders())) >= len(frames.PRIVATE)


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (str, False),
        (str | None, False),
        (object, False),
        (Mapping[str, object], False),
        (Mapping[str, str], False),
        (tuple[str, ...], False),
        (CleanText, True),
        (CleanText | None, True),
        (Cleaned[CleanText], True),
        (Mapping[str, frames.Lossy], True),
        (Mapping[str, int] | None, True),
        (tuple[Notice, ...], True),
    ],
    ids=str,
)
def test_types(hint: Any, expected: bool) -> None:  # noqa: FBT001 - a column of the table
    assert is_clean(hint) == expected
