"""Allowed hosts, clients behind trusted proxies, and pages of other origins."""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final, TypeAlias

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from projector.server.config.settings import Settings
from projector.server.http.problems import Problem, problem, respond
from projector.server.telemetry.request_facts import client_of, path_of

_Address: TypeAlias = IPv4Address | IPv6Address

PROBES: Final = frozenset({"/livez", "/healthz", "/readyz"})
"""Paths with any host: orchestrators ask for them by the address of the container."""

LOCAL: Final = "local"
"""Allows addresses, names without a dot, and names that only a local network has."""
_LOCAL_SUFFIXES: Final = (".localhost", ".local", ".internal")

_PORT: Final = re.compile(r":\d*$")
_NODE: Final = re.compile(r"\[(?P<v6>[^\]]*)\](:\w+)?|(?P<v4>[\d.]+)(:\w+)?")
"""A node with an optional port, as `Forwarded` has it and some proxies write it in `X-Forwarded-For`."""
_PAIR: Final = re.compile(r"""([^\s"=,;]++)=("(?:[^"\\]|\\.)*+"|[^\s",;]*+)""", re.ASCII)
_PAIRS: Final = rf"\s*+(?:{_PAIR.pattern}\s*+)?+"
_ELEMENT: Final = re.compile(rf"(?=[^,])(?:{_PAIRS}(?:;{_PAIRS})*+(?=,|$)|(?P<invalid>[^,]++))", re.ASCII)
"""An element of `Forwarded`, in which pairs may be empty (RFC 7239, section 4), or else what is before the next comma:
a quote that a client left open must not swallow what a proxy added. It is possessive, so that its cost is linear."""


class HostCheck:
    """Middleware that refuses requests for other hosts, such as those of a page whose name resolves to this server."""

    def __init__(self, app: ASGIApp, allowed: Sequence[str], *, exempt: frozenset[str] = PROBES) -> None:
        """Create the middleware.

        Args:
            app: what handles the requests.
            allowed: names of hosts; `*.example.com` for all below, `local` for those that no page has as its own.
            exempt: paths with any host.
        """
        self._app, self._exempt = app, exempt
        self._has_local = LOCAL in allowed
        self._exact = frozenset(name.lower() for name in allowed if not name.startswith("*."))
        self._suffixes = tuple(name[1:].lower() for name in allowed if name.startswith("*."))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request if its host is allowed."""
        if scope["type"] == "http" and path_of(scope) not in self._exempt:
            host = _PORT.sub("", Headers(scope=scope).get("host", "")).lower().removesuffix(".")
            is_allowed = host in self._exact or host.endswith(self._suffixes) or (self._has_local and _is_local(host))
            if not is_allowed:
                await _Refusal(problem("host_not_allowed"))(scope, receive, send)
                return
        await self._app(scope, receive, send)


class TrustedProxies:
    """Middleware that replaces the address of a trusted proxy with that of its client."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._networks = tuple(ip_network(text) for text in settings.trusted_proxies)
        self._header = settings.forwarded_header

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request with the address of its client."""
        if scope["type"] == "http" and (peer := client_of(scope)) is not None:
            client = self._client(peer, Headers(scope=scope).getlist(self._header))
            scope["client"] = (client, scope["client"][1])
        await self._app(scope, receive, send)

    def _client(self, peer: str, values: Sequence[str]) -> str:
        """Return the last address that no trusted proxy has; what is before it may be forged."""
        found = _address(peer)
        for node in reversed(_nodes(self._header, ",".join(values))):
            if found is None or not any(found in network for network in self._networks):
                break
            address = _address(node)
            if address is None:  # unknown, or a name that hides the address
                break
            found = address
        return peer if found is None else str(found)


def _is_local(host: str) -> bool:
    """Return whether nobody can make a host resolve to this server in the browsers of others: it is no public name."""
    return bool(host) and ("." not in host or host.endswith(_LOCAL_SUFFIXES) or _address(host) is not None)


def _nodes(header: str, value: str) -> list[str]:
    """Return the nodes that a request passed, the client first."""
    if header == "x-forwarded-for":
        return [node.strip() for node in value.split(",") if node.strip()]
    elements = (one for one in _ELEMENT.finditer(value) if one[0].strip())
    return ["" if one["invalid"] else _node(one[0]) for one in elements]


def _node(element: str) -> str:
    """Return the node of an element of `Forwarded`, empty if it has none or several: a host may have added one."""
    found = [value.strip('"') for name, value in _PAIR.findall(element) if name.lower() == "for"]
    return found[0] if len(found) == 1 else ""


def _address(node: str) -> _Address | None:
    """Return the address of a node, None if it has none."""
    match = _NODE.fullmatch(node)
    try:
        address = ip_address((match["v6"] or match["v4"]) if match else node)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


class Cors(CORSMiddleware):
    """Starlette's middleware, which refuses with plain text, with error responses of this server instead."""

    def preflight_response(self, request_headers: Headers) -> Response:
        """Return the response to a preflight request."""
        response = super().preflight_response(request_headers)
        if response.status_code == HTTPStatus.OK:
            return response
        is_known = self.is_allowed_origin(request_headers["origin"])
        detail = "The method or a header is not allowed for pages of other origins."
        refused = problem("cors_not_allowed", detail if is_known else None)
        refused.headers.update((k, v) for k, v in response.headers.items() if not k.startswith("content-"))
        return _Refusal(refused)


class _Refusal(Response):
    """The response to a request that is refused before its route; its form depends on the path."""

    def __init__(self, refused: Problem) -> None:
        super().__init__(status_code=refused.status)
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        response = await respond(Request(scope), self._refused)
        await response(scope, receive, send)
