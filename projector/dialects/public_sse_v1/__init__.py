"""The public dialect (seed contract): each public frame is one event, bounded in bytes (CONTRACT D27, D37)."""

from __future__ import annotations

from typing import Final

from projector._registry import lazy, resolve
from projector.dialects.descriptor import Dialect, tables_of

DIALECT: Final = Dialect(
    writer=lambda policy, _: resolve("projector.dialects.public_sse_v1.writer:PublicSseV1")(
        policy.limits.frame_max_bytes
    ),
    tables=tables_of("projector.dialects.public_sse_v1.writer"),
    events=lambda: resolve("projector.contracts.public_sse_v1:EVENT_ADAPTER"),
    checker=lazy("projector.contracts.stream_rules:StreamChecker"),
    files=lambda: {"public_sse_v1.ts": resolve("projector.contracts.schema_export:typescript")()},
)
