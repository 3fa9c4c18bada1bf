"""The answer to a request that does not stream: the last `response` object, or the error, from a whole stream."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from projector.contracts import codec
from projector.core.sse import DONE
from projector.dialects.openresponses.response import HTTP_STATUSES

ERROR_BEGINS: Final = b'{"type":"error",'
"""How the data of an `error` event begins, as this dialect writes it."""


class Answer(NamedTuple):
    """What to answer."""

    status: int
    """The HTTP status: 200, or that of the error's type."""
    body: dict[str, Any]
    """The `response` object; with another status than 200, `{"error": {type, code, message, param}}`."""


def assemble(lines: Iterable[bytes]) -> Answer:
    """Give the answer that a whole stream makes.

    Args:
        lines: the data of its events in order, as the dialect gives them, or the lines of its NDJSON.

    Raises:
        ValueError: the stream has no end.
    """
    events = [line for line in lines if line.strip() not in {b"", DONE}]
    error = next((line for line in reversed(events) if line.startswith(ERROR_BEGINS)), None)
    if error is not None:
        payload = codec.loads(error)["error"]
        return Answer(HTTP_STATUSES[payload["type"]], {"error": payload})
    last = codec.loads(events[-1]) if events else {}
    if last.get("response", {}).get("status") not in {"completed", "incomplete", "failed"}:
        raise ValueError("expected a whole stream of Open Responses; its last event is no end of a response")
    return Answer(200, last["response"])
