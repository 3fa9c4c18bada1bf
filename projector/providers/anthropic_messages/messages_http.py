"""How requests of the Messages API are sent: headers, and where the model is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from projector.providers.anthropic_messages.messages_profile import MessagesProfile
from projector.providers.descriptor import Outgoing, bearer

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
