"""The routes of the host: what each path answers, and the runs behind them."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from anyio import to_thread
from starlette.routing import Route

from projector.contracts import codec
from projector.core.faults import FAULTS
from projector.openwop.host import asked, capabilities, description, reading
from projector.openwop.host.endpoint import Call, Endpoint, Handler
from projector.openwop.host.names import DIALECT
from projector.openwop.host.offers.offer import Workflow
from projector.openwop.host.offers.registry import registry
from projector.openwop.host.readers import Readers
from projector.openwop.host.refusals import Refusal
from projector.openwop.host.run import Run
from projector.openwop.host.runs import Origin, Runs
from projector.openwop.host.settings import OpenWop
from projector.openwop.run_state import Interrupt, RunState
from projector.server.catalog import Catalog
from projector.server.http.problems import problem_of_fault
from projector.server.http.routes.stream_route import Site

MAX_HEARTBEAT_S: Final = 30.0
"""The protocol wants a comment at least that often."""


class Host:
    """A host of OpenWOP.

    Args:
        settings: the table `[openwop]`.
        catalog: the agents that may be run.
        site: of the server.
    """

    def __init__(self, settings: OpenWop, catalog: Catalog, site: Site) -> None:
        self._site = site
        self._runs = Runs(settings)
        self._readers = Readers(site.settings.limits.max_streams)
        self._workflows = self._registered(settings, catalog)
        self._capabilities = capabilities.document(
            [workflow.verbosity for workflow in self._workflows.values()],
            conformance=settings.conformance,
            max_body_bytes=site.settings.limits.max_body_bytes,
        )
        site.streams.on_drain(self._runs.end_waiting)

    def routes(self) -> list[Route]:
        """Return the routes of the host."""
        rows: dict[str, Mapping[str, Handler]] = {
            "/v1/workflows/{workflow_id}": {"GET": self._workflow},
            "/v1/runs": {"POST": self._create},
            "/v1/runs/{run_id}": {"GET": self._snapshot},
            "/v1/runs/{run_id}/events": {"GET": self._events},
            "/v1/runs/{run_id}/events/poll": {"GET": self._poll},
            "/v1/runs/{run_id}/cancel": {"POST": self._cancel},
            "/v1/runs/{run_id}/interrupts/{node_id:path}": {"POST": self._resolve},
        }
        discovery = Endpoint(self._site, {"GET": self._discovery}, is_open=True)
        openapi = Endpoint(self._site, {"GET": self._description}, is_open=True)
        return [
            Route("/.well-known/openwop", discovery),
            Route("/v1/openapi.json", openapi),
            *(Route(path, Endpoint(self._site, handlers)) for path, handlers in rows.items()),
            Route("/v1/runs/{rest:path}", Endpoint(self._site, {}), include_in_schema=False),
        ]

    def openapi_paths(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the OpenAPI path items of the routes."""
        return description.PATHS

    def openapi_schemas(self) -> Mapping[str, Any]:
        """Return the OpenAPI components that the path items refer to."""
        return description.schemas()

    async def aclose(self) -> None:
        """End what runs, and forget all logs."""
        await self._runs.aclose()

    async def _discovery(self, call: Call) -> None:
        await call.answer(self._capabilities, cache_control=capabilities.CACHE_CONTROL)

    async def _description(self, call: Call) -> None:
        await call.answer(await to_thread.run_sync(call.scope["app"].state.openapi))

    async def _workflow(self, call: Call) -> None:
        await call.answer(self._find(call.path["workflow_id"]).document())

    async def _create(self, call: Call) -> None:
        body = await call.body()
        key = asked.idempotency_key(call.headers)
        origin = None if key is None else Origin(call.caller, key, hashlib.sha256(codec.dumps(body)).digest())
        known = None if origin is None else self._runs.known(origin)
        run = known or self._begin(call, asked.run_request(body), origin)
        about = f"/v1/runs/{run.run_id}"
        created = {
            "runId": run.run_id,
            "status": run.log.state.status,
            "eventsUrl": f"{about}/events",
            "statusUrl": about,
        }
        await call.answer(created, HTTPStatus.CREATED, location=about)

    def _begin(self, call: Call, request: asked.RunRequest, origin: Origin | None) -> Run:
        """Begin a run; it starts when others have had their turn.

        Raises:
            Problem: it may not be asked so, or there is no room for it.
        """
        begin = self._find(request.workflow_id).prepare(request, call.caller, call.scope)
        if self._site.streams.is_draining:
            raise problem_of_fault(FAULTS["server_shutdown"])
        run = self._runs.begin(f"run_{uuid.uuid4().hex}", request.workflow_id, call.caller)
        try:
            work = begin(run)
        except Exception:
            self._runs.discard(run)
            raise
        if origin is not None:
            self._runs.name(run, origin)
        self._runs.start(run, work)
        return run

    async def _snapshot(self, call: Call) -> None:
        run = self._run(call)
        await call.answer(_snapshot(run, run.log.state))

    async def _events(self, call: Call) -> None:
        run = self._run(call)
        modes, buffer_s = asked.modes(call.query), asked.buffer_s(call.query)
        last_sequence = asked.last_event_id(call.headers)
        settings = self._site.settings
        if asked.wants_json(call.headers):
            with self._readers.admitted():
                await reading.document(run.log, settings.timeouts.client_stall_timeout_s)(
                    call.scope, call.receive, call.send
                )
            return
        stream = reading.EventStream(
            run.log,
            modes,
            buffer_s=buffer_s,
            last_sequence=last_sequence,
            heartbeat_s=min(settings.heartbeat_s, MAX_HEARTBEAT_S),
            client_stall_timeout_s=settings.timeouts.client_stall_timeout_s,
        )
        with self._readers.admitted():
            await stream(call.scope, call.receive, call.send)

    async def _poll(self, call: Call) -> None:
        run = self._run(call)
        last_sequence, wait_s = asked.last_sequence(call.query), asked.poll_s(call.query)
        with self._readers.admitted():
            client_stall_timeout_s = self._site.settings.timeouts.client_stall_timeout_s
            new = await reading.poll(run.log, last_sequence, wait_s, client_stall_timeout_s, call.receive)
            await new(call.scope, call.receive, call.send)

    async def _cancel(self, call: Call) -> None:
        run = self._run(call)
        state = run.log.state
        if state.is_over and state.status != "cancelled":
            raise Refusal("run_already_terminal")
        run.cancel()
        await call.answer({"runId": run.run_id, "status": "cancelled" if state.is_over else "cancelling"})

    async def _resolve(self, call: Call) -> None:
        run, node_id = self._run(call), call.path["node_id"]
        answer = asked.answer(await call.body())
        run.resolve(_pending(run.log.state, node_id, answer.interrupt_id), answer.resume_value)
        await call.answer({"runId": run.run_id, "nodeId": node_id, "status": run.log.state.status})

    def _registered(self, settings: OpenWop, catalog: Catalog) -> dict[str, Workflow]:
        """Give everything that speaks the dialect and may be run."""
        offers = catalog.workflows
        speaking = {name: offer for name, offer in offers.items() if DIALECT in offer.settings.dialects}
        return registry(settings, catalog.agents_with(DIALECT), speaking, self._site)

    def _run(self, call: Call) -> Run:
        return self._runs.get(call.path["run_id"], call.caller)

    def _find(self, workflow_id: str) -> Workflow:
        if workflow_id not in self._workflows:
            raise Refusal("workflow_not_found")
        return self._workflows[workflow_id]


def _snapshot(run: Run, state: RunState) -> dict[str, Any]:
    """Give how a run stands; what has no value is absent."""
    said = {
        "runId": run.run_id,
        "workflowId": run.workflow_id,
        "status": state.status,
        "currentNodeId": state.node_id,
        "startedAt": state.started_at,
        "completedAt": state.ended_at,
        "error": state.error and {name: state.error[name] for name in ("code", "message")},
    }
    return {name: value for name, value in said.items() if value is not None}


def _pending(state: RunState, node_id: str, interrupt_id: str | None) -> Interrupt:
    """Give the interrupt that a request answers; of several only the one that it names."""
    of_node = [
        interrupt
        for interrupt in state.interrupts
        if interrupt.node_id == node_id and interrupt_id in {None, interrupt.interrupt_id}
    ]
    if not of_node:
        raise Refusal("interrupt_not_found")
    pending = [interrupt for interrupt in of_node if not interrupt.is_resolved]
    if not pending or state.is_over:
        raise Refusal("interrupt_already_resolved")
    if len(pending) > 1:
        raise Refusal("validation_error", "`interruptId` is missing: this node waits for several answers.")
    return pending[0]
