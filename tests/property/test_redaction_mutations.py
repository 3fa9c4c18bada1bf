"""The laws of redaction can fail: breaking any rule of the redactor violates one of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random
from typing import Any, Final

import pytest

from projector.redaction import json_filter, spellings, streams, strings
from projector.redaction.json_filter import JsonStreamFilter
from projector.redaction.redactor import Redactor
from projector.redaction.registered import Values
from projector.redaction.rules import KeyRules, Verdict
from projector.redaction.scanners import Scanner
from projector.redaction.search import Formats, Search
from projector.redaction.spellings import Step, StepBuffer, StepWriter
from projector.redaction.strings import NumberFilter
from projector.redaction.text_filter import TextFilter
from tests.property.redaction_documents import LAWS, POLICY

_NOTHING_MATCHES: Final = re.compile("(?!)")


def never_sensitive(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeyRules, "verdict", lambda _self, _key: Verdict.PLAIN)


def counts_are_secrets(patch: pytest.MonkeyPatch) -> None:
    real = KeyRules.verdict
    patch.setattr(KeyRules, "verdict", lambda self, key: _but(real(self, key), Verdict.SENSITIVE_UNLESS_NUMBER))


def _but(verdict: Verdict, other: Verdict) -> Verdict:
    return Verdict.SENSITIVE if verdict is other else verdict


def escapes_are_not_decoded(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("projector.redaction.json_filter.codec.loads", lambda text: text[1:-1])


def escapes_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(spellings, "raw_steps", lambda decoded, _raw: decoded)


def escapes_do_not_wait(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(json_filter, "UNFINISHED_ESCAPE", _NOTHING_MATCHES)


def surrogate_escapes_do_not_wait(patch: pytest.MonkeyPatch) -> None:
    run = re.compile(r'(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
    patch.setattr(json_filter, "STRING_RUN", run)


def containers_are_not_muted(patch: pytest.MonkeyPatch) -> None:
    real = JsonStreamFilter._close

    def close(self: JsonStreamFilter, char: str) -> None:
        self._muted_at, self._steps.muted = None, False
        real(self, char)

    for table in ("_FIRST_KEY", "_NEXT_MEMBER", "_FIRST_ENTRY", "_NEXT_ENTRY"):
        for closer in {"}", "]"} & {*getattr(json_filter, table)}:
            patch.setitem(getattr(json_filter, table), closer, close)


def a_mute_never_ends(patch: pytest.MonkeyPatch) -> None:
    def begin(self: JsonStreamFilter, _char: str) -> None:
        secret = self._verdict is Verdict.SENSITIVE
        self._verdict = Verdict.PLAIN
        self._steps.add(1, '"<redacted>"' if secret else None)
        if secret:
            self._muted_at, self._steps.muted = -1, True

    patch.setattr(JsonStreamFilter, "_begin_value", begin)


def beginnings_are_said(patch: pytest.MonkeyPatch) -> None:
    real = Formats.find
    patch.setattr(Formats, "find", lambda self, text, start, **_: real(self, text, start, at_end=True))


def beginnings_are_said_at_the_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Scanner, "end", lambda self: [(self.uncovered, None)] if self.uncovered else [])


def nothing_is_swallowed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Formats, "_run", lambda _self, _row, **_: re.compile(""))


def usual_strings_are_not_searched(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Search, "is_clean", lambda _self, _text: True)


def strings_hold_no_documents(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(strings, "OPENERS", frozenset[str]())


def broken_documents_are_not_sealed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(JsonStreamFilter, "mark_of_rest", lambda _self, _rest: None)


def broken_documents_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TextFilter, "continue_after", lambda _self, _said: None)


def marks_are_not_escaped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(spellings, "_escaped", lambda mark: mark)


def values_are_not_held(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Values, "_begins_with", lambda _self, _rest: False)


def numbers_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Values, "mark_of_number", lambda _self, _number, **_: None)


def numbers_are_not_held(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NumberFilter, "feed", lambda _self, text: [(len(text), None)])


def muted_characters_are_said(patch: pytest.MonkeyPatch) -> None:
    def show(self: StepBuffer, count: int) -> None:
        self._shown += count

    patch.setattr(StepBuffer, "show", show)


def pieces_begin_anew(patch: pytest.MonkeyPatch) -> None:
    real = JsonStreamFilter.feed

    def feed(self: JsonStreamFilter, text: str, /) -> list[Step]:
        self._pending = ""
        return real(self, text)

    patch.setattr(JsonStreamFilter, "feed", feed)


def places_are_not_checked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(streams, "_shows_mark", lambda _tree, _path: False)
    patch.setattr(streams, "REDACTED_HERE", ())


def steps_lose_what_was_held(patch: pytest.MonkeyPatch) -> None:
    real = StepWriter.write

    def write(self: StepWriter, found: list[Step], text: str) -> str:
        self.held = ""
        return real(self, found, text)

    patch.setattr(StepWriter, "write", write)


MUTANTS: Final[tuple[Callable[[pytest.MonkeyPatch], None], ...]] = (
    never_sensitive,
    counts_are_secrets,
    escapes_are_not_decoded,
    escapes_are_not_counted,
    escapes_do_not_wait,
    surrogate_escapes_do_not_wait,
    containers_are_not_muted,
    a_mute_never_ends,
    beginnings_are_said,
    beginnings_are_said_at_the_end,
    nothing_is_swallowed,
    usual_strings_are_not_searched,
    strings_hold_no_documents,
    broken_documents_are_not_sealed,
    broken_documents_are_forgotten,
    marks_are_not_escaped,
    values_are_not_held,
    numbers_are_not_compared,
    numbers_are_not_held,
    muted_characters_are_said,
    pieces_begin_anew,
    places_are_not_checked,
    steps_lose_what_was_held,
)


def broken_laws(redactor: Redactor) -> list[str]:
    """Return the first law that fails, or nothing."""
    for seed in range(_SEEDS):
        for law in LAWS:
            try:
                law(redactor, Random(seed))
            except Exception as error:  # noqa: BLE001  # a broken cleaner may break in any way
                return [f"{law.__name__}: {type(error).__name__}"]
    return []


_SEEDS: Final = 600


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.__name__ for mutant in MUTANTS])
def test_a_broken_rule_breaks_a_law(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    assert broken_laws(Redactor(POLICY)) != []


def test_the_whole_cleaner_breaks_none() -> None:
    redactor: Any = Redactor(POLICY)
    assert [law.__name__ for seed in range(150) for law in LAWS if law(redactor, Random(seed)) is not None] == []
