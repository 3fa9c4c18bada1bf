"""A run of deltas: frames that follow each other and differ only in number, text and the provider's number."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias, final

from projector.core.canonical import Frame
from projector.redaction.clean import CleanText

TEXT_MAX_CHARS: Final = 1_024
"""Maximum characters of a delta in a run, so that its event is far below every limit."""


@final
@dataclass(slots=True, eq=False)
class DeltaFrames:
    """Frames of deltas of one text, without notices.

    Writers need not see each frame: `DialectWriter.repeat` writes the events of a whole run from its texts.

    Args:
        frame: the frame of an earlier delta of the text.
        first_id: event ID of the first frame; the others follow without a gap.
        timestamp: server timestamp of all frames.
        texts: what each delta shows; none is empty or longer than `TEXT_MAX_CHARS`.
        encoded: each text as the content of a JSON string, without quotes, in UTF-8.
        sequences: the provider's sequence number of each delta.
    """

    frame: Frame
    first_id: int
    timestamp: str
    texts: list[CleanText]
    encoded: list[bytes]
    sequences: list[int]

    def divided(self) -> tuple[Frame, DeltaFrames]:
        """Return the first frame, and the others."""
        first = repeated(self.frame, self.first_id, self.timestamp, self.sequences[0], self.texts[0])
        rest = DeltaFrames(
            self.frame, self.first_id + 1, self.timestamp, self.texts[1:], self.encoded[1:], self.sequences[1:]
        )
        return first, rest

    def frames(self) -> list[Frame]:
        """Return the frames, equal to `frame` but for what differs within a run."""
        return [
            repeated(self.frame, self.first_id + at, self.timestamp, self.sequences[at], text)
            for at, text in enumerate(self.texts)
        ]


Output: TypeAlias = Frame | DeltaFrames
"""What a step returns: frames, and runs of deltas in place of theirs."""


def frames_of(output: Iterable[Output]) -> list[Frame]:
    """Return all frames of a step, in order."""
    frames: list[Frame] = []
    for one in output:
        frames += one.frames() if type(one) is DeltaFrames else [one]
    return frames


def extend(output: list[Output], more: list[Output]) -> None:
    """Add the output of a piece of a read. A run that the piece continues stays one run, which is written at once."""
    last, first = (output[-1], more[0]) if output and more else (None, None)
    if type(last) is DeltaFrames and type(first) is DeltaFrames and last.frame is first.frame:
        last.texts += first.texts
        last.encoded += first.encoded
        last.sequences += first.sequences
        more = more[1:]
    output += more


def repeated(frame: Frame, event_id: int, timestamp: str, sequence: int, delta: CleanText) -> Frame:
    """Return the frame of a further delta of a text, equal to an earlier one but for what is given."""
    frame = frame.copy()
    frame["event_id"] = event_id
    frame["server_timestamp"] = timestamp
    frame["provider_sequence_number"] = sequence
    frame["delta"] = delta
    return frame
