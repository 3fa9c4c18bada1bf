"""What credentials look like (CONTRACT D25): one row for each known format."""

from __future__ import annotations

from typing import Final, NamedTuple


class Format(NamedTuple):
    """One credential format."""

    name: str
    pattern: str


FORMATS: Final = (Format("github-token", r"gh[pousr]_[A-Za-z0-9]{36}"),)
