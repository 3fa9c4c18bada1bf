"""`POST /api/v1/ag-ui/{agent}`: a client of AG-UI runs an agent with a conversation that the client holds.

Threads belong to the caller who began them, as conversations do. An approval is answered only where this server has
asked for it (docs/decisions/0008).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.routing import Route

from projector.dialects.ag_ui.requests import InputRefusedError, approvals, dialect_options, read_run_input
from projector.server.catalog import AgentBinding, Catalog
from projector.server.http.problems import problem
from projector.server.http.request_bodies import run_body
from projector.server.http.routes.stream_route import Ask, Reader, Site, StreamRoute
from projector.server.ownership import Ownership

_DIALECT: Final = "ag_ui"


def routes(catalog: Catalog, site: Site) -> list[Route]:
    """Give the route, if there is an agent that speaks the dialect."""
    bindings = catalog.agents_with(_DIALECT)
    if not bindings:
        return []
    route = StreamRoute(_reader(bindings, site.ownership), site, (_DIALECT,))
    return [Route("/api/v1/ag-ui/{agent}", route, methods=["POST"])]


def _reader(bindings: Mapping[str, AgentBinding], ownership: Ownership) -> Reader:
    def read(body: dict[str, Any], path: Mapping[str, str]) -> Ask:
        name = path["agent"]
        if name not in bindings:
            raise problem("unknown_agent")
        binding = bindings[name]
        try:
            asked = read_run_input(body)
            answered = [] if binding.settings.trust_client_approvals else approvals(asked)
        except InputRefusedError as refused:
            raise problem("invalid_request", str(refused)) from None
        previous = _response_of(answered, ownership)
        return Ask(binding, run_body(asked, binding, previous), name, asked.thread_id, options=dialect_options(asked))

    return read


def _response_of(answered: list[str], ownership: Ownership) -> str | None:
    """Give the response that asked for what is answered, None where nothing is; whose it is, is checked with the rest.

    Raises:
        Problem: nobody asked, or more than one response did.
    """
    asking = {ownership.approval_response(approval_id) for approval_id in answered}
    if len(asking) > 1:
        raise problem("invalid_request", "`resume` answers more than one response.")
    return asking.pop() if asking else None
