"""No part of six characters of a secret leaves; secret, disguise, context, place, dialect and cuts are drawn.

The tables are in `drawn_secrets.py`, `drawn_texts.py` and `drawn_streams.py`. A draw that makes no sense is excluded by
a row of `EXCLUDED`. A failure is reduced to a draw with as few unusual choices as possible, and printed as one line.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from random import Random
from typing import Final, NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from projector.core.sse import DONE
from projector.dialects import DIALECTS
from projector.redaction.format_search import TURNS
from tests.property.canaries import Event
from tests.property.drawn_secrets import (
    GENERATED_FIRST,
    KINDS,
    MARKED_LATE,
    OPENINGS,
    SAMPLES,
    WINDOW_CHARS,
    Secret,
    draw_secret,
)
from tests.property.drawn_streams import (
    ID_PLACES,
    PAUSES,
    PLACES,
    TERMINALS,
    TEXT_PLACES,
    played,
    random_cuts,
    random_pieces,
    readable,
)
from tests.property.drawn_texts import CONTEXTS, DISGUISES, NUMBERS, PROSE, write
from tests.property.soundness import EFFORT, examples, frames_of

DRAWS: Final = 2_000 if EFFORT == 1 else 20_000 * EFFORT
"""Draws of `make test`, which are the same in every run, or of `make fuzz`: a million new ones."""
DRAWS_PER_STREAM: Final = 25


class Choice(NamedTuple):
    """One choice of each table, by name; `seed` decides the characters of the secret and its pieces."""

    kind: str
    context: str
    disguise: str
    place: str
    seed: int

    def __str__(self) -> str:
        return f"{self.kind} | {self.context} | {self.disguise} | {self.place}"


class Drawn(NamedTuple):
    """A secret in its text and the events that contain it."""

    choice: Choice
    text: str
    windows: frozenset[str]
    events: list[Event]


class Excluded(NamedTuple):
    """Names of the tables, with wildcards, whose combinations are not drawn; a context is `<spelling>:<name>`."""

    kind: str = "*"
    context: str = "*"
    disguise: str = "*"
    place: str = "*"


EXCLUDED: Final[Mapping[Excluded, str]] = {
    **dict.fromkeys(
        (Excluded("password:*", f"*:{name}") for name in PROSE),
        "a password is known by its name only",
    ),
    **dict.fromkeys(
        (
            *(Excluded(kind, f"*:{name}") for kind in ("[!r]*", "registered:[!d]*") for name in NUMBERS),
            *(Excluded(context=f"*:{name}", disguise="[!nj]*") for name in NUMBERS),
            *(Excluded(context=f"*:{name}", disguise="joiners*") for name in NUMBERS),
        ),
        "only digits are a number",
    ),
    Excluded("[!p]*", "*:pem*"): "what a PEM block contains is a key",
    Excluded("password:*", "*:pem*"): "what a PEM block contains is a key",
    Excluded("pem", "[!bil]*"): "a key of several lines is in a PEM block",
    Excluded("pem", "*:[!p]*"): "a key of several lines is in a PEM block",
    Excluded("pem", "*:p[!e]*"): "a key of several lines is in a PEM block",
    Excluded("password:blanks", "bare:*"): "without quotes a value ends at a blank",
    Excluded("password:quotes", "bare:*"): "a value with quotes is in quotes",
    Excluded("password:quotes", "single:header option"): "a header has no such value",
    Excluded("password:blanks", "single:header option"): "a header has no such value",
    Excluded("password:accents", "single:python bytes"): "Python has no such literal",
    **dict.fromkeys(
        (Excluded(f"password:{name}", "bare:url password raw") for name in ("symbols", "marks")),
        "`@` and `?` are written as `%40` and `%3F` in an address",
    ),
    **{
        Excluded(kind, "*:url password*"): "an address is no password in another one"
        for kind, sample in SAMPLES.items()
        if "://" in sample
    },
    **{
        Excluded(kind, "bare:url password raw", "array"): "`/` is written as `%2F` in the password of an address"
        for kind, sample in SAMPLES.items()
        if "/" in sample
    },
    **dict.fromkeys(
        (Excluded(kind, disguise="array") for kind in (*MARKED_LATE, *GENERATED_FIRST)),
        "its mark comes behind characters of its own, which have left by then",
    ),
    **dict.fromkeys(
        (Excluded(f"format:{name}*", disguise="array") for name in ("authorization-code", "websocket-token")),
        "it is known by its length, which the first strings do not have",
    ),
    **dict.fromkeys(
        (
            Excluded(f"format:{name}*", f"*:{context}", "array")
            for name in ("argon2-hash", "phc-hash")
            for context in CONTEXTS
            if context not in PROSE
        ),
        "a value without quotes ends at a comma, which is in the hash",
    ),
    Excluded("[!p]*", "*:yaml [bf]*", "array"): "the first piece of a block, with the beginning of a mark, is withheld",
    Excluded("registered:*", "*", "* inside"): "a registered value is compared as it is",
    Excluded("registered:*", "*", "entities"): "a registered value is compared as it is, or as JSON",
    Excluded("registered:quotes", "[!bju]*"): "a registered value is compared as it is, or as JSON",
    **{
        Excluded(kind, "markup:*", disguise): "an entity with other characters in it is none"
        for disguise in ("* inside", "entities")
        for kind, sample in SAMPLES.items()
        if set(sample) & set("&<>'\"")
    },
    Excluded("*", "[!m]*", "entities"): "only markup has entities",
    Excluded("*", "percent:*", "coloured value"): "an address has no colours",
    Excluded("*", "base64:*", "coloured value"): "base64 has no colours",
    Excluded("password:*", "*", "array"): "a word, `=` and a value are in one string, or lines in an array",
    **{
        Excluded(place=place, disguise=disguise): "a key is never parsed as JSON"
        for place in ("arguments key", "host output key")
        for disguise in ("json*", "*escaped", "array*")
    },
    **{
        row: "an id is one word"
        for place in ID_PLACES
        for row in (
            Excluded(place=place, context="*:[!a]*"),
            Excluded(place=place, context="*:a[!l]*"),
            Excluded(place=place, disguise="[!n]*"),
        )
    },
    **{
        Excluded(kind, place=place): "text of the model is searched for registered values"
        for kind in ("[!r]*",)
        for place in TEXT_PLACES
    },
    **{
        row: "text of the model is not decoded"
        for place in TEXT_PLACES
        for row in (
            Excluded(place=place, disguise="[!n]*"),
            Excluded("registered:[!p]*", "json:*", place=place),
            Excluded("registered:[!p]*", "percent:*", place=place),
        )
    },
}
"""Combinations that are not drawn -> why."""


LIMITS: Final[Mapping[Excluded, str]] = {
    Excluded("password:quotes", "markup:*", "* in key"): (
        "the key is found where the text is decoded, and there the entity of a quote ends the attribute"
    ),
}
"""Combinations that leave, and the reason. Each of them must still leave: `test_every_limit_is_one`."""


@cache
def _matches(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern)


@cache
def _rows_of_place(kind: str, place: str) -> list[Excluded]:
    return [row for row in (*EXCLUDED, *LIMITS) if _matches(kind, row.kind) and _matches(place, row.place)]


@cache
def _rows(kind: str, place: str, context: str) -> list[Excluded]:
    name = f"{CONTEXTS[context].spelling}:{context}"
    return [row for row in _rows_of_place(kind, place) if _matches(name, row.context)]


def _fits(disguise: str, rows: list[Excluded]) -> bool:
    return not any(_matches(disguise, row.disguise) for row in rows)


@cache
def contexts_of(kind: str, place: str) -> list[str]:
    """Return the contexts of a kind and place that are not excluded in every disguise."""
    return [name for name in CONTEXTS if all(row.disguise != "*" for row in _rows(kind, place, name))]


@cache
def kinds_of(place: str) -> list[str]:
    """Return the kinds of secrets that can be drawn for a place; one name stands for all formats."""
    kinds = dict.fromkeys(map(_row_name, KINDS))
    return [kind for kind in kinds if contexts_of(kind, place)]


@cache
def _row_name(kind: str) -> str:
    """Return the name of a kind in the tables: formats without a row of their own have the same rows."""
    rows = [row.kind for row in (*EXCLUDED, *LIMITS) if row.kind.startswith("format:")]
    return "format:" if kind in SAMPLES and not any(_matches(kind, row) for row in rows) else kind


def is_excluded(choice: Choice) -> bool:
    return not _fits(choice.disguise, _rows(_row_name(choice.kind), choice.place, choice.context))


def choose(random: Random, place: str) -> Choice:
    """Return a choice for a place that is not excluded."""
    known = kinds_of(place)
    kind = random.choice(known) if random.random() < OTHERS or "format:" not in known else "format:"
    context = random.choice(contexts_of(kind, place))
    disguise = random.choice([name for name in DISGUISES if _fits(name, _rows(kind, place, context))])
    kind = random.choice(_USUAL_FORMATS) if kind == "format:" else kind
    return Choice(kind, context, disguise, place, random.getrandbits(32))


_USUAL_FORMATS: Final = [kind for kind in SAMPLES if _row_name(kind) == "format:"]
OTHERS: Final = 0.6
"""Part of the draws that are no samples of formats."""
_SLOTS: Final = [name for name, place in PLACES.items() if not place.is_end]


def draw(choice: Choice, slot: int) -> Drawn:
    """Write a secret into its context, its disguise and its place."""
    random = Random(choice.seed)
    secret = draw_secret(random, choice.kind)
    context = CONTEXTS[choice.context]
    before, spelled, after = write(context, secret, random)
    if context.spelling == "base64":
        secret = Secret(secret.kind, spelled, (spelled[40:],))
    text = DISGUISES[choice.disguise](before, spelled, after, random)
    windows = {window for window in secret.windows if window not in before + after}
    if choice.disguise == "array" and (opening := OPENINGS.get(choice.kind)) is not None:
        marks = [found[0] for found in opening.finditer(secret.text)]
        windows = {window for window in windows if not any(window in mark for mark in marks)}
    if choice.kind in GENERATED_FIRST and (turns := TURNS.search(secret.text)) is not None:
        windows = {window for window in windows if window not in secret.text[: turns.end()]}
    events = PLACES[choice.place].events(slot, text, random_pieces(random))
    return Drawn(choice, text, frozenset(windows), events)


_HEX: Final = re.compile("[0-9a-fA-F-]*")
CHANCES: Final = 2
"""Windows of hexadecimal digits and hyphens that may stand in other digits by chance; eight characters have three."""


class Failure(NamedTuple):
    """What is wrong with a stream: its draw, or None if it is not of one draw."""

    choice: Choice | None
    what: str


def failures(choices: list[Choice], dialect: str, seed: int) -> Iterator[Failure]:
    """Play a stream of draws; yield what leaks, what is withheld without a notice, and a wrong number of terminals."""
    drawn = [draw(choice, 2 * at) for at, choice in enumerate(choices)]
    provider = PLACES[choices[0].place].provider
    events = [event for each in drawn for event in each.events]
    said = played(events, provider, dialect, random_cuts(Random(seed)))
    wanted = frozenset().union(*(each.windows for each in drawn))
    shown = {
        text[at : at + WINDOW_CHARS] for text in readable(said) for at in range(len(text) - WINDOW_CHARS + 1)
    } & wanted
    for each in drawn:
        found = {window for window in each.windows & shown if not stands_elsewhere(window, drawn)}
        if len(found) > (CHANCES if all(map(_HEX.fullmatch, found)) else 0):
            yield Failure(each.choice, f"{min(found)!r} leaves from {each.text[:200]!r}")
    ends = [line for line in said.splitlines() if line != DONE and TERMINALS[dialect](json.loads(line))]
    is_paused = dialect in PAUSES and PAUSES[dialect] in said
    if len(ends) != 1 and not (is_paused and not ends):
        yield Failure(None, f"{len(ends)} terminals")
    if dialect == "public_sse_v1":
        yield from silent(drawn, said)


def stands_elsewhere(window: str, drawn: list[Drawn]) -> bool:
    r"""Return whether a part of a secret is by chance in the harmless text of a draw: `0061ge` in `im\u0061ge`."""
    return any(window in each.text and window not in each.windows for each in drawn)


def silent(drawn: list[Drawn], said: bytes) -> Iterator[Failure]:
    """Yield the draws without a notice where something was withheld."""
    noticed: set[object] = set()
    for frame in frames_of(said):
        if frame.get("notices") or frame.get("status") == "incomplete":  # an item that was cut off says so
            noticed.add(frame.get("output_index", "end"))
    for at, each in enumerate(drawn):
        place = PLACES[each.choice.place]
        slots = {"end"} if place.is_end else {2 * at, 2 * at + 1}
        if place.provider == "openai_responses" and not slots & noticed:
            yield Failure(each.choice, f"no notice for {each.text[:200]!r}")


def choices_of_stream(random: Random, count: int) -> list[Choice]:
    """Return the draws of one stream: of one provider, with at most one that ends the stream."""
    provider = random.choices(("openai_responses", "openai_chat"), weights=(12, 1))[0]
    places = [name for name in _SLOTS if PLACES[name].provider == provider and kinds_of(name)]
    ends = [name for name, place in PLACES.items() if place.is_end and place.provider == provider]
    chosen = [choose(random, random.choice(places)) for _ in range(count - 1)]
    ids = {(each.kind, each.place): each for each in chosen if each.place in ID_PLACES}  # an id stands for one item
    kept = [each for each in chosen if each.place not in ID_PLACES or ids[each.kind, each.place] is each]
    return [*kept, choose(random, random.choice(ends))]


def reduced(choice: Choice, stream_dialect: str, seed: int) -> str:
    """Return a failing draw as one line, with the choices that matter."""

    def fails(candidate: Choice, dialect: str) -> list[Failure]:
        return [] if is_excluded(candidate) else [each for each in failures([candidate], dialect, seed) if each.choice]

    dialect = next((name for name in ("public_sse_v1", stream_dialect) if fails(choice, name)), None)
    if dialect is None:
        return f"{choice} | {stream_dialect} | {TOGETHER}, seed {seed}"
    found = fails(choice, dialect)
    for name, simple in SIMPLE.items():
        for value in simple:
            candidate = choice._replace(**{name: value})
            if now := fails(candidate, dialect):
                choice, found = candidate, now
                break
    return f"{choice} | {dialect} | {found[0].what}"


SIMPLE: Final = {
    "disguise": ("none",),
    "place": ("host output", "arguments", "message"),
    "context": ("alone", "prose", "value", "equals", "json", "python"),
    "kind": ("password:plain", "registered:plain", "format:github-token", "pem"),
}
"""Choices that are tried in place of those of a failing draw."""


def run(seed: int) -> list[str]:
    """Play one stream of draws; return its failures as lines."""
    random = Random(seed)
    choices = choices_of_stream(random, DRAWS_PER_STREAM)
    dialect = random.choice(DIALECT_NAMES)
    found = [*failures(choices, dialect, seed)]
    lines = [reduced(each.choice, dialect, seed) if each.choice else f"{dialect} | {each.what}" for each in found]
    alone = [line for line in lines if TOGETHER not in line]
    return alone or lines


TOGETHER: Final = "only in its stream"
DIALECT_NAMES: Final = sorted(DIALECTS)
_GROUPS: Final = 8
_MOST_FAILURES: Final = 20


@pytest.mark.parametrize("group", range(_GROUPS))
def test_nothing_leaves(group: int) -> None:
    first = 0 if EFFORT == 1 else int.from_bytes(os.urandom(4))
    found: list[str] = []
    for number in range(group, DRAWS // DRAWS_PER_STREAM, _GROUPS):
        found += run(first + number)
        if len(found) >= _MOST_FAILURES:
            break
    assert found == [], "\n".join(found)


@settings(examples(4), phases=[Phase.generate])
@given(st.integers(0, 1 << 30))
def test_nothing_leaves_from_any_seed(seed: int) -> None:
    assert run(seed) == []


def leaves(row: Excluded) -> bool:
    """Return whether a draw of a limit leaves, of some dozens that no other row excludes."""
    random = Random(7)
    others = (*EXCLUDED, *(other for other in LIMITS if other is not row))
    for _ in range(_TRIES):
        kind = random.choice([kind for kind in KINDS if _matches(_row_name(kind), row.kind)])
        names = [name for name, each in CONTEXTS.items() if _matches(f"{each.spelling}:{name}", row.context)]
        disguise = random.choice([name for name in DISGUISES if _matches(name, row.disguise)])
        place = random.choice([name for name in PLACES if _matches(name, row.place)])
        choice = Choice(kind, random.choice(names), disguise, place, random.getrandbits(32))
        known = (_row_name(kind), f"{CONTEXTS[choice.context].spelling}:{choice.context}", disguise, place)
        if not any(all(map(_matches, known, other)) for other in others) and [*failures([choice], "public_sse_v1", 7)]:
            return True
    return False


_TRIES: Final = 3_000


@pytest.mark.parametrize("row", LIMITS, ids="|".join)
def test_every_limit_is_one(row: Excluded) -> None:
    assert leaves(row)
