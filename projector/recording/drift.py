"""What changed between two recordings of one request: kinds of events, their members, and their order.

A model writes another text each time, so texts, numbers and the lengths of lists are not compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final, NamedTuple

from projector.contracts import codec

_MAX_DEPTH: Final = 8
_OPAQUE: Final = frozenset({"args", "arguments", "input", "output", "metadata", "logprobs", "headers"})
"""Members with objects that a model, a tool or a caller names: their members are not those of the API."""
_NULL: Final = "null"
_BEGIN: Final = "(begin)"
_END: Final = "(end)"
_TYPES: Final[Mapping[type, str]] = {
    str: "string",
    bool: "boolean",
    int: "number",
    float: "number",
    list: "list",
    dict: "object",
    type(None): _NULL,
}


class _Basis(NamedTuple):
    """Members of the events of the first recording: by those that only some have, events without a type are told apart.

    A member that is new in each event, or an event of another kind, must not rename all of them.
    """

    every: frozenset[str]
    """Paths that every event has."""
    some: frozenset[str]
    """Paths that only some have."""


class _Outline(NamedTuple):
    """Kinds of a stream, the JSON types of their members by path, and which kind follows which."""

    kinds: dict[str, dict[str, set[str]]]
    order: dict[tuple[str, str], None]


def drift(before: bytes, now: bytes) -> list[str]:
    """Return a sentence for each change between two recordings of a provider's stream, as NDJSON."""
    values = _values(before)
    basis = _basis(values)
    old, new = _outline(values, basis), _outline(_values(now), basis)
    found = [f"kinds: new `{kind}`" for kind in new.kinds if kind not in old.kinds]
    found += [f"kinds: no `{kind}`" for kind in old.kinds if kind not in new.kinds]
    both = [kind for kind in old.kinds if kind in new.kinds]
    for kind in both:
        found += [f"members of `{kind}`: {change}" for change in _members(old.kinds[kind], new.kinds[kind])]
    known = {*both, _BEGIN, _END}
    found += [f"order: `{one}`, then `{other}` is new" for one, other in new.order if _is_new(one, other, old, known)]
    found += [f"order: `{one}`, then `{other}` is gone" for one, other in old.order if _is_new(one, other, new, known)]
    return found


def _is_new(one: str, other: str, there: _Outline, known: set[str]) -> bool:
    """Return whether a pair is not in the other stream, although both of its kinds are."""
    return (one, other) not in there.order and one in known and other in known


def _members(old: dict[str, set[str]], new: dict[str, set[str]]) -> Iterator[str]:
    for path, types in new.items():
        if path not in old:
            if types != {_NULL} and _holder(path) in old:
                yield f"new `{path}` ({_listed(types)})"
        elif (more := types - old[path] - {_NULL}) and old[path] != {_NULL}:
            yield f"`{path}` is {_listed(more)} (before: {_listed(old[path])})"
    for path, types in old.items():
        if path not in new and types != {_NULL} and _holder(path) in new:
            yield f"no `{path}`"


def _holder(path: str) -> str:
    """Return the path of the object that has a member; what a missing object contains is not listed."""
    return path.rpartition(".")[0]


def _listed(types: set[str]) -> str:
    return " or ".join(sorted(types))


def _values(data: bytes) -> list[Any]:
    return [_value(line) for line in data.splitlines() if line.strip()]


def _basis(values: list[Any]) -> _Basis:
    paths = [_paths(value).keys() for value in values if isinstance(value, dict)]
    every = frozenset[str]().union(*paths[:1]).intersection(*paths)
    return _Basis(every, frozenset[str]().union(*paths) - every)


def _outline(values: list[Any], basis: _Basis) -> _Outline:
    kinds: dict[str, dict[str, set[str]]] = defaultdict(dict)
    steps: list[str] = [_BEGIN]
    for value in values:
        found = _paths(value)
        kind = _kind(value, found, basis)
        for path, types in found.items():
            kinds[kind].setdefault(path, set()).update(types)
        if kind != steps[-1]:
            steps.append(kind)
    return _Outline(dict(kinds), dict.fromkeys(pairwise([*steps, _END])))


def _value(line: bytes) -> Any:
    try:
        return codec.loads(line)
    except codec.CodecError:
        return line.decode("utf-8", "replace")  # such as `[DONE]`


def _kind(value: Any, paths: Mapping[str, set[str]], basis: _Basis) -> str:
    """Return the type of an event; of one without a type, the members with a value that not every event has."""
    if not isinstance(value, dict):
        return str(value)[:80]
    if isinstance(value.get("type"), str):
        item = value.get("item")
        inner = item.get("type") if isinstance(item, dict) else None
        return f"{value['type']} ({inner})" if isinstance(inner, str) else value["type"]
    said = [path for path, types in paths.items() if types != {_NULL}]
    own = [path for path in said if path in basis.some or (path not in basis.every and not paths.keys() >= basis.every)]
    leaves = {path if "[]" in path else path.partition(".")[0] for path in own}
    ends = sorted(one for one in leaves if not any(other.startswith(f"{one}.") for other in leaves))
    return " ".join(ends) or "(event)"


def _paths(value: Any) -> dict[str, set[str]]:
    """Return the path of each member and its types; entries of a list with a `type` are told apart by it."""
    found: dict[str, set[str]] = {}
    _collect(value, "", 0, found)
    return found


def _collect(value: Any, path: str, depth: int, found: dict[str, set[str]]) -> None:
    found.setdefault(path, set()).add(_TYPES.get(type(value), "other"))
    if depth >= _MAX_DEPTH or (path.rpartition(".")[2] in _OPAQUE and not isinstance(value, list)):
        return
    if isinstance(value, dict):
        for name, member in value.items():
            _collect(member, f"{path}.{name}" if path else name, depth + 1, found)
    elif isinstance(value, list):
        for entry in value:
            kind = entry.get("type") if isinstance(entry, dict) else None
            _collect(entry, f"{path}[{kind if isinstance(kind, str) else ''}]", depth + 1, found)
