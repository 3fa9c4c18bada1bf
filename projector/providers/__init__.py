"""Provider APIs: how their streams are read and their requests written. `PROVIDERS` has one row and one folder each."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Final

from projector._errors import UsageError, check_argument
from projector._registry import Registry, resolve
from projector._validation import describe, path_name
from projector.providers.descriptor import Provider

if TYPE_CHECKING:
    from pydantic import BaseModel

DEFAULT_PROVIDER: Final = "openai_responses"

PROVIDERS: Final[Registry[Provider]] = Registry(
    {
        "openai_responses": "projector.providers.openai_responses:PROVIDER",
        "openai_chat": "projector.providers.openai_chat:PROVIDER",
        "anthropic_messages": "projector.providers.anthropic_messages:PROVIDER",
        "gemini": "projector.providers.gemini:PROVIDER",
    }
)


def profile_of(provider: str, settings: Mapping[str, object]) -> BaseModel | None:
    """Return the profile of an upstream, None if the provider has none; raise `UsageError` for wrong settings."""
    check_argument("profile", "a mapping", holds=isinstance(settings, Mapping))
    reference = PROVIDERS[provider].profile
    if reference is None:
        if settings:
            raise UsageError(f"profile of `{provider}`: `{path_name([next(iter(settings))])}` is unknown")
        return None
    return _read(provider, reference, settings) if settings else _default(provider, reference)


@cache
def _default(provider: str, reference: str) -> BaseModel:
    """Return the profile without settings, which is frozen: most streams have it."""
    return _read(provider, reference, {})


def _read(provider: str, reference: str, settings: Mapping[str, object]) -> BaseModel:
    model: type[BaseModel] = resolve(reference)
    from pydantic import ValidationError

    try:
        return model.model_validate(settings)
    except ValidationError as error:
        raise UsageError(f"profile of `{provider}`: {describe(error, settings, model)}") from None
