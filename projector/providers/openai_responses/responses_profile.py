"""The profile of an upstream: differences between servers with the Responses API (CONTRACT D46)."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints

from projector.providers.think import ThinkMode

NonEmpty = Annotated[str, StringConstraints(min_length=1)]


class ResponsesProfile(BaseModel):
    """Differences of one upstream. The defaults work with every known server."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    think_mode: ThinkMode = "anywhere"
    """Where reasoning between tags may begin in a text: see `projector.providers.think`."""

    think_tags: tuple[tuple[NonEmpty, NonEmpty], ...] = ()
    """Pairs of an opening and a closing tag that are read besides the built-in ones."""
