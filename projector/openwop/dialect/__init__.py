"""OpenWOP v1: each stream is one run, written as its log of events (RFC 0002, 0023, 0024, 0026; docs/openwop.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from projector.dialects.descriptor import Dialect, DialectWriter, Tables

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from projector.contracts.stream_rules.table import Checker
    from projector.dialects.options import DialectOptions
    from projector.redaction.policy import Policy


def _writer(policy: Policy, options: DialectOptions) -> DialectWriter:
    from projector.openwop.dialect.writer import OpenWopWriter

    return OpenWopWriter(policy.reasoning, options)


def _tables() -> Tables:
    from projector.openwop.dialect.writer import DROPPED, HANDLED

    return Tables(HANDLED, DROPPED)


def _events() -> TypeAdapter[Any]:
    from projector.openwop.contract.events import EVENT_ADAPTER

    return EVENT_ADAPTER


def _checker() -> Checker:
    from projector.openwop.contract.checker import LogChecker

    return LogChecker()


DIALECT: Final = Dialect(writer=_writer, tables=_tables, events=_events, checker=_checker)
