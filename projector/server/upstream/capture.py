"""One request to an upstream, its answer read whole: for `projector record`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final, NamedTuple

import anyio

from projector import build_pipeline
from projector.core.faults import Fault
from projector.recording import Recording, record
from projector.redaction.policy import Policy
from projector.redaction.spans import Finder
from projector.server.catalog import Catalog, MakeUpstream, UpstreamBinding, provider_upstream
from projector.server.config.settings import Retries, Settings
from projector.server.streaming.deadlines import run_timed
from projector.server.streaming.memory import Account, Memory
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.upstream.protocol import UpstreamError
from projector.server.upstream.recorder import finder_for, secrets_of

_DIALECT: Final = "public_sse_v1"
"""Any would do: it is asked only whether the stream has ended."""


class _Response(NamedTuple):
    """All bytes of an answer, and how it broke off."""

    provider: UpstreamBinding
    data: bytes
    fault: Fault | None


def ask(
    settings: Settings,
    upstream: str,
    body: Mapping[str, object],
    *,
    is_raw: bool = False,
    make_upstream: MakeUpstream = provider_upstream,
) -> Recording | Fault:
    """Give the recording of an upstream's answer; a fault where there was none.

    Args:
        settings: where the upstream is named, and what must not be kept: its keys, and what any policy of it looks for.
        upstream: its name; `default` is the shorthand's.
        body: what is asked, in the words of its API.
        is_raw: keep everything.
        make_upstream: returns the upstream for its settings, instead of the class that its provider names.

    Raises:
        UsageError: there is no upstream of this name.
    """
    answer = anyio.run(_capture, settings, upstream, body, make_upstream)
    if answer.fault is not None and not answer.data:
        return answer.fault
    case = {
        "about": f"Recorded from the upstream `{upstream}`.",
        "profile": answer.provider.profile,
        "host_events": answer.provider.upstream.is_recording,
    }
    finder = None if is_raw else _finder(settings)
    return record(answer.provider.api, answer.data, finder, fault=answer.fault, settings=case)


def _finder(settings: Settings) -> Finder:
    """Give what all policies of a configuration look for: nothing that one of them lets pass is let pass here."""
    policies = [agent.policy for agent in settings.agents.values()]
    policies += [settings.passthrough.policy] if settings.passthrough is not None else []
    policies += [workflow.policy for workflow in settings.workflows.values() if workflow.policy is not None]
    words = [word for policy in policies for word in policy.sensitive_keys_add]
    registered = [value for policy in policies for value in policy.registered]
    return finder_for(Policy(sensitive_keys_add=tuple(words), registered=tuple(registered)), secrets_of(settings))


async def _capture(
    settings: Settings, upstream: str, body: Mapping[str, object], make_upstream: MakeUpstream
) -> _Response:
    catalog = Catalog(settings, make_upstream)
    try:
        binding = catalog.upstream(upstream)
        data = bytearray()
        try:
            await _read(binding, body, data)
        except UpstreamError as error:
            return _Response(binding, bytes(data), error.fault)
        return _Response(binding, bytes(data), None)
    finally:
        await catalog.aclose()


async def _read(binding: UpstreamBinding, body: Mapping[str, object], data: bytearray) -> None:
    """Read a response to the end of its stream, within the upstream's time limits."""
    pipeline = build_pipeline(provider=binding.api, dialect=_DIALECT, profile=binding.profile)
    account = Account(Memory(sys.maxsize))
    reader = binding.reader(body, StreamStats(dialect=_DIALECT), account, Retries(max=0))

    async def on_open() -> None:
        """Wait for the first byte."""

    async def on_chunk(chunk: bytes) -> bool:
        data.extend(chunk)
        pipeline.feed(chunk)
        return pipeline.ended

    await run_timed(lambda clock: reader.run(clock, on_open, on_chunk))
