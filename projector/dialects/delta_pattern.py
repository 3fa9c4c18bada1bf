"""The JSON of an event as a format of bytes, with places for the members that differ within a run of deltas.

A writer makes it of an event that it has built as for any frame, so that each event is described in one place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from projector.contracts import codec
from projector.core.delta_frames import TEXT_MAX_CHARS

NUMBER_PLACE: Final = b"%d"
TEXT_PLACE: Final = b'"%b"'
"""The place of a text, which is given as the content of a JSON string."""
VALUES_MAX_BYTES: Final = 6 * TEXT_MAX_CHARS + 100
"""Maximum size of the values of one event: a delta, of which each character may be an escape, numbers and a time."""


def pattern_of(event: Mapping[str, object], places: Mapping[str, bytes]) -> bytes:
    """Return the JSON of an event as a format.

    Args:
        event: its members, in order.
        places: the members that differ, with their formats; the order of the values is that of the event.
    """
    members = [
        literal(codec.dumps(name)) + b":" + (places[name] if name in places else literal(codec.dumps(value)))
        for name, value in event.items()
    ]
    return b"{%b}" % b",".join(members)


def literal(data: bytes) -> bytes:
    """Return a format of constant bytes."""
    return data.replace(b"%", b"%%")
