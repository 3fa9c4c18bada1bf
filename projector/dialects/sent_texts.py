"""The texts that were sent, to tell whether a text of `final` is new (CONTRACT D13). The texts are not kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, TypeAlias
from zlib import crc32

TEXT: Final = "text"
REFUSAL: Final = "refusal"
PARAGRAPH: Final = "\n\n"

FINAL_TEXTS: Final[Mapping[str, str]] = {TEXT: "response_text", REFUSAL: "refusal_text"}
"""Kind of a text -> member of `final` with the whole text of that kind."""


@dataclass(slots=True)
class SentPart:
    """Length and checksum of a part of a message that was sent. The text is not kept."""

    chars: int = 0
    checksum: int = 0

    def add(self, delta: str) -> None:
        """Add a delta."""
        self.chars += len(delta)
        self.checksum = crc32(delta.encode("utf-8", "surrogatepass"), self.checksum)


SentText: TypeAlias = list[tuple[str, SentPart]]
"""Parts of a text in order, each with the text before it in `final` (CONTRACT D13)."""


def is_joined(sent: SentText, text: str) -> bool:
    """Return whether a text is made of the sent parts."""
    start = end = 0
    for number, (separator, part) in enumerate(sent):
        start = end + len(separator if number else "")
        end = start + part.chars
        if crc32(text[start:end].encode("utf-8", "surrogatepass")) != part.checksum:
            return False
    return end == len(text)


@dataclass(slots=True)
class BranchState:
    """State of one branch of a run. A run without branches has one."""

    response: int = 0
    """Number of responses that have ended, which is the number of the current one."""
    sent: dict[str, dict[int, dict[int, SentPart]]] = field(default_factory=lambda: {TEXT: {}, REFUSAL: {}})
    """Kind of a text -> output indexes of the messages of the current response -> the parts that were sent."""
    last_sent: dict[str, SentText] = field(default_factory=dict)
    """Kind of a text -> what was sent of it in the last response that had any."""

    def end_response(self) -> None:
        """Count the response that has ended, and keep what it sent."""
        self.response += 1
        for kind, messages in self.sent.items():
            sent = [
                (PARAGRAPH if kind == REFUSAL or number == 0 else "", part)
                for _, parts in sorted(messages.items())
                for number, (_, part) in enumerate(sorted(parts.items()))
            ]
            self.last_sent |= {kind: sent} if sent else {}
            messages.clear()

    def add_message(self, output_index: int) -> None:
        """Add a message of the current response."""
        for messages in self.sent.values():
            messages[output_index] = {}

    def add(self, kind: str, output_index: int, content_index: int, delta: str) -> None:
        """Add a delta of a message."""
        parts = self.sent[kind]
        try:
            part = parts[output_index][content_index]
        except KeyError:
            part = parts.setdefault(output_index, {})[content_index] = SentPart()
        part.add(delta)


def has_sent(states: Sequence[BranchState], kind: str, text: str) -> bool:
    """Return whether a text of `final` was sent: by one branch, or by the last ones together."""
    sent = [state.last_sent[kind] for state in states if kind in state.last_sent]
    return any(is_joined(list(chain(*sent[first:])), text) for first in range(len(sent)))
