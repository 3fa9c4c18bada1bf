"""What requests to the host may say: their bodies, their query, their headers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from starlette.datastructures import Headers, QueryParams

from projector._validation import sentences
from projector.openwop.contract.payloads import Share
from projector.openwop.event_log import Verbosity
from projector.openwop.host.refusals import Refusal

_ID_MAX_CHARS: Final = 256
_TAGS_MAX: Final = 100
_TAG_MAX_CHARS: Final = 256

MAX_BUFFER_MS: Final = 5_000
"""How long events may be held for a batch; more is taken as this much."""
MAX_POLL_S: Final = 25.0
"""How long a poll may wait: below the thirty seconds that clients and proxies commonly wait."""

Mode: TypeAlias = Literal["updates", "messages", "debug"]
MODES: Final[tuple[Mode, ...]] = ("updates", "messages", "debug")

_Id: TypeAlias = Annotated[str, Field(min_length=1, max_length=_ID_MAX_CHARS)]
_Tag: TypeAlias = Annotated[str, Field(min_length=1, max_length=_TAG_MAX_CHARS)]


class _Asked(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, strict=True, frozen=True, hide_input_in_errors=True)


class Configurable(_Asked):
    """What a run may set for itself; further members are passed over, as the protocol wants it."""

    escalation_threshold: Share | None = None
    reasoning_verbosity: Verbosity | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    model: str | None = None
    prompt_overrides: dict[str, str] | None = None
    mock_provider: dict[str, Any] | None = None


_DEFAULTS: Final = Configurable()


class RunRequest(_Asked):
    """The body of `POST /v1/runs`. A run belongs to its caller, whatever tenant or scope the body names."""

    workflow_id: _Id
    inputs: dict[str, Any] = Field(default_factory=dict)
    configurable: Configurable = _DEFAULTS
    tags: list[_Tag] = Field(default_factory=list, max_length=_TAGS_MAX)
    metadata: dict[str, Any] = Field(default_factory=dict)
    callback_url: str | None = None


class Answer(_Asked):
    """The body that answers an interrupt; `interruptId` says which one, where a node waits for several."""

    resume_value: Any
    interrupt_id: _Id | None = None


def run_request(body: Mapping[str, Any]) -> RunRequest:
    """Read the body of `POST /v1/runs`.

    Raises:
        Refusal: it says what this host does not take.
    """
    asked = _read(RunRequest, body)
    if asked.callback_url is not None:
        raise Refusal("capability_not_provided", "`callbackUrl`: this host calls nobody.")
    if asked.configurable.mock_provider is not None:
        raise Refusal("mock_provider_forbidden")
    return asked


def answer(body: Mapping[str, Any]) -> Answer:
    """Read the body that answers an interrupt.

    Raises:
        Refusal: it holds no answer.
    """
    return _read(Answer, body)


def accepts(value: object) -> bool:
    """Tell whether a person accepts what a run waits for: `{"action": "accept"}`, or `reject`.

    Raises:
        Refusal: it is neither.
    """
    action = value.get("action") if isinstance(value, Mapping) else None
    if not isinstance(action, str) or action not in {"accept", "reject"}:
        raise Refusal("validation_error", "`resumeValue.action` must be `accept` or `reject`.")
    return action == "accept"


def modes(query: QueryParams) -> frozenset[Mode]:
    """Give which events a stream shows: `?streamMode=`, a list with commas.

    Raises:
        Refusal: one that this host does not have.
    """
    asked = query.get("streamMode", MODES[0]).split(",")
    known = [mode for mode in MODES if mode in asked]
    if set(asked) != set(known):
        raise Refusal("unsupported_stream_mode", details={"supported": list(MODES)})
    return frozenset(known)


def buffer_s(query: QueryParams) -> float:
    """Give how long events are held for a batch, in seconds; 0 is not at all.

    Raises:
        Refusal: `bufferMs` is no whole number.
    """
    return min(_number(query.get("bufferMs", "0"), "bufferMs"), MAX_BUFFER_MS) / 1000


def last_event_id(headers: Headers) -> int:
    """Give the number of the last event that a reader has; -1 where it has none.

    Raises:
        Refusal: `Last-Event-ID` is none of ours.
    """
    return _number(headers.get("last-event-id", "-1"), "Last-Event-ID", least=-1)


def last_sequence(query: QueryParams) -> int:
    """Give the number of the last event that who polls has; -1 where it has none.

    Raises:
        Refusal: `lastSequence`, or `since` as it was called, is no whole number.
    """
    return _number(query.get("lastSequence", query.get("since", "-1")), "lastSequence", least=-1)


def poll_s(query: QueryParams) -> float:
    """Give how long a poll may wait for something new.

    Raises:
        Refusal: `timeout` is no whole number of seconds.
    """
    return min(_number(query.get("timeout", "0"), "timeout"), MAX_POLL_S)


def idempotency_key(headers: Headers) -> str | None:
    """Give the name that a caller gave its request, so that asking again begins nothing twice; None where it gave none.

    Raises:
        Refusal: `Idempotency-Key` is empty or too long.
    """
    key = headers.get("idempotency-key")
    if key is not None and not 0 < len(key) <= _ID_MAX_CHARS:
        raise Refusal("validation_error", f"`Idempotency-Key` must have 1 to {_ID_MAX_CHARS} characters.")
    return key


def wants_json(headers: Headers) -> bool:
    """Tell whether a reader of a run's events wants all of them as one document instead of a stream."""
    accept = headers.get("accept", "").lower()
    return "application/json" in accept and "text/event-stream" not in accept


_DIGITS_MAX: Final = 1_000
"""Of a number in a query: far beyond what a log can hold, and reading a longer one costs."""


def _number(text: str, name: str, least: int = 0) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX) or int(text) < least:
        raise Refusal("validation_error", f"`{name}` must be a whole number, {least} or more.")
    return int(text)


_Model = TypeVar("_Model", bound=_Asked)


def _read(model: type[_Model], body: Mapping[str, Any]) -> _Model:
    try:
        return model.model_validate(body)
    except ValidationError as error:
        message = sentences(error, body, model)[0]
    raise Refusal("validation_error", f"{message}.")
