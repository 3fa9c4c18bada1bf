"""When an agent is not sure enough to go on (RFC 0002 section F, `interrupt.md` CP-1)."""

from __future__ import annotations

import math
from typing import Final

DEFAULT_THRESHOLD: Final = 0.7
"""Where neither the run nor the host says another."""


def is_low(confidence: object, threshold: float) -> bool:
    """Say whether a confidence is below the threshold; one that is equal is not, nor one that is no finite number."""
    if isinstance(confidence, bool) or not isinstance(confidence, int | float):
        return False
    return math.isfinite(confidence) and confidence < threshold
