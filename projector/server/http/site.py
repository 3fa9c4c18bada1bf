"""What all routes of a server share."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.types import Scope

from projector.server.config.settings import Settings
from projector.server.control.callers import Authenticator, Grant, Rights
from projector.server.control.rate_limits import Admission, RateLimiter
from projector.server.opaque_state import CallKeeper, StateSealer
from projector.server.ownership import Ownership
from projector.server.streaming.registry import Streams
from projector.server.streaming.stream_logs import StreamLogs
from projector.server.telemetry.reports import Observer
from projector.server.telemetry.request_facts import facts_of


@dataclass(frozen=True, slots=True)
class Site:
    """The components that all routes of a server share."""

    settings: Settings
    streams: Streams
    ownership: Ownership
    call_keeper: CallKeeper
    sealer: StateSealer
    authenticator: Authenticator
    rights: Rights
    limiter: RateLimiter
    observer: Observer
    logs: StreamLogs
    producer: str
    """ID of this process, in the logs that it writes."""

    async def grant(self, scope: Scope) -> tuple[str, Grant]:
        """Return the caller of a request, and what it may use; raise `Problem` if it is not authenticated."""
        caller = await self.authenticator.caller(scope)
        return caller, self.rights.of(caller, facts_of(scope).groups)

    async def admission(self, scope: Scope, caller: str, grant: Grant) -> Admission:
        """Return what a request takes from the budgets of its caller; raise `Problem` if a limit is reached."""
        return await self.limiter.enter(scope, caller, grant.rate_limits)
