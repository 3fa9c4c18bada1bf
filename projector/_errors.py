"""Exceptions, for mistakes of our caller only; what goes wrong with a stream is a `projector.core.faults.Fault`.

ValueError
  UsageError                      a name or combination that the library does not know
  projector.redaction.policy.PolicyError    a policy that cannot be
  projector.contracts.codec.CodecError      a text that is not JSON; stays inside a stage
"""

from __future__ import annotations

from collections.abc import Iterable


class UsageError(ValueError):
    """The caller asked for something that does not exist; the message names what does."""


def known_name(what: str, name: str, known: Iterable[str]) -> str:
    """Give the name back, if it is known.

    Raises:
        UsageError: it is not; the message lists what is, the nearest first.
    """
    names = list(known)
    if name in names:
        return name
    import difflib  # noqa: PLC0415 - only for the message of a failure

    nearest = difflib.get_close_matches(name, names, n=1, cutoff=0.0)
    listed = ", ".join(f"`{one}`" for one in [*nearest, *(one for one in names if one not in nearest)])
    raise UsageError(f"unknown {what} `{name[:80]}`; known: {listed}")
