"""Token counts of Chat Completions, in the shape of a Responses `usage` (CONTRACT D13)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from projector.core import canonical as read

Path = tuple[str, ...]

COUNTS: Final[Mapping[Path, tuple[Path, ...]]] = {
    ("input_tokens",): (("prompt_tokens",),),
    ("output_tokens",): (("completion_tokens",),),
    ("total_tokens",): (("total_tokens",),),
    ("input_tokens_details", "cached_tokens"): (
        ("prompt_tokens_details", "cached_tokens"),
        ("prompt_cache_hit_tokens",),
        ("cached_tokens",),
        ("num_cached_tokens",),
    ),
    ("output_tokens_details", "reasoning_tokens"): (
        ("completion_tokens_details", "reasoning_tokens"),
        ("reasoning_tokens",),
    ),
}
"""Where a count goes -> where providers say it, the first one that they say."""


def to_responses(usage: Mapping[str, object]) -> dict[str, object]:
    """Give what is known of a usage; a count that is not said is absent, because unknown is not 0."""
    known: dict[str, object] = {}
    for (*outer, name), places in COUNTS.items():
        counts = (_at(usage, place) for place in places)
        count = next((count for count in counts if count is not None), None)
        if count is None:
            continue
        if not outer:
            known[name] = count
        else:
            known[outer[0]] = {name: count}
    return known


def _at(usage: Mapping[str, object], place: Path) -> int | None:
    *outer, name = place
    for step in outer:
        usage = read.mapping_or_empty(usage, step)
    return read.count_or_none(usage, name)
