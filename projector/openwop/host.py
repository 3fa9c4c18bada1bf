"""The host: its routes, and the runs and workflows behind them."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from projector import __version__
from projector.contracts import codec
from projector.contracts.kinds import VENDOR
from projector.contracts.limits import ID_MAX_CHARS
from projector.openwop.event_log import SUMMARY_MAX_TOKENS, present
from projector.openwop.requests import (
    HostError,
    InterruptAnswer,
    error_response,
    json_response,
    modes,
    poll_s,
    run_request,
    sequence,
)
from projector.openwop.run_log import Interrupt, document, poll, stream
from projector.openwop.runs import ANONYMOUS, BY_TOKEN, HostRun, RunStore
from projector.openwop.settings import DIALECT, OpenWopSettings
from projector.openwop.workflows import VERBOSITIES, AgentWorkflow, MockNodesWorkflow, RunnableWorkflow
from projector.redaction.policy import Policy
from projector.server.catalog import Catalog
from projector.server.control.rate_limits import owner_of
from projector.server.http import requests
from projector.server.http.model_routes import NotServed
from projector.server.http.problems import ERROR_FORM, problem, request_id
from projector.server.http.site import Site
from projector.server.streaming.response_writer import HEADERS
from projector.server.telemetry.request_facts import facts_of

NAME: Final = "public-stream-projector"

EVENT_LOG_SCHEMA_VERSION: Final = 1
"""Version of the events of this host, in every snapshot; OpenWOP v1 has no other."""
OPEN_PATHS: Final = frozenset({"/.well-known/openwop", "/v1/openapi.json", "/v1/interrupts/{token}"})
"""Paths without authentication."""
MAX_HEARTBEAT_S: Final = 30.0
"""Maximum interval between comments, required by the protocol."""
KEYS_MAX: Final = 10_000
"""Idempotency keys that are kept with their responses; the oldest of the caller with the most are dropped first."""
JSON_HEADERS: Final = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"))


class HostRequest(Request):
    """One request to the host, with its caller and what that may use."""

    caller = ""
    grant: Any = None


Handler: TypeAlias = Callable[[HostRequest], Awaitable[ASGIApp]]
BodyHandler: TypeAlias = Callable[[HostRequest, dict[str, Any]], Awaitable[Response]]
Enter: TypeAlias = Callable[[HostRequest], AbstractAsyncContextManager[str]]
"""Yields the caller who has the stream of a request while its body is read; raises `Problem` if there is none."""


class Endpoint:
    """A path of the host, with a handler per method; an open path needs no authentication."""

    def __init__(self, site: Site, handlers: Mapping[str, Handler], *, is_open: bool = False) -> None:
        self._site = site
        self._handlers = handlers
        self._is_open = is_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; raise `Problem`, which has the form of the protocol."""
        scope[ERROR_FORM] = error_response
        request = HostRequest(scope, receive)
        if not self._is_open:
            request.caller, request.grant = await self._site.authenticator.grant(scope)
            request.grant.check_route(DIALECT)
        handler = self._handlers.get(scope["method"])
        if handler is None:
            error = problem("method_not_allowed")
            error.headers["allow"] = ", ".join(sorted(self._handlers))
            raise error
        response = await handler(request)
        await response(scope, receive, send)


class OtherPath:
    """Every other path and method below `/v1/`: an error of the protocol, unless the path is another API's."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raise the `Problem` of a request."""
        served = [one for one in scope["app"].routes if isinstance(one, Route) and one.include_in_schema]
        if not any(one.matches(scope)[0] is Match.PARTIAL for one in served):  # those of the host match every method
            scope[ERROR_FORM] = error_response
            _, grant = await self._site.authenticator.grant(scope)
            grant.check_route(DIALECT)
        await NotServed(served)(scope, receive, send)


@dataclass(slots=True)
class _Kept:
    """The first request with a key, and the response to it."""

    owner: str
    """Name that the limits of its caller are kept by."""
    digest: bytes = b""
    response: Response | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0
    """Requests that have the lock or wait for it."""


class IdempotencyKeys:
    """Successful responses to requests with an `Idempotency-Key`: the same request again gets the same response."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._kept: dict[tuple[str, str], _Kept] = {}

    def around(self, handler: BodyHandler, enter: Enter = lambda one: nullcontext(one.caller)) -> Handler:
        """Return a handler that reads the body, and handles a request once."""

        async def handle(request: HostRequest) -> ASGIApp:
            async with enter(request) as caller:
                with self._site.streams.admitted(caller) as account:
                    body = await requests.read_json(request.scope, request.receive, self._site.settings, account)
            name = request.headers.get("idempotency-key")
            if name is None:
                return await handler(request, body)
            if not 0 < len(name) <= ID_MAX_CHARS:
                raise HostError("validation_error", f"`Idempotency-Key` must have 1 to {ID_MAX_CHARS} characters.")
            path = request.scope["path"]
            digest = hashlib.sha256(codec.dumps([path, body])).digest()
            key = (request.caller or path, name)  # an answer with a token has no caller
            kept = self._kept.setdefault(key, _Kept(owner_of(caller)))
            if len(self._kept) > KEYS_MAX:
                most = Counter(one.owner for one in self._kept.values()).most_common(1)[0][0]
                del self._kept[next(one for one, its in self._kept.items() if its.owner == most)]
            kept.users += 1
            try:
                async with kept.lock:
                    if kept.response is None:  # a request that fails leaves its key to the next one
                        kept.response, kept.digest = await handler(request, body), digest
                        return kept.response
            finally:
                kept.users -= 1
                if kept.response is None and not kept.users and self._kept.get(key) is kept:
                    del self._kept[key]
            if kept.digest != digest:
                raise HostError("idempotency_key_mismatch")
            headers = present(location=kept.response.headers.get("location")) | {"openwop-Idempotent-Replay": "true"}
            return json_response(kept.response.body, request.scope, kept.response.status_code, **headers)

        return handle


class Host:
    """Host of OpenWOP; an extension of the server."""

    def __init__(self, settings: OpenWopSettings, catalog: Catalog, site: Site) -> None:
        self._site = site
        self._runs = RunStore(settings)
        self._keys = IdempotencyKeys(site)
        self._readers: Counter[str] = Counter()
        redactor = catalog.redactor(Policy(reasoning="full"))
        threshold = settings.escalation_threshold
        self._agents = {name: AgentWorkflow(one, site) for name, one in catalog.agents_with(DIALECT).items()}
        self._workflows: dict[str, RunnableWorkflow] = {
            **self._agents,
            **{name: MockNodesWorkflow(one, redactor, threshold) for name, one in settings.mock_workflows.items()},
        }
        self._capabilities = self._described(settings)
        site.streams.on_drain(self._runs.fail_suspended)

    def routes(self) -> list[Route]:
        """Return the routes of the host."""
        once = self._keys.around
        paths: dict[str, dict[str, Handler]] = {
            "/.well-known/openwop": {"GET": self._discovery},
            "/v1/openapi.json": {"GET": self._openapi},
            "/v1/interrupts/{token}": {"GET": self._inspect_token, "POST": once(self._resolve_token, self._with_token)},
            "/v1/workflows/{workflow_id}": {"GET": self._workflow},
            "/v1/runs": {"POST": once(self._create)},
            "/v1/runs/{run_id}": {"GET": self._snapshot},
            "/v1/runs/{run_id}/events": {"GET": self._events},
            "/v1/runs/{run_id}/events/poll": {"GET": self._poll},
            "/v1/runs/{run_id}/cancel": {"POST": self._cancel},
            "/v1/runs/{run_id}/interrupts/{node_id:path}": {"POST": once(self._resolve)},
        }
        routes = [Route(path, Endpoint(self._site, of, is_open=path in OPEN_PATHS)) for path, of in paths.items()]
        routes.append(Route("/v1/{rest:path}", OtherPath(self._site), include_in_schema=False))
        for route in routes:  # Starlette's `path` parameters do not match line breaks, which a node id may contain
            route.path_regex = re.compile(route.path_regex.pattern, re.DOTALL)
        return routes

    def openapi(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Return the OpenAPI path items of the routes, and the schemas that these refer to."""
        described = codec.loads((Path(__file__).parent / "openapi.json").read_bytes())
        for operation in (one for path in described["paths"].values() for one in path.values()):
            operation["responses"] |= {str(status): described["error"] for status in operation.pop("errors")}
        return described["paths"], described["schemas"]

    async def aclose(self) -> None:
        """Fail all runs and drop their logs."""
        await self._runs.aclose()

    def _described(self, settings: OpenWopSettings) -> bytes:
        """Return the capabilities document, with each family at its root (RFC 0073) and under `capabilities`."""
        verbosity = max((one.verbosity for one in self._workflows.values()), key=VERBOSITIES.index, default="off")
        reasoning = {"verbosity": verbosity, "tokenLimit": SUMMARY_MAX_TOKENS, "streaming": verbosity != "off"}
        families: dict[str, Any] = {
            "agents": {"supported": True, "reasoning": reasoning},
            "providerUsage": {"supported": True},
        }
        if settings.conformance:
            families |= {"conformance": {"mockAgent": True}, "fixtures": sorted(settings.mock_workflows)}
        limits = dict.fromkeys(("clarificationRounds", "schemaRounds", "envelopesPerTurn"), 0)
        return codec.dumps(
            {
                "protocolVersion": "1.0",
                "supportedEnvelopes": [],
                "schemaVersions": {},
                "limits": {**limits, "maxRequestBodyBytes": self._site.settings.limits.max_body_bytes},
                "implementation": {"name": NAME, "version": __version__, "vendor": VENDOR},
                "supportedTransports": ["rest"],
                **families,
                "capabilities": families,
            }
        )

    async def _discovery(self, request: HostRequest) -> Response:
        return json_response(self._capabilities, request.scope, 200, **{"cache-control": "public, max-age=300"})

    async def _openapi(self, request: HostRequest) -> ASGIApp:
        return json_response(await to_thread.run_sync(request.scope["app"].state.openapi), request.scope)

    async def _workflow(self, request: HostRequest) -> ASGIApp:
        return json_response(self._find(request, request.path_params["workflow_id"]).document, request.scope)

    async def _create(self, request: HostRequest, body: dict[str, Any]) -> Response:
        asked = run_request(body)
        workflow = self._find(request, asked.workflow_id)
        admission = await self._site.limiter.enter(request.scope, request.caller, request.grant.rate_limits)
        try:
            begin = await workflow.prepare(asked, request.caller, request.scope, admission)
            streams_max = self._site.settings.limits.max_streams_per_caller
            run = self._runs.start(asked.workflow_id, request.caller, begin, streams_max)
            run.groups = facts_of(request.scope).groups
        except Exception:
            await admission.close()
            raise
        path = f"/v1/runs/{run.run_id}"
        created = {"runId": run.run_id, "status": run.log.state.status, "eventsUrl": f"{path}/events"}
        return json_response(created | {"statusUrl": path}, request.scope, 201, location=path)

    async def _snapshot(self, request: HostRequest) -> ASGIApp:
        run = self._run(request)
        state = run.log.state
        snapshot = present(
            runId=run.run_id,
            workflowId=run.workflow_id,
            status=state.status,
            currentNodeId=state.node_id,
            startedAt=state.started_at,
            completedAt=state.ended_at,
            error=state.error and {name: state.error[name] for name in ("code", "message")},
            engineVersion=__version__,
            eventLogSchemaVersion=EVENT_LOG_SCHEMA_VERSION,
        )
        return json_response(snapshot, request.scope)

    async def _events(self, request: HostRequest) -> ASGIApp:
        log = self._run(request).log
        shown = modes(request.query_params)
        last = sequence(request.headers.get("last-event-id", "-1"), "Last-Event-ID")
        accept = request.headers.get("accept", "").lower()
        if "application/json" in accept and "text/event-stream" not in accept:
            return self._reading(request, document(log))
        heartbeat_s = min(self._site.settings.heartbeat_s, MAX_HEARTBEAT_S)
        return self._reading(request, stream(log, shown, last, heartbeat_s), HEADERS)

    async def _poll(self, request: HostRequest) -> ASGIApp:
        log, query = self._run(request).log, request.query_params
        last = sequence(query.get("lastSequence", query.get("since", "-1")), "lastSequence")
        return self._reading(request, poll(log, last, poll_s(query)))

    def _reading(
        self,
        request: HostRequest,
        pieces: AsyncGenerator[bytes, None],
        headers: Collection[tuple[bytes, bytes]] = JSON_HEADERS,
    ) -> ASGIApp:
        """Return the response to a reader; readers have the limits of streams, but are counted apart from them."""
        limits, owner = self._site.settings.limits, owner_of(request.caller)
        if self._readers.total() >= limits.max_streams:
            raise problem("overloaded")
        if self._readers[owner] >= (limits.max_streams_per_caller or limits.max_streams):
            raise problem("too_many_streams")

        async def read(scope: Scope, receive: Receive, send: Send) -> None:
            response = StreamingResponse(pieces)
            response.raw_headers = [*headers, (b"x-request-id", request_id(scope).encode())]
            self._readers[owner] += 1
            try:
                await response(scope, receive, send)
            finally:
                self._readers[owner] -= 1
                self._readers += Counter()  # drops callers without readers

        return read

    async def _cancel(self, request: HostRequest) -> ASGIApp:
        run = self._run(request)
        state = run.log.state
        if state.is_over and state.status != "cancelled":
            raise HostError("run_already_terminal")
        run.stop(None)
        status = "cancelled" if state.is_over else "cancelling"
        return json_response({"runId": run.run_id, "status": status}, request.scope)

    async def _resolve(self, request: HostRequest, body: dict[str, Any]) -> Response:
        run = self._run(request)
        await self._enter(request, run)
        answer = requests.parse(InterruptAnswer, body)
        interrupt = run.interrupt_of(request.path_params["node_id"], answer.interrupt_id)
        by = ANONYMOUS if request.caller.startswith("address:") else request.caller
        return self._answer(request, run, interrupt, answer.resume_value, by)

    async def _inspect_token(self, request: HostRequest) -> ASGIApp:
        run, interrupt = self._runs.of_token(request.path_params["token"])
        run.check_pending(interrupt)
        return json_response(interrupt.question, request.scope)

    @asynccontextmanager
    async def _with_token(self, request: HostRequest) -> AsyncGenerator[str, None]:
        """Yield the caller of the run that a token belongs to, to one request at a time: a token is no key."""
        run, _ = self._runs.of_token(request.path_params["token"])
        async with run.token_lock:
            yield run.caller

    async def _resolve_token(self, request: HostRequest, body: dict[str, Any]) -> Response:
        run, interrupt = self._runs.of_token(request.path_params["token"])
        run.check_pending(interrupt)  # a token that was used must not use up the limits of the caller
        await self._enter(request, run)
        return self._answer(request, run, interrupt, requests.parse(InterruptAnswer, body).resume_value, BY_TOKEN)

    async def _enter(self, request: HostRequest, run: HostRun) -> None:
        """Charge an answer to the caller of a run, also with a token; its rights may have changed since the start."""
        request.grant = request.grant or self._site.authenticator.grant_of(run.caller, run.groups)
        request.grant.check_route(DIALECT)
        self._find(request, run.workflow_id)
        await self._site.limiter.enter(request.scope, run.caller, request.grant.rate_limits)

    @staticmethod
    def _answer(request: HostRequest, run: HostRun, interrupt: Interrupt, value: object, by: str) -> Response:
        run.resolve(interrupt, value, by)
        resolved = {"runId": run.run_id, "nodeId": interrupt.node_id, "status": run.log.state.status}
        return json_response(resolved, request.scope)

    def _run(self, request: HostRequest) -> HostRun:
        return self._runs.get(request.path_params["run_id"], request.caller)

    def _find(self, request: HostRequest, workflow_id: str) -> RunnableWorkflow:
        """Return a workflow; to a caller that may not run its agent it does not exist."""
        workflow = self._workflows.get(workflow_id)
        if workflow is None or (workflow_id in self._agents and not request.grant.allows("agents", workflow_id)):
            raise HostError("workflow_not_found")
        return workflow
