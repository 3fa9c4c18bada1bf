"""`/v1/models`, in the form of the API of the client, and the answer to what is not served below `/v1/`.

The lists of upstreams (`GET <base URL>/models`) are kept for a while.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import anyio
from anyio import to_thread
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from projector.conversation.model_request import UnsupportedRequestError
from projector.core.faults import FAULTS
from projector.providers import PROVIDERS
from projector.redaction.redactor import Redactor
from projector.server.catalog import AgentBinding, Catalog, unknown_model
from projector.server.config.agent_settings import PASSTHROUGH_APIS
from projector.server.http.problems import json_answer, method_not_allowed, problem
from projector.server.http.site import Site
from projector.server.telemetry.logs import log
from projector.server.telemetry.request_facts import client_api
from projector.server.upstream.protocol import Model, Upstream, UpstreamError

LIST_S: Final = 300.0
"""Seconds that a list is kept: providers add models a few times a month."""
FAILURE_S: Final = 30.0
"""Seconds until a failed upstream is asked again."""
ANSWER_S: Final = 10.0
"""Seconds for the list of one upstream."""


Clean: TypeAlias = Callable[[Sequence[Model]], Sequence[Model]]
"""Returns the models that may be shown, without sensitive values."""


class ModelLists:
    """The lists of all upstreams of a server; each upstream is asked by one request at a time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[str, tuple[float, Sequence[Model]]] = {}
        self._asking: defaultdict[str, anyio.Lock] = defaultdict(anyio.Lock)

    async def of(self, name: str, upstream: Upstream, clean: Clean = list) -> Sequence[Model]:
        """Return the models of an upstream; none if it fails or has no list.

        A list is cleaned once, off the event loop: those of routers have hundreds of models, which take 0.4 ms each.
        """
        async with self._asking[name]:
            until, models = self._kept.get(name, (0.0, ()))
            if self._clock() >= until:
                listed = await _ask(name, upstream)
                models = await to_thread.run_sync(clean, listed) if listed else ()
                self._kept[name] = self._clock() + (FAILURE_S if listed is None else LIST_S), models
            return models


async def _ask(name: str, upstream: Upstream) -> Sequence[Model] | None:
    """Return the models of an upstream; None if it fails."""
    ask = getattr(upstream, "models", None)
    if ask is None:
        return ()
    try:
        with anyio.fail_after(ANSWER_S):
            models: Sequence[Model] = await ask()
    except TimeoutError:
        log.warning("models_not_listed", upstream=name, code=FAULTS["upstream_timeout_total"].code)
    except UpstreamError as error:
        log.warning("models_not_listed", upstream=name, code=error.fault.code, reason=error.reason)
    else:
        return models
    return None


UNNAMED: Final = "system"
"""Owner of a model whose owner is withheld."""

_PATH_MAX_CHARS: Final = 200


class ModelRoutes:
    """Lists the models that callers may use on the passthrough routes."""

    def __init__(self, catalog: Catalog, site: Site) -> None:
        self._catalog = catalog
        self._site = site
        self._lists = ModelLists()

    def routes(self) -> list[Route]:
        """Return the routes; none if no passthrough route is on."""
        if not self._catalog.passthrough:
            return []
        return [Route("/v1/models", self._list), Route("/v1/models/{model:path}", self._retrieve)]

    async def _list(self, request: Request) -> Response:
        models = await self._models(request)
        if (api := client_api(request.scope)) is not None:
            try:
                return json_answer(api.model_page([*models.values()], request.query_params), request.scope)
            except UnsupportedRequestError as error:
                raise problem("invalid_request", str(error), param=error.param) from None
        return json_answer({"object": "list", "data": [_entry(model) for model in models.values()]}, request.scope)

    async def _retrieve(self, request: Request) -> Response:
        model_id = request.path_params["model"]
        model = (await self._models(request)).get(model_id)
        if model is None:
            raise unknown_model(model_id)
        api = client_api(request.scope)
        return json_answer((_entry if api is None else api.model)(model), request.scope)

    async def _models(self, request: Request) -> dict[str, Model]:
        """Return the models of every upstream that a passthrough route may choose, by ID; the first upstream counts.

        A client that is known by its API gets those of the route of this API.
        """
        _, grant = await self._site.authenticator.grant(request.scope)
        served = self._catalog.passthrough
        if (api := client_api(request.scope)) is not None:
            served = {name: one for name, one in served.items() if one.route.client is api}
            if not served:
                return {}
        routes = [route for name, route in served.items() if grant.allows("routes", name)]
        if not routes:
            raise problem("permission_denied")
        bindings = {one.provider.name: one for route in routes for one in route.bindings}
        lists: dict[str, Sequence[Model]] = dict.fromkeys(bindings, ())

        async def read(name: str, binding: AgentBinding) -> None:
            lists[name] = await self._offered(binding)

        async with anyio.create_task_group() as tasks:
            for name, binding in bindings.items():
                tasks.start_soon(read, name, binding)
        own = [Model(name) for route in routes for name in route.models]
        found: dict[str, Model] = {}
        for models in (own, *lists.values()):
            for model in filter(lambda model: grant.allows("models", model.id), models):
                found.setdefault(model.id, model)
        return found

    async def _offered(self, binding: AgentBinding) -> Sequence[Model]:
        """Return the models of an upstream: those of its configuration, otherwise those that it lists."""
        provider = binding.provider
        if provider.models is not None:
            return [Model(alias) for alias in provider.models]
        return await self._lists.of(provider.name, provider.upstream, partial(_clean, binding.redactor))


def _clean(redactor: Redactor, models: Sequence[Model]) -> Sequence[Model]:
    return [
        model._replace(
            # the provider's name of an account is withheld: those of trained models are such
            owned_by=model.owned_by if redactor.provider_message(model.owned_by).value == model.owned_by else UNNAMED,
            title=model.title if redactor.text(model.title).value == model.title else "",
        )
        for model in models
        if redactor.text(model.id).value == model.id
    ]


def _entry(model: Model) -> dict[str, Any]:
    return {"id": model.id, "object": "model", "created": model.created, "owned_by": model.owned_by}


_SETTINGS: Final = {
    row.path: f"To serve it, set `passthrough.{name}` to the name of an upstream."
    for name, api in PASSTHROUGH_APIS.items()
    for row in (PROVIDERS[api].passthrough, PROVIDERS[api].counting)
    if row is not None
}
"""Path of a route of the providers' APIs -> how to turn it on."""
_INSTEAD: Final = {
    "/v1/responses/input_tokens": "The usage of a response counts the tokens of its input.",
}
"""Path of OpenAI that would be taken for the ID of a response -> what there is instead."""
_ANY_SETTING: Final = "To serve the OpenAI API, name an upstream in the table `[passthrough]`."


class NotServed:
    """The answer to every other path and method below `/v1/`: what is served there."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = [route for route in routes if route.path.startswith("/v1/")]

    async def __call__(self, scope: Scope, _receive: Receive, _send: Send) -> None:
        """Raise the `Problem` of a request."""
        prefix = scope.get("root_path", "")
        path = scope["path"].removeprefix(prefix)[:_PATH_MAX_CHARS]
        allowed = {
            method
            for route in self._routes
            if route.matches(scope)[0] is Match.PARTIAL and path not in _INSTEAD
            for method in route.methods or ()
        }
        if allowed:
            # clients that try a WebSocket first fall back at once on a 426, but not on a 405; `upgrade` itself is not
            # in the scope (`connection`)
            found = method_not_allowed(", ".join(sorted(allowed)))
            if "sec-websocket-key" in Headers(scope=scope):
                headers = found.headers | {"upgrade": "HTTP/1.1", "connection": "upgrade"}
                found = problem("websocket_not_supported")
                found.headers |= headers
            raise found
        name = f"`{prefix}{path}`" if path.isprintable() else "This path"
        served = [
            f"`{method} {prefix}{route.path_format}`"
            for route in self._routes
            for method in sorted((route.methods or set()) - {"HEAD"})
        ]
        setting = _SETTINGS.get(path) or (_INSTEAD.get(path, "") if served else _ANY_SETTING)
        available = f"; available: {', '.join(served)}" if served else ""
        raise problem("not_found", f"{name} is not served here{available}. {setting}".rstrip())
