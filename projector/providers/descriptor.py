"""The descriptor of a provider: everything that the pipeline, the server, the CLI and the docs need to know about it.

Rows are `lazy`: a module is imported when its function is called, so that reading a stream loads only its stage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol

from projector._registry import lazy

if TYPE_CHECKING:  # a descriptor is read by commands that must start without pydantic
    from projector.conversation.model_request import ModelRequest
    from projector.conversation.opaque import Carried, KeptCalls
    from projector.core.canonical import CanonicalEvent
    from projector.core.faults import Fault
    from projector.core.sse import SseMessage
    from projector.providers.error_shapes import ReportedError
    from projector.providers.recording_shape import RecordingShape


class ProviderStage(Protocol):
    """Translates the messages of one response into canonical events.

    Nothing else is needed. A stage that may be passed over for deltas is a `projector.core.lane.ShapedStage`,
    too; one that knows usage before the end of the response has `usage_so_far` (`JsonStage`).
    """

    dropped: Counter[str]
    """Input that was not translated, by name or reason."""

    def feed(self, message: SseMessage, /) -> list[CanonicalEvent | Fault]:
        """Return the events of a message. A fault is the last item that the stage returns."""

    def close(self) -> list[CanonicalEvent | Fault]:
        """Return the events that the end of input causes."""


class BodyReader(Protocol):
    """Turns the bytes of a response that is no event stream into one."""

    def feed(self, data: bytes, /) -> bytes:
        """Return the bytes of the event stream that some bytes complete; raise `FramingError` if they are damaged."""


class ResponseCursor(Protocol):
    """Follows the bytes of a response that can be continued after its connection broke."""

    def feed(self, data: bytes, /) -> bytes:
        """Return the messages that some bytes complete; the beginning of another is held."""

    def rest(self) -> bytes:
        """Return what is held, because nothing follows."""

    def outgoing(self) -> Outgoing | None:
        """Return the GET request that continues the response, and drop what is held; None if there is none."""


class FramingError(ValueError):
    """A response is not in the format that its content type names."""


def bearer(key: str | None, _profile: Any) -> dict[str, str]:
    """Return the headers of a key as a bearer token, which most APIs expect."""
    return {} if key is None else {"Authorization": f"Bearer {key}"}


def named_key(name: str, key: str | None, authentication: str, *, is_bearer: bool) -> dict[str, str]:
    """Return the headers of a key: a header of the API, or a bearer token.

    Args:
        name: the header of the API.
        key: the key of the upstream, if it has one.
        authentication: the name of the header, `bearer`, or `auto`.
        is_bearer: what `auto` is.
    """
    if authentication == "bearer" or (authentication == "auto" and is_bearer):
        return bearer(key, None)
    return {} if key is None else {name: key}


class Outgoing(NamedTuple):
    """What is sent for a request."""

    path: str
    """Path below the base URL of the upstream. The key of the upstream is never part of it."""
    body: Mapping[str, object]
    query: Mapping[str, str] = {}


class ModelLists(NamedTuple):
    """The lists of models of an API."""

    path: str
    """Path below the base URL of the upstream."""
    query: Mapping[str, str] = {}
    entries: Callable[[object], Iterable[object]] | None = None
    """Returns the models of a list as objects with `id`, `created` and `owned_by`, from its JSON; None: they have this
    form. The objects are checked later."""


MODEL_PAGE_MAX: Final = 1000
"""Models of a page of a list, at most."""


class ClientApi(NamedTuple):
    """What clients of an API expect on paths of the server that other APIs have, too, where it is not as OpenAI's."""

    version_header: str
    """Header of all their requests, by which they are known."""
    key_header: str
    """Header with their key, if they send no `Authorization`."""
    model: Callable[[Any], Mapping[str, object]]
    """Returns an entry of the list of models, from the ID, `created` and `title` of one."""
    model_page: Callable[[Sequence[Any], Mapping[str, str]], Mapping[str, object]]
    """Returns a page of the list, from all models and a query; raises `UnsupportedRequestError` if that is invalid."""


class PassthroughRoute(NamedTuple):
    """The route that passes a caller's whole body to an upstream of this provider."""

    setting: str
    """Field of the server's `passthrough` settings."""
    path: str
    required: str
    """Required member of the body, in addition to `model`."""
    summary: str
    """Summary of the route in the OpenAPI document."""
    dialect: str
    """Default dialect: the response format of the API itself (CONTRACT D38)."""
    body_writer: Callable[[Mapping[str, Any], Any, KeptCalls], dict[str, Any]] = lambda body, _profile, _kept: {**body}
    """Returns the body to forward, from the caller's body, a profile, and what the provider wants back."""
    request_reader: Callable[[Mapping[str, Any]], ModelRequest] | None = None
    """Returns the request in neutral terms, for an upstream with another API; None: the route only forwards."""
    carried: Callable[[Mapping[str, Any]], Iterable[Carried]] = lambda _body: ()
    """Returns the sealed values in a caller's body; by default the API has no member for them."""
    call_restorer: Callable[[Mapping[str, Any]], Callable[[ProviderStage], ProviderStage] | None] | None = None
    """Returns what makes a stage of another API write the calls of this one, for the tools in a caller's body; None:
    all APIs have the same calls."""
    headers: tuple[str, ...] = ()
    """Headers of the caller, in lower case, that go on unchanged to an upstream of this provider."""
    client: ClientApi | None = None
    """What its clients expect; None: the same as those of OpenAI."""


class TokenCounting(NamedTuple):
    """The route that counts the tokens of a body of the passthrough route, before it is sent."""

    path: str
    summary: str
    """Summary of the route in the OpenAPI document."""
    outgoing: Callable[[Mapping[str, object], Any], Outgoing | None]
    """Returns what is sent to have the provider count, from a body and a profile; None: this upstream does not count.
    The answer is a JSON object with `input_tokens`."""


@dataclass(frozen=True, kw_only=True)
class InputTables:
    """Which parts of a provider's messages are read, for `projector explain` and docs/mapping.md."""

    read: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Kind of object -> member that is read -> what it becomes."""
    dropped: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Kind of object -> member that is not read -> why."""
    finish_reasons: Mapping[str, str] = field(default_factory=dict)
    """The provider's reason for the end of a response -> status of the response."""


_SHARED_ERRORS: Final = lazy("projector.providers.error_shapes:members_of")
_GENERIC_RECORDING: Final = lazy("projector.providers.recording_shape:RecordingShape")


@dataclass(frozen=True, kw_only=True)
class Provider:
    """A provider API.

    Args:
        title: name for people.
        stage: returns the stage of one response, from a profile (None without `profile`).
        request_writer: returns the JSON body of a request, from a profile; raises `UnsupportedRequestError`.
        telemetry_name: value of `gen_ai.provider.name` in traces and metrics.
        upstream: `"module:Class"` of the upstream (`projector.server.upstream.protocol.Upstream`), which is created
            from its settings and timeouts; only the server imports it.
        base_url: base URL of the provider's own servers.
        headers: returns the headers of every request, from the key of the upstream, if it has one, and a profile.
        request_path: path of a request below the base URL.
        content: members of a request of which one has the conversation.
        outgoing: returns what is sent for a body, from a profile; None: the body, with `stream`, to `request_path`.
        cursor: returns what follows a response, from a profile, so that it can be continued; None if it cannot be.
        caller_profile: returns the profile of a request with headers of the caller, from these and that of the
            upstream; None: they change nothing.
        body_readers: media type of a response that is no event stream -> returns what reads one.
        models: the lists of models, if there are any.
        errors: returns the members of an error response, from its JSON, which is an object or a list.
        passthrough: the route of the provider's own API, if the server offers it.
        counting: the route beside it that counts tokens, if the API has one.
        wants_state: for which calls the provider may refuse a request without what it sent with them: those of the
            `turn` that waits for their outputs, or `always`.
        compact_path: path of a request that compacts a conversation, below the base URL; None: the API has none.
        profile: `"module:Class"` of the pydantic model of what differs between upstreams; None: they are all alike.
        message_fields: SSE fields outside the standard that carry a message (`projector.core.sse`, 5).
        has_bare_json: whether JSON may be outside the fields of the event stream: a JSON array in its place, or errors
            (`projector.core.input_formats.BareJsonDecoder`).
        recording: returns how a stream becomes the lines of a recording.
        tables: returns which members of its messages are read.
        demo: topic of a message -> the example in `examples_ndjson` that the demo upstream plays.
    """

    title: str
    stage: Callable[[Any], ProviderStage]
    request_writer: Callable[[ModelRequest, Any], dict[str, Any]]
    telemetry_name: str
    upstream: str = "projector.server.upstream.http_upstream:HTTPUpstream"
    base_url: str | None = None
    headers: Callable[[str | None, Any], Mapping[str, str]] = bearer
    request_path: str = ""
    content: tuple[str, ...] = ()
    outgoing: Callable[[Mapping[str, object], Any], Outgoing] | None = None
    cursor: Callable[[Any], ResponseCursor | None] | None = None
    caller_profile: Callable[[Mapping[str, str], Any], Any] | None = None
    body_readers: Mapping[str, Callable[[], BodyReader]] = field(default_factory=dict)
    models: ModelLists | None = None
    errors: Callable[[object], ReportedError] = _SHARED_ERRORS
    passthrough: PassthroughRoute | None = None
    counting: TokenCounting | None = None
    wants_state: Literal["turn", "always"] = "turn"
    compact_path: str | None = None
    profile: str | None = None
    message_fields: tuple[str, ...] = ()
    has_bare_json: bool = False
    recording: Callable[[], RecordingShape] = _GENERIC_RECORDING
    tables: Callable[[], InputTables] = InputTables
    demo: Mapping[str, str] = field(default_factory=dict)

    def request(self, body: Mapping[str, object], profile: Any, headers: Mapping[str, str] | None = None) -> Outgoing:
        """Return what is sent for the body of a request with headers of the caller."""
        if self.caller_profile is not None:
            profile = self.caller_profile(headers or {}, profile)
        if self.outgoing is not None:
            return self.outgoing(body, profile)
        return Outgoing(self.request_path, {**body, "stream": True})
