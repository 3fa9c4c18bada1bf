"""The profile of an upstream: differences between servers with the Chat Completions API (CONTRACT D33)."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints

from projector.providers.think import ThinkMode

NonEmpty = Annotated[str, StringConstraints(min_length=1)]


class ChatProfile(BaseModel):
    """Differences of one upstream. The defaults work with every known server."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reasoning_fields: tuple[NonEmpty, ...] = ("reasoning_content", "reasoning")
    """Members of a delta with reasoning text. A response is read by the one that it uses first; of several in one
    chunk, by the first listed here."""

    think_mode: ThinkMode = "anywhere"
    """Where reasoning between tags may begin in the text: see `projector.providers.think`."""

    think_tags: tuple[tuple[NonEmpty, NonEmpty], ...] = ()
    """Pairs of an opening and a closing tag that are read besides the built-in ones."""

    returned_reasoning: tuple[NonEmpty, ...] = ("reasoning_content",)
    """Members with reasoning text that the upstream wants back in the message with the calls that followed it. Others
    are not sent back."""

    takes_stream_options: bool = True
    """Whether the upstream accepts `stream_options.include_usage` in a request. A few reject unknown members."""

    takes_custom_tools: bool = True
    """Whether the upstream has custom tools, as OpenAI does. To others they are functions with one text, `input`."""
