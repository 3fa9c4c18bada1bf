"""A projector for tests: its output is returned without the envelope, and must obey every stream rule."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final, TypeAlias

import pytest

from projector.contracts.stream_rules import check_stream
from projector.core.context import StreamContext
from projector.core.faults import FAULTS
from projector.core.projector import PublicStreamProjector
from projector.dialects.public_sse_v1.writer import PublicSseV1
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor

Frame: TypeAlias = dict[str, Any]
Event: TypeAlias = Mapping[str, object]

ENVELOPE: Final = frozenset(
    {
        "schema",
        "event_id",
        "stream_id",
        "server_timestamp",
        "conversation_id",
        "response_id",
        "agent",
        "workflow",
        "provider_sequence_number",
    }
)


@cache
def compiled(policy: str) -> Redactor:
    """Compile a policy, given as JSON, once, because it takes longer than most tests."""
    return Redactor(Policy.load(json.loads(policy)))


class Stream:
    """One stream under test; events of types `projector.*` are sent as host events."""

    def __init__(self, *, policy: Event | None = None, context: Event | None = None, run: bool = False) -> None:
        redactor = compiled(json.dumps({"text": "off", **(policy or {})}))
        members: dict[str, Any] = {"stream_id": "stream_1", **(context or {})}
        self._projector = PublicStreamProjector(redactor, StreamContext(**members), is_run=run)
        self._projector.tick("2025-12-15T12:00:00.000Z")
        self._writer = PublicSseV1(redactor.policy.limits.frame_max_bytes)
        self.sealed: list[Frame] = []
        """All output, with the envelope."""

    def feed(self, *events: Event) -> list[Frame]:
        said: list[Frame] = []
        for event in events:
            is_host = str(event.get("type")).startswith("projector.")
            said += self._projector.host(event) if is_host else self._projector.feed(event)
        return self._shown(said)

    def next_response(self) -> list[Frame]:
        return self._shown(self._projector.next_response())

    def cancel(self) -> list[Frame]:
        return self._shown(self._projector.cancel())

    def fail(self, code: str) -> list[Frame]:
        return self._shown(self._projector.fail(FAULTS[code]))

    def close(self) -> list[Frame]:
        return self._shown(self._projector.close())

    @property
    def ended(self) -> bool:
        return self._projector.ended

    @property
    def dropped(self) -> Counter[str]:
        return self._projector.dropped

    @property
    def lines(self) -> list[bytes]:
        """All output, as the public dialect writes it."""
        return [data for frame in self.sealed for _, data in self._writer.feed(frame)]

    def _shown(self, said: list[Frame]) -> list[Frame]:
        self.sealed += said
        return [{name: value for name, value in frame.items() if name not in ENVELOPE} for frame in said]


@pytest.fixture
def open_stream() -> Iterator[Callable[..., Stream]]:
    """Opens streams; after the test each one is closed and its output is checked."""
    opened: list[Stream] = []

    def open_one(**settings: Any) -> Stream:
        opened.append(Stream(**settings))
        return opened[-1]

    yield open_one
    for stream in opened:
        stream.close()
        assert check_stream(stream.lines) == []


@pytest.fixture
def play(open_stream: Callable[..., Stream]) -> Callable[..., list[Frame]]:
    """Feeds events of one stream and returns the output, without closing it."""

    def play_all(*events: Event, **settings: Any) -> list[Frame]:
        return open_stream(**settings).feed(*events)

    return play_all
