"""The built-in provider: it plays recorded examples at a human pace, without a key and without a network.

The examples are `examples_ndjson/openai_responses`: one provider event a line.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio

from projector._resources import resource
from projector.contracts import codec
from projector.core.sse import encode_sse
from projector.server.upstream.protocol import ProviderRequest

PACE_S: Final = 0.03
"""Between two events: about as fast as a model that is read along with."""

SCENARIOS: Final = (
    (("search", "news", "weather"), "chat-web-search"),
    (("file", "document"), "chat-file-search"),
    (("code", "plot", "calculate"), "chat-code-interpreter"),
    (("image", "draw", "picture"), "chat-image-generation-partials"),
    (("mcp", "approve"), "chat-mcp-tool"),
    (("tool", "function", "time"), "chat-function-tool"),
    (("refuse", "forbidden"), "chat-refusal"),
    (("think", "reason", "why"), "chat-reasoning-summary"),
    (("fail", "error", "break"), "chat-provider-error"),
)
"""Words of a message and the example that they call for; the first row that fits and that there is counts."""

DEFAULT_SCENARIO: Final = "chat-text-citations"


class DemoUpstream:
    """An upstream that answers from recorded examples."""

    providers = frozenset({"openai_responses"})
    is_recording = True

    def __init__(self, pace_s: float = PACE_S) -> None:
        self._pace_s = pace_s
        folder = resource("examples_ndjson/openai_responses")
        self.examples = {path.stem: _events(path) for path in sorted(folder.glob("*.ndjson"))}

    @asynccontextmanager
    async def open(self, request: ProviderRequest, /) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Give the bytes of the example that the request calls for."""
        chunks = self._play(self.examples[self._scenario(_last_text(request.body))])
        try:
            yield chunks
        finally:
            await chunks.aclose()

    async def aclose(self) -> None:
        """Nothing is kept."""

    async def _play(self, events: list[bytes]) -> AsyncGenerator[bytes, None]:
        for event in events:
            await anyio.sleep(self._pace_s)
            yield event

    def _scenario(self, text: str) -> str:
        words = text.lower()
        for calls, name in SCENARIOS:
            if name in self.examples and any(call in words for call in calls):
                return name
        return DEFAULT_SCENARIO


def _events(path: Path) -> list[bytes]:
    return [encode_sse(line) for line in path.read_bytes().splitlines() if line.strip()]


def _last_text(body: Any) -> str:
    """Give the text that the user said last, or nothing."""
    asked = body.get("input", "")
    if isinstance(asked, str):
        return asked
    return codec.dumps(asked[-1:]).decode() if isinstance(asked, list) else ""
