"""The JSON answer of a dialect to a whole stream."""

from __future__ import annotations

from collections.abc import Iterable

from projector.core.sse import DONE
from projector.dialects import DIALECTS
from projector.dialects.descriptor import JsonAnswer


def assemble(lines: Iterable[bytes], dialect: str = "openresponses") -> JsonAnswer:
    """Return the answer of a whole stream, given as the data of its events or the lines of its NDJSON."""
    assembler = DIALECTS[dialect].assembler
    assert assembler is not None
    assembly = assembler.start()
    for line in lines:
        if line.strip() not in {b"", DONE}:
            assembly.feed(line)
    return assembly.close()
