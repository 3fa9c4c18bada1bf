"""Memory of an open stream: traced bytes, without the output."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import Final

from bench import inputs
from bench.inputs import Input
from bench.subjects import CONTEXT, PUBLIC, REDACTOR
from projector import Pipeline, build_pipeline

CLOSERS: Final = (b".done", b'"finish_reason":"stop"')
"""The input ends before the first read with one of these, so that the item is still open."""


GROWING: Final[Mapping[str, Callable[[int], Input]]] = {
    "text": lambda deltas: inputs.text(deltas, message_deltas=deltas),
    "arguments": lambda deltas: inputs.arguments(deltas, 4, call_chars=4 * deltas),
    "chat": inputs.chat,
}
"""Streams of one item that grows with the number of deltas."""
ROUNDS: Final = 3
"""Other threads of the process are traced too and can only add, so the least of the rounds is taken."""


def at_rest(subject: Input) -> int:
    """Return the bytes that a stream holds after its first read, with its first item open."""
    return _held(subject, subject.streams[0][:1])


def after_deltas(subject: Input) -> int:
    """Return the bytes that a stream of one item holds after its last delta."""
    return _held(subject, list(takewhile(lambda read: not any(end in read for end in CLOSERS), subject.streams[0])))


def of_text(subject: Input) -> int:
    """Return the size of the text of an input as one string."""
    return sys.getsizeof(subject.text)


def _held(subject: Input, reads: list[bytes]) -> int:
    _open(subject, reads)  # objects shared by all streams are not traced
    return min(_traced(subject, reads) for _ in range(ROUNDS))


def _traced(subject: Input, reads: list[bytes]) -> int:
    gc.collect()
    tracemalloc.start()
    stream = _open(subject, reads)
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del stream  # keeps the stream alive until here
    return size


def _open(subject: Input, reads: list[bytes]) -> Pipeline:
    stream = build_pipeline(provider=subject.provider, dialect=PUBLIC, context=CONTEXT, redactor=REDACTOR)
    for read in reads:
        stream.feed(read)
    return stream
