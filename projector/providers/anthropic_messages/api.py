"""Upstreams of the Messages API: how they differ, how requests are sent to them, and Bedrock's binary event stream.

A frame of Bedrock has 4 bytes of its length, 4 of the length of its headers, a CRC32 of both, headers, a payload, and a
CRC32 of everything before it. The payload is JSON with an event in base64.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote
from zlib import crc32

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from projector.contracts import codec
from projector.contracts.limits import EVENT_MAX_BYTES
from projector.conversation.model_request import UnsupportedRequestError
from projector.core import canonical as read
from projector.core.sse import encode_sse
from projector.providers.descriptor import MODEL_PAGE_MAX, FramingError, Outgoing, named_key

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

    max_tokens: int = Field(default=8192, gt=0)
    """`max_tokens` of requests that set none; the API requires it."""

    thinking: Literal["auto", "summary", "text"] = "auto"
    """What thinking is: a summary, which may be shown, or the full text, which may not. `auto`: a summary of `claude-`
    models from 4 on."""

    takes_sampling: bool = True
    """Whether the models take `temperature` and `top_p`; if not, they are left out of requests in neutral terms."""

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
    return found | named_key("x-api-key", key, profile.authentication, is_bearer=profile.platform != "direct")


def outgoing(body: Mapping[str, object], profile: MessagesProfile) -> Outgoing:
    """Return what is sent for a body."""
    if profile.platform == "direct":
        return Outgoing("/messages", {**body, "stream": True})
    rest = {name: value for name, value in body.items() if name not in {"model", "stream", "anthropic_beta"}}
    model = quote(str(body.get("model", "")), safe="@")
    if profile.platform == "vertex":
        path = f"/publishers/anthropic/models/{model}:streamRawPredict"
        return Outgoing(path, {"anthropic_version": BODY_VERSIONS["vertex"], **rest, "stream": True})
    betas = {"anthropic_beta": list(profile.betas)} if profile.betas else {}
    sent = {"anthropic_version": BODY_VERSIONS["bedrock"], **betas, **rest}
    return Outgoing(f"/{model}/invoke-with-response-stream", sent)


def caller_profile(headers: Mapping[str, str], profile: MessagesProfile) -> MessagesProfile:
    """Return the profile with the betas of the caller, if there are any."""
    betas = tuple(beta for one in headers.get("anthropic-beta", "").split(",") if (beta := one.strip()))
    return profile.model_copy(update={"betas": betas}) if betas else profile


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


PAGE: Final = 20
"""Models of a page by default."""
_LAST_SECOND: Final = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp())


def model_entry(model: Any) -> dict[str, object]:
    """Return a model as clients of this API read it."""
    created = datetime.fromtimestamp(min(model.created, _LAST_SECOND), UTC)
    return {
        "type": "model",
        "id": model.id,
        "display_name": model.title or model.id,
        "created_at": created.isoformat().replace("+00:00", "Z"),  # 1970 is the API's own value for an unknown date
        "lifecycle": "active",
    }


def model_page(models: Sequence[Any], query: Mapping[str, str]) -> dict[str, object]:
    """Return a page of models; raise `UnsupportedRequestError` if its parameters are invalid."""
    limit = query.get("limit", str(PAGE))
    if not re.fullmatch("[0-9]{1,4}", limit, re.ASCII) or not 1 <= int(limit) <= MODEL_PAGE_MAX:
        raise UnsupportedRequestError(f"`limit` must be a number from 1 to {MODEL_PAGE_MAX}.", "limit")
    places = {model.id: place for place, model in enumerate(models)}
    for name in ("after_id", "before_id"):
        if name in query and query[name] not in places:
            raise UnsupportedRequestError(f"`{name}` must be the `id` of a model of the list.", name)
    size, is_backwards = int(limit), "before_id" in query
    found = models[: places[query["before_id"]]] if is_backwards else models
    found = found[places[query["after_id"]] + 1 :] if "after_id" in query else found
    page = found[-size:] if is_backwards else found[:size]
    return {
        "data": [model_entry(model) for model in page],
        "has_more": len(found) > size,
        "first_id": page[0].id if page else None,
        "last_id": page[-1].id if page else None,
    }


# the event stream of Bedrock


PRELUDE_BYTES: Final = 12
CRC_BYTES: Final = 4
FRAME_MAX_BYTES: Final = 2 * EVENT_MAX_BYTES
"""Size of a frame: its event is in base64, and padded."""

_SIZES: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Type of a header's value -> its size; texts and bytes have a length of their own."""
_SIZED: Final = frozenset({6, 7})
_ERRORS: Final = {
    "throttlingException": "rate_limit_error",
    "serviceUnavailableException": "overloaded_error",
    "modelTimeoutException": "timeout_error",
    "validationException": "invalid_request_error",
}
"""Exception of Bedrock -> type of the error; all others are `api_error`."""


class AwsFrames:
    """Reads frames, wherever their bytes are cut."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes, /) -> bytes:
        """Return the events of the frames that some bytes complete; raise `FramingError` if they are damaged."""
        rest, at = self._rest, 0
        rest += data
        events: list[bytes] = []
        while len(rest) - at >= PRELUDE_BYTES:
            size, head_size = (int.from_bytes(rest[at + begin : at + begin + 4], "big") for begin in (0, 4))
            if not _has_crc(rest, at, PRELUDE_BYTES):
                raise FramingError("the checksum of a prelude does not match")
            if not PRELUDE_BYTES + head_size + CRC_BYTES <= size <= FRAME_MAX_BYTES:
                raise FramingError("the length of a frame is not possible")
            if len(rest) - at < size:
                break
            if not _has_crc(rest, at, size):
                raise FramingError("the checksum of a frame does not match")
            begin = at + PRELUDE_BYTES
            headers = _frame_headers(bytes(rest[begin : begin + head_size]))
            events.append(_event(headers, bytes(rest[begin + head_size : at + size - CRC_BYTES])))
            at += size
        del rest[:at]
        return b"".join(events)


def _has_crc(data: bytearray, at: int, size: int) -> bool:
    """Check that the last 4 bytes are the CRC32 of those before them."""
    end = at + size - CRC_BYTES
    return crc32(data[at:end]) == int.from_bytes(data[end : end + CRC_BYTES], "big")


def _frame_headers(data: bytes) -> dict[str, str]:
    """Return the headers with a text."""
    found: dict[str, str] = {}
    at = 0
    while at < len(data):
        name_end = at + 1 + data[at]
        kind = data[name_end] if name_end < len(data) else -1
        begin = name_end + 1
        if kind in _SIZED:
            size = int.from_bytes(data[begin : begin + 2], "big")
            begin += 2
        elif kind in _SIZES:
            size = _SIZES[kind]
        else:
            raise FramingError("a header has an unknown type")
        if begin + size > len(data):
            raise FramingError("a header is longer than its frame says")
        found[data[at + 1 : name_end].decode("utf-8", "replace")] = data[begin : begin + size].decode(
            "utf-8", "replace"
        )
        at = begin + size
    return found


def _event(headers: dict[str, str], payload: bytes) -> bytes:
    """Return the event of a frame; empty if it has none."""
    try:
        value = codec.loads(payload) if payload else {}
    except codec.CodecError:
        raise FramingError("the payload of a frame is not JSON") from None
    members = value if isinstance(value, dict) else {}
    if headers.get(":message-type") in {"exception", "error"}:
        name = headers.get(":exception-type") or headers.get(":error-code") or ""
        message = members.get("message") or headers.get(":error-message") or name
        error = {"type": _ERRORS.get(name, "api_error"), "message": message}
        return encode_sse(codec.dumps({"type": "error", "error": error}), "error")
    if not isinstance(members.get("bytes"), str):
        return b""
    try:
        return encode_sse(base64.b64decode(members["bytes"], validate=True))
    except binascii.Error:
        raise FramingError("the event of a frame is not base64") from None
