"""How requests of Gemini are sent: headers, where the model is, and the list of models. A key is never in a URL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import quote

from projector.core import canonical as read
from projector.providers.descriptor import Outgoing, bearer
from projector.providers.gemini.gemini_profile import GeminiProfile

STREAM: Final[Mapping[str, str]] = {"alt": "sse"}
"""Query of a request for an event stream; without it the response is a JSON array."""
FOLDERS: Final[Mapping[str, str]] = {"google": "/models", "vertex": "/publishers/google/models"}
"""Platform -> path of its models."""


def headers(key: str | None, profile: GeminiProfile) -> dict[str, str]:
    """Return the headers of every request."""
    found = {"Api-Revision": profile.revision} if profile.api == "interactions" else {}
    is_bearer = profile.authentication == "bearer" or (
        profile.authentication == "auto" and profile.platform == "vertex"
    )
    if is_bearer:
        return found | bearer(key, profile)
    return found if key is None else {**found, "x-goog-api-key": key}


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
