"""The profile of an upstream: differences between servers with the Messages API."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

NonEmpty = Annotated[str, StringConstraints(min_length=1)]


class MessagesProfile(BaseModel):
    """Differences of one upstream. The defaults are those of the provider's own API."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    platform: Literal["direct", "vertex", "bedrock"] = "direct"
    """`direct`: the model is a member of the body; `vertex` and `bedrock`: it is in the path of the request."""

    authentication: Literal["auto", "x-api-key", "bearer"] = "auto"
    """How the key is sent. `auto`: `x-api-key` to a `direct` upstream, as a bearer token to the others."""

    version: NonEmpty = "2023-06-01"
    """Value of `anthropic-version`. Later ones refuse `temperature` and `top_p`."""

    betas: tuple[NonEmpty, ...] = ()
    """Names for `anthropic-beta`."""

    max_tokens: int = Field(8192, gt=0)
    """`max_tokens` of requests that set none; the API requires it."""

    thinking: Literal["auto", "summary", "text"] = "auto"
    """What thinking is: a summary, which may be shown, or the full text, which may not. `auto`: a summary of `claude-`
    models from 4 on."""

    effort: Literal["effort", "budget"] = "effort"
    """What `reasoning_effort` becomes: `output_config.effort`, or a budget of tokens in `thinking` for older models."""
