"""How an answer is given: as a stream, or in one piece."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from projector.asgi.catalog import Offer
from projector.asgi.line import Line
from projector.asgi.problems import problem
from projector.asgi.whole import ASSEMBLED, WholeLine
from projector.pipeline import OutputFormat


@dataclass(frozen=True, slots=True)
class Form:
    """One way to give an answer."""

    line: type[Line]
    output_format: OutputFormat
    """What the line is given to say."""
    has_heartbeats: bool
    dialect: Callable[[Offer, str | None], str]
    """Gives the dialect for an offer, and what the request names; raises `Problem` where that cannot be."""


def _whole_dialect(offer: Offer, asked: str | None) -> str:
    """Give the dialect of an answer in one piece; a request that names none gets the one that can be."""
    if asked is None and ASSEMBLED in offer.agent.dialects:
        return ASSEMBLED
    if (dialect := offer.dialect(asked)) != ASSEMBLED:
        raise problem(
            "invalid_request",
            f"`stream` must not be false: only `dialect={ASSEMBLED}` is given in one piece, not `{dialect}`.",
        )
    return dialect


STREAM: Final = Form(Line, "sse", has_heartbeats=True, dialect=Offer.dialect)
WHOLE: Final = Form(WholeLine, "ndjson", has_heartbeats=False, dialect=_whole_dialect)
