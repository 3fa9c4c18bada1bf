"""Facts about one stream, for logs, metrics, traces and the host's hook. They hold no payload but the final text.

The pipeline writes bytes, which nothing parses again: `StreamStats.on_frame` receives each frame before it is encoded,
and `on_deltas` each run of deltas. Label values are words of this server and of its configuration, never those of a
caller or a provider.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from projector.contracts import codec
from projector.contracts.kinds import Kind, PrivateKind
from projector.core import sse
from projector.core.canonical import Frame
from projector.core.delta_frames import DeltaFrames
from projector.core.faults import FAULTS
from projector.core.handlers import DROPPED, HANDLERS, unexpected_drops
from projector.redaction.redactor import Redactor
from projector.server.control.token_meter import TokenMeter, reported_tokens
from projector.server.http.problems import PROBLEMS
from projector.server.telemetry.request_facts import CALLER_MAX_CHARS
from projector.store.protocol import new_stream_id

OTHER: Final = "other"
"""Label of a value that is not in a table, which would make the number of labels unbounded."""
PROVIDER_CODE: Final = "provider_error"
"""Label of a code that a provider chose."""
MALFORMED_HTTP: Final = "malformed_http"
"""Code of bytes that are no request; the connection is closed."""

IN_STREAM: Final = "in_stream"
"""Reason of a failure after the headers of the response."""
REASONS: Final = frozenset({
    "dns", "certificate", "tls", "proxy", "unreachable", "refused", "not_http", "closed", "reset", "timeout", IN_STREAM,
    "circuit_open",
})  # fmt: skip
"""Reasons why a request to an upstream failed."""

_OPENWOP_CODES: Final = frozenset({
    "validation_error", "unsupported_stream_mode", "capability_not_provided", "forbidden", "mock_provider_forbidden",
    "workflow_not_found", "interrupt_not_found", "interrupt_already_resolved", "idempotency_key_mismatch",
    "run_already_terminal", "interrupt_cancelled", "rate_limited", "subscription_not_found", "run_not_terminal",
})  # fmt: skip
"""Codes of an OpenWOP host, which this module must not import."""
_EVENTS: Final = frozenset({*DROPPED, *HANDLERS, *sse.REASONS})
_OURS: Final = _EVENTS | sse.NO_EVENTS.keys()
_NAMES_MAX: Final = 16
_STATUSES: Final = frozenset(status.value for status in HTTPStatus)
_CODES: Final = frozenset(
    {*PROBLEMS, *FAULTS, *_OPENWOP_CODES, MALFORMED_HTTP, "run_max_turns", "run_guardrail", "run_model_behavior"}
    | {f"upstream_http_{status}" for status in _STATUSES}
)

_CACHED: Final = 256
"""Labels that are remembered; a provider may send any number of codes."""


@lru_cache(_CACHED)
def code_label(code: str) -> str:
    """Return the label of an error code."""
    return code if code in _CODES else PROVIDER_CODE


def event_label(name: str) -> str:
    """Return the label of the type of an event, or of the reason why it was dropped."""
    return name if name in _EVENTS else OTHER


def reason_label(code: str, reason: str | None) -> str:
    """Return the label of a reason; a failure without one is an error response or a time-out, as its code says."""
    if reason is None:
        return "timeout" if code.startswith("upstream_timeout_") else "none"
    return reason if reason in REASONS else OTHER


@lru_cache(_CACHED)
def status_label(status: int | None) -> str:
    """Return the label of an HTTP status; a request that got no response has the label `none`."""
    if status is None:
        return "none"
    return str(int(status)) if status in _STATUSES else OTHER


_TERMINALS: Final = frozenset({Kind.FINAL, Kind.ERROR})
_PRIVATE: Final = frozenset({PrivateKind.RESPONSE_META, PrivateKind.RESPONSE_USAGE})
_NOTED: Final = _TERMINALS | _PRIVATE | {Kind.OUTPUT_ITEM_ADDED, Kind.TOOL_STATUS, Kind.MESSAGE_CITATION}
"""Kinds of frames from which more is reported than from all."""
_DELTAS: Final = frozenset({
    Kind.MESSAGE_DELTA, Kind.REFUSAL_DELTA, Kind.REASONING_SUMMARY_DELTA, PrivateKind.REASONING_DELTA,
    Kind.TOOL_ARGUMENTS_DELTA, Kind.TOOL_CODE_DELTA,
})  # fmt: skip
"""Kinds of frames that are part of an answer as it grows."""
_AWAITING: Final = "awaiting_approval"
_CHOSEN: Final = "explicit"
"""Mode of a container that the request has named: it is nobody's, or was checked."""

_WITHOUT_ANSWER: Final = frozenset({"upstream_empty", "upstream_malformed", "upstream_truncated"})
"""Codes of a stream that had no event, or no end, of the configured API."""
_NUMBERS: Final = frozenset({"status", "usage"})
"""Members of `final` without text of the model."""

CLIENT_LEFT: Final = "client_left"
REFUSED: Final = "no_stream"
"""Outcomes besides those of a terminal event: the client disconnected early; the request got a problem document."""


class Trace(NamedTuple):
    """The position of a stream in a distributed trace."""

    trace_id: str = ""
    headers: Mapping[str, str] = {}
    """Headers that propagate the trace to the provider."""
    span: object | None = None


_counts: Final[Callable[[], dict[Any, int]]] = partial(defaultdict, int)
"""Returns an empty counter; that of the standard library has a constructor in Python, and a stream has several."""


@dataclass(slots=True, kw_only=True)
class StreamStats:
    """Facts about one stream; `on_frame` and `on_deltas` are the pipeline's hooks of the same names."""

    stream_id: str = field(default_factory=new_stream_id)
    request_id: str = ""
    dialect: str
    caller: str = ""
    route: str | None = None
    """Path template of the request."""
    status: int | None = None
    """HTTP status of the response; None without one."""
    agent: str | None = None
    workflow: str | None = None
    """The key of the workflow."""
    workflow_run_id: str | None = None
    upstream: str = ""
    """Name of the upstream; empty if there are several."""
    api: str = ""
    target_model: str = ""
    """The upstream's name of the model, if the configuration has one."""
    server_address: str = ""
    server_port: int = 0
    model: str = ""
    conversation_id: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    trace: Trace = field(default_factory=Trace)
    caller_headers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Provider -> headers of the caller that go on to it."""
    started_at: float = field(default_factory=time.monotonic)
    first_byte_s: float | None = None
    """Seconds from the attempt that was answered to the provider's first byte; None without one."""
    waited_s: float = 0.0
    """Seconds from the request to this attempt: what this server and earlier attempts took."""
    first_token_s: float | None = None
    """Seconds from the request to the first part of the answer, of what may be shown; None without one."""
    duration_s: float = 0.0
    """Seconds from the request to the end of the stream; set there."""
    heartbeats: int = 0
    overhead_s: float = 0.0
    is_client_gone: bool = False
    """Whether the stream ended because its client left."""
    client_gone: str | None = None
    """`closed` or `stalled` (it did not read); None if it got the whole response. The stream may have gone on."""
    client_gone_s: float | None = None
    """Seconds from the request until the client was gone."""
    is_refused: bool = False
    """Whether the request got an error response."""
    code: str | None = None
    """The error code; None if the stream did not fail."""
    terminal: Frame = field(default_factory=dict)
    """Terminal frame, whether sent or not; empty until it exists."""
    usage: dict[str, int] = field(default_factory=dict)
    """Tokens, as the provider reported them, also of a response that was cut off."""
    notices: dict[str, int] = field(default_factory=_counts)
    frames: int = 0
    response_model: str | None = None
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Provider events that were not forwarded, by type or reason; see `add_dropped`."""
    plain_name: Callable[[str], str | None] = lambda _name: None
    """Returns a name that a provider chose, if it may be logged."""
    provider_request_id: str | None = None
    """The provider's own ID of the last request, as it came; None without one, and in a workflow."""
    attempts: int = 0
    """Requests to upstreams."""
    failure_reason: str | None = None
    """Why a request to an upstream failed, as a word of the server."""
    upstream_codes: set[str] = field(default_factory=set)
    """Codes of failed requests to upstreams, which were counted when they failed."""
    meter: TokenMeter | None = None
    """Counts the tokens of a stream with rate limits."""
    on_response: Callable[[str, str, int], None] | None = None
    """Is called with the response's ID, upstream and tokens before the terminal is sent: a client may go on at once."""
    on_response_id: Callable[[str], object] | None = None
    """Is called with the ID of each response when it is known, perhaps in another thread."""
    response_id: str | None = None
    """ID of the last response."""
    on_item: Callable[[str, str], None] | None = None
    """Is called with the ID of each output item, and of each container that was made for one, and the upstream."""
    lacks_container: bool = False
    """Whether code has run without naming a container: Claude names it in citations, at the end of the answer."""
    on_approval: Callable[[str, str], None] | None = None
    """Is called with the ids of an approval request and of its response."""

    @property
    def reason(self) -> str | None:
        """Why a request to an upstream failed, or `other_api` if it has events, but none of the configured API.

        Some events of Claude have a name or a member of other APIs, but nothing that begins or is part of an answer.
        """
        has_answer = self.response_id is not None or self.first_token_s is not None
        is_other = self.code in _WITHOUT_ANSWER and sse.has_unread(self.dropped) and not has_answer
        return "other_api" if is_other else self.failure_reason

    @property
    def tokens(self) -> int:
        """Tokens as the provider reported them, else as they are counted for rate limits; 0 if they are not known."""
        reported = self.terminal.get("final", {}).get("usage", {})  # without responses that were cut off
        return reported_tokens(reported) or (0 if self.meter is None else self.meter.used(self.code)[0])

    def on_frame(self, frame: Frame, /) -> None:
        """Count a frame, and keep what is reported of it."""
        self.frames += 1
        response_id = frame.get("response_id")
        if response_id != self.response_id and response_id is not None:
            self.response_id = response_id
            if self.on_response_id is not None:
                self.on_response_id(response_id)
        if self.meter is not None:
            self.meter.on_frame(frame)
        for notice in frame.get("notices", ()):
            self.notices[notice["type"]] += 1
        if self.first_token_s is None and frame["kind"] in _DELTAS:
            self.first_token_s = time.monotonic() - self.started_at
        if frame["kind"] in _NOTED:
            self._note(frame["kind"], frame)

    def on_deltas(self, deltas: DeltaFrames, /) -> None:
        """Count the frames of a run of deltas, of which nothing else is reported: `on_frame` got their first one."""
        self.frames += len(deltas.texts)
        if self.first_token_s is None:
            self.first_token_s = time.monotonic() - self.started_at
        if self.meter is not None:
            self.meter.on_deltas(deltas)

    def add_dropped(self, dropped: Mapping[str, int], redactor: Redactor) -> None:
        """Keep what was not forwarded of the stream, and what decides which of its names may be logged."""
        self.dropped, self.plain_name = dropped, redactor.plain_name

    def on_provider_request_id(self, request_id: str) -> None:
        """Keep the provider's own ID of the request. In a workflow, requests overlap: it could be that of another."""
        if self.workflow is None:
            self.provider_request_id = request_id

    def _note(self, kind: str, frame: Frame) -> None:
        if kind in _TERMINALS:
            self.terminal = frame
            self.usage = self.usage or dict(frame.get("final", {}).get("usage", {}))
            self.code = frame["error"]["code"] if "error" in frame else None
            if self.on_response is not None and "response_id" in frame:
                self.on_response(frame["response_id"], self.upstream, self.tokens)
        elif kind == Kind.OUTPUT_ITEM_ADDED:
            self._note_item(frame["item_id"])
        elif kind == Kind.MESSAGE_CITATION:
            if self.lacks_container and (container := frame["citation"].get("container_id")) is not None:
                self._note_item(container)
        elif kind == PrivateKind.RESPONSE_USAGE:
            self.usage |= {name: self.usage.get(name, 0) + tokens for name, tokens in frame["usage"].items()}
        elif kind == PrivateKind.RESPONSE_META:
            self.response_model = frame.get("model", self.response_model)
        elif kind == Kind.TOOL_STATUS:
            self._note_tool(frame["tool"], frame)

    def _note_item(self, item_id: str) -> None:
        if self.on_item is not None:
            self.on_item(item_id, self.upstream)

    def _note_tool(self, tool: Mapping[str, Any], frame: Frame) -> None:
        mode = tool.get("container_mode")
        if "container_id" in tool and mode != _CHOSEN:
            self._note_item(tool["container_id"])
        if tool["tool_type"] == "code_interpreter" and mode is None and "container_id" not in tool:
            self.lacks_container = True
        if self.on_approval is not None and tool["status"] == _AWAITING and "response_id" in frame:
            self.on_approval(tool["tool_call_id"], frame["response_id"])

    def release_texts(self) -> None:
        """Drop the texts of the terminal: this object may outlive the stream."""
        final = self.terminal.get("final")
        if final is not None:
            kept = {name: value for name, value in final.items() if name in _NUMBERS}
            self.terminal = {**self.terminal, "final": kept}

    @property
    def outcome(self) -> str:
        """The status of `final`, `error`, `client_left` or `no_stream`."""
        if self.is_refused:
            return REFUSED
        if self.is_client_gone:
            return CLIENT_LEFT
        return str(self.terminal.get("final", {}).get("status", "error"))


@dataclass(frozen=True, slots=True)
class Terminal:
    """How a stream ended, for the host: storing, billing, audit. Its texts are redacted."""

    stream_id: str
    request_id: str
    response_id: str | None
    conversation_id: str | None
    caller: str
    agent: str | None
    workflow: str | None
    workflow_run_id: str | None
    """ID of the run, as in its events."""
    metadata: Mapping[str, str]
    outcome: str
    """`completed`, `incomplete`, `failed`, `cancelled`, `refused`, `error`, `client_left`, or `no_stream` if the client
    got an error response."""
    code: str | None
    """Error code, None without an error."""
    final: Mapping[str, Any]
    """The member `final` of the terminal event; after a disconnect, with the text so far. A member without content is
    missing, and all are after an error: `response_text` and `structured_output` need no check."""
    usage: Mapping[str, int]
    """Tokens as the provider reported them: `input_tokens`, `output_tokens`, `total_tokens` and others. Those of
    responses that failed or were cut off count, too."""
    duration_s: float

    @property
    def response_text(self) -> str:
        """The text of the answer; empty without one, as in an answer of tool calls only."""
        return str(self.final.get("response_text", ""))

    @property
    def structured_output(self) -> Any:
        """The JSON value of the answer, if the request asked for one; None without one."""
        return self.final.get("structured_output")


def terminal_of(stats: StreamStats) -> Terminal:
    """Return the terminal that the host's hook receives."""
    final = {} if stats.outcome == REFUSED else stats.terminal.get("final", {})
    own: dict[str, Any] = {"response_id": stats.terminal.get("response_id"), "final": final}
    same = {one.name: getattr(stats, one.name) for one in fields(Terminal) if one.name not in own}
    return Terminal(**same, **own)


def line_of(stats: StreamStats, outcome: str) -> dict[str, object]:
    """Return the fields of the log line: IDs, names and numbers, no payload."""
    return {
        "stream_id": stats.stream_id,
        "request_id": stats.request_id,
        "trace_id": stats.trace.trace_id,
        "caller": stats.caller[:CALLER_MAX_CHARS],
        "route": stats.route,
        "status": stats.status,
        "agent": stats.agent,
        "workflow": stats.workflow,
        "workflow_run_id": stats.workflow_run_id,
        "upstream": stats.upstream or None,
        "model": stats.model or None,
        "dialect": stats.dialect,
        "conversation_id": stats.terminal.get("conversation_id"),
        "response_id": stats.terminal.get("response_id"),
        "outcome": outcome,
        "code": stats.code,
        "reason": stats.reason,
        "duration_s": _rounded(stats.duration_s),
        "attempts": stats.attempts if stats.attempts > 1 else None,
        "provider_request_id": stats.code and stats.provider_request_id and stats.plain_name(stats.provider_request_id),
        "first_byte_s": None if stats.first_byte_s is None else _rounded(stats.first_byte_s),
        "first_token_s": None if stats.first_token_s is None else _rounded(stats.first_token_s),
        "client_gone": stats.client_gone,
        "client_gone_s": None if stats.client_gone_s is None else _rounded(stats.client_gone_s),
        "overhead_s": _rounded(stats.overhead_s, 1_000_000),
        "events": stats.terminal.get("event_id"),
        "heartbeats": stats.heartbeats,
        "notices": dict(stats.notices) or None,
        "dropped": _unexpected(stats) if stats.dropped else None,
        **stats.usage,
    }


def _unexpected(stats: StreamStats) -> dict[str, int] | None:
    """Return the most frequent names of input that was dropped without a reason in the tables; None without one."""
    found = _labelled(
        unexpected_drops(stats.dropped), lambda name: name if name in _OURS else stats.plain_name(name) or OTHER
    )
    most = sorted(found, key=lambda name: -found[name])[:_NAMES_MAX]
    return {name: found[name] for name in most} or None


def _labelled(dropped: Mapping[str, int], label_of: Callable[[str], str]) -> dict[str, int]:
    found = _counts()
    for name, times in dropped.items():
        found[label_of(name)] += times
    return found


def _rounded(seconds: float, parts: int = 1_000) -> float:
    """Return seconds in whole parts of a second. `round` writes the number out, and reads it again."""
    return int(seconds * parts + 0.5) / parts


_IN_HEAD: Final = frozenset({"stream_id", "trace_id", "caller", "dialect", "conversation_id", "notices"})
"""Fields that a stored stream has anyway, that are of use in a log only, or that have another name in the record."""


def ending_of(stats: StreamStats, dropped: Mapping[str, int]) -> bytes:
    """Return the record of a stream that has its terminal, as JSON.

    It has the fields of the log line, and counts: `withheld` by the type of notices, `dropped` by the type of provider
    events that were not forwarded.
    """
    stats.duration_s = time.monotonic() - stats.started_at
    line = {
        name: value
        for name, value in line_of(stats, stats.outcome).items()
        if value is not None and name not in _IN_HEAD
    }
    return codec.to_keep(codec.dumps({**line, "withheld": stats.notices, "dropped": _labelled(dropped, event_label)}))
