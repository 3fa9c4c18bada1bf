"""The UI message stream of the AI SDK, version 1: each stream is one assistant message (docs/dialects.md)."""

from __future__ import annotations

from typing import Final

from projector._registry import resolve
from projector.dialects.descriptor import Dialect, tables_of

DIALECT: Final = Dialect(
    writer=lambda _policy, options: resolve("projector.dialects.ai_sdk.writer:AiSdk")(options),
    tables=tables_of("projector.dialects.ai_sdk.writer"),
    headers=((b"x-vercel-ai-ui-message-stream", b"v1"),),
    end_mark=b"[DONE]",
    carries=frozenset({"reasoning", "calls"}),
)
