"""Routes for the operation of a server: probes, metrics, the OpenAPI document. None of them is authenticated.

The document is the generated one, without what the configuration switches off: `python -m projector.generate` writes
openapi.json, with all routes and dialects.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Final

from anyio import to_thread
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from projector.contracts import codec
from projector.core.faults import FAULTS
from projector.server.http.problems import problem, problem_of_fault
from projector.server.streaming.registry import Streams
from projector.server.streaming.stream_logs import StreamLogs

_NOT_STORED: Final = {"cache-control": "no-store"}


async def alive(_request: Request) -> Response:
    """Respond if the event loop is running. Sends no request to an upstream, which may cost money."""
    return PlainTextResponse("ok\n", headers=_NOT_STORED)


async def ready(request: Request) -> Response:
    """Respond with 503 while the server drains, or has no place in a store that is required for a new stream."""
    state = request.app.state
    streams: Streams = state.streams
    logs: StreamLogs = state.logs
    if streams.is_draining:
        raise problem_of_fault(FAULTS["server_shutdown"])
    if state.site.settings.store.required and not logs.at(logs.new_id()).is_available:
        raise problem("store_unavailable")
    if not logs.is_sound:
        return PlainTextResponse("ok\nstore: unavailable, new streams cannot be resumed\n", headers=_NOT_STORED)
    return await alive(request)


async def metrics(request: Request) -> Response:
    """Return all metrics in the Prometheus text format."""
    return Response(request.app.state.metrics.text(), headers={"content-type": CONTENT_TYPE_LATEST})


async def openapi(request: Request) -> Response:
    """Return the OpenAPI document. The first call writes it, off the event loop: that takes some 20 ms."""
    written = await to_thread.run_sync(request.app.state.openapi, request.scope.get("root_path", ""))
    return Response(written, media_type="application/json")


def root_route(paths: Sequence[str], *, has_openapi: bool) -> Route:
    """Return the route of `/` on a server without a page: a 404 that names the paths of streams."""

    async def root(request: Request) -> Response:
        prefix = request.scope.get("root_path", "")
        named = f"streams: POST {', '.join(prefix + path for path in paths)}" if paths else "no stream is configured"
        openapi = f"GET {prefix}/openapi.json describes every route"
        described = openapi if has_openapi else "docs/operations.md lists every route"
        raise problem("not_found", f"There is no page here; {named}; {described}.")

    return Route("/", root, include_in_schema=False)


HEALTH_ROUTES: Final = (Route("/livez", alive), Route("/healthz", alive), Route("/readyz", ready))
"""Routes of every listener."""
INTERNAL_ROUTES: Final = (Route("/openapi.json", openapi), Route("/metrics", metrics))
"""Routes of the admin listener, or, if there is none, of the public one."""


_FILE: Final = Path(__file__).parent / "openapi.json"
_REQUIRED: Final = frozenset({"anyOf", "content", "schema"})
"""Members without which an object has no meaning."""
_MARKS: Final = frozenset({"x-dialects", "x-per-route"})
"""Members of the generated document that the one of a server does not have."""


def document(
    routes: Mapping[str, Collection[str]],
    paths: Mapping[str, Any] | None = None,
    schemas: Mapping[str, Any] | None = None,
    mounted_at: str = "",
) -> bytes:
    """Return the document of a server as JSON.

    Args:
        routes: path -> the dialects that its requests may select; empty for a route that does not stream.
        paths: path items of the routes of extensions.
        schemas: components that those path items refer to.
        mounted_at: the path in front of all paths, if the application is mounted in another one.
    """
    described = codec.loads(_FILE.read_bytes())
    components, items = described["components"], {**described["paths"], **(paths or {})}
    components["schemas"] |= schemas or {}
    described["paths"] = {
        path: _narrowed(items[path], {*dialects}, components) if dialects else items[path]
        for path, dialects in routes.items()
        if path in items
    }
    used = _used(described["paths"], components)
    described["components"] = {
        kind: {name: one for name, one in named.items() if f"#/components/{kind}/{name}" in used}
        for kind, named in components.items()
        if kind != "securitySchemes"
    } | {"securitySchemes": components["securitySchemes"]}
    if mounted_at:
        described["servers"] = [{"url": mounted_at}]
    return codec.to_keep(codec.dumps(described))


def _narrowed(node: Any, dialects: AbstractSet[str], components: Mapping[str, Any]) -> Any:
    """Return a part of the document with what some dialects have of it; None without anything."""
    if isinstance(node, list):
        return [one for one in (_narrowed(one, dialects, components) for one in node) if one is not None]
    if not isinstance(node, dict):
        return node
    if "x-dialect-names" in node:
        return {"type": "string", "enum": sorted(dialects)}
    if not dialects & {*node.get("x-dialects", dialects)}:
        return None
    if "$ref" in node and "x-per-route" in (target := _component(node["$ref"], components)):
        return _narrowed(target, dialects, components)
    kept = {
        name: inner
        for name, value in node.items()
        if name not in _MARKS and (inner := _narrowed(value, dialects, components)) is not None
    }
    return None if _REQUIRED & (node.keys() - kept.keys()) or kept.get("anyOf") == [] else kept


def _used(node: Any, components: Mapping[str, Any]) -> set[str]:
    """Return the references in a part of the document, and those in the components that they refer to."""
    found: set[str] = set()
    parts = [node]
    while parts:
        part = parts.pop()
        parts += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        if isinstance(part, dict) and (reference := part.get("$ref")) and reference not in found:
            found.add(reference)
            parts.append(_component(reference, components))
    return found


def _component(reference: str, components: Mapping[str, Any]) -> Any:
    _, _, kind, name = reference.split("/", 3)
    return components[kind][name]
