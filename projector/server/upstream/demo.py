"""The demo upstream: plays recorded examples at reading speed, without a key and without a network."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio

from projector._resources import resource
from projector.contracts import codec
from projector.core.sse import encode_sse
from projector.server.upstream.protocol import ProviderRequest

PACE_S: Final = 0.03
"""Delay between two events: about the speed of a model."""

PROVIDER: Final = "openai_responses"
"""Provider of the examples: its folder in `examples_ndjson`."""

SCENARIOS: Final = (
    (("search", "news", "weather"), "chat-web-search"),
    (("file", "document"), "chat-file-search"),
    (("code", "plot", "calculate"), "chat-code-interpreter"),
    (("image", "draw", "picture"), "chat-image-generation-partials"),
    (("approve", "approval"), "chat-mcp-approval"),
    (("mcp",), "chat-mcp-tool"),
    (("tool", "function", "time"), "chat-function-tool"),
    (("refuse", "forbidden"), "chat-refusal"),
    (("think", "reason", "why"), "chat-reasoning-summary"),
    (("fail", "error", "break"), "chat-provider-error"),
)
"""Words of a message -> the example that is played; the first matching row with an existing example counts."""

DEFAULT_SCENARIO: Final = "chat-text-citations"


class DemoUpstream:
    """An upstream that plays recorded examples."""

    providers = frozenset({PROVIDER})
    is_recording = True

    def __init__(self, pace_s: float = PACE_S) -> None:
        self._pace_s = pace_s
        folder = resource(f"examples_ndjson/{PROVIDER}")
        self.examples = {
            path.stem: [encode_sse(line) for line in path.read_bytes().splitlines() if line.strip()]
            for path in sorted(folder.glob("*.ndjson"))
        }

    @asynccontextmanager
    async def open(self, request: ProviderRequest, /) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Return the bytes of the example for the last message of the request."""
        chunks = self._play(self.examples[self._scenario(_last_text(request.body))])
        try:
            yield chunks
        finally:
            await chunks.aclose()

    async def aclose(self) -> None:
        """Do nothing: no connection is kept."""

    async def _play(self, events: list[bytes]) -> AsyncGenerator[bytes, None]:
        for event in events:
            await anyio.sleep(self._pace_s)
            yield event

    def _scenario(self, text: str) -> str:
        text = text.lower()
        for words, name in SCENARIOS:
            if name in self.examples and any(word in text for word in words):
                return name
        return DEFAULT_SCENARIO


def _last_text(body: Any) -> str:
    sent = body.get("input", "")
    if isinstance(sent, str):
        return sent
    return codec.dumps(sent[-1:]).decode() if isinstance(sent, list) else ""
