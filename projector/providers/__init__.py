"""One stage per provider: its messages become canonical events. `PROVIDERS` is the list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from projector.canonical import CanonicalEvent
from projector.faults import Fault
from projector.providers.openai_responses import OpenAIResponsesStage
from projector.sse import SseMessage


class ProviderStage(Protocol):
    """A stage that also counts what it does not pass on."""

    dropped: Counter[str]

    def feed(self, message: SseMessage, /) -> list[CanonicalEvent | Fault]:
        """Take a message; give its events."""
        ...

    def close(self) -> list[CanonicalEvent | Fault]:
        """Take the end of the messages; give what was held."""
        ...


class Provider(NamedTuple):
    """How to read one provider's streams."""

    stage: Callable[[], ProviderStage]
    message_fields: tuple[str, ...] = ()
    """SSE fields outside the standard that carry a message (`projector.sse`, 5)."""


PROVIDERS: Final[Mapping[str, Provider]] = {
    "openai_responses": Provider(OpenAIResponsesStage),
}
