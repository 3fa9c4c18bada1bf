"""Exceptions, for mistakes of the caller only; a failure of a stream is a `projector.core.faults.Fault`.

ValueError
  UsageError                                unknown name, or options that do not fit together
  projector.redaction.policy.PolicyError    invalid policy
  projector.contracts.codec.CodecError      text that is not JSON; never leaves a stage
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

REPEATED: Final = "it is already written above"
"""What is wrong with a table or a setting that a TOML file has twice."""


class UsageError(ValueError):
    """An argument of the caller is unknown or not allowed; the message names what was expected."""


def toml_problem(error: ValueError) -> str:
    """Return what a TOML parser expected, and where, without the names and values that it read."""
    text, _, position = str(error).partition(" (at ")
    reason = REPEATED if text.startswith(("Cannot ", "Duplicate ")) else text[:1].lower() + text[1:]
    return f"invalid TOML at {position.removesuffix(')') or 'an unknown position'}: {reason}"


def file_problem(error: OSError | ValueError) -> str:
    """Return why a file was not read: its path, its permissions, its encoding, or its TOML."""
    if isinstance(error, FileNotFoundError):
        return "not found"
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror}"
    return "expected UTF-8" if isinstance(error, UnicodeDecodeError) else toml_problem(error)


def missing_package(name: str | None, extras: str) -> str:
    """Return the message about a package that extras of this one install."""
    project = f"public-stream-projector[{extras}]"
    return f'`{name}` is missing; install `{project}`; in a clone: `pip install ".[{extras}]"`'


def known_name(what: str, name: str, known: Collection[str]) -> str:
    """Return a known name; raise `UsageError` for any other, with the known names, the closest first."""
    if name in known:
        return name
    names = list(known)
    import difflib  # noqa: PLC0415 - only for the message of a failure

    nearest = difflib.get_close_matches(name, names, n=1, cutoff=0.0)
    listed = ", ".join(f"`{one}`" for one in [*nearest, *(one for one in names if one not in nearest)])
    raise UsageError(f"unknown {what} `{name[:80]}`; known: {listed}")
