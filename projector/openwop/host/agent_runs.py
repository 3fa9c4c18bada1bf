"""Agents of the configuration as workflows with one node. Instructions and tools of the agent are not published.

A run sends one request to the upstream, and another one after each approval.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from starlette.types import Scope

from projector import StreamContext, build_pipeline
from projector.contracts import codec
from projector.contracts.kinds import Kind
from projector.core.canonical import Frame
from projector.core.faults import FAULTS
from projector.dialects.options import DialectOptions
from projector.openwop.conformance.definitions import definition
from projector.openwop.dialect.run_progress import ACTIVE_STATUSES
from projector.openwop.event_log import present
from projector.openwop.host.bindings import (
    AGENT_NODE_ID,
    AGENT_TYPE_ID,
    Begin,
    RunRedactors,
    StreamWork,
    check_configurable,
    node_of,
)
from projector.openwop.host.host_errors import HostError
from projector.openwop.host.run_log import Interrupt
from projector.openwop.host.run_requests import RunRequest, is_accepted
from projector.openwop.host.runs import Answers, HostRun, RunFailedError
from projector.openwop.host.settings import DIALECT
from projector.server.catalog import AgentBinding
from projector.server.http import requests
from projector.server.http.problems import Problem
from projector.server.http.request_bodies import agent_body
from projector.server.http.stream_route import Site
from projector.server.streaming.session import ProviderSource
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.telemetry.tracing import begin_stream

_PARAMETERS: Final[Mapping[str, str]] = {"temperature": "temperature", "max_tokens": "max_output_tokens"}
"""Member of `configurable` -> parameter of an agent request."""


class AgentWorkflow:
    """An agent that can be run."""

    def __init__(self, binding: AgentBinding, site: Site) -> None:
        self._name = str(binding.name)
        self._binding = binding
        self._site = site
        self._redactors = RunRedactors(binding.redactor)
        self.verbosity = self._redactors.verbosity

    def document(self) -> dict[str, Any]:
        """Return the definition: one node."""
        return definition(self._name, [node_of(AGENT_NODE_ID, self._name)])

    def prepare(self, request: RunRequest, caller: str, scope: Scope) -> Begin:
        """Validate `inputs`, which are those of `/api/v1/chat/stream` without the agent."""
        check_configurable(request.configurable)
        ownership = self._site.ownership
        body, conversation_id = self._parse(request)
        previous = body.get("previous_response_id")
        if isinstance(previous, str):
            ownership.check_response(previous, caller)
        if conversation_id is not None:
            ownership.enter_conversation(conversation_id, caller)
        redactor = self._redactors.at_most(request.configurable.reasoning_verbosity)
        stats = begin_stream(scope, self._binding.stats(DIALECT, caller, body, conversation_id))

        def begin(run: HostRun) -> AgentWork:
            stats.stream_id = run.run_id
            return AgentWork(run, replace(self._binding, redactor=redactor), body, stats, self._site)

        return begin

    def _parse(self, request: RunRequest) -> tuple[Mapping[str, Any], str | None]:
        """Return the request to the upstream and the conversation id."""
        options = {name: getattr(request.configurable, member) for member, name in _PARAMETERS.items()}
        parameters = present(**options)
        inputs = dict(request.inputs)
        if "agent" in inputs:
            raise HostError("validation_error", "`inputs.agent` is not supported: `workflowId` names the agent.")
        if parameters:
            own = inputs.get("parameters", {})
            inputs["parameters"] = own | parameters if isinstance(own, dict) else own
        try:
            chat = requests.parse_chat(inputs)
            return agent_body(chat, self._binding), chat.conversation_id
        except Problem as invalid:
            raise HostError("validation_error", f"`inputs`: {invalid.detail}") from None


class AgentWork(StreamWork):
    """Work of a run of an agent. While the run waits for approval it does not count as a stream."""

    def __init__(
        self, run: HostRun, binding: AgentBinding, body: Mapping[str, Any], stats: StreamStats, site: Site
    ) -> None:
        self._binding = binding
        self._body = body
        self._responses: dict[str, str] = {}
        """Id of an approval request -> id of its response."""
        stats.on_response = lambda response_id: site.ownership.add_response(response_id, run.caller)
        stats.on_approval = self._responses.__setitem__
        pipeline = build_pipeline(
            provider=binding.provider.api,
            profile=binding.provider.profile,
            dialect=DIALECT,
            redactor=binding.redactor,
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
                provider=binding.provider.name,
            ),
        )
        super().__init__(run, stats, site, pipeline, len(codec.dumps(body)))

    async def run(self, run: HostRun) -> None:
        """Write all events.

        Raises:
            RunFailedError: the upstream failed, the approval timed out, the log is full, or the server shuts down.
            RunStoppedError: the run was stopped.
        """
        body = self._body
        self._body = {name: value for name, value in body.items() if name != "input"}  # approvals have another input
        while True:
            assert self._account is not None  # noqa: S101 - the run is admitted while it reads
            reader = self._binding.provider.reader(body, self.stats, self._account)
            self._is_complete = False
            await self._read(ProviderSource(self._pipeline, reader))
            if self._pipeline.ended or not run.is_suspended:
                break
            if run.log.state.pending:
                self._release()
                if self._site.streams.is_draining:
                    raise RunFailedError(FAULTS["server_shutdown"])
            body = self._approval_body(await run.answers())
            run.log.extend(self._pipeline.next_response())
        run.log.extend(self._pipeline.close())

    def answer(self, run: HostRun, interrupt: Interrupt, value: object) -> object:
        """Return whether the tool call is approved; the last answer makes the run count as a stream again.

        Raises:
            Problem: the answer is invalid, or there is no room for another stream.
        """
        if interrupt.subject_id not in self._responses:
            raise HostError("interrupt_not_found", "The approval request has expired at the provider.")
        is_approved = is_accepted(value)
        if len(run.log.state.pending) == 1 and self._account is None:
            self._admit()
        return is_approved

    def _approval_body(self, answers: Answers) -> Mapping[str, Any]:
        """Return the request that continues a response with approvals."""
        approvals = [
            {"type": "mcp_approval_response", "approval_request_id": subject_id, "approve": is_approved}
            for subject_id, is_approved in answers.items()
        ]
        return {**self._body, "input": approvals, "previous_response_id": self._responses[next(iter(answers))]}

    def _on_frame(self, frame: Frame) -> None:
        if frame["kind"] == Kind.LIFECYCLE:
            self._is_complete = frame["status"] not in ACTIVE_STATUSES
        self.stats.on_frame(frame)
