"""Open Responses as we emit it (schema of 2026-04-24): models of the events, and the rules over a whole stream.

Core events and items are as the protocol has them, required members included; what is ours begins with `public-sse:`
and its clients skip it.
"""

from __future__ import annotations

from projector.dialects.openresponses.checker import Breach, StreamChecker, check_stream
from projector.dialects.openresponses.events import EVENT_ADAPTER, OpenResponsesEvent, parse_event
from projector.dialects.openresponses.item_models import Response

__all__ = [
    "EVENT_ADAPTER",
    "Breach",
    "OpenResponsesEvent",
    "Response",
    "StreamChecker",
    "check_stream",
    "parse_event",
]
