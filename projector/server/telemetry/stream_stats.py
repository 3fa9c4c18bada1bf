"""What is known about one stream: facts for logs, metrics, traces and the host's hook. No payload but the final text.

The pipeline says bytes; who reports must not read them again. So a `Listener` hears each frame on its way and keeps the
terminal and a count of the notices, whatever the dialect makes of them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from projector.contracts.kinds import Kind, PrivateKind
from projector.core.canonical import Frame

_TERMINALS: Final = frozenset({Kind.FINAL, Kind.ERROR})
_META: Final = PrivateKind.RESPONSE_META
_STATUS: Final = Kind.TOOL_STATUS
_AWAITING: Final = "awaiting_approval"

_NUMBERS: Final = frozenset({"status", "usage"})
"""The members of `final` that are no text of the model."""

CLIENT_LEFT: Final = "client_left"
REFUSED: Final = "no_stream"
"""Outcomes beside the terminal's own: the client was gone before the end; the request got a problem document."""


class Listener:
    """Keeps what reports need of the frames of one stream; its `hear` is the pipeline's `on_frame`.

    Args:
        on_response: is told the id of the response before the terminal is said, so that who reads it may go on at once.
        on_approval: is told the ids of a request for an approval and of the response that makes it.
    """

    def __init__(
        self, on_response: Callable[[str], None] | None = None, on_approval: Callable[[str, str], None] | None = None
    ) -> None:
        self._on_response = on_response
        self._on_approval = on_approval
        self.terminal: Frame = {}
        self.notices: Counter[str] = Counter()
        self.frames = 0
        self.model: str | None = None

    def hear(self, frame: Frame, /) -> None:
        """Take a frame."""
        self.frames += 1
        if "notices" in frame:
            self.notices.update(notice["type"] for notice in frame["notices"])
        if frame["kind"] in _TERMINALS:
            self.terminal = frame
            if self._on_response is not None and "response_id" in frame:
                self._on_response(frame["response_id"])
        elif frame["kind"] == _META:
            self.model = frame.get("model", self.model)
        elif frame["kind"] == _STATUS and self._on_approval is not None:
            tool = frame["tool"]
            if tool["status"] == _AWAITING and "response_id" in frame:
                self._on_approval(tool["tool_call_id"], frame["response_id"])


@dataclass(slots=True, kw_only=True)
class Record:
    """One stream."""

    stream_id: str
    request_id: str
    dialect: str
    caller: str = ""
    agent: str | None = None
    workflow: str | None = None
    """The key of the workflow that runs."""
    workflow_run_id: str | None = None
    upstream: str = ""
    """Empty where there were several."""
    api: str = ""
    server_address: str = ""
    server_port: int = 0
    model: str = ""
    conversation_id: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    trace_id: str = ""
    started_at: float = field(default_factory=time.monotonic)
    first_byte_at: float | None = None
    ended_at: float | None = None
    heartbeats: int = 0
    overhead_s: float = 0.0
    is_client_gone: bool = False
    problem_code: str | None = None
    heard: Listener = field(default_factory=Listener)
    dropped: Counter[str] = field(default_factory=Counter)
    """What of the provider was not said, by event type or reason; known at the end."""

    def forget_texts(self) -> None:
        """Keep of the terminal what is not text: somebody may hold this for a while."""
        final = self.heard.terminal.get("final")
        if final is not None:
            kept = {name: value for name, value in final.items() if name in _NUMBERS}
            self.heard.terminal = {**self.heard.terminal, "final": kept}

    @property
    def terminal(self) -> Frame:
        """What was said last, or would have been; empty where nothing was."""
        return self.heard.terminal

    @property
    def outcome(self) -> str:
        """How it ended: the status of `final`, `error`, or one of the two that no terminal says."""
        if self.problem_code is not None:
            return REFUSED
        if self.is_client_gone:
            return CLIENT_LEFT
        return str(self.terminal.get("final", {}).get("status", "error"))

    @property
    def code(self) -> str | None:
        """The code of what went wrong, None where nothing did."""
        return self.problem_code or self.terminal.get("error", {}).get("code")

    @property
    def duration_s(self) -> float:
        """From the request to its end, or to now."""
        return (self.ended_at or time.monotonic()) - self.started_at

    @property
    def first_byte_s(self) -> float | None:
        """From the request to the provider's first byte, None where there was none."""
        return None if self.first_byte_at is None else self.first_byte_at - self.started_at

    @property
    def usage(self) -> Mapping[str, int]:
        """Tokens, as far as the provider told them."""
        usage: Mapping[str, int] = self.terminal.get("final", {}).get("usage", {})
        return usage


@dataclass(frozen=True, slots=True)
class Terminal:
    """How a stream ended, for the host: storing, billing, audit. What it holds is clean."""

    stream_id: str
    request_id: str
    response_id: str | None
    conversation_id: str | None
    caller: str
    agent: str | None
    workflow: str | None
    workflow_run_id: str | None
    """As every event of the run said them."""
    metadata: Mapping[str, str]
    outcome: str
    """`completed`, `incomplete`, `failed`, `cancelled`, `refused`, `error`, or `client_left`."""
    code: str | None
    """Of the error, where there was one."""
    final: Mapping[str, Any]
    """The member `final` of the terminal: status, texts, usage; of a client that left, with the text so far."""
    duration_s: float


def terminal_of(record: Record) -> Terminal:
    """Give what the host is told of a stream."""
    return Terminal(
        stream_id=record.stream_id,
        request_id=record.request_id,
        response_id=record.terminal.get("response_id"),
        conversation_id=record.conversation_id,
        caller=record.caller,
        agent=record.agent,
        workflow=record.workflow,
        workflow_run_id=record.workflow_run_id,
        metadata=record.metadata,
        outcome=record.outcome,
        code=record.code,
        final=record.terminal.get("final", {}),
        duration_s=record.duration_s,
    )
