"""Provider bytes in, browser-safe bytes out.

pipeline = build_pipeline(provider="openai_responses", dialect="public_sse_v1")
for data in upstream:
    send(pipeline.feed(data))
send(pipeline.close())
"""

from __future__ import annotations

from projector._errors import UsageError
from projector.context import LaneContext, StreamContext
from projector.faults import FAULTS, Fault
from projector.pipeline import Pipeline, build_pipeline
from projector.projector import PublicStreamProjector
from redaction.policy import Policy

__all__ = [
    "FAULTS",
    "Fault",
    "LaneContext",
    "Pipeline",
    "Policy",
    "PublicStreamProjector",
    "StreamContext",
    "UsageError",
    "build_pipeline",
]
