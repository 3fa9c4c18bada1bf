"""The UI message stream of the AI SDK, version 1: each stream is one assistant message (docs/dialects.md)."""

from __future__ import annotations

from typing import Final

from projector._registry import lazy, resolve
from projector.dialects.descriptor import Dialect, tables_of

DIALECT: Final = Dialect(
    writer=lambda _policy, options: resolve("projector.dialects.ai_sdk.writer:AiSdk")(options),
    tables=tables_of("projector.dialects.ai_sdk.writer"),
    events=lambda: resolve("projector.dialects.ai_sdk.events:CHUNK_ADAPTER"),
    checker=lazy("projector.dialects.ai_sdk.checker:AiSdkChecker"),
    headers=((b"x-vercel-ai-ui-message-stream", b"v1"),),
    end_mark=b"[DONE]",
)
