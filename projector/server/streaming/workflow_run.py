"""One run of a workflow: its steps ask their upstreams, and everything that they say goes to one place in one order.

Each step reads its upstream in a task of its own; what is read is said before the next read of anybody, in the order in
which reads came. So branches interleave as they arrive, each holds one read at most, and who takes slowly slows all of
them. A run needs no HTTP: whoever runs it gives it a place to say bytes.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import anyio

from projector import Pipeline, StreamContext
from projector.core.faults import FAULTS, Fault
from projector.core.pipeline import OutputFormat
from projector.core.pipeline_branch import PipelineBranch
from projector.dialects.options import DialectOptions
from projector.server.config.settings import Retries
from projector.server.http.request_bodies import agent_body
from projector.server.http.requests import ChatRequest
from projector.server.streaming.memory import Account
from projector.server.streaming.session import log_crash
from projector.server.streaming.workflow_binding import WorkflowBinding
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.upstream.protocol import ProviderRequest, UpstreamError
from projector.server.upstream.reader import UpstreamReader
from projector.workflows.definition import Step
from projector.workflows.plan import FAILED, Plan

Say: TypeAlias = Callable[[bytes], Awaitable[None]]

_LOOK_MAX_S: Final = 5.0
"""The clock looks again at least so often: a step that begins while it sleeps has limits of its own."""


@dataclass(slots=True, eq=False)
class _RunningStep:
    """A step that runs."""

    step: Step
    branch: PipelineBranch
    reading: UpstreamReader
    fault: Fault | None = None
    """Why we stopped it, where it is a failure of its own."""


class WorkflowRun:
    """One run, made by `begin_run`; `run` it once, or `bring` it where somebody else says its last words.

    Args:
        binding: the workflow.
        message: what the caller says.
        pipeline: of the run, made by the binding.
        stats: of the stream; takes times and our own work.
        account: holds what is read and not whole.
        run_id: names the run in the workflow context of every event.
        retries: before the first byte of each upstream.
        headers: for the requests to the upstreams.
    """

    def __init__(
        self,
        binding: WorkflowBinding,
        message: str,
        pipeline: Pipeline,
        stats: StreamStats,
        account: Account,
        *,
        run_id: str,
        retries: Retries,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._binding = binding
        self._plan = Plan(binding.definition, message, binding.settings.max_input_chars)
        self._pipeline = pipeline
        self._stats = stats
        self._account = account
        self._run_id = run_id
        self._retries = retries
        self._headers = headers or {}
        self._total_at = time.monotonic() + binding.settings.total_s
        self._look_s = min(_LOOK_MAX_S, *_limits_s(binding))
        self._turn = asyncio.Lock()  # asyncio's own: every read passes it, and anyio's has a checkpoint
        self._limiter = anyio.CapacityLimiter(binding.settings.max_parallel)
        self._running: list[_RunningStep] = []
        self._say: Say = _say_nowhere
        self._has_begun = False
        self._refusal: UpstreamError | None = None
        self._is_halted = False
        self._last_words: Callable[[], bytes] = pipeline.close

    @property
    def upstreams_open(self) -> int:
        """How many upstreams are asked, or answer."""
        return sum(running.reading.is_open for running in self._running)

    async def run(self, say: Say) -> None:
        """Say everything, the end included."""
        try:
            await self.bring(say)
        except UpstreamError as error:
            fault = error.fault
            self._last_words = lambda: self._pipeline.close(fault)
        await say(self._last_words())

    async def bring(self, say: Say) -> None:
        """Say everything but what `close`, `cancel` or a fault would still have the pipeline say.

        Raises:
            UpstreamError: the run took too long; or a step failed that it cannot do without, before anything was said.
        """
        self._say = say
        async with anyio.create_task_group() as group:
            group.start_soon(self._keep_time)
            while (steps := self._plan.next()) and not self._is_over:
                await self._run_stage(steps)
            group.cancel_scope.cancel()
        if self._refusal is not None:
            raise self._refusal

    def cancel(self) -> None:
        """End the run with `final` `cancelled`; more than once is no more than once."""
        self._stop(self._pipeline.cancel)

    def fail(self, fault: Fault) -> None:
        """End the run with a fault."""
        self._stop(lambda: self._pipeline.close(fault))

    def halt(self) -> None:
        """Read no more from any upstream; a read that has come is said."""
        self._is_halted = True
        for running in self._running:
            running.reading.stop()

    def _stop(self, last_words: Callable[[], bytes]) -> None:
        if not (self._is_halted or self._pipeline.ended):
            self._last_words = last_words
            self.halt()

    @property
    def _is_over(self) -> bool:
        return self._is_halted or self._pipeline.ended

    async def _run_stage(self, steps: tuple[Step, ...]) -> None:
        """Run steps side by side; their branches are opened in their order, whichever speaks first."""
        branches = [self._branch(step) for step in steps]
        async with anyio.create_task_group() as group:
            for step, branch in zip(steps, branches, strict=True):
                group.start_soon(self._run_step, step, branch)
        for step, branch in zip(steps, branches, strict=True):
            if branch.end is not None:
                self._plan.on_end(step, branch.end.status, branch.end.text)
        if self._plan.is_failed:
            for branch in branches:
                await self._tell(branch.stop)

    def _branch(self, step: Step) -> PipelineBranch:
        provider = self._binding.agents[step.agent].provider
        context = step.context(self._binding.name, self._run_id)
        return self._pipeline.branch(context, provider=provider.api, profile=provider.profile)

    async def _run_step(self, step: Step, branch: PipelineBranch) -> None:
        """Ask the agent of a step and say all of its answer, and how it ended."""
        async with self._limiter:
            if self._is_over:
                return
            account = self._account.beside()
            running = self._start(step, branch, account)
            self._running.append(running)
            try:
                await running.reading.run()
                if running.fault is not None:
                    await self._on_failure(running, UpstreamError(running.fault))
                elif not self._is_over:
                    await self._tell(branch.close)
            except UpstreamError as error:
                await self._on_failure(running, error)
            except Exception as error:  # noqa: BLE001 - whatever it is, the run is told how its step ended
                log_crash(self._stats, error)
                await self._on_failure(running, UpstreamError(FAULTS["internal_error"]))
            finally:
                self._running.remove(running)
                account.close()
        if self._pipeline.ended or (branch.end is not None and branch.end.status in FAILED and not step.is_optional):
            self.halt()

    def _start(self, step: Step, branch: PipelineBranch, account: Account) -> _RunningStep:
        binding = self._binding.agents[step.agent]
        asked = ChatRequest.model_construct(message=self._plan.input_of(step))
        body = agent_body(asked, binding)

        async def take(chunk: bytes) -> bool:
            return await self._take(running, chunk)

        reading = UpstreamReader(
            self._stats,
            binding.provider.upstream,
            ProviderRequest(binding.provider.api, body, self._headers, self._stats.stream_id),
            account,
            timeouts=binding.provider.timeouts,
            retries=self._retries,
            on_open=self._begin,
            take=take,
        )
        running = _RunningStep(step, branch, reading)
        return running  # `take` speaks for it, so it has a name

    async def _begin(self) -> None:
        """Say that there is a stream, once: any further running would wait here for the client, and time out for it."""
        if not self._has_begun:
            self._has_begun = True
            await self._say(b"")

    async def _take(self, running: _RunningStep, chunk: bytes) -> bool:
        """Say what one read says; give whether the step has said all."""
        async with self._turn:
            if not self._pipeline.ended:
                await self._say(await running.reading.feed(running.branch.feed, chunk))
        return running.branch.end is not None or running.branch.is_over

    async def _tell(self, work: Callable[[], bytes]) -> None:
        async with self._turn:
            await self._say(work())

    async def _on_failure(self, running: _RunningStep, error: UpstreamError) -> None:
        """Let a step fail; where nothing was said yet and the run cannot do without it, the run is refused."""
        if self._is_halted:
            return
        if self._has_begun or running.step.is_optional:
            await self._tell(lambda: running.branch.close(error.fault))
        else:
            self._refusal = error
            self.halt()

    async def _keep_time(self) -> None:
        """End what takes too long: a step by the limits of its upstream, the run by its own."""
        while True:
            now = time.monotonic()
            if now >= self._total_at and not self._is_over:
                self._refusal = UpstreamError(FAULTS["upstream_timeout_total"])
                self.halt()
            ahead = [self._look_s]
            for running in self._running:
                at, code = running.reading.deadlines.next()
                if now >= at and running.fault is None:
                    running.fault = FAULTS[code]
                    running.reading.stop()
                elif at > now:
                    ahead.append(at - now)
            await anyio.sleep(min(ahead))


def begin_run(
    binding: WorkflowBinding,
    message: str,
    stats: StreamStats,
    account: Account,
    *,
    retries: Retries,
    headers: Mapping[str, str] | None = None,
    options: DialectOptions | None = None,
    output_format: OutputFormat = "sse",
) -> tuple[Pipeline, WorkflowRun]:
    """Give a run that has not asked anybody yet, and its pipeline; the stats names its stream and dialect.

    Args:
        binding: the workflow.
        message: what the caller says.
        stats: of the stream; hears its frames, and takes the names of workflow and run.
        account: holds what is read and not whole.
        retries: before the first byte of each upstream.
        headers: for the requests to the upstreams.
        options: what the dialect repeats and obeys.
        output_format: what is said: an event stream, or lines of JSON.
    """
    run_id = f"run_{uuid.uuid4().hex}"
    stats.workflow, stats.workflow_run_id = binding.name, run_id
    workflow = {"workflow_key": binding.name, "workflow_run_id": run_id}
    context = StreamContext(stats.stream_id, stats.conversation_id, workflow=workflow)
    pipeline = binding.pipeline(stats.dialect, context, stats.on_frame, options=options, output_format=output_format)
    run = WorkflowRun(binding, message, pipeline, stats, account, run_id=run_id, retries=retries, headers=headers)
    return pipeline, run


def _limits_s(binding: WorkflowBinding) -> list[float]:
    limits = [agent.provider.timeouts for agent in binding.agents.values()]
    return [binding.settings.total_s, *(min(one.first_byte_s, one.idle_s, one.total_s) for one in limits)]


async def _say_nowhere(_data: bytes) -> None:
    """Nobody listens yet."""
