"""Upstreams of Gemini: how they differ, and how requests are sent to them. A key is never in a URL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Final, Literal
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, StringConstraints

from projector.core import canonical as read
from projector.providers.descriptor import Outgoing, named_key

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


STREAM: Final[Mapping[str, str]] = {"alt": "sse"}
"""Query of a request for an event stream; without it the response is a JSON array."""
FOLDERS: Final[Mapping[str, str]] = {"google": "/models", "vertex": "/publishers/google/models"}
"""Platform -> path of its models."""


def headers(key: str | None, profile: GeminiProfile) -> dict[str, str]:
    """Return the headers of every request."""
    found = {"Api-Revision": profile.revision} if profile.api == "interactions" else {}
    is_bearer = profile.platform == "vertex"
    return found | named_key("x-goog-api-key", key, profile.authentication, is_bearer=is_bearer)


def outgoing(body: Mapping[str, object], profile: GeminiProfile) -> Outgoing:
    """Return what is sent for a body, whose model is in the path of the request."""
    if profile.api == "interactions":
        return Outgoing("/interactions", {**body, "stream": True})
    rest = {name: value for name, value in body.items() if name not in {"model", "stream"}}
    model = quote(str(body.get("model", "")).removeprefix("models/"), safe="/@")
    folder = "" if "/" in model else FOLDERS[profile.platform]
    return Outgoing(f"{folder}/{model.lstrip('/')}:streamGenerateContent", rest, STREAM)


def listed_models(value: object) -> Iterator[object]:
    """Yield the models of a list in the form of the OpenAI API."""
    for model in read.mappings(value, "models") if read.is_mapping(value) else []:
        name = read.text_or_none(model, "name") or ""
        yield {"id": name.removeprefix("models/"), "owned_by": "google"}
