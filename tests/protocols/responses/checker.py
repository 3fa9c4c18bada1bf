"""Checker of the rules over a whole stream of the Responses API."""

from __future__ import annotations

from typing import Final

from projector.dialects.responses.writer import ITEMS, STATUS_EVENTS
from tests.protocols.response_writer.stream_checker import ResponseStreamChecker, StreamRules
from tests.protocols.responses.events import parse_event

PARTIAL_IMAGE: Final = "response.image_generation_call.partial_image"

RULES: Final = StreamRules(
    name="responses",
    parse_event=parse_event,
    end_mark=None,
    ends={
        "response.completed": (frozenset({"completed"}), "completed_at"),
        "response.incomplete": (frozenset({"incomplete", "cancelled"}), "incomplete_details"),
        "response.failed": (frozenset({"failed"}), "error"),
    },
    has_details=False,
    error_members=("message",),
    texts={name: shape.text.member for name, shape in ITEMS.items() if shape.text is not None},
    families={
        **{
            f"{shape.text.event}.{suffix}": name
            for name, shape in ITEMS.items()
            if shape.text is not None
            for suffix in ("delta", "done")
        },
        **{name: item_type for (item_type, _), name in STATUS_EVENTS.items()},
        PARTIAL_IMAGE: "image_generation_call",
    },
)


class ResponsesChecker(ResponseStreamChecker):
    """Checker of one stream, given as the data of its events."""

    def __init__(self) -> None:
        super().__init__(RULES)
