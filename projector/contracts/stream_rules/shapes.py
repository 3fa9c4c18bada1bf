"""What a model refuses, in words that show no payload."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from pydantic import ValidationError

_SAID_MAX: Final = 16
"""Of one event; a hostile one could have thousands."""
_PRINTABLE: Final = re.compile(r"[A-Za-z0-9_.-]{1,40}")
"""A member's name, as the contracts spell them, and not a text."""


def errors(error: ValidationError) -> list[Any]:
    """Give the first mistakes, each with its `type` and `loc`, and nothing that was said."""
    return error.errors(include_url=False, include_context=False, include_input=False)[:_SAID_MAX]


def place(steps: Iterable[str | int]) -> str:
    """Give a location; a name that is like no member of ours may be a text, and is not shown."""
    return ".".join(str(step) if isinstance(step, int) or _PRINTABLE.fullmatch(step) else "?" for step in steps)


def mistakes(error: ValidationError) -> list[str]:
    """Give each mistake as its place and pydantic's name for it."""
    return [f"`{place(row['loc']) or 'event'}`: {row['type']}" for row in errors(error)]
