"""OpenWOP v1 as we emit it: models of a run's events, of what a host answers, and the rules over a whole log.

Core events are as the protocol has them; what is ours begins with `public-sse` and its readers pass over it.
"""

from __future__ import annotations

from projector.openwop.contract.checker import LogChecker, check_log
from projector.openwop.contract.documents import Discovery, ErrorBody, EventList, EventPoll, RunCreated, RunSnapshot
from projector.openwop.contract.events import EVENT_ADAPTER, RUN_TERMINALS, OpenWopEvent, parse_event
from projector.openwop.contract.mock_agent import MockAgentConfig

__all__ = [
    "EVENT_ADAPTER",
    "RUN_TERMINALS",
    "Discovery",
    "ErrorBody",
    "EventList",
    "EventPoll",
    "LogChecker",
    "MockAgentConfig",
    "OpenWopEvent",
    "RunCreated",
    "RunSnapshot",
    "check_log",
    "parse_event",
]
