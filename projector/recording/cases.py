"""A recording as a case of a folder for `projector replay`, its input and its settings; also as a file of its own."""

from __future__ import annotations

import io
import os
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final, NamedTuple

from projector._errors import UsageError
from projector.contracts import codec
from projector.core.faults import Fault
from projector.core.input_formats import InputFormat
from projector.recording.replay import CASES_FILE, CaseSettings, inputs_of, load_settings, project, sources
from projector.recording.withholding import Withheld, encode_line, read_lines, withhold
from projector.redaction.whole_values import Finder

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_CLOSE: Final = re.compile(r"\s*close\s*=")
REQUESTS: Final = "requests"
"""Folder of the requests, each at `<upstream>/<case>.json`."""
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


class StoredRequest(NamedTuple):
    """The request of a case."""

    case: str
    upstream: str
    path: Path


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


def write(folder: Path, name: str, recording: Recording, *, is_replacing: bool = False) -> Path:
    """Write a recording as a case, and return the path of its input. A failed write leaves the folder as it was.

    A case that is replaced keeps its table in the settings, except how the stream was cut off.

    Raises:
        UsageError: as `check_name`.
        OSError: the files cannot be written.
    """
    check_name(folder, name, is_replacing=is_replacing)
    source = folder / inputs_of(recording.provider) / f"{name}.ndjson"
    old = stored_input(folder, name)
    if old is not None and old != source:
        raise UsageError(f"`{name}`: expected a stream of `{old.parent.name}` like that of the case; remove it first")
    settings = recording.settings
    if name in load_settings(folder / CASES_FILE):
        _replace_close(folder / CASES_FILE, name, settings.get("close"))
        settings = {}
    source.parent.mkdir(parents=True, exist_ok=True)
    _write_private(source, recording.data)
    if settings:
        # one write at the end of the file: several servers may record into one folder
        with open(folder / CASES_FILE, "ab", buffering=0, opener=_private) as file:
            file.write(_section(name, settings).encode())
    return source


def pack(name: str, recording: Recording, dialects: Sequence[str]) -> bytes:
    """Return a folder with one case, as a ZIP file: its settings, its input, and its golden file in each dialect."""
    settings = {**recording.settings, "dialects": [*dialects]}
    checked, file = CaseSettings.model_validate(settings), f"{name}.ndjson"
    contents = {CASES_FILE: _section(name, settings).lstrip().encode()}
    contents[f"{inputs_of(recording.provider)}/{file}"] = recording.data
    for dialect in dialects:
        contents[f"{dialect}/{file}"] = project(recording.provider, recording.data, checked, dialect)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, data in contents.items():
            entry = zipfile.ZipInfo(path)  # without times: equal cases are equal files
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def unpack(path: Path, folder: Path) -> None:
    """Write the folder of cases that a ZIP file has; raise `UsageError` if it is damaged."""
    try:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
        raise UsageError(f"{path}: expected a folder of cases, or a ZIP file: {error}") from None


def check_name(folder: Path, name: str, *, is_replacing: bool = False) -> None:
    """Raise `UsageError` if a case cannot have this name, or the folder's settings cannot be read.

    Only a case that is replaced may have the name of one in the folder.
    """
    if not _NAME.fullmatch(name):
        raise UsageError("name of a case: expected a letter or digit, then up to 127 letters, digits, `.`, `_`, `-`")
    settings = load_settings(folder / CASES_FILE)
    if not is_replacing and (stored_input(folder, name) is not None or name in settings):
        raise UsageError(
            f"`{name}`: expected a new name; `{folder}` has a case with this name (`--force` records it again)"
        )


def stored_input(folder: Path, name: str) -> Path | None:
    """Return the path of the input of a case, None if there is no such case."""
    paths = (folder / inputs_of(source) / f"{name}.ndjson" for source in sources())
    return next((path for path in paths if path.exists()), None)


def write_request(folder: Path, upstream: str, name: str, request: Mapping[str, object]) -> Path:
    """Write the request of a case, with which the case can be recorded again, and return its path."""
    path = folder / REQUESTS / upstream / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    _write_private(path, codec.dumps(request) + b"\n")
    return path


def check_folder(folder: Path) -> None:
    """Raise `UsageError` if no file can be written into a folder of cases, which need not exist."""
    try:
        with TemporaryFile(dir=next(one for one in (folder, *folder.parents) if one.exists())):
            pass
    except OSError as error:
        raise UsageError(f"{folder}: expected a folder that can be written: {error.strerror}") from None


def stored_requests(folder: Path, name: str | None = None) -> list[StoredRequest]:
    """Return the requests of a folder, or the one of a case; raise `UsageError` if there is none."""
    paths = sorted((folder / REQUESTS).glob(f"*/{name or '*'}.json"))
    if not paths:
        where = folder / REQUESTS / "<upstream>" / f"{name or '<case>'}.json"
        raise UsageError(f"expected requests at `{where}`, as `projector record --keep-request` writes them")
    return [StoredRequest(path.stem, path.parent.name, path) for path in paths]


def _write_private(path: Path, data: bytes) -> None:
    unfinished = path.with_suffix(".part")
    try:
        with open(unfinished, "wb", opener=_private) as file:
            file.write(data)
        unfinished.replace(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise


def _replace_close(path: Path, name: str, close: object) -> None:
    """Write how a case is cut off into its table; the other lines of the file stay."""
    keys = {f"[cases.{name}]", f'[cases."{name}"]'}
    lines = path.read_text("utf-8-sig").splitlines(keepends=True)
    begin = next((at for at, line in enumerate(lines) if line.strip() in keys), None)
    if begin is None:
        raise UsageError(f"{path.name}: `{name}`: expected its settings as a table `[cases.{name}]`")
    end = next((at for at in range(begin + 1, len(lines)) if lines[at].startswith("[")), len(lines))
    kept = [line for line in lines[begin + 1 : end] if not _CLOSE.match(line)]
    new = [f'close = "{close}"\n'] if close else []
    text = "".join([*lines[: begin + 1], *new, *kept, *lines[end:]])
    if text != "".join(lines):
        _write_private(path, text.encode())


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
