"""How a host's own streams are projected: what it chooses once, made into a pipeline and a stats for each of them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from starlette.types import Scope

from projector import Pipeline, Policy, StreamContext, build_pipeline
from projector.server.config.config_base import DEFAULT_DIALECT
from projector.server.telemetry.observer import OnTerminal
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.telemetry.tracing import begin_stream


@dataclass(frozen=True, kw_only=True)
class Projection:
    """What a host chooses.

    Args:
        provider: whose streams they are: a name of `projector.providers.PROVIDERS`.
        dialect: how they are written: a name of `projector.dialects.DIALECTS`.
        policy: limits, redaction, images, reasoning; the contract's defaults where it is None.
        profile: how the provider's server differs from others of its kind.
        context: what the host says of the stream; an id is made where it has none.
        on_terminal: is told how the stream ended, when all is sent; it cannot break it.
    """

    provider: str = "openai_responses"
    dialect: str = DEFAULT_DIALECT
    policy: Policy | None = None
    profile: Mapping[str, object] | None = None
    context: StreamContext = field(default_factory=StreamContext)
    on_terminal: OnTerminal | None = None

    def begin(self, scope: Scope, *, is_run: bool = False) -> tuple[Pipeline, StreamStats]:
        """Give the pipeline and the stats of one stream.

        Args:
            scope: the request's.
            is_run: whether the stream is a run of the host's: responses that follow each other, and the host's own
                events between them (CONTRACT D12, D35).

        Raises:
            UsageError: a name that is not known, or a profile that cannot be.
        """
        stream_id = self.context.stream_id or f"stream_{uuid.uuid4().hex}"
        facts = StreamStats(
            stream_id=stream_id,
            dialect=self.dialect,
            api=self.provider,
            conversation_id=self.context.conversation_id,
            agent=self.context.agent,
        )
        stats = begin_stream(scope, facts)
        pipeline = build_pipeline(
            provider=self.provider,
            dialect=self.dialect,
            policy=self.policy,
            profile=self.profile,
            run=is_run,
            takes_host_events=is_run,
            context=replace(self.context, stream_id=stream_id),
            on_frame=stats.on_frame,
        )
        return pipeline, stats
