"""The demo upstream: plays recorded examples at reading speed, without a key and without a network."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import anyio

from projector._resources import resource
from projector.contracts import codec
from projector.core.sse import encode_sse
from projector.providers import PROVIDERS
from projector.recording.replay import inputs_of
from projector.server.upstream.protocol import Model, ProviderRequest

PACE_S: Final = 0.03
"""Default delay between two events."""
KEPT_MAX: Final = 256
"""Number of streams whose events are kept, for the demo page. They are those of the examples: only those of an
approval are copied."""
_REQUEST_ID: Final = re.compile(rb"\bmcpr_[0-9a-f]{8}")
"""The beginning of the ID of a request for approval."""


APIS: Final = tuple(name for name, row in PROVIDERS.items() if row.demo)
"""The APIs with examples. Their descriptors name the example of each topic, if they have one."""


class Scenario(NamedTuple):
    """A topic, and the words of a message that choose it."""

    topic: str
    words: tuple[str, ...]


TOOL: Final = Scenario("tool", ("tool", "function", "time"))
APPROVAL: Final = Scenario("approval", ("approve", "approval"))
SCENARIOS: Final = (
    Scenario("search", ("search", "news", "weather")),
    Scenario("file", ("file", "document")),
    Scenario("code", ("code", "plot", "calculate")),
    Scenario("image", ("image", "draw", "picture")),
    APPROVAL,
    Scenario("mcp", ("mcp",)),
    Scenario("secret", ("secret", "password")),
    TOOL,
    Scenario("refusal", ("refuse", "forbidden")),
    Scenario("reasoning", ("think", "reason", "why")),
    Scenario("failure", ("fail", "error", "break")),
    Scenario("length", ("limit", "incomplete")),
    Scenario("truncated", ("truncate",)),
    Scenario("oversized", ("oversized",)),
    Scenario("text", ("",)),
)
"""The first row with a word of the message and an example in the API counts."""

ANSWERS: Final = {
    **dict.fromkeys(
        ("function_call_output", "custom_tool_call_output", "tool", "tool_result", "functionResponse"), TOOL
    ),
    "mcp_approval_response": APPROVAL,
}
"""Role or type of what a client sends after it has run its functions, or a person has decided -> what it answers.
The call is played also if it was declined."""

HOST_EVENT: Final = b'{"type":"projector.'
"""Begin of an event of the host."""
FIRST_EVENT: Final = b'{"type":"response.created"'
"""Begin of the first event of a response of the Responses API. In other APIs an event of the host is between."""


class DemoUpstream:
    """An upstream that plays recorded examples of each API that has some.

    An agent's request plays a whole example, with the tools that its host runs. A request with functions of the caller,
    or for a call that needs an approval, plays the first response. One that ends with outputs or an approval plays the
    last, so that a client's loop ends.
    """

    providers = frozenset(APIS)
    is_recording = True

    def __init__(self, pace_s: float = PACE_S) -> None:
        self._pace_s = pace_s
        self.sent: dict[str, list[bytes]] = {}
        """ID of a stream -> the events that it was sent, until it was closed; of the last streams."""
        self.examples = {
            api: {
                path.stem: [line for line in path.read_bytes().splitlines() if line.strip()]
                for path in sorted(resource(f"examples_ndjson/{inputs_of(api)}").glob("*.ndjson"))
            }
            for api in APIS
        }

    @asynccontextmanager
    async def open(self, request: ProviderRequest, /) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Return the bytes of the example for the last message of the request."""
        chunks = self._play(self._events(request.provider, request.body), self._sent(request.stream_id))
        try:
            yield chunks
        finally:
            await chunks.aclose()

    async def models(self) -> list[Model]:
        """Return one model. Every other name is accepted too."""
        return [Model("demo")]

    async def aclose(self) -> None:
        """Do nothing: no connection is kept."""

    def _sent(self, stream_id: str) -> list[bytes]:
        """Return the list of what a stream was sent. One that is unknown has a list of its own, which is not kept."""
        if not stream_id:
            return []
        sent = self.sent.setdefault(stream_id, [])
        if len(self.sent) > KEPT_MAX:
            del self.sent[next(iter(self.sent))]
        return sent

    async def _play(self, events: list[bytes], sent: list[bytes]) -> AsyncGenerator[bytes, None]:
        for event in events:
            await anyio.sleep(self._pace_s)
            sent.append(event)
            yield encode_sse(event)

    def _events(self, api: str, body: Mapping[str, Any]) -> list[bytes]:
        last = _last_message(body, PROVIDERS[api].content)
        answered, named = _answered(last), PROVIDERS[api].demo
        if answered is not None and answered.topic in named:
            _, *others = _responses_of(self.examples[api][named[answered.topic]])
            return others[-1] if others else self.examples[api][named["text"]]
        name = _scenario(named, last)
        is_approval = name == named.get(APPROVAL.topic)
        waits, events = _has_functions(body) or is_approval, self.examples[api][name]
        if is_approval:  # clients know a request by its ID, and a chat may have several
            fresh = b"mcpr_" + os.urandom(4).hex().encode()
            events = [_REQUEST_ID.sub(fresh, event) for event in events]
        return _responses_of(events)[0] if waits else events


def _last_message(body: Mapping[str, Any], members: Sequence[str]) -> object:
    sent = next((value for name in members if (value := body.get(name))), None)
    return sent[-1] if isinstance(sent, list) and sent else sent


def _answered(message: object) -> Scenario | None:
    """Return the scenario that a message continues with its last response."""
    if not isinstance(message, dict):
        return None
    parts = message.get("content") or message.get("parts")
    parts = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    names = [message.get("role"), message.get("type"), *(name for one in parts for name in (one.get("type"), *one))]
    return next((ANSWERS[name] for name in map(str, names) if name in ANSWERS), None)


def _has_functions(body: Mapping[str, Any]) -> bool:
    tools = body.get("tools")
    return isinstance(tools, list) and any(isinstance(tool, dict) and tool.get("type") == "function" for tool in tools)


def _scenario(named: Mapping[str, str], message: object) -> str:
    text = message if isinstance(message, str) else codec.dumps(message).decode()
    rows = (row for row in SCENARIOS if row.topic in named)
    return next(named[row.topic] for row in rows if any(word in text.lower() for word in row.words))


def _responses_of(events: list[bytes]) -> list[list[bytes]]:
    """Return the events of each response, without those of the host, which also come within a response."""
    found: list[list[bytes]] = [[]]
    is_split_by_host = not events[0].startswith(FIRST_EVENT)
    for event in events:
        is_host = event.startswith(HOST_EVENT)
        if found[-1] and (is_host if is_split_by_host else event.startswith(FIRST_EVENT)):
            found.append([])
        if not is_host:
            found[-1].append(event)
    return found
