"""An application whose settings can be replaced while it runs.

Each reload builds a new application for new requests. Requests that are already running finish in the old one, with
its agents and upstream connections, which are closed after the last of them. Running streams, owners and metrics are
shared by all (`projector.server.http.site.Site`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from projector._errors import UsageError
from projector.server.app import rebuild
from projector.server.config.loading import SettingsError
from projector.server.config.preflight import warnings
from projector.server.config.settings import NEEDS_RESTART, Settings, check_access
from projector.server.telemetry.logs import log

ReadSettings = Callable[[], Settings]


class Generations:
    """An ASGI application that forwards each request to the newest application."""

    def __init__(self, app: Starlette) -> None:
        self._app = app
        self._requests: dict[Starlette, int] = {}
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def state(self) -> Any:
        """The state of the newest application."""
        return self._app.state

    @property
    def settings(self) -> Settings:
        """The settings in effect."""
        settings: Settings = self.state.site.settings
        return settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or the lifespan of the newest application at its end."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        app = self._app
        self._requests[app] = self._requests.get(app, 0) + 1
        try:
            await app(scope, receive, send)
        finally:
            self._requests[app] -= 1
            self._close_if_unused(app)

    async def admin(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request to the admin listener with the newest application."""
        await self.state.admin(scope, receive, send)

    async def reload(self, read: ReadSettings) -> Settings | None:
        """Read the settings and use them for new requests; keep the old ones if they are invalid, and return None."""
        try:
            settings, app, needs_restart, cautions = await asyncio.to_thread(self._build, read)
        except (UsageError, OSError, ValueError) as error:
            reason = str(error) if isinstance(error, UsageError) else type(error).__name__
            log.error("reload_refused", reason=reason)
            return None
        old, self._app = self._app, app
        app.state.activate()
        log.info("reloaded", needs_restart=needs_restart)
        for caution in cautions:
            log.warning("configuration_warning", reason=caution)
        self._close_if_unused(old)
        return settings

    def _build(self, read: ReadSettings) -> tuple[Settings, Starlette, list[str], list[str]]:
        """Return the new settings and application, the names of changed settings that need a restart, and warnings."""
        given = read()
        kept = {name: getattr(self.settings, name) for name in NEEDS_RESTART}
        changed = sorted(name for name, value in kept.items() if getattr(given, name) != value)
        settings = given.model_copy(update=kept)
        try:
            check_access(settings)
        except ValueError as error:
            raise SettingsError(str(error)) from None
        app = rebuild(self._app, settings)
        app.state.compile()
        return settings, app, changed, list(warnings(settings))

    def _close_if_unused(self, app: Starlette) -> None:
        if app is self._app or self._requests.get(app):
            return
        self._requests.pop(app, None)
        closing = asyncio.create_task(app.state.release())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        self.state.logs.check_store()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await asyncio.gather(*self._closing)
        await self.state.aclose()
        await send({"type": "lifespan.shutdown.complete"})
