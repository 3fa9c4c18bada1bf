"""Mutations of golden inputs, as providers, proxies and attackers might cause them, in events and in their JSON.

A stream is a list of lines, one event each, as in `examples_ndjson`. Each mutation is one row of `MUTATIONS`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from pathlib import Path
from random import Random
from typing import Any, Final, TypeAlias

from hypothesis import strategies as st

from projector.core.handlers import DROPPED, HANDLERS, HOST_HANDLERS, items
from projector.recording import replay

Lines: TypeAlias = list[bytes]
Place: TypeAlias = tuple[str | int, ...]
Edit: TypeAlias = Callable[[Random, Any, str | int], None]
Mutation: TypeAlias = Callable[[Random, Lines], Lines]

CASES: Final = replay.load_cases(Path(__file__).parents[2] / "examples_ndjson")

VALUES: Final[tuple[object, ...]] = (
    *(None, True, False, 0, 1, -1, 7, 1_000_000, 2**31, 2**53, 2**63, 10**40, -(10**40)),
    *(0.5, -0.0, 1e308, float("nan"), float("inf"), float("-inf")),
    *("", " ", "\0", "\n", "text", "{", '{"a":', '{"a": 1} 2', "null", "in_progress", "completed", "failed"),
    *("\ud83d", "\udd11", "a\ud83d", "\U0001f511", "\N{COMBINING ACUTE ACCENT}" * 40, "é" * 300, "long " * 4_000),
    *("https://example.org/a?b=c", "javascript:alert(1)", "data:text/plain,x", "//example.org", "AAAA" * 10, "AAA="),
    *([], {}, [[]], [{}], [None], ["a", 1, None], [[[[[[[[[[]]]]]]]]]]),
    *({"type": None}, {"text": ["a"]}, {"": ""}, {"a": {"a": {"a": []}}}, {"type": "message"}, {"id": 7}),
    *({"code": 429, "message": "m"}, {"code": "rate_limit_exceeded"}, {"message": "\ud83d"}),
)
"""Values that replace the value of a member."""

NOISE: Final = (
    *(b"null", b"[]", b"7", b'"text"', b"{}", b'{"type":null}', b'{"type":7}', b'{"type":[]}', b'{"type":"unknown"}'),
    *(b'{"type":"' + b"n" * 200 + b'"}', b'{"error":{"message":"m","code":"server_error"}}', b'{"error":"m"}'),
    *(b'{"type":"error"}', b'{"type":"projector.cancel"}', b'{"type":"response.completed"}', b"[DONE]"),
    *(b"[" * 300 + b"]" * 300, b'{"a":' * 2_000 + b"1" + b"}" * 2_000, b'{"type":"keepalive","sequence_number":"9"}'),
)
"""JSON that is not a complete event."""

GARBAGE: Final = (b"{", b"\xff\xfe", b"<html>502</html>", b"data", b'{"type":"response.created"', b"\xf0\x9f")
"""Lines that are not JSON; they end the stream."""

TYPES: Final = (*HANDLERS, *DROPPED, *HOST_HANDLERS, *items.FINISHERS, *items.ITEMS_ONLY, "projector.next_response")
"""Types of events and items."""


def lines_of(case: replay.Case) -> Lines:
    """Return the lines of a golden input."""
    return case.source.read_bytes().splitlines()


def parsed(line: bytes) -> Any:
    """Return the JSON value of a line, or None."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def places(tree: object, place: Place = ()) -> Iterator[tuple[Place, object]]:
    """Yield path and value of every node of a tree below its root."""
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for step, child in children:
        yield (*place, step), child
        yield from places(child, (*place, step))


def node_at(tree: Any, way: Sequence[str | int]) -> Any:
    """Return the node at the end of a path."""
    return reduce(lambda holder, step: holder[step], way, tree)


ALL_LINES: Final = [line for case in CASES for line in lines_of(case)]


def _by_member() -> dict[str, list[str]]:
    values: dict[str, dict[str, None]] = {}
    for line in ALL_LINES:
        for place, value in places(parsed(line)):
            if isinstance(place[-1], str):
                values.setdefault(place[-1], {})[json.dumps(value)] = None
    return {name: [*values[name]] for name in sorted(values)}


BY_MEMBER: Final = _by_member()
"""Name of a member -> its values in all golden inputs, as JSON."""


def truncate(random: Random, lines: Lines) -> Lines:
    return lines[: any_place(random, lines)]


def behead(random: Random, lines: Lines) -> Lines:
    return lines[any_place(random, lines) :]


def drop(random: Random, lines: Lines) -> Lines:
    at = any_place(random, lines)
    return lines[:at] + lines[at + 1 :]


def duplicate(random: Random, lines: Lines) -> Lines:
    at, to = any_place(random, lines), any_place(random, lines)
    return lines[:to] + lines[at : at + 1] + lines[to:]


def move(random: Random, lines: Lines) -> Lines:
    at, to = any_place(random, lines), any_place(random, lines)
    rest = lines[:at] + lines[at + 1 :]
    return rest[:to] + lines[at : at + 1] + rest[to:]


def reverse(random: Random, lines: Lines) -> Lines:
    start, end = sorted((any_place(random, lines), any_place(random, lines)))
    return lines[:start] + lines[start:end][::-1] + lines[end:]


def shuffle(random: Random, lines: Lines) -> Lines:
    return random.sample(lines, len(lines))


def repeat(random: Random, lines: Lines) -> Lines:
    """Repeat the end of the stream."""
    return lines + lines[any_place(random, lines) :]


def insert(random: Random, lines: Lines) -> Lines:
    """Insert an event of any case at any position."""
    return _insert(random, lines, ALL_LINES)


def insert_noise(random: Random, lines: Lines) -> Lines:
    return _insert(random, lines, NOISE)


def insert_garbage(random: Random, lines: Lines) -> Lines:
    return _insert(random, lines, GARBAGE)


def weave(random: Random, lines: Lines) -> Lines:
    """Interleave the lines of another case."""
    other, at, step = lines_of(random.choice(CASES)), any_place(random, lines), random.randint(1, 3)
    ours = lines[at:]
    most = max(len(other), len(ours))
    woven = [line for k in range(0, most, step) for line in (*other[k : k + step], *ours[k : k + step])]
    return lines[:at] + woven


def cut_bytes(random: Random, lines: Lines) -> Lines:
    """Remove some bytes of a line."""
    at = any_place(random, lines)
    line = b"".join(lines[at : at + 1])
    start, end = sorted((random.randint(0, len(line)), random.randint(0, len(line))))
    return [*lines[:at], line[:start] + line[end:], *lines[at + 1 :]]


def replace_member(random: Random, holder: Any, step: str | int) -> None:
    """Replace the value of a member with an arbitrary value."""
    holder[step] = random.choice(VALUES)


def borrow_member(random: Random, holder: Any, step: str | int) -> None:
    """Replace the value of a member with one from another event: another id, index, type, status, item, delta."""
    if isinstance(step, str):
        holder[step] = json.loads(random.choice(BY_MEMBER.get(step, ["null"])))


def change_type(random: Random, holder: Any, step: str | int) -> None:
    """Change the type of an event, or of an item in it."""
    target = holder[step] if isinstance(holder[step], dict) else holder
    if isinstance(target, dict):
        target["type"] = random.choice(TYPES)


def remove_member(_random: Random, holder: Any, step: str | int) -> None:
    holder.pop(step)


def add_member(random: Random, holder: Any, _step: str | int) -> None:
    """Add a member of another event."""
    name = random.choice([*BY_MEMBER])
    if isinstance(holder, dict):
        holder[name] = json.loads(random.choice(BY_MEMBER[name]))


def nest_member(random: Random, holder: Any, step: str | int) -> None:
    """Wrap a value into a list or an object, or make it JSON text."""
    holder[step] = random.choice(WRAPS)(holder[step])


WRAPS: Final[tuple[Callable[[object], object], ...]] = (
    lambda value: [value],
    lambda value: [value, value],
    lambda value: {"type": value},
    json.dumps,
    lambda value: [value] * 1_100,
    lambda value: reduce(lambda inner, _: [inner], range(70), value),
)

EDITS: Final[tuple[Edit, ...]] = (
    replace_member,
    borrow_member,
    change_type,
    remove_member,
    add_member,
    nest_member,
)
"""Mutations of one member of one event."""


def edit(random: Random, lines: Lines) -> Lines:
    """Mutate one node of one event."""
    at = any_place(random, lines)
    tree = parsed(b"".join(lines[at : at + 1]))
    found = [place for place, _ in places(tree)]
    if not found:
        return lines
    *way, step = random.choice(found)
    random.choice(EDITS)(random, node_at(tree, way), step)
    text = json.dumps(tree, ensure_ascii=random.random() < 1 / 2)
    return [*lines[:at], text.encode("utf-8", "surrogatepass"), *lines[at + 1 :]]


MUTATIONS: Final[tuple[Mutation, ...]] = (
    *(truncate, behead, drop, duplicate, move, reverse, shuffle, repeat, weave),
    *(insert, insert_noise, insert_garbage, cut_bytes),
    *(edit,) * 12,
)
"""Mutations of a stream; half of them change the inside of an event."""


KEEPING_MEMBERS: Final = tuple(mutate for mutate in MUTATIONS if mutate is not cut_bytes)
"""Mutations that leave a value under its own name, or under `type`."""


def spoil(random: Random, most: int, mutations: Sequence[Mutation] = MUTATIONS) -> tuple[replay.Case, Lines]:
    """Return a case, and its lines after 1 to `most` mutations."""
    case = random.choice(CASES)
    lines = lines_of(case)
    for _ in range(random.randint(1, most)):
        lines = random.choice(mutations)(random, lines)
    return case, lines


def spoiled(most: int = 4, mutations: Sequence[Mutation] = MUTATIONS) -> st.SearchStrategy[tuple[replay.Case, Lines]]:
    """Return a strategy for cases, with their lines after 1 to `most` mutations."""
    return st.randoms(use_true_random=False).map(lambda random: spoil(random, most, mutations))


def any_place(random: Random, lines: Lines) -> int:
    return random.randint(0, len(lines))


def _insert(random: Random, lines: Lines, what: Sequence[bytes]) -> Lines:
    to = any_place(random, lines)
    return [*lines[:to], random.choice(what), *lines[to:]]
