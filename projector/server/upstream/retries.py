"""Whether a failed request to an upstream is made again, and after how long. Pure: chance is an argument."""

from __future__ import annotations

from typing import Final

from projector.server.config.settings import Retries
from projector.server.upstream.protocol import UpstreamError

_NOT_AGAIN: Final = frozenset({"upstream_timeout_first_byte", "upstream_timeout_total"})
"""Retryable for the client, but not by us: whoever waits has waited long enough."""


def wait_s(error: UpstreamError, attempt: int, retries: Retries, chance: float) -> float | None:
    """Give the seconds to wait before the next attempt, None where there is none.

    What the provider asks for counts, up to `max_backoff_s`; beyond it the client is told instead. Otherwise the wait
    doubles each time, and a quarter of it is left to chance, so that many clients do not come back as one.

    Args:
        error: why the attempt failed; nothing of an answer had come.
        attempt: 1 for the first.
        retries: the limits.
        chance: from 0 to 1.
    """
    if attempt > retries.max or not error.fault.is_retryable or error.fault.code in _NOT_AGAIN:
        return None
    if error.retry_after_s is not None:
        return error.retry_after_s if error.retry_after_s <= retries.max_backoff_s else None
    return min(retries.initial_backoff_s * 2.0 ** (attempt - 1), retries.max_backoff_s) * (1 - chance / 4)
