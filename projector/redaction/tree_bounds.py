"""Check that a parsed JSON tree is within the bounds of a policy, so that it need not be copied (CONTRACT D24).

Nearly all trees are, and to check one takes a fifth of the time of a copy.
"""

from __future__ import annotations

import math
from typing import Final

from projector.contracts import codec
from projector.redaction.policy import Limits

INT64: Final = range(-(2**63), 2**64)
"""The integers that JSON encoders write: signed or unsigned, of 64 bits."""


def is_within(tree: dict[str, object], limits: Limits, string_max_chars: int) -> bool:
    """Return whether a parsed object is within its bounds and has no half of a character; False for other types."""
    level: list[object] = [tree]
    for _ in range(limits.container_max_depth):
        deeper: list[object] = []
        for container in level:
            if type(container) is dict:
                if not _are_keys(container, limits):
                    return False
                entries = list(container.values())
            elif type(container) is list:
                entries = container
            else:
                return False
            if len(entries) > limits.container_max_entries or not _are_entries(entries, string_max_chars, deeper):
                return False
        if not deeper:
            return True
        level = deeper
    return False


def _are_keys(members: dict[str, object], limits: Limits) -> bool:
    max_chars = limits.key_max_chars
    return all(len(key) <= max_chars and (key.isascii() or codec.scrub(key) is key) for key in members)


def _are_entries(entries: list[object], string_max_chars: int, deeper: list[object]) -> bool:
    """Return whether strings and numbers are within their bounds; add other values, except literals, to `deeper`."""
    for entry in entries:
        if type(entry) is str:
            if len(entry) > string_max_chars or not (entry.isascii() or codec.scrub(entry) is entry):
                return False
        elif type(entry) is int:
            if entry not in INT64:
                return False
        elif type(entry) is float:
            if not math.isfinite(entry):
                return False
        elif entry is not None and type(entry) is not bool:
            deeper.append(entry)
    return True
