"""Open Responses: the whole stream is one response object, written from clean frames only (CONTRACT D36, D37).

What the protocol has no event for is written under our own name (`public-sse:...`), which its clients skip.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from projector.dialects.descriptor import Assembler, Assembly, Dialect, DialectWriter, Tables

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from projector.contracts.stream_rules.table import Checker
    from projector.dialects.options import DialectOptions
    from projector.redaction.policy import Policy


def _writer(_policy: Policy, _options: DialectOptions) -> DialectWriter:
    from projector.dialects.openresponses.writer import OpenResponses

    return OpenResponses()


def _tables() -> Tables:
    from projector.dialects.openresponses.writer import DROPPED, HANDLED

    return Tables(HANDLED, DROPPED)


def _events() -> TypeAdapter[Any]:
    from projector.dialects.openresponses.events import EVENT_ADAPTER

    return EVENT_ADAPTER


def _checker() -> Checker:
    from projector.dialects.openresponses.checker import OpenResponsesChecker

    return OpenResponsesChecker()


def _assembly() -> Assembly:
    from projector.dialects.openresponses.response_object import ResponseAssembly

    return ResponseAssembly()


DIALECT: Final = Dialect(
    writer=_writer,
    tables=_tables,
    events=_events,
    checker=_checker,
    end_mark=b"[DONE]",
    has_event_names=True,
    assembler=Assembler(start=_assembly, body="Response", error="ErrorPayload", error_statuses=(400, 404, 429, 500)),
)
