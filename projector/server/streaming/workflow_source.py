"""Runs of workflows: as the source of a stream, and without HTTP as an async iterator of bytes.

Each step reads its upstream in a task of its own; a chunk is processed and written before the next one of any step, in
order of arrival. So branches interleave as they arrive, each buffers at most one chunk, and a slow client slows all of
them.
"""

from __future__ import annotations

import asyncio
import secrets
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from math import inf
from typing import TypeAlias

import anyio

from projector import Pipeline, StreamContext
from projector._errors import known_name
from projector.core.faults import FAULTS
from projector.core.intake import PipelineBranch
from projector.core.pipeline import OutputFormat
from projector.dialects.descriptor import DialectOptions
from projector.server.catalog import Catalog, MakeUpstream, WorkflowBinding, provider_upstream
from projector.server.config.settings import Settings
from projector.server.http.request_bodies import agent_body
from projector.server.http.requests import ChatRequest
from projector.server.streaming.clock import Timer, Watch, is_cancelled, times_cancelled
from projector.server.streaming.memory import Account, Memory
from projector.server.streaming.response_writer import Write
from projector.server.streaming.session import StreamSession, byte_stream, report_failure
from projector.server.telemetry.logs import log_crash
from projector.server.telemetry.reports import begin_stream, end_stream
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.upstream.protocol import UpstreamError
from projector.server.upstream.reader import UpstreamReader
from projector.server.upstream.targets import Attempts, Target
from projector.workflows.definition import FAILED, Plan, Step

Body: TypeAlias = Mapping[str, object]
"""The body of a request to a provider."""


class WorkflowSource:
    """One run as the source of a stream; see `StreamSource`. The workflow context of every event has its `run_id`."""

    redactor = None
    _write: Write

    def __init__(
        self,
        binding: WorkflowBinding,
        message: str,
        pipeline: Pipeline,
        stats: StreamStats,
        account: Account,
        *,
        run_id: str,
    ) -> None:
        self.pipeline = pipeline
        self._binding = binding
        self._plan = Plan(binding.definition, message, binding.settings.max_input_chars)
        self._stats = stats
        self._account = account
        self._run_id = run_id
        self._ends_at = time.monotonic() + binding.settings.total_s
        self._turn = asyncio.Lock()  # asyncio's own: every chunk acquires it, and anyio's has a checkpoint
        self._limiter = anyio.CapacityLimiter(binding.settings.max_parallel)
        self._readers: list[UpstreamReader] = []
        self._has_begun = False
        self._failure: UpstreamError | None = None
        self._is_stopped = False

    @property
    def is_upstream_open(self) -> bool:
        """See `StreamSource`."""
        return any(reader.is_upstream_open for reader in self._readers)

    async def run(self, write: Write) -> None:
        """Run the steps; raise `UpstreamError` at the time limit, or if a required step fails before any output."""
        self._write = write
        with Watch(Timer(lambda: self._ends_at, self._on_timeout, inf)):
            while not self._is_over and (steps := self._plan.next()):
                await self._run_stage(steps)
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Stop reading from all upstreams; see `StreamSource`."""
        self._is_stopped = True
        for reader in self._readers:
            reader.stop()

    @property
    def _is_over(self) -> bool:
        return self._is_stopped or self.pipeline.ended

    def _on_timeout(self) -> None:
        if not self._is_over:
            self._failure = UpstreamError(FAULTS["upstream_timeout_total"])
            self.stop()

    async def _run_stage(self, steps: tuple[Step, ...]) -> None:
        """Run steps side by side; their branches are opened in the order of the configuration."""
        branches = [(step, self._branch(step)) for step in steps]
        async with anyio.create_task_group() as tasks:
            for step, branch in branches:
                tasks.start_soon(self._run_step, step, branch)
        for step, branch in branches:
            if branch.end is not None:
                self._plan.on_end(step, branch.end.status, branch.end.text)
        if self._plan.is_failed:
            for _, branch in branches:
                await self._write_next(branch.stop)

    def _branch(self, step: Step) -> PipelineBranch:
        provider = self._binding.agents[step.agent].provider
        context = step.context(self._binding.name, self._run_id)
        return self.pipeline.branch(context, provider=provider.api, profile=provider.profile)

    async def _run_step(self, step: Step, branch: PipelineBranch) -> None:
        account, cancelled_before = self._account.part(), times_cancelled()
        try:
            await self._read_step(step, branch, account)
            if not self._is_over:
                await self._write_next(branch.close)
        except UpstreamError as error:
            await self._on_failure(step, branch, error)
        except (Exception, asyncio.CancelledError) as error:  # only the step fails, the run continues
            if is_cancelled(error, cancelled_before):
                raise
            log_crash("stream_crashed", error, stream_id=self._stats.stream_id, request_id=self._stats.request_id)
            await self._on_failure(step, branch, UpstreamError(FAULTS["internal_error"]))
        finally:
            account.close()
        if self.pipeline.ended or (branch.end is not None and branch.end.status in FAILED and not step.is_optional):
            self.stop()

    async def _read_step(self, step: Step, branch: PipelineBranch, account: Account) -> None:
        """Read the response of a step."""
        targets = self._binding.agents[step.agent].targets.in_order()
        async with self._limiter:
            if self._is_over:
                return
            attempts = Attempts(targets, partial(self._body, step), self._stats)
            reader = UpstreamReader(
                attempts,
                self._stats,
                account,
                lambda target: branch.use_stage(target.make_stage),
                lambda error: report_failure(self.pipeline.redactor, error, self._stats),
            )
            self._readers.append(reader)
            try:
                await reader.read(self._on_open, partial(self._on_chunk, reader, branch))
            finally:
                self._readers.remove(reader)

    def _body(self, step: Step, target: Target) -> Body:
        request = ChatRequest.model_construct(message=self._plan.input_of(step))
        return agent_body(request, self._binding.agents[step.agent], target)

    async def _on_open(self) -> None:
        """Commit the status, once; later steps would wait here for the client and exceed their time limits."""
        if not self._has_begun:
            self._has_begun = True
            await self._write(b"")

    async def _on_chunk(self, reader: UpstreamReader, branch: PipelineBranch, chunk: bytes) -> bool:
        """Write the output of one chunk; return whether the step needs no more."""
        async with self._turn:
            if not self.pipeline.ended:
                await self._write(await reader.feed(branch.feed, chunk))
        return branch.end is not None or branch.is_over

    async def _write_next(self, work: Callable[[], bytes]) -> None:
        async with self._turn:
            await self._write(work())

    async def _on_failure(self, step: Step, branch: PipelineBranch, error: UpstreamError) -> None:
        """Fail a step; if it is required and nothing was written yet, fail the whole run."""
        if self._is_stopped:
            return
        if self._has_begun or step.is_optional:
            report_failure(self.pipeline.redactor, error, self._stats)
            await self._write_next(lambda: branch.close(error.fault))
        else:
            self._failure = error
            self.stop()


def workflow_source(
    binding: WorkflowBinding,
    message: str,
    stats: StreamStats,
    account: Account,
    output_format: OutputFormat = "sse",
    *,
    options: DialectOptions | None = None,
) -> WorkflowSource:
    """Return a new run with its pipeline; the stats name its stream and dialect, and receive the ids of the run."""
    run_id = f"run_{uuid.uuid4().hex}"
    stats.workflow, stats.workflow_run_id = binding.name, run_id
    workflow = {"workflow_key": binding.name, "workflow_run_id": run_id}
    context = StreamContext(stats.stream_id, stats.conversation_id, workflow=workflow)
    pipeline = binding.first.pipeline(
        binding.redactor.for_request(message, secrets.token_bytes(16)),
        stats,
        context,
        options=options,
        output_format=output_format,
        is_run=True,
    )
    return WorkflowSource(binding, message, pipeline, stats, account, run_id=run_id)


class HeadlessWorkflow:
    """A configured workflow that runs in this process; made by `workflow`."""

    def __init__(self, settings: Settings, name: str, make_upstream: MakeUpstream) -> None:
        self._settings = settings
        self._name = name
        self._make_upstream = make_upstream

    async def stream(
        self,
        message: str,
        *,
        dialect: str | None = None,
        output_format: OutputFormat = "sse",
        conversation_id: str | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """Run the workflow, and yield its stream; a failure of the run is its terminal event.

        The next chunk, of 64 KiB at most, is produced on demand. Closing the generator closes the upstreams.

        Args:
            message: the caller's message, `{{request.message}}` in the inputs of the steps.
            dialect: one of the workflow's, otherwise a `UsageError`; the first if None.
            output_format: `sse`, or `ndjson`: a line for each event.
            conversation_id: the host's ID of the conversation.
        """
        settings = self._settings
        async with AsyncExitStack() as stack:
            catalog = Catalog(settings, self._make_upstream)
            stack.push_async_callback(catalog.aclose)
            binding = catalog.workflows[self._name]
            dialects = binding.settings.dialects
            name = known_name("dialect", dialect or dialects[0], dialects)
            stats = begin_stream({"headers": []}, StreamStats(dialect=name, conversation_id=conversation_id))
            stack.callback(end_stream, stats)
            account = Account(Memory(settings.limits.max_memory_bytes))
            source = workflow_source(binding, message, stats, account, output_format)
            chunks = byte_stream(StreamSession(stats, source, account, timeouts=settings.timeouts))
            stack.push_async_callback(chunks.aclose)
            async for data in chunks:
                yield data


def workflow(settings: Settings, name: str, make_upstream: MakeUpstream = provider_upstream) -> HeadlessWorkflow:
    """Return the workflow of a table of `[workflows]`, to be run without HTTP; raise `UsageError` if it is unknown."""
    return HeadlessWorkflow(settings, known_name("workflow", name, settings.workflows), make_upstream)
