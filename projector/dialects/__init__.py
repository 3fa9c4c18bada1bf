"""Wire formats of streams. `DIALECTS` has one row and one folder for each."""

from __future__ import annotations

from typing import Final

from projector._registry import Registry
from projector.dialects.descriptor import Dialect

DIALECTS: Final[Registry[Dialect]] = Registry(
    {
        "public_sse_v1": "projector.dialects.public_sse_v1:DIALECT",
        "ag_ui": "projector.dialects.ag_ui:DIALECT",
        "ai_sdk": "projector.dialects.ai_sdk:DIALECT",
        "responses": "projector.dialects.responses:DIALECT",
        "openresponses": "projector.dialects.openresponses:DIALECT",
        "chat_completions": "projector.dialects.chat_completions:DIALECT",
        "anthropic_messages": "projector.dialects.anthropic_messages:DIALECT",
        "openwop": "projector.openwop:DIALECT",
    }
)
