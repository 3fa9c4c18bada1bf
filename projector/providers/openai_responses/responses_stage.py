"""OpenAI Responses streams: their events are the canonical vocabulary, so they are only parsed and checked."""

from __future__ import annotations

from collections import Counter
from typing import Final

from projector.contracts import codec
from projector.core.canonical import CanonicalEvent
from projector.core.faults import FAULTS, Fault
from projector.core.sse import DONE, SseMessage

ERROR: Final = "error"


class OpenAIResponsesStage:
    """Parses each message as one event. The last item is a fault if a payload is not JSON (CONTRACT D12)."""

    def __init__(self, _profile: None = None) -> None:
        self.dropped: Counter[str] = Counter()
        """Messages that are not events, by reason."""
        self._is_over = False

    def feed(self, message: SseMessage, /) -> list[CanonicalEvent | Fault]:
        """Return the event of a message."""
        if self._is_over:
            return []
        data = message.data
        try:
            event = codec.loads(data)
        except codec.TooDeepError:
            return self._drop("(too deep)")
        except codec.CodecError:
            if data.strip() in {b"", DONE}:
                return []
            self._is_over = True
            return [FAULTS["upstream_malformed"]]
        if type(event) is not dict:
            return self._drop("(no object)")
        return [event] if "type" in event else self._untyped(event, message.event)

    def close(self) -> list[CanonicalEvent | Fault]:
        """Return nothing: no input is held back."""
        return []

    def _untyped(self, event: dict[str, object], name: str) -> list[CanonicalEvent | Fault]:
        """Return an event with the type that its message names; an object with `error` is an error."""
        if event.get("error"):
            name = ERROR
        return [{**event, "type": name}] if name else self._drop("(no type)")

    def _drop(self, reason: str) -> list[CanonicalEvent | Fault]:
        self.dropped[reason] += 1
        return []
