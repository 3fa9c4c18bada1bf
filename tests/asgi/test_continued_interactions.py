"""An interaction whose connection breaks is continued after its last event, by the ID of that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest

from projector.server.upstream.http_upstream import CONTINUED_MAX
from tests.asgi.conftest import Peer
from tests.asgi.faithful_clients import events_of

WORDS: Final = ("Low ", "tide ", "at ", "noon.")
CREATED: Final = {"event_type": "interaction.created", "interaction": {"id": "v1_i", "status": "in_progress"}}
START: Final = {"event_type": "step.start", "index": 0, "step": {"type": "model_output"}}
END: Final = {"event_type": "interaction.completed", "interaction": {"id": "v1_i", "status": "completed"}}
DELTAS: Final = [{"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": word}} for word in WORDS]
EVENTS: Final[list[dict[str, Any]]] = [CREATED, START, *DELTAS, {"event_type": "step.stop", "index": 0}, END]
LAST: Final = len(EVENTS)


def settings(port: int) -> dict[str, Any]:
    upstream = {
        "api": "gemini",
        "base_url": f"http://localhost:{port}/v1beta",
        "api_key": "test-key",
        "profile": {"api": "interactions"},
    }
    none = {"api_key": None, "base_url": None}
    return {
        **none,
        "upstreams": {"g": upstream},
        "agents": {"default": {"upstream": "g", "model": "m"}},
        "retries": {"max": 0},
    }


class Provider:
    """Sends the events from where a request says, and breaks off.

    Args:
        breaks: how many events each connection has seen at its end, of all.
        ending: how a connection breaks: `reset` within the next event, an `end` as if all was sent, or `close` at once.
        is_named: whether events have IDs.
        repeats: how many events before the place a continued stream has again.
    """

    def __init__(
        self, breaks: Sequence[int], ending: str = "reset", *, is_named: bool = True, repeats: int = 0
    ) -> None:
        self.breaks = [*breaks]
        self.ending, self.is_named, self.repeats = ending, is_named, repeats
        self.requests: list[str] = []

    async def __call__(self, peer: Peer) -> None:
        line = peer.head.split(b"\r\n")[0].decode()
        assert peer.header(b"x-goog-api-key") == b"test-key"
        self.requests.append(line.rsplit(" ", 1)[0])
        if not self.breaks:
            await peer.send(b"HTTP/1.1 404 Gone\r\ncontent-length: 0\r\n\r\n")
            return
        _, is_continued, last = line.partition("last_event_id=e")
        first = int(last.split()[0].split("&")[0]) + 1 - self.repeats if is_continued else 0
        end = self.breaks.pop(0)
        await peer.start()
        for at, event in enumerate(EVENTS[first:end], first):
            await peer.event({**event, **({"event_id": f"e{at}"} if self.is_named else {})})
        if end == LAST:
            await peer.chunk(b"data: [DONE]\n\n")
        elif self.ending == "close":
            peer.writer.close()
            return
        elif self.ending == "reset":
            await peer.chunk(b'data: {"event_type":"step.del')
            peer.writer.close()
            return
        await peer.end()


def get(at: int) -> str:
    return f"GET /v1beta/interactions/v1_i?stream=true&last_event_id=e{at}"


POST: Final = "POST /v1beta/interactions"


@pytest.mark.parametrize(
    ("provider", "requests", "status", "text"),
    [
        (Provider([LAST]), [POST], "completed", WORDS),
        (Provider([4, LAST]), [POST, get(3)], "completed", WORDS),
        (Provider([4, 5, LAST]), [POST, get(3), get(4)], "completed", WORDS),
        (Provider([4, LAST], "end"), [POST, get(3)], "completed", WORDS),
        (Provider([4, LAST], repeats=2), [POST, get(3)], "completed", WORDS),
        (Provider([1, LAST]), [POST, get(0)], "completed", WORDS),
        (Provider([4], "reset"), [POST, get(3)], "upstream_reset", WORDS[:2]),
        (Provider([4], "end"), [POST, get(3)], "upstream_truncated", WORDS[:2]),
        (Provider([4] * 9), [POST, *[get(3)] * CONTINUED_MAX], "upstream_reset", WORDS[:2]),
        (Provider([4, LAST], is_named=False), [POST], "upstream_reset", WORDS[:2]),
    ],
    ids=["whole", "broken", "twice", "ended", "repeated", "at once", "refused", "refused end", "always", "no IDs"],
)
async def test_a_broken_interaction(
    serve: Any,
    upstream: Any,
    upstream_port: int,
    provider: Provider,
    requests: list[str],
    status: str,
    text: Sequence[str],
) -> None:
    await upstream(provider)
    answer = await serve(**settings(upstream_port)).ask("/api/v1/chat/stream", {"message": "Tides?"})
    events = events_of((await answer.rest()).decode())
    end = events[-1]
    assert (end["final"]["status"] if end["kind"] == "final" else end["error"]["code"]) == status
    assert "".join(event["delta"] for event in events if event["kind"] == "message.delta") == "".join(text)
    assert provider.requests == requests


async def test_an_interaction_without_any_byte_is_asked_for_again(
    serve: Any, upstream: Any, upstream_port: int
) -> None:
    provider = Provider([0, LAST], "close")
    await upstream(provider)
    given = settings(upstream_port) | {"retries": {"max": 1, "initial_backoff_s": 0.01}}
    answer = await serve(**given).ask("/api/v1/chat/stream", {"message": "Tides?"})
    events = events_of((await answer.rest()).decode())
    assert events[-1]["final"]["status"] == "completed"
    assert provider.requests == [POST, POST]
