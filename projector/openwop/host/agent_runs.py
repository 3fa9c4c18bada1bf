"""Runs of the agents of the configuration.

An agent is a workflow with one node; a run of it sends one request to the upstream, and another one after each
approval. Instructions, tools and prompts are not published.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final

from starlette.types import Scope

from projector import StreamContext, build_pipeline
from projector.contracts import codec
from projector.contracts.kinds import Kind
from projector.core.canonical import Frame
from projector.core.faults import FAULTS
from projector.dialects.descriptor import DialectOptions
from projector.openwop.conformance.definitions import definition
from projector.openwop.dialect.run_progress import ACTIVE_STATUSES
from projector.openwop.event_log import present
from projector.openwop.host.bindings import (
    AGENT_NODE_ID,
    AGENT_TYPE_ID,
    Begin,
    RunnableWorkflow,
    check_configurable,
    node_of,
)
from projector.openwop.host.host_errors import HostError
from projector.openwop.host.run_log import Interrupt
from projector.openwop.host.run_requests import Configurable, RunRequest
from projector.openwop.host.runs import HostRun, RunFailedError
from projector.openwop.host.settings import DIALECT
from projector.openwop.host.stream_work import StreamWork, only
from projector.server.catalog import AgentBinding
from projector.server.http import requests
from projector.server.http.problems import Problem
from projector.server.http.request_bodies import agent_body
from projector.server.http.stored_state import home_targets
from projector.server.http.stream_route import Site
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.telemetry.tracing import begin_stream
from projector.server.upstream.targets import BodyOf, Target

_INPUTS: Final = frozenset({"input", "message"})
"""Members of the inputs that are not needed after the first response."""
_PARAMETERS: Final[Mapping[str, str]] = {"temperature": "temperature", "max_tokens": "max_output_tokens"}
"""Member of `configurable` -> parameter of an agent request."""


class AgentWorkflow(RunnableWorkflow):
    """An agent that can be run."""

    def __init__(self, binding: AgentBinding, site: Site) -> None:
        super().__init__(binding.redactor)
        self._name = str(binding.name)
        self.agents = (self._name,)
        self._binding = binding
        self._site = site

    def document(self) -> dict[str, Any]:
        """Return the definition: one node."""
        return definition(self._name, [node_of(AGENT_NODE_ID, self._name)])

    def resume(self, run: HostRun, record: Mapping[str, Any]) -> AgentWork:
        """See `RunnableWorkflow`. The input is not kept: the provider has it."""
        inputs = {**record["inputs"], "message": "-"}
        configurable = Configurable.model_validate(record["configurable"])
        request = RunRequest.model_construct(workflow_id=self._name, inputs=inputs, configurable=configurable)
        whole_body_of, _ = self._parse(request)
        targets = self._binding.targets.targets
        home = [target for target in targets if target.provider.name == record["upstream"]][:1] or targets
        body_of = _same(_without_input(whole_body_of(home[0])))
        stats = self._binding.stats(DIALECT, run.caller, body_of(home[0]), record["conversation_id"])
        stats.stream_id = run.run_id
        binding = replace(self._binding, redactor=self.redactor(record["verbosity"]))
        work = AgentWork(run, binding, body_of, home, stats, self._site, request, is_continued=True)
        work.restore(record, self.agents)
        return work

    def prepare(self, request: RunRequest, caller: str, scope: Scope) -> Begin:
        """Validate `inputs`, which are those of `/api/v1/chat/stream` without the agent."""
        check_configurable(request.configurable)
        ownership = self._site.ownership
        targets = self._binding.targets.in_order()
        body_of, conversation_id = self._parse(request)
        try:
            body = body_of(targets[0])
        except Problem as invalid:
            raise HostError("validation_error", f"`inputs`: {invalid.detail}") from None
        previous = body.get("previous_response_id")
        if isinstance(previous, str):
            ownership.check_response(previous, caller)
        if conversation_id is not None:
            ownership.enter_conversation(conversation_id, caller)
        home = home_targets(body, targets, self._binding.targets.targets, ownership)
        redactor = self.redactor(request.configurable.reasoning_verbosity)
        stats = self._binding.stats(DIALECT, caller, body, conversation_id)

        def begin(run: HostRun) -> AgentWork:
            stats.stream_id = run.run_id
            binding = replace(self._binding, redactor=redactor)
            work = AgentWork(run, binding, body_of, home, stats, self._site, request)
            begin_stream(scope, stats)  # the work reports its end
            return work

        return begin

    def _parse(self, request: RunRequest) -> tuple[BodyOf, str | None]:
        """Return the writer of the request's bodies, and the ID of its conversation."""
        options = {name: getattr(request.configurable, member) for member, name in _PARAMETERS.items()}
        parameters = present(**options)
        inputs = dict(request.inputs)
        if "agent" in inputs:
            raise HostError("validation_error", "`inputs.agent` is not supported: `workflowId` names the agent.")
        if parameters:
            own = inputs.get("parameters", {})
            inputs["parameters"] = own | parameters if isinstance(own, dict) else own
        try:
            chat = requests.parse(requests.ChatRequest, inputs)
        except Problem as invalid:
            raise HostError("validation_error", f"`inputs`: {invalid.detail}") from None
        return cache(partial(agent_body, chat, self._binding)), chat.conversation_id


class AgentWork(StreamWork):
    """Work of a run of an agent. While the run waits for approval it does not count as a stream."""

    def __init__(
        self,
        run: HostRun,
        binding: AgentBinding,
        body_of: BodyOf,
        targets: Sequence[Target],
        stats: StreamStats,
        site: Site,
        request: RunRequest,
        *,
        is_continued: bool = False,
    ) -> None:
        self._binding = binding
        self._options = {
            "inputs": {name: value for name, value in request.inputs.items() if name not in _INPUTS},
            "configurable": request.configurable.model_dump(by_alias=True, exclude_none=True),
        }
        self._is_continued = is_continued
        self._body_of = body_of
        self._targets = targets
        stats.on_response = lambda response_id, upstream: site.ownership.add_response(response_id, run.caller, upstream)
        pipeline = build_pipeline(
            provider=binding.provider.api,
            profile=binding.provider.profile,
            dialect=DIALECT,
            redactor=binding.redactor.for_request(body_of(targets[0]), secrets.token_bytes(16)),
            context=StreamContext(run.run_id, stats.conversation_id, binding.name),
            run=True,
            output_format="ndjson",
            takes_host_events=binding.provider.upstream.is_recording,
            on_frame=self._on_frame,
            options=DialectOptions(
                run_id=run.run_id,
                workflow_id=run.workflow_id,
                node_id=AGENT_NODE_ID,
                type_id=AGENT_TYPE_ID,
                provider=only(binding.targets.upstreams),
            ),
        )
        super().__init__(run, stats, site, pipeline, binding.redactor, len(codec.dumps(body_of(targets[0]))))

    async def run(self, run: HostRun) -> None:
        """Write all events of one response, and of another one after each approval."""
        while True:
            if not self._is_continued:
                await self._read_response()
                if self._pipeline.ended or not run.is_suspended:
                    break
            if run.log.asks:
                run.park()
                self._release()
                if self._site.streams.is_draining:
                    raise RunFailedError(FAULTS["server_shutdown"])
            answers = await run.answers()
            self._body_of = _same(self._approval_body(self._body_of(self._targets[0]), answers))
            if not self._is_continued:
                run.log.extend(self._pipeline.next_response())
            self._is_continued = False
        run.log.extend(self._pipeline.close())

    def record(self) -> dict[str, Any]:
        """See `Work`."""
        return super().record() | self._options | {"upstream": self._targets[0].provider.name}

    async def _read_response(self) -> None:
        assert self._account is not None  # noqa: S101 - the run is admitted while it reads
        source = self._binding.source(self._pipeline, self._body_of, self.stats, self._account, self._targets)
        self._is_complete = False
        await self._read(source)
        self._targets = (source.target,)  # it stores the response that answers belong to
        self._body_of = _same(_without_input(self._body_of(source.target)))  # not needed while the run waits
        if self._rate_limits is not None and self._run.is_suspended:
            await self._rate_limits.settle()  # the run may wait for hours

    def check_answer(self, run: HostRun, interrupt: Interrupt) -> None:
        """Check that the provider waits for the answer; the last one makes the run count as a stream again."""
        super().check_answer(run, interrupt)
        if len(run.log.state.pending) == 1 and self._account is None:
            self._admit()

    def _on_frame(self, frame: Frame) -> None:
        if frame["kind"] == Kind.LIFECYCLE:
            self._is_complete = frame["status"] not in ACTIVE_STATUSES
        self.stats.on_frame(frame)


def _same(body: Mapping[str, Any]) -> BodyOf:
    return lambda _: body


def _without_input(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in body.items() if name != "input"}
