"""The envelope of every frame (seed section 6), and which announced items are open in what was sent."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Final, NamedTuple

from projector.contracts.kinds import SCHEMA, Kind, PrivateKind
from projector.core import frames
from projector.core.canonical import COUNT_END, CanonicalEvent, Frame
from projector.core.delta_frames import DeltaFrames, repeated
from projector.core.faults import Fault
from projector.core.state import CONTEXT_ORDER
from projector.redaction.clean import Cleaned, CleanText
from projector.redaction.compose import own_words

PRIVATE: Final = frames.PRIVATE
SPECIAL: Final = PRIVATE | {Kind.OUTPUT_ITEM_ADDED, Kind.OUTPUT_ITEM_DONE}
"""Kinds that need more than an envelope."""
NO_EVENT: Final[CanonicalEvent] = MappingProxyType({})
_NUMBERED: Final = frozenset({"event_id", "server_timestamp", "provider_sequence_number"})
"""Members of the envelope that differ between the frames of an item."""


class Announced(NamedTuple):
    """How an item was announced."""

    context: Mapping[str, object]
    branch: int
    frame: Frame


class EnvelopeWriter:
    """Adds the envelope to the frames of one stream.

    It also tracks `output_item.added` and `output_item.done`: these items can be closed even if no other state can be
    trusted. `roll_back` undoes the frames of a step that could not be sent.

    Args:
        stream_id: ID of the stream.
        replaced: names that stand for something withheld; it grows with the stream (`Redactor.replaced`).
    """

    def __init__(self, stream_id: str, replaced: AbstractSet[str]) -> None:
        self._stream_id = stream_id
        self._replaced = replaced
        self._event_id = 0
        self._sent_id = 0
        self._context: Mapping[str, object] = {}
        self._envelope: Frame = {"server_timestamp": ""}
        self._last: Frame = {}
        self._branch = 0
        self._open: dict[object, Announced] = {}
        self._unsent: list[tuple[object, Announced | None]] = []
        """The state of each item before each change since the last `tick`."""

    def tick(self, timestamp: str) -> None:
        """Begin a step: record that all frames so far were sent, and set the timestamp of the following ones."""
        self._envelope["server_timestamp"] = timestamp
        self._sent_id = self._event_id
        if self._unsent:
            self._unsent.clear()

    def wrap(self, output: list[Frame], context: Mapping[str, object], event: CanonicalEvent) -> list[Frame]:
        """Add the envelope to frames; only public ones have an event id of their own (D1).

        Args:
            output: frames in order.
            context: the context members; a changed context is a new object.
            event: the provider's event, for its sequence number.
        """
        if self._context is not context:
            self._set_context(context)
        envelope = self._envelope
        sequence = event.get("sequence_number")
        if type(sequence) is int and 0 <= sequence < COUNT_END:  # larger ones are inexact in JavaScript (D5)
            envelope["provider_sequence_number"] = sequence
        else:
            envelope.pop("provider_sequence_number", None)
        if len(output) == 1 and output[0]["kind"] not in SPECIAL and not self._replaced:  # nearly every event
            envelope["event_id"] = self._event_id = self._event_id + 1
            return [envelope | output[0]]
        wrapped = []
        for frame in output:
            kind = frame["kind"]
            if kind not in SPECIAL:
                self._event_id += 1
            elif kind not in PRIVATE:
                self._event_id += 1
                self._track(frame)
            elif kind == PrivateKind.BRANCH:
                self._branch = frame["branch"]
            envelope["event_id"] = self._event_id
            wrapped.append(envelope | frame)
        if self._replaced:
            for frame in wrapped:
                frames.add_notices(frame, self._replaced)
        return wrapped

    def again(self, frame: Frame, delta: CleanText, sequence: object) -> Frame | None:
        """Return the next frame, equal to the last one but for its text; None if their members may differ.

        Args:
            frame: the last frame that `wrap` returned in the current context; a delta without notices.
            delta: the text.
            sequence: the provider's sequence number.
        """
        if type(sequence) is not int or not 0 <= sequence < COUNT_END or self._replaced:
            return None
        self._event_id += 1
        return repeated(frame, self._event_id, self._envelope["server_timestamp"], sequence, delta)

    def run(self, frame: Frame, deltas: list[CleanText], encoded: list[bytes], sequences: list[int]) -> DeltaFrames:
        """Return the next frames, equal to an earlier one but for their texts; only if nothing is replaced.

        Args:
            frame: as for `again`.
            deltas: the texts.
            encoded: each text as the content of a JSON string.
            sequences: the provider's sequence number of each.
        """
        before = self._event_id
        self._event_id = before + len(deltas)
        time = self._envelope["server_timestamp"]
        return DeltaFrames(frame, before + 1, time, deltas, encoded, sequences)

    def follow(self, frame: Frame) -> None:
        """Continue after a frame that another writer of the same stream has wrapped."""
        self._event_id, self._last = frame["event_id"], frame
        kind = frame["kind"]
        if kind == Kind.OUTPUT_ITEM_ADDED:
            bare = {name: value for name, value in frame.items() if name not in _NUMBERED}
            self._set_item(frame["item_id"], Announced(_context_of(frame), self._branch, bare))
        elif kind == Kind.OUTPUT_ITEM_DONE:
            self._set_item(frame["item_id"], None)
        elif kind == PrivateKind.BRANCH:
            self._branch = frame["branch"]

    def close(self, fault: Fault, context: Mapping[str, object] | None = None) -> list[Frame]:
        """Return the end of a stream that has no other state: open items are closed, then `error` ends it.

        It is built without calling the redactor, which may be what failed.

        Args:
            fault: the fault of the terminal.
            context: the context members of the terminal; those of the frame that was followed last if None.
        """
        context, branch = _context_of(self._last) if context is None else context, self._branch
        output = []
        for item in list(self._open.values()):
            done = {**item.frame, "kind": Kind.OUTPUT_ITEM_DONE.value, "status": "incomplete"}
            output += self._in_branch(item.branch, item.context, done)
        code, message = Cleaned(own_words(fault.code)), Cleaned(own_words(fault.message))
        error = frames.error(code, message, fault.source, is_retryable=fault.is_retryable)
        return output + self._in_branch(branch, context, error)

    def _in_branch(self, branch: int, context: Mapping[str, object], frame: Frame) -> list[Frame]:
        entered = [] if branch == self._branch else [frames.branch(branch)]
        return self.wrap([*entered, frame], context, NO_EVENT)

    def roll_back(self) -> None:
        """Undo all frames since the last `tick`: ids are used again, items are open or unknown as before."""
        self._event_id = self._sent_id
        for item_id, before in reversed(self._unsent):
            self._set_item(item_id, before)

    def _set_context(self, context: Mapping[str, object]) -> None:
        self._context = context
        self._envelope = {
            "schema": SCHEMA,
            "event_id": self._event_id,
            "stream_id": self._stream_id,
            "server_timestamp": self._envelope["server_timestamp"],
            **context,
        }

    def _track(self, frame: Frame) -> None:
        item_id = frame["item_id"]
        self._unsent.append((item_id, self._open.get(item_id)))
        self._set_item(
            item_id, Announced(self._context, self._branch, frame) if frame["kind"] == Kind.OUTPUT_ITEM_ADDED else None
        )

    def _set_item(self, item_id: object, announced: Announced | None) -> None:
        if announced is None:
            self._open.pop(item_id, None)
        else:
            self._open[item_id] = announced


def _context_of(frame: Frame) -> Mapping[str, object]:
    return {name: frame[name] for name in CONTEXT_ORDER if name in frame}
