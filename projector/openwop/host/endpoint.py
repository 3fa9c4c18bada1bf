"""One path of the host as an ASGI application: authentication, methods, and every failure as an error response."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from starlette.datastructures import Headers, QueryParams
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from projector.contracts import codec
from projector.openwop.host.host_errors import HostError, error_response
from projector.server.control.rate_limits import Admission, owner_of
from projector.server.control.rights import EVERYTHING, Grant
from projector.server.http.model_routes import NotServed
from projector.server.http.problems import Problem, problem, request_id
from projector.server.http.requests import ClientLeftError, read_json
from projector.server.http.stream_route import Site


@dataclass(frozen=True, slots=True)
class HostRequest:
    """One request, and its response."""

    site: Site
    caller: str
    grant: Grant
    scope: Scope
    receive: Receive
    send: Send

    @property
    def path(self) -> Mapping[str, str]:
        """Path parameters."""
        parameters: Mapping[str, str] = self.scope["path_params"]
        return parameters

    @property
    def query(self) -> QueryParams:
        """Query parameters."""
        return QueryParams(self.scope["query_string"])

    @property
    def headers(self) -> Headers:
        """Request headers."""
        return Headers(scope=self.scope)

    async def body(self) -> dict[str, Any]:
        """Read the JSON object of the request; raise `Problem`, or `ClientLeftError` if the client disconnects."""
        with self.site.streams.admitted(self.caller) as account:
            return await read_json(self.scope, self.receive, self.site.settings, account)

    async def admission(self) -> Admission:
        """Return what the request takes from the budgets of its caller; raise `Problem` if a limit is reached."""
        return await self.site.admission(self.scope, self.caller, self.grant)

    async def answer(self, document: object, status: int = 200, **headers: str) -> None:
        """Send a JSON document, not to be cached unless `headers` say otherwise."""
        fields = {name.replace("_", "-"): value for name, value in ({"cache_control": "no-store"} | headers).items()}
        fields["x-request-id"] = request_id(self.scope)
        data = document if isinstance(document, bytes) else codec.dumps(document)
        response = Response(data, status_code=status, headers=fields, media_type="application/json")
        await response(self.scope, self.receive, self.send)


ROUTE: Final = "openwop"
"""Name of the routes of the host in the rights of callers."""

Handler: TypeAlias = Callable[[HostRequest], Awaitable[None]]


class Endpoint:
    """A path of the host, with a handler per method; an open path needs no authentication."""

    def __init__(self, site: Site, handlers: Mapping[str, Handler], *, is_open: bool = False) -> None:
        self._site = site
        self._handlers = handlers
        self._is_open = is_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        has_started = False

        async def start(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            await self._handle(scope, receive, start)
        except ClientLeftError:
            return
        except Problem as error:
            await error_response(error, scope)(scope, receive, send)
        except Exception:
            if not has_started:
                await error_response(problem("internal_error"), scope)(scope, receive, send)
            raise

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller, grant = ("", EVERYTHING) if self._is_open else await self._site.grant(scope)
        grant.check_route(ROUTE)
        handler = self._handlers.get(scope["method"])
        if handler is None:
            error = problem("method_not_allowed" if self._handlers else "not_found")
            if self._handlers:
                error.headers["allow"] = ", ".join(sorted(self._handlers))
            raise error
        await handler(HostRequest(self._site, caller, grant, scope, receive, send))


class UnknownPath(Endpoint):
    """Every other path below the base of the protocol, which answers with its errors too."""

    def __init__(self, site: Site) -> None:
        super().__init__(site, {})

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._site.grant(scope)
        served = [route for route in scope["app"].routes if isinstance(route, Route) and route.include_in_schema]
        await NotServed(served)(scope, receive, send)


class ReaderLimit:
    """Limit of concurrent readers, of all callers and of each: a reader holds a connection until its run ends."""

    def __init__(self, max_readers: int, max_per_caller: int) -> None:
        self._max_readers = max_readers
        self._max_per_caller = max_per_caller
        self._active: Counter[str] = Counter()

    @contextmanager
    def admitted(self, caller: str) -> Iterator[None]:
        """Count a reader of a caller; raise `Problem` if a limit is reached."""
        owner = owner_of(caller)
        if self._active[owner] >= self._max_per_caller:
            raise HostError("rate_limited", "Too many readers of this caller.")
        if self._active.total() >= self._max_readers:
            raise problem("overloaded")
        self._active[owner] += 1
        try:
            yield
        finally:
            self._active[owner] -= 1
            self._active += Counter()  # drops callers without readers
