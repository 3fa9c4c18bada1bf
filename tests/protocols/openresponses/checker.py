"""Checker of the rules over a whole Open Responses stream."""

from __future__ import annotations

from typing import Final

from tests.protocols.openresponses.events import parse_event
from tests.protocols.response_writer.stream_checker import ResponseStreamChecker, StreamRules

RULES: Final = StreamRules(
    name="open_responses",
    parse_event=parse_event,
    end_mark=b"[DONE]",
    ends={
        "response.completed": (frozenset({"completed"}), "completed_at"),
        "response.incomplete": (frozenset({"incomplete"}), "incomplete_details"),
        "response.failed": (frozenset({"failed"}), "error"),
    },
    has_details=True,
    error_members=("code", "message"),
    texts={"function_call": "arguments"},
    families=dict.fromkeys((f"response.function_call_arguments.{name}" for name in ("delta", "done")), "function_call"),
)


class OpenResponsesChecker(ResponseStreamChecker):
    """Checker of one stream, given as the data of its events."""

    def __init__(self) -> None:
        super().__init__(RULES)
