"""One path of the host: who asks, by which method, and every failure as the error object. Pure ASGI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import anyio
from starlette.datastructures import Headers, QueryParams
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from projector.contracts import codec
from projector.openwop.host.refusals import error_response
from projector.server.http import requests
from projector.server.http.problems import Problem, problem
from projector.server.http.request_ids import request_id
from projector.server.http.requests import ClientLeftError
from projector.server.http.routes.stream_route import Site


@dataclass(frozen=True, slots=True)
class Call:
    """One request, and how it is answered."""

    site: Site
    caller: str
    scope: Scope
    receive: Receive
    send: Send

    @property
    def path(self) -> Mapping[str, str]:
        """The parts of the path that have names."""
        named: Mapping[str, str] = self.scope["path_params"]
        return named

    @property
    def query(self) -> QueryParams:
        """What stands behind the path."""
        return QueryParams(self.scope["query_string"])

    @property
    def headers(self) -> Headers:
        """The head of the request."""
        return Headers(scope=self.scope)

    async def body(self) -> dict[str, Any]:
        """Give the JSON object of the request.

        Raises:
            Problem: there is none, it did not come in time, or the server has no room for it.
            ClientLeftError: there is nobody to answer.
        """
        limits, timeouts = self.site.settings.limits, self.site.settings.timeouts
        with self.site.streams.admitted(self.caller) as account:
            try:
                with anyio.fail_after(timeouts.request_read_s):
                    return await requests.read_json(self.scope, self.receive, limits.max_body_bytes, account)
            except TimeoutError:
                raise problem("request_timeout") from None

    async def answer(self, document: object, status: int = 200, **headers: str) -> None:
        """Answer with a JSON document; nothing of a run is for a cache."""
        said = {name.replace("_", "-"): value for name, value in ({"cache_control": "no-store"} | headers).items()}
        data = document if isinstance(document, bytes) else codec.dumps(document)
        said["x-request-id"] = request_id(self.scope)
        response = Response(data, status_code=status, headers=said, media_type="application/json")
        await response(self.scope, self.receive, self.send)


Handler: TypeAlias = Callable[[Call], Awaitable[None]]


class Endpoint:
    """A path, as an ASGI application.

    Args:
        site: of the server.
        handlers: what answers each method.
        is_open: whether nobody is asked who they are.
    """

    def __init__(self, site: Site, handlers: Mapping[str, Handler], *, is_open: bool = False) -> None:
        self._site = site
        self._handlers = handlers
        self._is_open = is_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        is_begun = False

        async def begin(message: Message) -> None:
            nonlocal is_begun
            is_begun = True
            await send(message)

        try:
            await self._handle(scope, receive, begin)
        except ClientLeftError:
            return
        except Problem as refused:
            await error_response(refused, scope)(scope, receive, send)
        except Exception:
            if not is_begun:
                await error_response(problem("internal_error"), scope)(scope, receive, send)
            raise

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = "" if self._is_open else await self._site.authenticator.caller(scope)
        handler = self._handlers.get(scope["method"])
        if handler is None:
            refused = problem("method_not_allowed" if self._handlers else "not_found")
            if self._handlers:
                refused.headers["allow"] = ", ".join(sorted(self._handlers))
            raise refused
        await handler(Call(self._site, caller, scope, receive, send))
