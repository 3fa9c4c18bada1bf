"""Provider bytes in, browser-safe bytes out.

pipeline = build_pipeline(provider="openai_responses", dialect="public_sse_v1")
for data in upstream:
    send(pipeline.feed(data))
send(pipeline.close())
"""

from __future__ import annotations

from projector._errors import UsageError
from projector.core.context import BranchContext, StreamContext
from projector.core.faults import FAULTS, Fault
from projector.core.pipeline import Pipeline, build_pipeline
from projector.core.projector import PublicStreamProjector
from projector.redaction.policy import Policy

__all__ = [
    "FAULTS",
    "BranchContext",
    "Fault",
    "Pipeline",
    "Policy",
    "PublicStreamProjector",
    "StreamContext",
    "UsageError",
    "build_pipeline",
]
