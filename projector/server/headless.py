"""Workflows without HTTP: a run as an async iterator of bytes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack

from projector._errors import known_name
from projector.core.pipeline import OutputFormat
from projector.server.catalog import Catalog, MakeUpstream, provider_upstream
from projector.server.config.settings import Settings
from projector.server.streaming.memory import Account, Memory
from projector.server.streaming.session import StreamSession, byte_stream
from projector.server.streaming.workflow_source import workflow_source
from projector.server.telemetry.reports import begin_stream, end_stream
from projector.server.telemetry.stream_stats import StreamStats


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
