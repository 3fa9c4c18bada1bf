"""A recording as a case of a folder that `projector replay` plays: its input, and its settings."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from projector._errors import UsageError
from projector.contracts import codec
from projector.core.faults import Fault
from projector.providers import PROVIDERS
from projector.recording.reading import read, written
from projector.recording.replay import CASES_FILE, load_settings
from projector.recording.withholding import Withheld, withhold
from projector.redaction.spans import Finder

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_OURS_ONLY: Final = 0o600
"""Who may read a new recording: it holds what people said to a model."""


class Recording(NamedTuple):
    """A provider's stream, ready to be written."""

    provider: str
    data: bytes
    events: int
    withheld: int
    """How many strings, numbers and keys are not as the provider said them; what is configuration is not counted."""
    settings: Mapping[str, object] = {}
    """Of the case, by the names of `projector.recording.replay.CaseSettings`; defaults are left out."""


def record(
    provider: str,
    stream: bytes,
    finder: Finder | None,
    *,
    fault: Fault | None = None,
    settings: Mapping[str, object] | None = None,
    input_format: str = "sse",
) -> Recording:
    """Give the recording of a stream that has ended.

    Args:
        provider: a name of `projector.providers.PROVIDERS`.
        stream: all bytes of it.
        finder: what is looked for; None keeps everything.
        fault: how the transport failed at the end; None for a clean end of input.
        settings: further settings of the case.
        input_format: `sse`, `ndjson` or `auto`.
    """
    if finder is None:
        found = read(provider, stream, input_format)
        kept = Withheld(found.values, 0)
    else:
        found = read(provider, stream, input_format, finder.pause)
        kept = withhold(provider, found.values, finder)
    close = found.fault or fault
    said = {**(settings or {}), **({"close": close.code} if close else {})}
    data = b"".join(written(value) + b"\n" for value in kept.values)
    return Recording(
        provider, data, len(kept.values), kept.changed, {name: value for name, value in said.items() if value}
    )


def write(folder: Path, name: str, recording: Recording) -> Path:
    """Write a recording as a new case; give the file of its input. Whole or not at all, as far as the disk allows.

    Raises:
        UsageError: the name is no file name, or taken; or the folder's settings cannot be read.
        OSError: the disk refuses.
    """
    check_name(folder, name)
    source = folder / recording.provider / f"{name}.ndjson"
    source.parent.mkdir(parents=True, exist_ok=True)
    unfinished = source.with_suffix(".part")
    try:
        with open(unfinished, "wb", opener=_private) as file:
            file.write(recording.data)
        unfinished.replace(source)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
    if recording.settings:
        # one write at the end of the file: several servers may record into one folder
        with open(folder / CASES_FILE, "ab", buffering=0, opener=_private) as file:
            file.write(_section(name, recording.settings).encode())
    return source


def check_name(folder: Path, name: str) -> None:
    """Refuse the name of a new case before a provider is asked for it.

    Raises:
        UsageError: it is no file name, or taken; or the folder's settings cannot be read.
    """
    if not _NAME.fullmatch(name):
        raise UsageError("name of a case: expected at most 128 letters, digits, `.`, `_`, `-`, a letter or digit first")
    taken = [provider for provider in PROVIDERS if (folder / provider / f"{name}.ndjson").exists()]
    if taken or name in load_settings(folder / CASES_FILE):
        raise UsageError(f"`{name}`: expected the name of a new case; `{folder}` has one of this name")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, _OURS_ONLY)


def _section(name: str, settings: Mapping[str, object]) -> str:
    key = name if _BARE.fullmatch(name) else f'"{name}"'
    return "\n".join(["", f"[cases.{key}]", *_members(settings), ""])


def _members(table: Mapping[str, object], prefix: str = "") -> Iterator[str]:
    """Write members as TOML: its plain values are JSON's, but for one character that only JSON takes as it is."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _members(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name} = " + codec.dumps(value).decode().replace("\x7f", "\\u007f")
