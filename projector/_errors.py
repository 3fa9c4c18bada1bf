"""Exceptions, for mistakes of the caller only; a failure of a stream is a `projector.core.faults.Fault`.

ValueError
  UsageError                                unknown name, or options that do not fit together
    projector.redaction.policy.PolicyError  invalid policy
  projector.contracts.codec.CodecError      text that is not JSON; never leaves a stage
"""

from __future__ import annotations

from collections.abc import Collection
from inspect import iscoroutinefunction


class UsageError(ValueError):
    """An argument of the caller is unknown or not allowed; the message names what was expected."""


def check_argument(name: str, expected: str, *, holds: bool) -> None:
    """Raise `UsageError` with what was expected of an argument, unless it holds."""
    if not holds:
        raise UsageError(f"`{name}`: expected {expected}")


def check_function(name: str, expected: str, function: object) -> None:
    """Raise `UsageError` if an argument cannot be called, or must be awaited."""
    check_argument(name, expected, holds=callable(function))
    call = getattr(function, "__call__", None)  # noqa: B004 - that of an object may be `async`
    is_async = iscoroutinefunction(function) or iscoroutinefunction(call)
    check_argument(name, "a function without `async`, which is called and not awaited", holds=not is_async)


def check_positive(name: str, number: object) -> None:
    """Raise `UsageError` if an argument is not a number greater than 0."""
    check_argument(name, "a number greater than 0", holds=isinstance(number, int | float) and number > 0)


def missing_package(name: str | None, extras: str) -> str:
    """Return the message about a package that extras of this one install."""
    project = f"public-stream-projector[{extras}]"
    return f'`{name}` is missing; install `{project}`; in a clone: `pip install ".[{extras}]"`'


def known_name(what: str, name: object, known: Collection[str]) -> str:
    """Return a known name; raise `UsageError` for anything else, with the known names, the closest first."""
    if isinstance(name, str) and name in known:
        return name
    names = list(known)
    if not isinstance(name, str):
        raise UsageError(f"{what}: expected one of {', '.join(f'`{one}`' for one in names)}")
    import difflib  # noqa: PLC0415 - only for the message of a failure

    nearest = difflib.get_close_matches(name, names, n=1, cutoff=0.0)
    listed = ", ".join(f"`{one}`" for one in [*nearest, *(one for one in names if one not in nearest)]) or "none"
    raise UsageError(f"unknown {what} `{name[:80]}`; known: {listed}")
