"""What all routes of a server share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from starlette.routing import Route

from projector.server.catalog import Catalog, MakeUpstream
from projector.server.config.settings import Settings
from projector.server.control.callers import Authenticator
from projector.server.control.rate_limits import RateLimiter
from projector.server.opaque_state import CallKeeper, StateSealer
from projector.server.ownership import Ownership
from projector.server.streaming.registry import Streams
from projector.server.streaming.stream_logs import StreamLogs
from projector.server.telemetry.metrics import Metrics
from projector.server.telemetry.reports import Observer
from projector.server.upstream.circuit import Circuits


class Extension(Protocol):
    """A running extension (`projector.server.config.config_base`), created with its table, the catalog and the site."""

    def routes(self) -> list[Route]:
        """Return the routes that the extension adds."""

    def openapi(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Return the OpenAPI path items of the routes, and the schemas that these refer to."""

    async def aclose(self) -> None:
        """Cancel what is running and release all resources."""


@dataclass(frozen=True, slots=True)
class Site:
    """The components that all routes of a server share. Only settings and sealer change with the settings."""

    settings: Settings
    streams: Streams
    ownership: Ownership
    call_keeper: CallKeeper
    sealer: StateSealer
    authenticator: Authenticator
    limiter: RateLimiter
    observer: Observer
    metrics: Metrics
    logs: StreamLogs
    producer: str
    """ID of this process, in the logs that it writes."""
    circuits: Circuits
    make_upstream: MakeUpstream
    extensions: list[Extension] = field(default_factory=list)
    """Running extensions. They keep the agents and upstreams of the first settings."""
    catalogs: list[Catalog] = field(default_factory=list)
    """Catalogs that the extensions use."""

    def write_state(self) -> None:
        """Begin to write to the store what later requests may refer to."""
        self.ownership.write()
        self.call_keeper.write()

    async def aclose(self) -> None:
        """Close the extensions and what they use, and write what waits for the store."""
        for extension in self.extensions:
            await extension.aclose()
        for catalog in self.catalogs:
            await catalog.aclose()
        await self.ownership.aclose()
        await self.call_keeper.aclose()
        await self.logs.aclose()
