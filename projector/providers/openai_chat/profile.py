"""What differs between servers that speak Chat Completions, as far as a reader must be told (CONTRACT D33)."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints

from projector.providers.think import ThinkMode

NonEmpty = Annotated[str, StringConstraints(min_length=1)]


class ChatProfile(BaseModel):
    """How one upstream spells things. The defaults read every server that is known to us."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reasoning_fields: tuple[NonEmpty, ...] = ("reasoning_content", "reasoning")
    """Members of a delta that hold reasoning as text. The first one seen is the response's; in one chunk, the first
    one here."""

    think_mode: ThinkMode = "start"
    """Where reasoning between tags may begin in the text; see `projector.providers.think`."""

    think_tags: tuple[NonEmpty, NonEmpty] = ("<think>", "</think>")
    """The tag that opens reasoning in the text, and the one that closes it."""

    takes_stream_options: bool = True
    """Whether the upstream takes `stream_options.include_usage` in a request; a few refuse what they do not know."""
