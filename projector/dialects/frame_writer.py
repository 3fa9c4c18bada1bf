"""The base of writers that encode each frame as JSON events: a failure latch, and frames within a limit.

A subclass has a table of frame kinds and writes the events of one frame; `ag_ui` and `ai_sdk` are such dialects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Generic, TypeVar

from projector.contracts import codec
from projector.contracts.kinds import Kind
from projector.core.canonical import Frame, WireEvent
from projector.core.truncation import fit
from projector.dialects.descriptor import RepeatWriter
from projector.redaction.clean import notice

FRAME_MAX_BYTES: Final = 1_048_576
"""Limit of a frame that may contain JSON trees. Its event is at most a few times larger, because a result may be JSON
in JSON; clients of AG-UI give up at 10 MiB (CONTRACT D37)."""

LARGE: Final = frozenset({Kind.TOOL_STATUS, Kind.TOOL_OUTPUT, Kind.FINAL})
"""Kinds of frames that may contain JSON trees."""

ENCRYPTED_MAX_CHARS: Final = 4_194_304
"""Limit of encrypted reasoning. A longer value is dropped with a notice, because a part of it is useless."""

_Writer = TypeVar("_Writer")


class FrameWriter(Generic[_Writer]):
    """The writer of one stream. After a frame that cannot be written, only `error` is, which ends what is open."""

    def __init__(self, handled: Mapping[str, _Writer]) -> None:
        self._handled = handled
        self._has_failed = False

    def feed(self, frame: Frame, /) -> list[WireEvent]:
        """Return the events of a frame."""
        writer = self._handled.get(frame["kind"])
        if writer is None or (self._has_failed and frame["kind"] != Kind.ERROR):
            return []
        try:
            return [(None, codec.dumps(event)) for event in self._write(writer, frame)]
        except Exception:
            self._has_failed = True
            raise

    def repeat(self, frame: Frame, /) -> RepeatWriter | None:
        """Return a writer of the further deltas of a text; None if each must be fed as a frame."""
        return None if self._has_failed else self._repeat(frame)

    def _repeat(self, frame: Frame) -> RepeatWriter:
        """Return a writer of the further deltas of a text."""
        raise NotImplementedError

    def _write(self, writer: _Writer, frame: Frame) -> list[dict[str, Any]]:
        """Return the events of a frame; `writer` is that of its kind."""
        raise NotImplementedError


def within_limit(frame: Frame) -> Frame:
    """Return a `LARGE` frame within its limit. The texts of `final` are left out, because messages contain them."""
    if frame["kind"] == Kind.FINAL:
        final = {name: value for name, value in frame["final"].items() if not name.endswith("_text")}
        frame = {**frame, "final": final}
    return frame if codec.size(frame) <= FRAME_MAX_BYTES else fit(frame, FRAME_MAX_BYTES)


def left_out(path: str) -> list[dict[str, str]]:
    """Return the notices of a member that a writer leaves out because of a limit."""
    return [notice("truncated")._replace(path=path)._asdict()]
