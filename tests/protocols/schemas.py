"""Schemas of the dialects that follow a protocol of others, in `contracts/`: written from the models of the tests.

The models are narrower than the protocols: they allow only what we write. `--check` compares instead of writing.

python -m tests.protocols.schemas [--check]
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from projector.contracts.schema_export import json_schema, schema_file
from projector.generate import write
from tests.protocols.ag_ui.events import EVENT_ADAPTER as AG_UI
from tests.protocols.ai_sdk.events import CHUNK_ADAPTER as AI_SDK
from tests.protocols.anthropic_messages.events import EVENT_ADAPTER as ANTHROPIC_MESSAGES
from tests.protocols.anthropic_messages.events import MESSAGE_ADAPTER
from tests.protocols.chat_completions.events import COMPLETION_ADAPTER
from tests.protocols.chat_completions.events import EVENT_ADAPTER as CHAT_COMPLETIONS
from tests.protocols.openresponses.events import EVENT_ADAPTER as OPENRESPONSES
from tests.protocols.responses.events import EVENT_ADAPTER as RESPONSES

CONTRACTS: Final = Path(__file__).parents[2] / "contracts"
EVENTS: Final[Mapping[str, TypeAdapter[Any]]] = {
    "ag_ui": AG_UI,
    "ai_sdk": AI_SDK,
    "anthropic_messages": ANTHROPIC_MESSAGES,
    "chat_completions": CHAT_COMPLETIONS,
    "openresponses": OPENRESPONSES,
    "responses": RESPONSES,
}
"""Dialect -> the models of all its events, as one type."""


def files() -> dict[Path, bytes]:
    """Return the content of every schema."""
    made = {CONTRACTS / name / f"{name}.schema.json": json_schema(name, events) for name, events in EVENTS.items()}
    made[CONTRACTS / "chat_completions" / "chat_completion.schema.json"] = schema_file(
        {"title": "chat.completion"}, COMPLETION_ADAPTER
    )
    made[CONTRACTS / "anthropic_messages" / "message.schema.json"] = schema_file({"title": "message"}, MESSAGE_ADAPTER)
    return made


if __name__ == "__main__":
    sys.exit(write(files(), is_check="--check" in sys.argv))
