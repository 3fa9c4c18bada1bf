"""The routes that pass a caller's whole body on; the answer is in the dialect of its choice (CONTRACT D38).

`"stream": false` asks for the answer in one piece; what no such member means, the dialect says.
"""

from __future__ import annotations

from collections.abc import Mapping
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
        Route(path, StreamRoute(_reader(offer, required), site, offer.agent.dialects), methods=["POST"])
        for path, name, required in _DROP_INS
        if (offer := catalog.drop_in.get(name)) is not None
    ]


def _reader(offer: Offer, required: str) -> Reader:
    def read(body: dict[str, Any], _path: Mapping[str, str]) -> Ask:
        asked = drop_in_body(body, offer, required=required)
        stream = body.get("stream")
        is_stream = stream if isinstance(stream, bool) else None
        return Ask(offer, asked, conversation_id=_conversation(asked.get("conversation")), is_stream=is_stream)

    return read


def _conversation(said: object) -> str | None:
    """Give the id of the conversation that a request of the Responses API names: itself, or in an object."""
    named = said.get("id") if isinstance(said, dict) else said
    return named if isinstance(named, str) else None
