"""`StreamReplay`: the stored frames of a stream in, its bytes in a dialect out, from any event on. Without I/O.

A dialect's writer is a pure function of the frames. So a reader that joins later gets exactly the bytes that the first
reader got after the same event: the writer runs from the first frame, and what the reader has is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from projector._errors import known_name
from projector.contracts.kinds import TERMINAL_KINDS
from projector.core.canonical import Frame, WireEvent
from projector.core.context import Timestamps
from projector.core.envelope import EnvelopeWriter
from projector.core.faults import FAULTS
from projector.core.pipeline import OutputFormat
from projector.core.sse import encode_events, encode_numbered_events
from projector.dialects import DIALECTS
from projector.dialects.descriptor import DialectOptions
from projector.redaction.policy import Policy


class StreamReplay:
    """Writes one stored stream.

    Args:
        dialect: a name of `DIALECTS`; it may differ from that of the first reader.
        policy: the policy of the stream, for the limits of the dialect.
        options: options of the dialect, as in `build_pipeline`.
        is_run: whether the stream is a run.
        after: number of the last event that the reader has; events of every dialect are counted from 1.
        output_format: format of the output.

    Raises:
        UsageError: an unknown dialect.
    """

    def __init__(
        self,
        *,
        dialect: str,
        policy: Policy,
        options: DialectOptions | None = None,
        is_run: bool = False,
        after: int = 0,
        output_format: OutputFormat = "sse",
    ) -> None:
        known_name("dialect", dialect, DIALECTS)
        row = DIALECTS[dialect]
        self._write = row.writer(policy, replace(options or DialectOptions(), is_run=is_run)).feed
        self._end_mark = row.end_mark
        self._is_sse = output_format == "sse"
        self._has_event_ids = row.has_event_ids
        self._after = after
        self._envelopes: EnvelopeWriter | None = None
        self.position = 0
        """Number of the last event that was written or left out."""
        self.ended = False
        """Whether the terminal was written."""

    def feed(self, frames: Iterable[Frame]) -> bytes:
        """Return the bytes of the next frames; frames after the terminal are ignored."""
        output: list[WireEvent] = []
        for frame in frames:
            if self.ended:
                break
            if self._envelopes is None:
                self._envelopes = EnvelopeWriter(frame["stream_id"], frozenset())
            self._envelopes.follow(frame)
            events = self._write(frame)
            known = max(0, min(self._after - self.position, len(events)))
            self.position += len(events)
            output += events[known:] if known else events
            if frame["kind"] in TERMINAL_KINDS:
                self.ended = True
                if self._end_mark is not None:
                    output.append((None, self._end_mark))
        if not self._is_sse:
            return b"".join([data + b"\n" for _, data in output])
        if self._has_event_ids:
            return encode_numbered_events(output, self.position - len(output) + 1)
        return encode_events(output)

    def interrupt(self, stream_id: str, at_s: float) -> bytes:
        """Return the end of a stream whose producer has stopped: its items are closed, then `stream_interrupted`.

        Every reader gets the same bytes, because they depend only on the frames before and the time.

        Args:
            stream_id: ID of the stream, which may have no frame.
            at_s: when the stream was found interrupted, in seconds since 1970-01-01 UTC.
        """
        if self.ended:
            return b""
        envelopes = self._envelopes or EnvelopeWriter(stream_id, frozenset())
        envelopes.tick(Timestamps().write(at_s))
        return self.feed(envelopes.close(FAULTS["stream_interrupted"]))
