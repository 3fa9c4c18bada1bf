"""Open Responses as we emit it (schema of 2026-04-24): models of the events, and the rules over a whole stream.

Core events and items are as the protocol has them, required members included; what is ours begins with `public-sse:`
and its clients skip it.
"""

from __future__ import annotations

from typing import Final

from contracts.openresponses.events import EVENT_ADAPTER, OpenResponsesEvent, parse_event
from contracts.openresponses.items import Response
from contracts.openresponses.rules import check_stream

__all__ = ["EVENT_ADAPTER", "EVENT_MAX_BYTES", "OpenResponsesEvent", "Response", "check_stream", "parse_event"]

EVENT_MAX_BYTES: Final = 16 * 1024 * 1024
"""One event: a whole response object has all texts in it (CONTRACT D37)."""
