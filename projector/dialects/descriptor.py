"""The descriptor of a dialect: everything that the pipeline, the server, the CLI and the docs need to know about it.

A descriptor's functions import what they return when they are called, so that writing a stream loads only the writer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from projector._registry import resolve

if TYPE_CHECKING:  # a descriptor is read by commands that must start without pydantic
    from pydantic import TypeAdapter

    from projector.contracts.stream_rules.table import Checker
    from projector.core.canonical import Frame, WireEvent
    from projector.core.delta_frames import DeltaFrames
    from projector.redaction.policy import Policy


AI_SDK_LEVELS: Final = (5, 6, 7)
"""Major versions of the AI SDK that can read `ai_sdk`."""


@dataclass(frozen=True, slots=True)
class DialectOptions:
    """Options of one stream. Each dialect reads those named after it.

    Args:
        thread_id: the caller's ID of the conversation (`ag_ui`).
        run_id: the caller's ID of the run (`ag_ui`, `openwop`).
        is_before_1_0: whether the client is older than AG-UI 1.0: it sends no protocol version (`ag_ui`).
        taken_ids: IDs of messages and calls that the client already has; they are not used again (`ag_ui`, `ai_sdk`).
        workflow_id: ID of the workflow, if the context has none (`openwop`).
        node_id: ID of the node, if the context has no step (`openwop`).
        type_id: type of the nodes (`openwop`).
        provider: name of the model provider (`openwop`).
        streams_reasoning: whether reasoning is written as deltas or once at its end (`openwop`).
        include_usage: whether the client requests usage (`chat_completions`).
        input_tokens: an estimate of the tokens of the request, until the provider reports them (`anthropic_messages`).
        request_id: ID of the request, for errors (`anthropic_messages`).
        is_run: whether the host may execute calls, as in a run; set by the pipeline (`chat_completions`).
        message_id: ID of the client's message that the stream continues (`ai_sdk`).
        level: major version of the AI SDK that reads the stream, one of `AI_SDK_LEVELS` (`ai_sdk`).
        extensions: whether the client accepts members that the API does not define (`chat_completions`, `responses`),
            or blocks of searches (`anthropic_messages`).
    """

    thread_id: str | None = None
    run_id: str | None = None
    is_before_1_0: bool = False
    taken_ids: frozenset[str] = frozenset()
    workflow_id: str | None = None
    node_id: str | None = None
    type_id: str | None = None
    provider: str | None = None
    streams_reasoning: bool = True
    include_usage: bool = True
    input_tokens: int = 0
    request_id: str = ""
    is_run: bool = False
    extensions: bool = False
    message_id: str | None = None
    level: int = 6


DEFAULT_OPTIONS: Final = DialectOptions()
"""The options of a stream whose request sets none."""


class RepeatWriter(NamedTuple):
    """Writes the events of runs of deltas, the same as if each of their frames were fed."""

    name: str | None
    """The name of each event."""
    write: Callable[[DeltaFrames], list[bytes]]
    """Returns the JSON of the event of each delta, in order."""


class DialectWriter(Protocol):
    """Encoder of the frames of one stream."""

    def feed(self, frame: Frame, /) -> list[WireEvent]:
        """Return the events of a frame, in order."""

    def repeat(self, frame: Frame, /) -> RepeatWriter | None:
        """Return a writer of the further deltas of a text; None if each of them must be fed as a frame.

        It is used until another frame is fed.

        Args:
            frame: the `message.delta` that was fed last; it has a text, and no notices.
        """


class FrameSender(DialectWriter, Protocol):
    """A writer that sends public frames as they are, so that their JSON need not be made again to keep them."""

    has_cut: bool
    """Whether a frame was truncated to be an event."""


class JsonAnswer(NamedTuple):
    """The JSON response to a request that does not stream."""

    status: int
    """HTTP status."""
    body: Mapping[str, Any]


class Assembly(Protocol):
    """Builder of the JSON answer of one stream."""

    @property
    def held_bytes(self) -> int:
        """Bytes kept for the answer so far."""

    def feed(self, event: bytes, /) -> None:
        """Add the data of an event. The end mark is not an event."""

    def close(self) -> JsonAnswer:
        """Return the answer, after the last event."""


@dataclass(frozen=True, kw_only=True)
class Assembler:
    """The JSON answer of a dialect, to a request that does not stream.

    Args:
        start: returns the assembly of one stream.
        body: name of the schema of the body.
        error: name of the schema of `error` in the body of a failed answer, among those of the dialect's events.
        error_statuses: HTTP statuses of failed answers.
        schema: file in `contracts/<dialect>/` that has the schema of the body; empty: it is among those of the events.
        has_should_retry: whether every failed answer has the header `x-should-retry`; otherwise it is sent only where a
            retry cannot help.
        refusal: returns status and body of an error response of the API, from the status, the error in the form of
            OpenAI, the ID of the request, and whether the provider reported the error; None: it has OpenAI's form.
    """

    start: Callable[[], Assembly]
    body: str
    error: str
    error_statuses: tuple[int, ...]
    schema: str = ""
    has_should_retry: bool = False
    refusal: Callable[[int, Mapping[str, Any], str, bool], tuple[int, Mapping[str, Any]]] | None = None


class Tables(NamedTuple):
    """What a dialect does with each frame kind (`Kind` and `PrivateKind`): every kind is in exactly one of the two."""

    handled: Mapping[str, object]
    """Kind -> its writer."""
    dropped: Mapping[str, str]
    """Kind -> why nothing is written."""


def tables_of(module: str) -> Callable[[], Tables]:
    """Return a function that returns `HANDLED` and `DROPPED` of a writer's module, which is imported then."""
    return lambda: Tables(resolve(f"{module}:HANDLED"), resolve(f"{module}:DROPPED"))


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """A wire format of streams.

    Args:
        writer: returns the writer of one stream.
        tables: returns the frame kinds that are written and those that are dropped.
        events: returns the models of all events, as one type; None: `contracts/<dialect>/` has their schema.
        checker: returns a checker of the rules over one whole stream; None: `projector validate` has no rules for it.
        headers: response headers of a stream, in addition to those of every event stream.
        end_mark: the last data of a stream, which is not an event.
        heartbeat: what is sent in a silence after the first event; empty: a comment, as it is before that.
        has_event_names: whether SSE messages have an `event` field: the type of the event.
        has_event_ids: whether SSE messages of a stream that is stored have an `id` field: the number of the event. Its
            clients send it as `Last-Event-ID` to the route of the stream. Not with an end mark, which has no number.
        carries: what has a member that its clients send back unchanged, so that it may have what the provider wants
            back, sealed by the server: `reasoning`, `tools` that the provider executed, `calls` of the client.
        names_requests: whether errors have the ID of the request, and answers the header `request-id` with it.
        assembler: answers requests that do not stream; None: every answer is a stream.
        files: returns further generated files of `contracts/<dialect>/`, beside the JSON schema.
    """

    writer: Callable[[Policy, DialectOptions], DialectWriter]
    tables: Callable[[], Tables]
    events: Callable[[], TypeAdapter[Any]] | None = None
    checker: Callable[[], Checker] | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()
    end_mark: bytes | None = None
    heartbeat: bytes = b""
    has_event_names: bool = False
    has_event_ids: bool = False
    carries: frozenset[str] = frozenset()
    names_requests: bool = False
    assembler: Assembler | None = None
    files: Callable[[], Mapping[str, bytes]] = dict
