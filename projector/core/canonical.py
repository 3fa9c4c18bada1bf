"""What flows between the stages: the canonical event, the frame, and the shape that every stage has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias, TypeVar

from projector.core.faults import Fault

CanonicalEvent: TypeAlias = Mapping[str, object]
"""An event in the vocabulary of the OpenAI Responses stream; untrusted, read through `projector.core.readers` only."""

Frame: TypeAlias = dict[str, Any]
"""Clean and ours; its shape is written in `projector.core.frames` only."""


WireEvent: TypeAlias = tuple[str | None, bytes]
"""One event of a dialect: its SSE event name where the dialect has one, and its data. A plain tuple: one is made for
every token."""

In_contra = TypeVar("In_contra", contravariant=True)
Out = TypeVar("Out")


class Stage(Protocol[In_contra, Out]):
    """One part of the pipeline. Lists in order; a `Fault` is the last item it will ever return."""

    def feed(self, item: In_contra, /) -> list[Out | Fault]:
        """Take one item; return what it completes."""
        ...

    def close(self) -> list[Out | Fault]:
        """Take the end of input; return what was still held."""
        ...
