"""How an answer is given: as a stream, or in one piece."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from projector.core.pipeline import OutputFormat
from projector.server.catalog import AgentBinding
from projector.server.http.problems import problem
from projector.server.streaming.json_response import ASSEMBLED, JsonResponseWriter
from projector.server.streaming.response_writer import ResponseWriter


@dataclass(frozen=True, slots=True)
class Form:
    """One way to give an answer."""

    line: type[ResponseWriter]
    output_format: OutputFormat
    """What the line is given to say."""
    has_heartbeats: bool


STREAM: Final = Form(ResponseWriter, "sse", has_heartbeats=True)
WHOLE: Final = Form(JsonResponseWriter, "ndjson", has_heartbeats=False)


def form_of(binding: AgentBinding, dialect: str | None, *, is_stream: bool | None) -> tuple[Form, str]:
    """Give the form and the dialect of an answer.

    Args:
        binding: what answers.
        dialect: as the request names it.
        is_stream: what the request wants; where it does not say, a stream, unless the dialect's own protocol takes
            that for one piece.

    Raises:
        Problem: the dialect is none of those that are spoken here, or cannot be given in one piece.
    """
    if is_stream is False and dialect is None and ASSEMBLED in binding.settings.dialects:
        return WHOLE, ASSEMBLED
    spoken = binding.dialect(dialect)
    if is_stream is False and spoken != ASSEMBLED:
        raise problem(
            "invalid_request",
            f"`stream` must not be false: only `dialect={ASSEMBLED}` is given in one piece, not `{spoken}`.",
        )
    return (WHOLE if spoken == ASSEMBLED and not is_stream else STREAM), spoken
