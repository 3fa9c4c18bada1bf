"""A recording as a case of a folder for `projector replay`: its input and its settings."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from projector._errors import UsageError
from projector.contracts import codec
from projector.core.faults import Fault
from projector.core.input_formats import InputFormat
from projector.providers import PROVIDERS
from projector.recording.lines import encode_line, read_lines
from projector.recording.replay import CASES_FILE, inputs_of, load_settings
from projector.recording.withholding import Withheld, withhold
from projector.redaction.spans import Finder

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_PRIVATE_MODE: Final = 0o600
"""File mode: only the owner can read a recording, because it contains a conversation."""


class Recording(NamedTuple):
    """A provider's stream as the content of a case."""

    provider: str
    data: bytes
    events: int
    withheld: int
    """Strings, numbers and keys that were changed. Omitted configuration is not counted."""
    settings: Mapping[str, object] = {}
    """Settings of the case that differ from the defaults of `projector.recording.replay.CaseSettings`."""
    end: str = ""
    """Status of the terminal `final`, or code of the terminal `error`; empty if it is not known."""


def record(
    provider: str,
    stream: bytes,
    finder: Finder | None,
    *,
    fault: Fault | None = None,
    settings: Mapping[str, object] | None = None,
    input_format: InputFormat = "sse",
) -> Recording:
    """Return the recording of a stream that has ended.

    Args:
        provider: a name of `projector.providers.PROVIDERS`.
        stream: all its bytes.
        finder: finds what is withheld; None keeps everything.
        fault: how the transport failed at the end; None: a clean end of input.
        settings: further settings of the case.
        input_format: format of `stream`.
    """
    if finder is None:
        found = read_lines(provider, stream, input_format)
        kept = Withheld(found.values, 0)
    else:
        found = read_lines(provider, stream, input_format, finder.pause)
        kept = withhold(provider, found.values, finder)
    close = found.fault or fault
    case = {**(settings or {}), "close": close.code if close else None}
    data = b"".join(encode_line(value) + b"\n" for value in kept.values)
    set_only = {name: value for name, value in case.items() if value}
    return Recording(provider, data, len(kept.values), kept.changed, set_only)


def write(folder: Path, name: str, recording: Recording) -> Path:
    """Write a recording as a new case, and return the path of its input. A failed write leaves no input.

    Raises:
        UsageError: as `check_name`.
        OSError: the files cannot be written.
    """
    check_name(folder, name)
    source = folder / inputs_of(recording.provider) / f"{name}.ndjson"
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
    """Raise `UsageError` if a new case cannot have this name, or the folder's settings cannot be read."""
    if not _NAME.fullmatch(name):
        raise UsageError("name of a case: expected a letter or digit, then up to 127 letters, digits, `.`, `_`, `-`")
    taken = [provider for provider in PROVIDERS if (folder / inputs_of(provider) / f"{name}.ndjson").exists()]
    if taken or name in load_settings(folder / CASES_FILE):
        raise UsageError(f"`{name}`: expected a new name; `{folder}` has a case with this name")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, _PRIVATE_MODE)


def _section(name: str, settings: Mapping[str, object]) -> str:
    key = name if _BARE.fullmatch(name) else f'"{name}"'
    return "\n".join(["", f"[cases.{key}]", *_members(settings), ""])


def _members(table: Mapping[str, object], prefix: str = "") -> Iterator[str]:
    """Yield members as TOML. Its plain values are those of JSON, except that DEL must be escaped."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _members(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name} = " + codec.dumps(value).decode().replace("\x7f", "\\u007f")
