"""Source files of the standard library and of installed packages stay as they are, as code and as tool output."""

from __future__ import annotations

import sysconfig
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor

FILES: Final = 1_200
MAX_CHARS: Final = 8_000
MOST_PER_THOUSAND: Final = 3
REDACTOR: Final = Redactor(Policy())

RIGHTLY: Final[Mapping[str, str]] = {
    "distutils/tests/test_config.py": "a password in a file of settings",
    "ftplib.py": "the password of the anonymous user",
    "test/test_http_cookies.py": "cookies",
    "test/test_netrc.py": "passwords",
    "test/test_ssl.py": "the password of a key",
}
"""End of a path -> the secret, or what cannot be told from one, that the file contains."""


def source_files() -> list[tuple[str, Path]]:
    """Return name and path of the files, half of them of packages, in an order that their names decide."""
    paths = sysconfig.get_paths()
    packages = Path(paths["purelib"])
    library = Path(paths["stdlib"])
    found = [(packages, path) for path in packages.rglob("*.py")]
    found += [(library, path) for path in library.rglob("*.py") if "site-packages" not in path.parts]
    named = [(path.relative_to(folder).as_posix(), path) for folder, path in found]
    named.sort(key=lambda each: (zlib.crc32(each[0].encode()), each[0]))
    return [*_first(named, library), *_first(named, packages)]


def _first(named: list[tuple[str, Path]], folder: Path) -> list[tuple[str, Path]]:
    ours = [each for each in named if ("site-packages" in each[1].parts) is ("site-packages" in folder.parts)]
    return ours[: FILES // 2]


def hits(files: list[tuple[str, Path]]) -> Iterator[str]:
    """Yield file, line and text of what is withheld without a reason."""
    for name, path in files:
        text = path.read_text(encoding="utf-8", errors="replace")[:MAX_CHARS]
        if any(name.endswith(end) for end in RIGHTLY):
            continue
        stream = REDACTOR.code_stream()
        code = "".join(stream.feed(text[at : at + 40]).value for at in range(0, len(text), 40)) + stream.close().value
        for shown in {code, str(REDACTOR.text(text).value)} - {text}:
            at = next((at for at, pair in enumerate(zip(shown, text, strict=False)) if pair[0] != pair[1]), len(shown))
            yield f"{name}:{text.count(chr(10), 0, at) + 1}: {text[max(0, at - 60) : at + 40]!r}"


@pytest.fixture(scope="module")
def files() -> list[tuple[str, Path]]:
    found = source_files()
    if len(found) < FILES:
        pytest.skip(f"{len(found)} of {FILES} source files on this machine")
    return found


def test_sources_stay(files: list[tuple[str, Path]]) -> None:
    found = [*hits(files)]
    assert len({hit.partition(":")[0] for hit in found}) <= MOST_PER_THOUSAND * len(files) / 1_000, "\n".join(found)
