"""Requests to the host: bodies, query parameters and headers. All functions raise `HostError` for an invalid one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from starlette.datastructures import Headers, QueryParams

from projector._validation import sentences
from projector.contracts.parts import Maybe
from projector.openwop.contract.payloads import Share
from projector.openwop.event_log import Verbosity
from projector.openwop.host.forks import ForkMode
from projector.openwop.host.host_errors import HostError
from projector.server.http.input_items import check_members

_ID_MAX_CHARS: Final = 256
_TAGS_MAX: Final = 100
_TAG_MAX_CHARS: Final = 256
_URL_MAX_CHARS: Final = 2_048
_SECRET_MIN_CHARS: Final = 16
_DIGITS_MAX: Final = 1_000
"""Digits of a number in a query: beyond any log, and longer ones are expensive to parse."""

MAX_BUFFER_MS: Final = 5_000
"""Limit of `bufferMs`; larger values are reduced to it."""
MAX_POLL_S: Final = 25.0
"""Limit of a poll: below the 30 s at which clients and proxies commonly time out."""

Mode: TypeAlias = Literal["values", "updates", "messages", "debug"]
MODES: Final[tuple[Mode, ...]] = ("updates", "messages", "debug", "values")
"""The first is the default."""
VALUES: Final[frozenset[Mode]] = frozenset({"values"})
"""The mode that cannot be combined with others."""

_SECONDS: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")

_Id: TypeAlias = Annotated[str, Field(min_length=1, max_length=_ID_MAX_CHARS)]
_Tag: TypeAlias = Annotated[str, Field(min_length=1, max_length=_TAG_MAX_CHARS)]


_Url: TypeAlias = Annotated[str, Field(min_length=1, max_length=_URL_MAX_CHARS)]
_EventName: TypeAlias = Annotated[str, Field(min_length=1, max_length=_TAG_MAX_CHARS)]


class _Body(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, strict=True, frozen=True, hide_input_in_errors=True)


class Configurable(_Body):
    """Options of a run; unknown members are ignored, as the protocol requires."""

    escalation_threshold: Maybe[Share] = None
    """Null is rejected, and so is NaN, which is not JSON and is read as null."""
    reasoning_verbosity: Maybe[Verbosity] = None
    temperature: float | None = None
    max_tokens: int | None = None
    model: str | None = None
    prompt_overrides: Annotated[dict[str, str], BeforeValidator(check_members)] | None = None
    mock_provider: dict[str, Any] | None = None


_DEFAULTS: Final = Configurable()


class RunRequest(_Body):
    """Body of `POST /v1/runs`. The run belongs to the caller; a tenant or scope in the body is ignored."""

    workflow_id: _Id
    inputs: dict[str, Any] = Field(default_factory=dict)
    configurable: Configurable = _DEFAULTS
    tags: list[_Tag] = Field(default_factory=list, max_length=_TAGS_MAX)
    metadata: dict[str, Any] = Field(default_factory=dict)
    callback_url: _Url | None = None


class Overlay(_Body):
    """Options of a branch that replace those of its source."""

    configurable: Configurable = _DEFAULTS
    tags: list[_Tag] = Field(default_factory=list, max_length=_TAGS_MAX)
    metadata: dict[str, Any] = Field(default_factory=dict)


_NO_OVERLAY: Final = Overlay()


class ForkRequest(_Body):
    """Body of `POST /v1/runs/{runId}:fork`."""

    from_seq: Annotated[int, Field(ge=0)]
    mode: ForkMode
    run_options_overlay: Overlay = _NO_OVERLAY


class WebhookRequest(_Body):
    """Body of `POST /v1/webhooks`: event types, or `*` for all. The tenant of a caller is its key."""

    url: _Url
    events: Annotated[list[_EventName], Field(min_length=1, max_length=_TAGS_MAX)]
    secret: Annotated[str, Field(min_length=_SECRET_MIN_CHARS, max_length=_ID_MAX_CHARS)] | None = None
    tags: list[_Tag] = Field(default_factory=list, max_length=_TAGS_MAX)


class InterruptAnswer(_Body):
    """Answer to an interrupt; if the node waits for several, to the oldest unless `interruptId` selects another."""

    resume_value: Any
    interrupt_id: _Id | None = None


_Model = TypeVar("_Model", bound=_Body)


def _parse(model: type[_Model], body: Mapping[str, Any]) -> _Model:
    try:
        return model.model_validate(body)
    except ValidationError as error:
        message = sentences(error, body, model)[0]
    raise HostError("validation_error", f"{message}.")


def run_request(body: Mapping[str, Any]) -> RunRequest:
    """Parse the body of `POST /v1/runs`."""
    request = _parse(RunRequest, body)
    if request.configurable.mock_provider is not None:
        raise HostError("mock_provider_forbidden")
    return request


def fork_request(body: Mapping[str, Any]) -> ForkRequest:
    """Parse the body of `POST /v1/runs/{runId}:fork`."""
    return _parse(ForkRequest, body)


def webhook_request(body: Mapping[str, Any]) -> WebhookRequest:
    """Parse the body of `POST /v1/webhooks`."""
    return _parse(WebhookRequest, body)


def interrupt_answer(body: Mapping[str, Any]) -> InterruptAnswer:
    """Parse the body that answers an interrupt."""
    return _parse(InterruptAnswer, body)


def modes(query: QueryParams) -> frozenset[Mode]:
    """Return the stream modes of `?streamMode=`, a comma-separated list."""
    names = query.get("streamMode", MODES[0]).split(",")
    known = [mode for mode in MODES if mode in names]
    if set(names) != set(known) or set(known) > VALUES:
        raise HostError("unsupported_stream_mode", details={"supported": list(MODES)})
    return frozenset(known)


def buffer_s(query: QueryParams) -> float:
    """Return the seconds that events are collected into a batch; 0 disables batches."""
    return min(_number(query.get("bufferMs", "0"), "bufferMs"), MAX_BUFFER_MS) / 1000


def last_event_id(headers: Headers) -> int:
    """Return the sequence number of the last event that the reader has, -1 for none."""
    return _number(headers.get("last-event-id", "-1"), "Last-Event-ID", least=-1)


def last_sequence(query: QueryParams) -> int:
    """Return the sequence number of the last event that the polling reader has, -1 for none."""
    return _number(query.get("lastSequence", query.get("since", "-1")), "lastSequence", least=-1)


def poll_s(query: QueryParams) -> float:
    """Return the seconds that a poll waits for new events."""
    text = query.get("timeout", "0")
    if _SECONDS.fullmatch(text) is None:
        raise HostError("validation_error", "`timeout` must be a number of seconds, 0 or more.")
    return min(float(text), MAX_POLL_S)


def idempotency_key(headers: Headers) -> str | None:
    """Return the `Idempotency-Key` of a request, None if it has none."""
    key = headers.get("idempotency-key")
    if key is not None and not 0 < len(key) <= _ID_MAX_CHARS:
        raise HostError("validation_error", f"`Idempotency-Key` must have 1 to {_ID_MAX_CHARS} characters.")
    return key


def wants_json(headers: Headers) -> bool:
    """Return whether the reader accepts one JSON document instead of an event stream."""
    accept = headers.get("accept", "").lower()
    return "application/json" in accept and "text/event-stream" not in accept


def _number(text: str, name: str, least: int = 0) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX) or int(text) < least:
        raise HostError("validation_error", f"`{name}` must be a whole number, {least} or more.")
    return int(text)
