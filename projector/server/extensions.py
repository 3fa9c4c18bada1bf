"""Extensions of the server: optional subpackages with a table of their own in the settings.

An extension is a row of `EXTENSIONS` and a field of `Settings`. It is imported when its table is configured.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from projector._registry import Registry
from projector.server.config.config_base import Table

if TYPE_CHECKING:
    from starlette.routing import Route

    from projector.server.catalog import Catalog
    from projector.server.config.agent_settings import AgentSettings, WorkflowSettings
    from projector.server.http.stream_route import Site


class Extension(Protocol):
    """A running extension."""

    def routes(self) -> list[Route]:
        """Return the routes that the extension adds."""

    def openapi(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Return the OpenAPI path items of the routes, and the schemas that these refer to."""

    async def aclose(self) -> None:
        """Cancel what is running and release all resources."""


class ExtensionSettings(Table, ABC):
    """The table of an extension; an empty table in the configuration enables it."""

    @abstractmethod
    def check(self, agents: Mapping[str, AgentSettings | None], workflows: Mapping[str, WorkflowSettings]) -> None:
        """Raise `ValueError` if it does not fit the agents and workflows; an agent that is None has the defaults."""

    @abstractmethod
    def start(self, catalog: Catalog, site: Site) -> Extension:
        """Create the extension. Called once, by `projector.server.app.create_app`."""


EXTENSIONS: Final[Registry[type[ExtensionSettings]]] = Registry(
    {"openwop": "projector.openwop.settings:OpenWopSettings"}
)
"""Name of the table -> its settings."""
