"""Upstreams of the Messages API: how they differ, and how requests are sent to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Final, Literal
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from projector.core import canonical as read
from projector.providers.descriptor import Outgoing, bearer

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


BODY_VERSIONS: Final = {"vertex": "vertex-2023-10-16", "bedrock": "bedrock-2023-05-31"}
"""Platform -> `anthropic_version` of its bodies."""


def headers(key: str | None, profile: MessagesProfile) -> dict[str, str]:
    """Return the headers of every request."""
    found: dict[str, str] = {}
    if profile.platform == "direct":
        found["anthropic-version"] = profile.version
    if profile.betas and profile.platform != "bedrock":
        found["anthropic-beta"] = ",".join(profile.betas)
    is_bearer = profile.authentication == "bearer" or (
        profile.authentication == "auto" and profile.platform != "direct"
    )
    if is_bearer:
        return found | bearer(key, profile)
    return found if key is None else {**found, "x-api-key": key}


def outgoing(body: Mapping[str, object], profile: MessagesProfile) -> Outgoing:
    """Return what is sent for a body."""
    if profile.platform == "direct":
        return Outgoing("/messages", {**body, "stream": True})
    rest = {name: value for name, value in body.items() if name not in {"model", "stream"}}
    model = quote(str(body.get("model", "")), safe="@")
    if profile.platform == "vertex":
        path = f"/publishers/anthropic/models/{model}:streamRawPredict"
        return Outgoing(path, {"anthropic_version": BODY_VERSIONS["vertex"], **rest, "stream": True})
    betas = {"anthropic_beta": list(profile.betas)} if profile.betas else {}
    sent = {"anthropic_version": BODY_VERSIONS["bedrock"], **betas, **rest}
    return Outgoing(f"/{model}/invoke-with-response-stream", sent)


def header_members(headers: Mapping[str, str], profile: MessagesProfile) -> Mapping[str, object]:
    """Return the betas of the caller as Bedrock reads them: in the body."""
    named = headers.get("anthropic-beta", "")
    betas = [beta for one in named.split(",") if (beta := one.strip())]
    return {"anthropic_beta": betas} if betas and profile.platform == "bedrock" else {}


def counting(body: Mapping[str, object], profile: MessagesProfile) -> Outgoing | None:
    """Return what is sent to count the tokens of a body; None for Bedrock, which does not count them."""
    if profile.platform == "bedrock":
        return None
    if profile.platform == "vertex":
        path = "/publishers/anthropic/models/count-tokens:rawPredict"
        return Outgoing(path, {"anthropic_version": BODY_VERSIONS["vertex"], **body})
    return Outgoing("/messages/count_tokens", body)


def listed_models(value: object) -> Iterator[object]:
    """Yield the models of a list, with the seconds of `created_at`; compatible servers send `created`."""
    for model in read.mappings(value, "data") if read.is_mapping(value) else []:
        yield {"created": _seconds(model.get("created_at")), **model}


def _seconds(value: object) -> int:
    """Return the seconds since 1970 of an RFC 3339 time, 0 for anything else."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else datetime.fromtimestamp(0, UTC)
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        return 0
