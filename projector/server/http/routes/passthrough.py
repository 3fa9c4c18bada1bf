"""The routes that pass a caller's whole body on; the answer is in the dialect of its choice (CONTRACT D38).

`"stream": false` asks for the answer in one piece; what no such member means, the dialect says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.routing import Route

from projector.contracts.limits import ID_MAX_CHARS
from projector.providers import PROVIDERS
from projector.server.catalog import AgentBinding, Catalog
from projector.server.config.settings import Settings
from projector.server.http.problems import problem
from projector.server.http.request_bodies import passthrough_body
from projector.server.http.routes.stream_route import Ask, Reader, Site, StreamRoute


def routes(catalog: Catalog, site: Site) -> list[Route]:
    """Give the routes that are on."""
    return [
        Route(
            route.path,
            StreamRoute(_reader(binding, route.required, site.settings), site, binding.settings.dialects),
            methods=["POST"],
        )
        for binding in catalog.passthrough.values()
        if (route := PROVIDERS[binding.provider.api].passthrough) is not None
    ]


def _reader(binding: AgentBinding, required: str, settings: Settings) -> Reader:
    def read(body: dict[str, Any], _path: Mapping[str, str]) -> Ask:
        asked = passthrough_body(body, binding, required=required)
        conversation_id = _conversation(asked)
        if conversation_id is not None and settings.auth.is_on:
            raise problem("unknown_conversation")  # it was not made here, so nobody can tell whose it is
        is_stream = body.get("stream")
        if not isinstance(is_stream, bool | None):
            raise problem("invalid_request", "`stream` must be true or false.")
        return Ask(binding, asked, conversation_id=conversation_id, is_stream=is_stream)

    return read


def _conversation(body: Mapping[str, Any]) -> str | None:
    """Give the id of the conversation that a request of the Responses API names: itself, or in an object.

    Raises:
        Problem: what it says is no such name, but a provider might read it as one.
    """
    said = body.get("conversation")
    named = said.get("id") if isinstance(said, dict) else said
    if said is not None and not (isinstance(named, str) and len(named) <= ID_MAX_CHARS):
        raise problem("invalid_request", "`conversation` must be an id, or an object with one.")
    return named
