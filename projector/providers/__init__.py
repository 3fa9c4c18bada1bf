"""One stage per provider: its messages become canonical events. `PROVIDERS` is the list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from projector._errors import UsageError
from projector._validation import describe
from projector.core.canonical import CanonicalEvent, Stage
from projector.core.sse import SseMessage
from projector.providers.openai_chat import ChatProfile, OpenAIChatStage
from projector.providers.openai_responses import OpenAIResponsesStage


class ProviderStage(Stage[SseMessage, CanonicalEvent], Protocol):
    """Takes messages, gives their events, and counts what it does not pass on."""

    dropped: Counter[str]


class NoProfile(BaseModel):
    """The profile of a provider whose upstreams are all alike."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Provider(NamedTuple):
    """How to read one provider's streams."""

    stage: Callable[[Any], ProviderStage]
    """Makes the stage of one upstream, from a profile."""
    profile: type[BaseModel] = NoProfile
    """What may differ between upstreams of this kind."""
    message_fields: tuple[str, ...] = ()
    """SSE fields outside the standard that carry a message (`projector.core.sse`, 5)."""


PROVIDERS: Final[Mapping[str, Provider]] = {
    "openai_responses": Provider(lambda _profile: OpenAIResponsesStage()),
    "openai_chat": Provider(OpenAIChatStage, ChatProfile, message_fields=("error",)),
}


def profile_of(provider: str, settings: Mapping[str, object]) -> BaseModel:
    """Give the checked profile of a provider.

    Raises:
        UsageError: a name that the profile does not have, or a value of the wrong type; the message holds no value.
    """
    model = PROVIDERS[provider].profile
    try:
        return model.model_validate(settings)
    except ValidationError as error:
        raise UsageError(f"profile of `{provider}`: {describe(error, settings, model)}") from None
