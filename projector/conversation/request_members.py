"""Parameters of a request in neutral terms, and where each API has them: one table for each API, read both ways.

Values have the shape of the Responses API, unless a row of another API says how they are read and written there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from projector.conversation.given_members import NOT_SUPPORTED, Given
from projector.conversation.model_request import Body, UnsupportedRequestError


def _same(given: Given, name: str) -> object:
    return given.members[name]


def _as_it_is(value: Any) -> object:
    return value


class Member(NamedTuple):
    """Where a parameter is in the body of an API."""

    path: str
    """Names joined by `.`."""
    read: Callable[[Given, str], object] = _same
    """Returns the neutral value of a member of an object; None if it says nothing."""
    write: Callable[[Any], object] = _as_it_is
    """Returns the value in this API; raises `UnsupportedRequestError` if it has none."""


Members: TypeAlias = Mapping[str, Member]
"""Name of a parameter -> the member of the API."""


def same_names(*names: str) -> dict[str, Member]:
    """Return the rows of parameters that an API has at the top of the body, under their neutral names."""
    return {name: Member(name) for name in names}


HINTS: Final = frozenset(
    {
        *("metadata", "truncation", "user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"),
        *("verbosity", "service_tier"),
    }
)
"""Parameters that an API without them may ignore: they are hints, or change nothing of an answer."""

STREAMING: Final = frozenset({"model", "stream", "stream_options"})
"""Members that the server sets itself."""


def read_parameters(
    body: Given, members: Members, read_elsewhere: Collection[str], defaults: Mapping[str, object]
) -> tuple[dict[str, object], dict[str, str]]:
    """Return the parameters of a body by their neutral names, and the path of each in the body.

    Args:
        body: the caller's body.
        members: the table of its API.
        read_elsewhere: members that are no parameters.
        defaults: path -> value that changes nothing, so that it is valid for every API.

    Raises:
        UnsupportedRequestError: a member is in no table.
    """
    names = {member.path: name for name, member in members.items()}
    outer = {path.partition(".")[0] for path in names if "." in path}
    values: dict[str, object] = {}
    paths: dict[str, str] = {}
    for name in body.members:
        if name in read_elsewhere or name in STREAMING:
            continue
        given = body.child(name) if name in outer else body
        for member in given.members if name in outer else (name,):
            path = given.path_of(member)
            if path in defaults and given.members[member] == defaults[path]:
                continue
            if path not in names:
                given.refuse(member, NOT_SUPPORTED)
            value = members[names[path]].read(given, member)
            if value is not None:
                values[names[path]], paths[names[path]] = value, path
    return values, paths


def write_parameters(body: Body, parameters: Mapping[str, object], members: Members, paths: Mapping[str, str]) -> None:
    """Set parameters in a body; raise `UnsupportedRequestError` for one that the API does not have.

    Args:
        body: the body; its nested objects are copied.
        parameters: values by their neutral names.
        members: the table of the API.
        paths: name -> path of the parameter in the caller's request, for errors.
    """
    for name, value in parameters.items():
        given = paths.get(name, name)
        if name not in members:
            raise UnsupportedRequestError(f"`{given}` {NOT_SUPPORTED}", given)
        *outer, last = members[name].path.split(".")
        node = body
        for key in outer:
            node[key] = dict(node.get(key) or {})  # the configuration must not change
            node = node[key]
        node[last] = members[name].write(value)
