"""The host: its routes, and the runs and workflows behind them."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import anyio
from anyio import to_thread
from starlette.routing import Route

from projector.contracts import codec
from projector.core.faults import FAULTS
from projector.openwop.event_log import present
from projector.openwop.host import descriptions, log_readers, run_requests
from projector.openwop.host.agent_runs import AgentWorkflow
from projector.openwop.host.bindings import Begin, RunnableWorkflow
from projector.openwop.host.endpoint import Endpoint, Handler, HostRequest, ReaderLimit, UnknownPath
from projector.openwop.host.forks import ReplayWork, fork_of, replay_of
from projector.openwop.host.host_errors import HostError
from projector.openwop.host.interrupts import ANONYMOUS, BY_TOKEN
from projector.openwop.host.planned_runs import PlannedWorkflow
from projector.openwop.host.run_log import Interrupt, RunState
from projector.openwop.host.run_requests import RunRequest
from projector.openwop.host.runs import Answer, HostRun, IdempotencyKey, RunStore, Work
from projector.openwop.host.settings import DIALECT, OpenWopSettings
from projector.openwop.host.shared_keys import SharedKeys
from projector.openwop.host.shared_quotas import CallerLimits, Quotas
from projector.openwop.host.shared_runs import SharedRuns
from projector.openwop.host.webhooks import Webhooks
from projector.openwop.host.workflow_runs import StepsWorkflow
from projector.redaction.policy import Policy
from projector.server.catalog import Catalog
from projector.server.control.rate_limits import Admission
from projector.server.control.token_meter import TokenMeter
from projector.server.http.problems import problem_of_fault
from projector.server.http.stream_route import Site
from projector.store.memory import MemoryStore

MAX_HEARTBEAT_S: Final = 30.0
"""Maximum interval between comments, required by the protocol."""


class Host:
    """Host of OpenWOP; an extension of the server."""

    def __init__(self, settings: OpenWopSettings, catalog: Catalog, site: Site) -> None:
        self._site = site
        store = site.logs.store
        self._shared = None
        if not isinstance(store, MemoryStore):
            wait_s = settings.approval_timeout_s
            limits = (settings.max_caller_runs, settings.max_caller_waiting, settings.max_caller_readers)
            quotas = Quotas(store, CallerLimits(*limits, wait_s))
            self._shared = SharedRuns(store, site.producer, settings.max_log_bytes, wait_s, quotas)
            self._shared.host = self
        self._runs = RunStore(settings, self._shared)
        self._keys = None if self._shared is None else SharedKeys(store, self._runs.get)
        self._webhooks = Webhooks(settings, store)
        self._readers = ReaderLimit(site.settings.limits.max_streams, settings.max_caller_readers)
        self._workflows = _workflows(settings, catalog, site)
        self._capabilities = descriptions.capabilities(
            [workflow.verbosity for workflow in self._workflows.values()],
            settings.fixtures(),
            conformance=settings.conformance,
            has_webhooks=bool(settings.webhook_origins),
            max_body_bytes=site.settings.limits.max_body_bytes,
        )
        site.streams.on_drain(self._runs.fail_suspended)

    def routes(self) -> list[Route]:
        """Return the routes of the host."""
        rows: dict[str, Mapping[str, Handler]] = {
            "/v1/workflows/{workflow_id}": {"GET": self._workflow},
            "/v1/runs": {"POST": self._create},
            "/v1/runs/{run_id}:fork": {"POST": self._fork},
            "/v1/runs/{run_id}": {"GET": self._snapshot},
            "/v1/runs/{run_id}/events": {"GET": self._events},
            "/v1/runs/{run_id}/events/poll": {"GET": self._poll},
            "/v1/runs/{run_id}/cancel": {"POST": self._cancel},
            "/v1/webhooks": {"POST": self._webhooks.on_register},
            "/v1/webhooks/{webhook_id}": {"DELETE": self._webhooks.on_unregister},
            "/v1/runs/{run_id}/interrupts/{node_id:path}": {"POST": self._resolve},
        }
        discovery = Endpoint(self._site, {"GET": self._discovery}, is_open=True)
        openapi = Endpoint(self._site, {"GET": self._openapi}, is_open=True)
        routes = [
            Route("/.well-known/openwop", discovery),
            Route("/v1/openapi.json", openapi),
            Route(
                "/v1/interrupts/{token}",
                Endpoint(self._site, {"GET": self._inspect_token, "POST": self._resolve_token}, is_open=True),
            ),
            *(Route(path, Endpoint(self._site, handlers)) for path, handlers in rows.items()),
            Route("/v1/{rest:path}", UnknownPath(self._site), include_in_schema=False),
        ]
        for route in routes:  # Starlette's `path` parameters do not match line breaks, which a node id may contain
            route.path_regex = re.compile(route.path_regex.pattern, re.DOTALL)
        return routes

    def openapi(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Return the OpenAPI path items of the routes, and the schemas that these refer to."""
        return descriptions.PATHS, descriptions.schemas()

    async def aclose(self) -> None:
        """Fail all runs and drop their logs, and end the deliveries."""
        await self._runs.aclose()
        if self._shared is not None:
            await self._shared.aclose()
        await self._webhooks.aclose()

    async def _discovery(self, request: HostRequest) -> None:
        await request.answer(self._capabilities, cache_control=descriptions.CACHE_CONTROL)

    async def _openapi(self, request: HostRequest) -> None:
        await request.answer(await to_thread.run_sync(request.scope["app"].state.openapi))

    async def _workflow(self, request: HostRequest) -> None:
        await request.answer(self._find(request, request.path["workflow_id"]).document())

    async def _create(self, request: HostRequest) -> None:
        admission = await request.admission()
        body = await request.body()
        key = self._key(request, body)
        run = self._known(key) or await self._start(request, run_requests.run_request(body), key, admission)
        path = f"/v1/runs/{run.run_id}"
        created = {
            "runId": run.run_id,
            "status": run.log.state.status,
            "eventsUrl": f"{path}/events",
            "statusUrl": path,
        }
        await request.answer(created, HTTPStatus.CREATED, location=path)

    @staticmethod
    def _key(request: HostRequest, body: Mapping[str, Any]) -> IdempotencyKey | None:
        """Return the `Idempotency-Key` of a request, with the digest of its body."""
        name = run_requests.idempotency_key(request.headers)
        digest = hashlib.sha256(codec.dumps(body)).digest()
        return None if name is None else IdempotencyKey(request.caller, name, digest)

    def _known(self, key: IdempotencyKey | None) -> HostRun | None:
        """Return the run that an earlier request with this key has started."""
        return None if key is None else self._runs.find(key)

    async def _start(
        self, request: HostRequest, body: RunRequest, key: IdempotencyKey | None, admission: Admission
    ) -> HostRun:
        workflow = self._find(request, body.workflow_id)
        if body.callback_url is not None:
            self._webhooks.check_callback(body.callback_url)
        begin = workflow.prepare(body, request.caller, request.scope)
        if workflow.agents:
            await admission.take_stream(TokenMeter(workflow.agents, body.inputs))
        is_started = False
        try:
            run, is_started = await self._begin(
                request.caller, body.workflow_id, key, begin, admission, body.callback_url
            )
            return run
        finally:
            if not is_started:
                await admission.close()

    async def _begin(
        self,
        caller: str,
        workflow_id: str,
        key: IdempotencyKey | None,
        begin: Begin,
        admission: Admission | None = None,
        callback_url: str | None = None,
    ) -> tuple[HostRun, bool]:
        """Return a new run, or the one that a request with the same key has started; and whether it is new."""
        if self._site.streams.is_draining:
            raise problem_of_fault(FAULTS["server_shutdown"])
        run_id = f"run_{uuid.uuid4().hex}"
        if key is None:
            return await self._begin_new(run_id, caller, workflow_id, key, begin, admission, callback_url), True
        known = None if self._keys is None else await self._keys.enter(key, run_id)
        if known is None:
            known = self._known(key)  # without a shared store
        if known is not None:
            return known, False
        try:
            return await self._begin_new(run_id, caller, workflow_id, key, begin, admission, callback_url), True
        except Exception:
            if self._keys is not None:
                await self._keys.leave(key)
            raise

    async def _begin_new(
        self,
        run_id: str,
        caller: str,
        workflow_id: str,
        key: IdempotencyKey | None,
        begin: Begin,
        admission: Admission | None,
        callback_url: str | None,
    ) -> HostRun:
        if self._shared is not None:
            await self._shared.quotas.enter(caller, run_id)
        try:
            run = self._runs.create(run_id, workflow_id, caller)
            run.callback_url = callback_url
            self._observe(run)
            work = self._work(run, begin)
        except Exception:
            if self._shared is not None:
                self._shared.quotas.leave(caller, run_id)
            raise
        if admission is not None:
            work.use(admission)
        if key is not None:
            self._runs.register(run, key)
        with anyio.CancelScope(shield=True):  # it is registered, so it has to start
            if self._shared is not None:
                await self._shared.open(run)
            self._runs.start(run, work)
        return run

    def _work(self, run: HostRun, begin: Begin) -> Work:
        try:
            return begin(run)
        except Exception:
            self._runs.discard(run)
            raise

    @asynccontextmanager
    async def _reading(self, caller: str) -> AsyncIterator[None]:
        """Count a reader of a caller; raise `Problem` if a limit is reached."""
        with self._readers.admitted(caller):
            if self._shared is None:
                yield
            else:
                async with self._shared.quotas.reading(caller):
                    yield

    def _observe(self, run: HostRun) -> None:
        """Send the events of a run to its receivers."""
        url = run.callback_url
        receiver = None if url is None else self._webhooks.callback(run.run_id, run.caller, url)
        run.log.on_entry = partial(self._webhooks.notify, run.caller, receiver)

    def can_continue(self, run: HostRun) -> bool:
        """See `Continuing`."""
        return run.workflow_id in self._workflows and not self._site.streams.is_draining

    def work_of(self, run: HostRun, state: Mapping[str, Any]) -> Work:
        """See `Continuing`."""
        return self._workflows[run.workflow_id].resume(run, state)

    def restart(self, run: HostRun, work: Work, answers: Iterable[Answer]) -> None:
        """See `Continuing`."""
        self._runs.adopt(run)
        self._observe(run)
        self._runs.start(run, work, answers)

    async def _snapshot(self, request: HostRequest) -> None:
        run = await self._run(request)
        await request.answer(_snapshot(run, run.log.state))

    async def _events(self, request: HostRequest) -> None:
        run = await self._run(request)
        modes, buffer_s = run_requests.modes(request.query), run_requests.buffer_s(request.query)
        last_sequence = run_requests.last_event_id(request.headers)
        settings = self._site.settings
        stall_timeout_s = settings.timeouts.client_stall_timeout_s
        response: log_readers.LogDocument | log_readers.EventStream
        if run_requests.wants_json(request.headers):
            response = log_readers.LogDocument(run.log, -1, b"]}", client_stall_timeout_s=stall_timeout_s)
        else:
            options: dict[str, Any] = {
                "last_sequence": last_sequence,
                "heartbeat_s": min(settings.heartbeat_s, MAX_HEARTBEAT_S),
                "client_stall_timeout_s": stall_timeout_s,
            }
            if modes == run_requests.VALUES:
                snapshot = partial(_snapshot, run, run.log.state)
                response = log_readers.SnapshotStream(run.log, snapshot, buffer_s=0, **options)
            else:
                response = log_readers.EventStream(run.log, modes, buffer_s=buffer_s, **options)
        async with self._reading(request.caller):
            await response(request.scope, request.receive, request.send)

    async def _poll(self, request: HostRequest) -> None:
        run = await self._run(request)
        last_sequence, wait_s = run_requests.last_sequence(request.query), run_requests.poll_s(request.query)
        stall_timeout_s = self._site.settings.timeouts.client_stall_timeout_s
        async with self._reading(request.caller):
            response = await log_readers.poll(run.log, last_sequence, wait_s, stall_timeout_s, request.receive)
            await response(request.scope, request.receive, request.send)

    async def _fork(self, request: HostRequest) -> None:
        source = await self._run(request)
        workflow = self._find(request, source.workflow_id)
        await request.admission()
        body = await request.body()
        fork = run_requests.fork_request(body)
        key = self._key(request, {**body, "sourceRunId": source.run_id})
        run = self._known(key)
        if run is None:
            begin = self._continuation(request, workflow, source, fork)
            run, _ = await self._begin(request.caller, source.workflow_id, key, begin)
        created = {
            "runId": run.run_id,
            "sourceRunId": source.run_id,
            "fromSeq": fork.from_seq,
            "mode": fork.mode,
            "status": run.log.state.status,
            "eventsUrl": f"/v1/runs/{run.run_id}/events",
        }
        await request.answer(created, HTTPStatus.CREATED, location=f"/v1/runs/{run.run_id}")

    @staticmethod
    def _continuation(
        request: HostRequest, workflow: RunnableWorkflow, source: HostRun, fork: run_requests.ForkRequest
    ) -> Begin:
        """Return what writes the events of a fork; raise `HostError` if nothing can."""
        if fork.mode == "replay":
            work = ReplayWork(replay_of(source, fork.from_seq), workflow.redactor(None))
            return lambda _: work
        overlay = fork.run_options_overlay
        again = run_requests.RunRequest.model_construct(
            workflow_id=source.workflow_id,
            inputs={},
            configurable=overlay.configurable,
            tags=overlay.tags,
            metadata=overlay.metadata,
        )
        return workflow.branch(fork_of(source, fork.from_seq), again, request.caller)

    async def _cancel(self, request: HostRequest) -> None:
        run = await self._run(request)
        state = run.log.state
        if state.is_over and state.status != "cancelled":
            raise HostError("run_already_terminal")
        await run.cancel()
        await request.answer({"runId": run.run_id, "status": "cancelled" if state.is_over else "cancelling"})

    async def _resolve(self, request: HostRequest) -> None:
        run, node_id = await self._run(request), request.path["node_id"]
        self._find(request, run.workflow_id)  # the rights of the caller may have changed since the start of the run
        await request.admission()
        answer = run_requests.interrupt_answer(await request.body())
        interrupt = _interrupt_of_node(run, node_id, answer.interrupt_id)
        by = ANONYMOUS if request.caller.startswith("address:") else request.caller
        await self._resolve_one(request, run, interrupt, answer.resume_value, by)

    async def _inspect_token(self, request: HostRequest) -> None:
        run, interrupt = await self._runs.of_token(request.path["token"])
        _check_pending(run, interrupt)
        await request.answer(run.log.question(interrupt))

    async def _resolve_token(self, request: HostRequest) -> None:
        run, interrupt = await self._runs.of_token(request.path["token"])
        _check_pending(run, interrupt)
        answer = run_requests.interrupt_answer(await request.body())
        await self._resolve_one(request, run, interrupt, answer.resume_value, BY_TOKEN)

    async def _resolve_one(
        self, request: HostRequest, run: HostRun, interrupt: Interrupt, value: object, by: str
    ) -> None:
        _check_pending(run, interrupt)
        await run.respond(interrupt, value, by)
        await request.answer({"runId": run.run_id, "nodeId": interrupt.node_id, "status": run.log.state.status})

    async def _run(self, request: HostRequest) -> HostRun:
        return await self._runs.get(request.path["run_id"], request.caller)

    def _find(self, request: HostRequest, workflow_id: str) -> RunnableWorkflow:
        workflow = self._workflows.get(workflow_id)
        if workflow is None or not workflow.is_allowed(request.grant):
            raise HostError("workflow_not_found")
        return workflow


def _workflows(settings: OpenWopSettings, catalog: Catalog, site: Site) -> dict[str, RunnableWorkflow]:
    """Return all agents, workflows and configured nodes that can be run, by id; the settings ensure unique ids."""
    redactor = catalog.redactor(Policy(reasoning="full"))
    return {
        **{name: AgentWorkflow(binding, site) for name, binding in catalog.agents_with(DIALECT).items()},
        **{
            name: StepsWorkflow(binding, site)
            for name, binding in catalog.workflows.items()
            if DIALECT in binding.settings.dialects
        },
        **{name: PlannedWorkflow(one, settings, redactor) for name, one in settings.registered().items()},
    }


def _snapshot(run: HostRun, state: RunState) -> dict[str, Any]:
    return present(
        runId=run.run_id,
        workflowId=run.workflow_id,
        status=state.status,
        currentNodeId=state.node_id,
        startedAt=state.started_at,
        completedAt=state.ended_at,
        error=state.error and {name: state.error[name] for name in ("code", "message")},
    )


def _interrupt_of_node(run: HostRun, node_id: str, interrupt_id: str | None) -> Interrupt:
    """Return the interrupt of this id, or without one the oldest of the node that is pending.

    The node of a parallel step is also found without its index, because clients write `#` into paths as it is.
    """
    of_node = [
        interrupt
        for interrupt in run.log.state.interrupts
        if node_id in {interrupt.node_id, interrupt.node_id.partition("#")[0]}
        and interrupt_id in {None, interrupt.interrupt_id}
    ]
    if not of_node:
        raise HostError("interrupt_not_found")
    return next((interrupt for interrupt in of_node if not interrupt.is_resolved), of_node[-1])


def _check_pending(run: HostRun, interrupt: Interrupt) -> None:
    """Raise `HostError` if an interrupt can no longer be answered."""
    if not interrupt.is_resolved and run.is_cancelled:
        raise HostError("interrupt_cancelled")
    if interrupt.is_resolved or run.log.state.is_over:
        raise HostError("interrupt_already_resolved")
