"""The public dialect (seed contract): each public frame is one event, bounded in bytes (CONTRACT D27, D37)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from projector.dialects.descriptor import Dialect, DialectWriter, Tables

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from projector.contracts.stream_rules.table import Checker
    from projector.dialects.options import DialectOptions
    from projector.redaction.policy import Policy


def _writer(policy: Policy, _options: DialectOptions) -> DialectWriter:
    from projector.dialects.public_sse_v1.writer import PublicSseV1

    return PublicSseV1(policy.limits.frame_max_bytes)


def _tables() -> Tables:
    from projector.dialects.public_sse_v1.writer import DROPPED, HANDLED

    return Tables(HANDLED, DROPPED)


def _events() -> TypeAdapter[Any]:
    from projector.contracts.public_sse_v1 import EVENT_ADAPTER

    return EVENT_ADAPTER


def _checker() -> Checker:
    from projector.contracts.stream_rules import StreamChecker

    return StreamChecker()


def _files() -> Mapping[str, bytes]:
    from projector.contracts.schema_export import typescript

    return {"public_sse_v1.ts": typescript()}


DIALECT: Final = Dialect(writer=_writer, tables=_tables, events=_events, checker=_checker, files=_files)
