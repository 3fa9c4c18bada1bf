"""Upstreams of Gemini: how they differ, and how requests are sent to them. A key is never in a URL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Final, Literal
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, StringConstraints

from projector.core import canonical as read
from projector.core.sse import DONE
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

_DOTS: Final = frozenset({".", ".."})
"""Parts of a path that stand for another one."""


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
    named = str(body.get("model", "")).removeprefix("models/")
    is_path = _DOTS.isdisjoint(named.split("/"))  # else a caller would choose another path of the host
    model = quote(named, safe="/@" if is_path else "@")
    folder = "" if "/" in model else FOLDERS[profile.platform]
    return Outgoing(f"{folder}/{model.lstrip('/')}:streamGenerateContent", rest, STREAM)


OVER: Final = frozenset({"interaction.completed", "interaction.complete", "error"})
"""Types of events that end an interaction."""
HELD_MAX_BYTES: Final = 2**20
"""Size of a message that is held until it is whole; an interaction with a larger one is not followed any further."""
_BLANK_LINES: Final = (b"\n\n", b"\r\n\r\n", b"\r\r")


class InteractionCursor:
    """Follows the bytes of an interaction, which can be continued after the last event, if that has an ID."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._interaction_id = self._event_id = ""
        self._is_over = False

    def feed(self, data: bytes) -> bytes:
        """Return the messages that some bytes complete; the beginning of another is held."""
        start = max(len(self._held) - 3, 0)
        self._held += data
        ends = [at + len(blank) for blank in _BLANK_LINES if (at := self._held.rfind(blank, start)) >= 0]
        whole = bytes(self._held[: max(ends, default=0)])
        del self._held[: len(whole)]
        self._note([line[5:].strip() for line in whole.splitlines() if line.startswith(b"data:")])
        if len(self._held) <= HELD_MAX_BYTES:
            return whole
        self._is_over = True
        return whole + self.rest()

    def rest(self) -> bytes:
        """Return what is held, because nothing follows."""
        rest = bytes(self._held)
        self._held.clear()
        return rest

    def outgoing(self) -> Outgoing | None:
        """Return the request that continues the interaction, and drop what is held; None if there is none."""
        if self._is_over or not self._interaction_id or not self._event_id:
            return None
        self._held.clear()
        path = f"/interactions/{quote(self._interaction_id, safe='')}"
        return Outgoing(path, {}, {"stream": "true", "last_event_id": self._event_id})

    def _note(self, messages: list[bytes]) -> None:
        for data in messages if not self._interaction_id else messages[-1:]:
            event = read.object_in(data) or {}
            given = read.mapping_or_empty(event, "interaction")
            known = read.text_or_none(given, "id") or read.text_or_none(event, "interaction_id")
            self._interaction_id = self._interaction_id or known or ""
            self._event_id = read.text_or_none(event, "event_id") or ""
            self._is_over = self._is_over or data == DONE or read.text_or_none(event, "event_type") in OVER


def cursor(profile: GeminiProfile) -> InteractionCursor | None:
    """Return what follows a response that can be continued."""
    return InteractionCursor() if profile.api == "interactions" else None


def listed_models(value: object) -> Iterator[object]:
    """Yield the models of a list in the form of the OpenAI API."""
    for model in read.mappings(value, "models") if read.is_mapping(value) else []:
        name = read.text_or_none(model, "name") or ""
        yield {"id": name.removeprefix("models/"), "owned_by": "google"}
