"""The table of docs/clients.md. A row is a client with one API, and a cell is what its test observes.

Run this file to write the table (`make docs` does). The tests of the clients compare every cell with what they see,
and `tests/docs/test_clients_page.py` compares the page with the rows.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "clients.md"
BLOCK: Final = re.compile(r"(?<=<!-- printed by tests/clients/clients_table.py -->\n).*?(?=<!-- end -->)", re.DOTALL)
CHATS: Final = re.compile(r"(?<=<!-- printed by tests/clients/rows_chats.py -->\n).*?(?=<!-- end -->)", re.DOTALL)

BEHAVIOURS: Final[Mapping[str, str]] = {
    "text": "streamed text",
    "whole": "answer in one piece",
    "tools": "tool loop",
    "parallel": "parallel tools",
    "structured": "structured output",
    "hosted": "hosted tools",
    "citations": "citations",
    "reasoning": "reasoning",
    "refusal": "refusal",
    "usage": "usage",
    "errors": "typed errors",
    "stream_error": "error in a stream",
    "calls_400": "calls for a 400",
    "calls_500": "calls for a 500",
}
"""Behaviour -> title of its column."""

APIS: Final = {
    "responses": "Responses",
    "chat": "Chat Completions",
    "responses-on-chat": "Responses, of an upstream with Chat Completions",
    "chat-on-responses": "Chat Completions, of an upstream with Responses",
}


class Row(NamedTuple):
    """A client with one API."""

    client: str
    """Name of the package, and the language if several languages have it."""
    version: str
    api: str
    cells: Mapping[str, str]
    """Behaviour -> `yes`, or what happens instead in a few words."""


def cells(**others: str) -> dict[str, str]:
    """Return the cells of a row: `yes`, one call for a 400 and three for a 500, except what is passed."""
    return {**dict.fromkeys(BEHAVIOURS, "yes"), "calls_400": "1", "calls_500": "3", **others}


def usual(api: str) -> dict[str, str]:
    """Return the cells that a row with an API has unless it says otherwise."""
    return cells() if api == "responses" else cells(hosted="text")


def table(rows: Iterable[Row]) -> str:
    """Return what the rows have that differs from the usual, as a table in Markdown after a line with the usual."""
    found: dict[tuple[str, str], dict[str, dict[str, None]]] = {}
    for row in rows:
        others = (name for name in BEHAVIOURS if row.cells[name] != usual(row.api)[name])
        differs = "; ".join(f"{BEHAVIOURS[name]}: {row.cells[name]}" for name in others) or "nothing"
        one = found.setdefault((row.client, differs), {"versions": {}, "apis": {}})
        one["versions"][row.version] = one["apis"][APIS[row.api]] = None
    body = [
        [f"`{client}` {', '.join(one['versions'])}", "; ".join(one["apis"]), differs]
        for (client, differs), one in found.items()
    ]
    yes = ", ".join(title for name, title in BEHAVIOURS.items() if cells()[name] == "yes" and name != "hosted")
    hosted = "hosted tools: yes, in Chat Completions text"
    about = f"Unless a row differs, {yes}: yes; {hosted}; calls for a 400: 1, for a 500: 3."
    return f"{about}\n\n{markdown(['client', 'API', 'what differs'], body)}"


def markdown(head: list[str], body: Iterable[list[str]]) -> str:
    """Return a table in Markdown."""
    return "".join(f"| {' | '.join(line)} |\n" for line in [head, ["---"] * len(head), *body])


def printed(page: str, rows: Iterable[Row], chats: str) -> str:
    """Return the page with the table of the rows, and the table of chats."""
    page = BLOCK.sub(lambda _: f"\n{table(rows)}\n", page)
    return CHATS.sub(lambda _: f"\n{chats}\n", page)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    from tests.clients import rows_chats
    from tests.clients.rows import ROWS

    PAGE.write_text(printed(PAGE.read_text(encoding="utf-8"), ROWS, rows_chats.table()), encoding="utf-8")
