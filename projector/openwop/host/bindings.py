"""What agents, workflows and configured nodes have in common: definition, validation of a request, work of a run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final, Protocol, TypeAlias

from pydantic.alias_generators import to_camel
from starlette.types import Scope

from projector import Pipeline
from projector.core.faults import Fault
from projector.openwop.event_log import VENDOR, Verbosity, agent_id
from projector.openwop.host.host_errors import LOG_FULL, HostError
from projector.openwop.host.run_requests import Configurable, RunRequest
from projector.openwop.host.runs import HostRun, RunFailedError, RunStoppedError, Work
from projector.redaction.redactor import Redactor
from projector.server.http.stream_route import Site
from projector.server.streaming.deadlines import run_timed
from projector.server.streaming.memory import Account
from projector.server.streaming.session import StreamSource
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.upstream.protocol import UpstreamError

AGENT_TYPE_ID: Final = f"vendor.{VENDOR}.agent"
"""Node type of agents; `vendor.*` types may emit agent events (RFC 0023 section A)."""
AGENT_NODE_ID: Final = "agent"
"""Id of the only node of a run of an agent."""

Begin: TypeAlias = Callable[[HostRun], Work]
"""Creates the work of a run; raises `Problem` if there is no room for it."""

VERBOSITIES: Final[tuple[Verbosity, ...]] = ("off", "summary", "full")
"""From the least reasoning to the most."""

_SERVER_OPTIONS: Final = ("model", "prompt_overrides")
"""Members of `configurable` that only the server configuration sets."""


class RunnableWorkflow(Protocol):
    """An agent or a workflow that can be run."""

    verbosity: Verbosity
    """Maximum verbosity of reasoning."""

    def document(self) -> dict[str, Any]:
        """Return the definition, as in the protocol."""
        ...

    def prepare(self, request: RunRequest, caller: str, scope: Scope) -> Begin:
        """Validate the request for a run.

        Raises:
            Problem: the request is invalid or not allowed for this caller.
        """
        ...


class RunRedactors:
    """Redactors of one policy, by the verbosity of reasoning, which a run may reduce."""

    def __init__(self, redactor: Redactor) -> None:
        self.verbosity: Verbosity = redactor.policy.reasoning
        self._policy = redactor.policy
        self._redactors = {self.verbosity: redactor}

    def at_most(self, requested: Verbosity | None) -> Redactor:
        """Return the redactor of the requested verbosity, or of the policy's if that is less."""
        verbosity = min(self.verbosity, requested or self.verbosity, key=VERBOSITIES.index)
        if verbosity not in self._redactors:
            self._redactors[verbosity] = Redactor(self._policy.model_copy(update={"reasoning": verbosity}))
        return self._redactors[verbosity]


def check_configurable(options: Configurable, *unsupported: str) -> None:
    """Check that a run sets no option of the server configuration.

    Args:
        options: options of the run.
        unsupported: further members that this kind of run does not support.

    Raises:
        HostError: a member is set that must not be.
    """
    for member in (*_SERVER_OPTIONS, *unsupported):
        if getattr(options, member) is not None:
            raise HostError("validation_error", f"`configurable.{to_camel(member)}` cannot be set.")


def node_of(node_id: str, agent: str) -> dict[str, Any]:
    """Return the node of an agent."""
    return {"id": node_id, "typeId": AGENT_TYPE_ID, "name": agent, "agent": {"agentId": agent_id(agent)}}


class StreamWork(Work):
    """Work that projects responses of upstreams into the log of a run.

    Args:
        run: the run.
        stats: facts of the stream.
        site: shared parts of the server.
        pipeline: pipeline of the dialect `openwop`.
        n_bytes: size of the request, held in memory with the stream.

    Raises:
        Problem: there is no room for another stream.
    """

    def __init__(self, run: HostRun, stats: StreamStats, site: Site, pipeline: Pipeline, n_bytes: int) -> None:
        self.stats = stats
        self._run = run
        self._site = site
        self._pipeline = pipeline
        self._source: StreamSource | None = None
        self._is_complete = False
        """Whether the rest of the source is not needed."""
        self._admission = ExitStack()
        self._account: Account | None = None
        self._admit().hold(n_bytes)

    @property
    def is_upstream_open(self) -> bool:
        """Whether a request to an upstream is open."""
        return self._source is not None and self._source.is_upstream_open

    def halt(self) -> None:
        """Stop reading from upstreams."""
        if self._source is not None:
            self._source.stop()

    def cancel(self) -> None:
        """End the run with `run.cancelled`."""
        self._run.cancel()

    def fail(self, fault: Fault) -> None:
        """End the run with `run.failed`."""
        self._run.fail(fault)

    def end(self, run: HostRun, fault: Fault | None) -> None:
        """Write the terminal event of a stopped run."""
        run.log.extend(self._pipeline.cancel() if fault is None else self._pipeline.close(fault))

    async def close(self) -> None:
        """Release resources and report the outcome."""
        self._release()
        self._pipeline.cancel()
        self.stats.dropped = self._pipeline.dropped
        await self._site.observer.report(self.stats)

    async def _read(self, source: StreamSource) -> None:
        """Write the events of a source.

        Raises:
            RunFailedError: an upstream failed or timed out, or the log is full.
            RunStoppedError: the run was stopped.
        """
        self._source = source
        try:
            await run_timed(lambda clock: source.run(self._write, clock))
        except UpstreamError as error:
            raise RunFailedError(error.fault) from None
        if self._run.is_stopped:
            raise RunStoppedError
        if self._run.log.is_full and not self._pipeline.ended:
            raise RunFailedError(LOG_FULL)

    async def _write(self, lines: bytes) -> None:
        self._run.log.extend(lines)
        if self._is_complete or self._run.log.is_full:
            self.halt()

    def _admit(self) -> Account:
        """Count as a stream of the caller; return the account of its memory.

        Raises:
            Problem: the server is shutting down or full, or the caller has reached its limit of streams.
        """
        streams = self._site.streams
        self._account = account = self._admission.enter_context(streams.admitted(self._run.caller))
        self._admission.enter_context(streams.running(self))
        return account

    def _release(self) -> None:
        """Stop counting as a stream."""
        self._account = None
        self._admission.close()
