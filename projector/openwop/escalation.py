"""When an agent is not sure enough to go on (RFC 0002 section F, `interrupt.md` CP-1)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

DEFAULT_THRESHOLD: Final = 0.7


def threshold_of(configurable: Mapping[str, object], manifest: Mapping[str, object] | None = None) -> float:
    """Give the threshold of a run: its own `escalationThreshold`, else the agent's default, else 0.7.

    A value that is no number from 0 to 1 is passed over.
    """
    confidence = (manifest or {}).get("confidence")
    default = confidence.get("defaultThreshold") if isinstance(confidence, Mapping) else None
    for wanted in (configurable.get("escalationThreshold"), default):
        if type(wanted) in {int, float} and 0 <= wanted <= 1:  # type: ignore[operator]  # a number, as its type says
            return float(wanted)  # type: ignore[arg-type]  # the same
    return DEFAULT_THRESHOLD


def is_low(confidence: object, threshold: float) -> bool:
    """Say whether a confidence is below the threshold; one that is equal is not, nor one that is no finite number."""
    if isinstance(confidence, bool) or not isinstance(confidence, int | float):
        return False
    return math.isfinite(confidence) and confidence < threshold
