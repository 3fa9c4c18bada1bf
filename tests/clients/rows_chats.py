"""Rows of the clients with a route of their own for docs/clients.md. The tests of a client compare what they saw."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from tests.clients.clients_table import markdown
from tests.clients.rows_node import PACKAGES

BEHAVIOURS: Final[Mapping[str, str]] = {
    "text": "streamed text",
    "tool": "tool of the page",
    "approve": "approval",
    "image": "image",
    "seal": "encrypted reasoning",
    "regenerate": "regenerate",
    "stop": "stop",
    "resume": "read again",
}
"""Behaviour -> title of its column."""


class ChatRow(NamedTuple):
    """A client of a route."""

    client: str
    package: str
    """Its name in `package.json`."""
    route: str
    shown: frozenset[str]
    """Behaviours that its test has seen."""

    @property
    def version(self) -> str:
        """The version that the tests install."""
        return PACKAGES[self.package].rpartition("@")[2]  # of an alias: npm:NAME@VERSION


_AG_UI: Final = frozenset({"text", "tool", "approve", "seal", "stop"})

CHATS: Final = {
    "7": ChatRow("ai", "ai", "ai-sdk", frozenset(BEHAVIOURS)),
    "6": ChatRow("ai", "ai-6", "ai-sdk", frozenset(BEHAVIOURS)),
    "5": ChatRow("ai", "ai-5", "ai-sdk", frozenset(BEHAVIOURS) - {"approve"}),
}
"""Level of `ai_sdk` -> its client."""
AG_UI: Final = {
    "1.0.0": ChatRow("@ag-ui/client", "@ag-ui/client", "ag-ui", _AG_UI),
    "0.0.59": ChatRow("@ag-ui/client", "@ag-ui/client-0", "ag-ui", _AG_UI),
}
TANSTACK: Final = ChatRow("@tanstack/ai-client", "@tanstack/ai-client", "ag-ui", frozenset({"text", "tool", "resume"}))
ROWS: Final = (*CHATS.values(), *AG_UI.values(), TANSTACK)


def table() -> str:
    """Return the rows as a table in Markdown."""
    body = [
        [
            f"`{row.client}` {row.version}",
            f"`/api/v1/{row.route}/{{agent}}`",
            ", ".join(title for name, title in BEHAVIOURS.items() if name not in row.shown) or "nothing",
        ]
        for row in ROWS
    ]
    about = f"Seen: {', '.join(BEHAVIOURS.values())}."
    return f"{about}\n\n{markdown(['client', 'route', 'not seen'], body)}"
