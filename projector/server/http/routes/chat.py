"""`POST /api/v1/chat/stream`: a browser chooses an agent and says a message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.routing import Route

from projector.server.catalog import Catalog
from projector.server.http import requests
from projector.server.http.request_bodies import agent_body
from projector.server.http.routes.stream_route import Ask, Reader, Site, StreamRoute


def routes(catalog: Catalog, site: Site) -> list[Route]:
    """Give the route, if there is an agent to choose."""
    if not catalog.has_agents:
        return []
    return [Route("/api/v1/chat/stream", StreamRoute(_reader(catalog), site, catalog.dialects), methods=["POST"])]


def _reader(catalog: Catalog) -> Reader:
    def read(body: dict[str, Any], _path: Mapping[str, str]) -> Ask:
        asked = requests.chat(body)
        binding = catalog.agent(asked.agent)
        return Ask(binding, agent_body(asked, binding), asked.agent, asked.conversation_id, asked.metadata or {})

    return read
