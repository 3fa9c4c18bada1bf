"""The JSON answer of Open Responses to a whole stream."""

from __future__ import annotations

from collections.abc import Iterable

from projector.core.sse import DONE
from projector.dialects.descriptor import JsonAnswer
from projector.dialects.openresponses.response_object import ResponseAssembly


def assemble(lines: Iterable[bytes]) -> JsonAnswer:
    """Return the answer of a whole stream, given as the data of its events or the lines of its NDJSON."""
    assembly = ResponseAssembly()
    for line in lines:
        if line.strip() not in {b"", DONE}:
            assembly.feed(line)
    return assembly.close()
