"""AG-UI 1.0: each stream is one run. Written from clean frames only (our choices: docs/dialects.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from projector.dialects.descriptor import Dialect, DialectWriter, Tables

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from projector.contracts.stream_rules.table import Checker
    from projector.dialects.options import DialectOptions
    from projector.redaction.policy import Policy


def _writer(_policy: Policy, options: DialectOptions) -> DialectWriter:
    from projector.dialects.ag_ui.writer import AgUi

    return AgUi(options)


def _tables() -> Tables:
    from projector.dialects.ag_ui.writer import DROPPED, HANDLED

    return Tables(HANDLED, DROPPED)


def _events() -> TypeAdapter[Any]:
    from projector.dialects.ag_ui.events import EVENT_ADAPTER

    return EVENT_ADAPTER


def _checker() -> Checker:
    from projector.dialects.ag_ui.checker import AgUiChecker

    return AgUiChecker()


DIALECT: Final = Dialect(writer=_writer, tables=_tables, events=_events, checker=_checker)
