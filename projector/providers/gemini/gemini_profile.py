"""The profile of an upstream: which of Google's servers it is, and which of their APIs it is asked with."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints

NonEmpty = Annotated[str, StringConstraints(min_length=1)]


class GeminiProfile(BaseModel):
    """Differences of one upstream. The defaults are those of the Gemini API of Google AI."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    platform: Literal["google", "vertex"] = "google"
    """`google`: the base URL ends with the version; `vertex`: with project and location."""

    api: Literal["generate_content", "interactions"] = "generate_content"
    """The API that is asked: `streamGenerateContent`, or Interactions."""

    authentication: Literal["auto", "x-goog-api-key", "bearer"] = "auto"
    """How the key is sent. `auto`: as `x-goog-api-key` to Google AI, as a bearer token to Vertex."""

    revision: NonEmpty = "2026-05-20"
    """Value of `Api-Revision` for Interactions."""
