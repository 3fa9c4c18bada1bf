"""The routes that pass a caller's whole body on; the answer is in the dialect of its choice (CONTRACT D38)."""

from __future__ import annotations

from typing import Any, Final

from starlette.routing import Route

from projector.asgi.bodies import drop_in_body
from projector.asgi.catalog import Catalog, Offer
from projector.asgi.routes.stream import Ask, Reader, Site, StreamRoute

_DROP_INS: Final = (
    ("/v1/responses", "responses", "input"),
    ("/v1/chat/completions", "chat_completions", "messages"),
)
"""Path, name in the settings, the member that the body must have."""


def routes(catalog: Catalog, site: Site) -> list[Route]:
    """Give the routes that are on."""
    return [
        Route(path, StreamRoute(_reader(catalog.drop_in[name], required), site), methods=["POST"])
        for path, name, required in _DROP_INS
        if name in catalog.drop_in
    ]


def _reader(offer: Offer, required: str) -> Reader:
    def read(body: dict[str, Any]) -> Ask:
        asked = drop_in_body(body, offer, required=required)
        return Ask(offer, asked, conversation_id=_conversation(asked.get("conversation")))

    return read


def _conversation(said: object) -> str | None:
    """Give the id of the conversation that a request of the Responses API names: itself, or in an object."""
    named = said.get("id") if isinstance(said, dict) else said
    return named if isinstance(named, str) else None
