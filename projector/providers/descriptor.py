"""The descriptor of a provider: everything that the pipeline, the server, the CLI and the docs need to know about it.

Rows are `lazy`: a module is imported when its function is called, so that reading a stream loads only its stage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from projector._registry import lazy

if TYPE_CHECKING:  # a descriptor is read by commands that must start without pydantic
    from projector.conversation.model_request import ModelRequest
    from projector.core.canonical import CanonicalEvent
    from projector.core.faults import Fault
    from projector.core.message_shape import Slots
    from projector.core.sse import SseMessage
    from projector.providers.recording_shape import RecordingShape


class ProviderStage(Protocol):
    """Translates the messages of one response into canonical events."""

    dropped: Counter[str]
    """Input that was not translated, by name or reason."""

    def feed(self, message: SseMessage, /) -> list[CanonicalEvent | Fault]:
        """Return the events of a message. A fault is the last item that the stage returns."""

    def close(self) -> list[CanonicalEvent | Fault]:
        """Return the events that the end of input causes."""

    def slots(self, message: Mapping[str, Any], name: str, /) -> Slots | None:
        """Return what may differ in further messages with a delta of the text that the last message continued.

        None if it was no such message, or these may mean more than their text.

        Args:
            message: the JSON of the last message.
            name: its event name.
        """

    def skip(self, texts: Sequence[str], numbers: Sequence[int], /) -> Sequence[int]:
        """Record deltas that were read without this stage; return their sequence numbers if the API has none.

        Args:
            texts: the deltas.
            numbers: their sequence numbers, which rise; empty if the API has none.
        """


def _copy(body: Mapping[str, Any], _profile: Any) -> dict[str, Any]:
    return dict(body)


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
    body_writer: Callable[[Mapping[str, Any], Any], dict[str, Any]] = _copy
    """Returns the body to forward, from the caller's body and a profile."""
    request_reader: Callable[[Mapping[str, Any]], ModelRequest] | None = None
    """Returns the request in neutral terms, for an upstream with another API; None: the route only forwards."""


@dataclass(frozen=True, kw_only=True)
class InputTables:
    """Which parts of a provider's messages are read, for `projector explain` and docs/mapping.md."""

    read: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Kind of object -> member that is read -> what it becomes."""
    dropped: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Kind of object -> member that is not read -> why."""
    finish_reasons: Mapping[str, str] = field(default_factory=dict)
    """The provider's reason for the end of a response -> status of the response."""


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
        request_path: path of a request below the upstream's base URL.
        models_path: path of the list of models below the base URL, if there is one.
        passthrough: the route of the provider's own API, if the server offers it.
        profile: `"module:Class"` of the pydantic model of what differs between upstreams; None: they are all alike.
        message_fields: SSE fields outside the standard that carry a message (`projector.core.sse`, 5).
        recording: returns how a stream becomes the lines of a recording.
        tables: returns which members of its messages are read.
    """

    title: str
    stage: Callable[[Any], ProviderStage]
    request_writer: Callable[[ModelRequest, Any], dict[str, Any]]
    telemetry_name: str
    upstream: str
    request_path: str = ""
    models_path: str | None = None
    passthrough: PassthroughRoute | None = None
    profile: str | None = None
    message_fields: tuple[str, ...] = ()
    recording: Callable[[], RecordingShape] = _GENERIC_RECORDING
    tables: Callable[[], InputTables] = InputTables
