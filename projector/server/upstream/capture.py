"""One request to an upstream, its answer read whole: for `projector record`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from typing import Final, NamedTuple

import anyio

from projector import build_pipeline
from projector.core.faults import FAULTS, Fault
from projector.recording import Recording, record
from projector.redaction.policy import Policy
from projector.redaction.spans import Finder
from projector.server.catalog import Catalog, MakeUpstream, Provider
from projector.server.config.settings import Settings
from projector.server.upstream.openai_upstream import OpenAIUpstream
from projector.server.upstream.protocol import ProviderRequest, UpstreamError
from projector.server.upstream.recorder import finder_for, secrets_of

_DIALECT: Final = "public_sse_v1"
"""Any would do: it is asked only whether the stream has ended."""


class _Answer(NamedTuple):
    """All bytes of an answer, and how it broke off."""

    provider: Provider
    data: bytes
    fault: Fault | None


def ask(
    settings: Settings,
    upstream: str,
    body: Mapping[str, object],
    *,
    is_raw: bool = False,
    make_upstream: MakeUpstream = OpenAIUpstream,
) -> Recording | Fault:
    """Give the recording of an upstream's answer; a fault where there was none.

    Args:
        settings: where the upstream is named, and what must not be kept: its keys, and what any policy of it looks for.
        upstream: its name; `default` is the shorthand's.
        body: what is asked, in the words of its API.
        is_raw: keep everything.
        make_upstream: gives the upstream for its settings.

    Raises:
        UsageError: there is no upstream of this name.
    """
    answer = anyio.run(_ask, settings, upstream, body, make_upstream)
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


async def _ask(settings: Settings, upstream: str, body: Mapping[str, object], make_upstream: MakeUpstream) -> _Answer:
    catalog = Catalog(settings, make_upstream)
    try:
        provider = catalog.provider(upstream)
        data = bytearray()
        try:
            await _read(provider, ProviderRequest(provider.api, body), data)
        except UpstreamError as error:
            return _Answer(provider, bytes(data), error.fault)
        return _Answer(provider, bytes(data), None)
    finally:
        await catalog.aclose()


async def _read(provider: Provider, request: ProviderRequest, data: bytearray) -> None:
    """Read an answer to the end of its stream, within the upstream's time-outs."""
    timeouts = provider.timeouts
    pipeline = build_pipeline(provider=provider.api, dialect=_DIALECT, profile=provider.profile)
    async with AsyncExitStack() as stack:
        stack.enter_context(_limit(timeouts.total_s, "upstream_timeout_total"))
        with _limit(timeouts.first_byte_s, "upstream_timeout_first_byte"):
            chunks = await stack.enter_async_context(provider.upstream.open(request))
            chunk = await anext(chunks, b"")
        while chunk and not pipeline.ended:
            data += chunk
            pipeline.feed(chunk)
            if not pipeline.ended:
                with _limit(timeouts.idle_s, "upstream_timeout_idle"):
                    chunk = await anext(chunks, b"")


@contextmanager
def _limit(seconds: float, code: str) -> Iterator[None]:
    """Let what is done take so long, else raise the fault of this code."""
    try:
        with anyio.fail_after(seconds):
            yield
    except TimeoutError:
        raise UpstreamError(FAULTS[code]) from None
