"""One request to an upstream, and its whole response as a case: for `projector record`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace

import anyio
from anyio.lowlevel import checkpoint

from projector import build_pipeline
from projector.core.faults import Fault
from projector.recording import Recording, record
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from projector.server.catalog import Catalog, MakeUpstream, provider_upstream
from projector.server.config.config_base import DEFAULT_DIALECT
from projector.server.config.settings import Settings
from projector.server.config.upstream_settings import Retries
from projector.server.streaming.memory import Account, Memory
from projector.server.streaming.session import report_failure
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.upstream.protocol import UpstreamError
from projector.server.upstream.reader import UpstreamReader
from projector.server.upstream.recorder import finder_for, secrets_of
from projector.server.upstream.targets import UpstreamBinding, attempts_of


def record_response(
    settings: Settings,
    upstream: str,
    body: Mapping[str, object],
    *,
    is_raw: bool = False,
    make_upstream: MakeUpstream = provider_upstream,
) -> Recording | Fault:
    """Send a request to an upstream, and return the recording of the response; its fault if there was no response.

    Unless `is_raw`, the recording contains no key of the settings, and nothing that any of their policies withholds.
    """
    return anyio.run(_record, settings, upstream, body, is_raw, make_upstream)


async def _record(
    settings: Settings,
    upstream: str,
    body: Mapping[str, object],
    is_raw: bool,  # noqa: FBT001 - `anyio.run` passes no keywords
    make_upstream: MakeUpstream,
) -> Recording | Fault:
    catalog = Catalog(settings, make_upstream)
    data = bytearray()
    failure: UpstreamError | None = None
    end = ""
    try:
        binding = catalog.upstream(upstream)
        end = await _read(binding, body, data)
    except UpstreamError as error:
        failure = error
    finally:
        await catalog.aclose()
    if failure is not None and not data:
        return failure.fault._replace(message=f"{_address(binding)}: {_reason(failure, settings)}")
    case = {
        "about": f"Recorded from the upstream `{upstream}`.",
        "profile": binding.profile,
        "host_events": binding.upstream.is_recording,
    }
    fault = None if failure is None else failure.fault
    finder = None if is_raw else finder_for(_policy(settings), secrets_of(settings))
    kept = record(binding.api, bytes(data), finder, fault=fault, settings=case)
    return kept._replace(end=end)


def _address(binding: UpstreamBinding) -> str:
    """Return host and port of an upstream, without its path and credentials."""
    host, port = binding.address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def _read(binding: UpstreamBinding, body: Mapping[str, object], data: bytearray) -> str:
    """Collect the bytes of a response, and return how it ended: the status of `final`, or the code of `error`."""
    account, stats = Account(Memory(sys.maxsize)), StreamStats(dialect=DEFAULT_DIALECT)
    pipeline = build_pipeline(
        provider=binding.api, dialect=DEFAULT_DIALECT, profile=binding.profile, on_frame=stats.on_frame
    )
    reader = UpstreamReader(
        attempts_of(replace(binding, retries=Retries(max=0)), lambda _: body, stats), stats, account
    )

    async def on_chunk(chunk: bytes) -> bool:
        data.extend(chunk)
        pipeline.feed(chunk)
        return pipeline.ended

    await reader.read(checkpoint, on_chunk)
    pipeline.close()
    return stats.code or stats.outcome


def _reason(error: UpstreamError, settings: Settings) -> str:
    """Return why there was no response: the provider's own message, redacted, or what failed in the connection."""
    ours = error.fault.message.removesuffix(".")
    policy = _policy(settings)
    shown = policy.model_copy(
        update={"error_messages": "provider", "registered": (*policy.registered, *secrets_of(settings))}
    )
    _, failure = report_failure(Redactor(shown), error, None)
    if failure is not None and failure.message is not None:
        return f"{ours}: {failure.message}"
    return f"{ours}." if error.reason is None else f"{ours} ({error.reason})."


def _policy(settings: Settings) -> Policy:
    """Return a policy that withholds what any policy of a configuration names."""
    policies = [agent.policy for agent in settings.agents.values()]
    policies += [settings.passthrough.policy] if settings.passthrough is not None else []
    policies += [workflow.policy for workflow in settings.workflows.values() if workflow.policy is not None]
    words = [word for policy in policies for word in policy.sensitive_keys_add]
    registered = [value for policy in policies for value in policy.registered]
    return Policy(sensitive_keys_add=tuple(words), registered=tuple(registered))
