"""Rows of the Python clients for docs/clients.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tests.clients.clients_table import Row, cells

LOCK: Final = (Path(__file__).parents[2] / "requirements" / "clients.txt").read_text(encoding="utf-8")


def _version(package: str) -> str:
    """Return the version that the tests install."""
    return re.findall(rf"^{package}==(\S+)", LOCK, re.MULTILINE)[0]


ROWS: Final[tuple[Row, ...]] = tuple(
    Row(name, _version(package), api, row)
    for name, package, api, row in (
        ("openai (Python)", "openai", "responses", cells()),
        ("openai (Python)", "openai", "chat", cells(hosted="text")),
        ("langchain-openai", "langchain-openai", "responses", cells()),
        (
            "langchain-openai",
            "langchain-openai",
            "chat",
            cells(hosted="text", citations="not shown", reasoning="not shown", refusal="`invoke`"),
        ),
        ("pydantic-ai", "pydantic-ai-slim", "responses", cells(refusal="`ContentFilterError`")),
        ("pydantic-ai", "pydantic-ai-slim", "chat", cells(hosted="text", refusal="`ContentFilterError`")),
        ("openai-agents", "openai-agents", "responses", cells(refusal="`ModelRefusalError`")),
        ("openai-agents", "openai-agents", "chat", cells(hosted="text", refusal="`ModelRefusalError`")),
        ("llm", "llm", "responses", cells(hosted="text", citations="not shown", refusal="not shown")),
        (
            "llm",
            "llm",
            "chat",
            cells(hosted="text", citations="not shown", reasoning="not shown", refusal="not shown"),
        ),
    )
)

CROSSINGS: Final = {"responses-on-chat": ("responses", "chat"), "chat-on-responses": ("chat", "responses")}
"""API of a row -> that of the client, and that of its upstream."""
CROSSED: Final[tuple[Row, ...]] = tuple(
    Row("openai (Python)", _version("openai"), api, cells(**others))
    for api, others in (
        ("responses-on-chat", {"hosted": "text"}),
        ("chat-on-responses", {"hosted": "text", "citations": "web pages"}),
    )
)
