"""No member of an event that has a wrong type ends a stream with a fault of ours: an empty list, an empty object.

Neither is text, and neither can be a key of a table. An object may also be nested more deeply than JSON can be written
(CONTRACT D31). Each member of each kind of event is spoiled once, in the first
golden input that has it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import pytest

from projector.recording.replay import Case
from tests.property.dialect_streams import play_lines
from tests.property.mutations import CASES, Place, lines_of, node_at, parsed, places
from tests.property.soundness import OURS

Spot: TypeAlias = tuple[int, Place]
"""Number of a line, and the path of a member in it."""


def _spots() -> Iterator[tuple[Case, list[Spot]]]:
    seen: set[object] = set()
    for case in CASES:
        spots: list[Spot] = []
        for number, line in enumerate(lines_of(case)):
            event = parsed(line)
            kind = event.get("type") if isinstance(event, dict) else None
            for place, _ in places(event):
                member = (case.provider, str(kind), tuple("#" if isinstance(step, int) else step for step in place))
                if member not in seen:
                    seen.add(member)
                    spots.append((number, place))
        if spots:
            yield case, spots


def spoiled(line: bytes, place: Place, value: object) -> bytes:
    """Return an event with another value in a place."""
    event: Any = json.loads(line)
    *way, last = place
    node_at(event, way)[last] = value
    return json.dumps(event).encode()


SPOTS: Final = [*_spots()]
DEEP: Final = json.loads('{"a":' * 300 + "1" + "}" * 300)


@pytest.mark.parametrize(("case", "spots"), SPOTS, ids=[case.name for case, _ in SPOTS])
def test_a_member_of_a_wrong_type_costs_itself(case: Case, spots: list[Spot]) -> None:
    lines = lines_of(case)
    for number, place in spots:
        for value in ([], {}, DEEP):
            line = spoiled(lines[number], place, value)
            said = play_lines("public_sse_v1", case, [*lines[:number], line, *lines[number + 1 :]])
            assert not any(f'"code":"{code}"'.encode() in said for code in OURS), (number, place, value)
