"""Files that are not code: published contracts, redaction rules, example streams.

A wheel carries them inside the package; in a checkout they are top-level folders.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).parent
_PACKAGED: Final = _PACKAGE / "resources"


def resource(name: str) -> Path:
    """Return the path of a top-level folder or of a file in it, such as `contracts` or `redaction/words.toml`."""
    return (_PACKAGED if _PACKAGED.is_dir() else _PACKAGE.parent) / name
