"""The profile of an upstream: differences between servers with the Responses API (CONTRACT D46)."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints

from projector.providers.think import THINK, ThinkMode

NonEmpty = Annotated[str, StringConstraints(min_length=1)]


class ResponsesProfile(BaseModel):
    """Differences of one upstream. The defaults work with every known server."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    think_mode: ThinkMode = "start"
    """Where reasoning between tags may begin in a text: see `projector.providers.think`."""

    think_tags: tuple[NonEmpty, NonEmpty] = THINK
    """The tags that open and close reasoning in a text. The default also reads the other `SPELLINGS` of `think`."""
