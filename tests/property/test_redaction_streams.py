"""The laws of redaction for arguments and code, whole and with any cuts (CONTRACT D23 to D25)."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from projector.redaction.json_filter import JsonStreamFilter
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from projector.redaction.strings import KnownMembers
from projector.redaction.text_filter import TextFilter
from tests.property.redaction_documents import LAWS, POLICY, assert_known, pieces
from tests.property.soundness import examples

REDACTOR = Redactor(POLICY)
PLAIN = Redactor(Policy())

# Fragments of JSON, credentials and sensitive keys, so that random texts reach the edge cases.
_SCRAPS = [
    *'{}[]",: \\\n\t',
    *('\\"', "\\u00", "\\ud83d", "\\ude00", "0", "-1", ".5", "e+", "true", "nul", "token", "api_key"),
]
_SCRAPS += [
    "password=",
    "ghp" + "_",
    "a1B2c3D4" * 5,
    *("sk-", "eyJ", "-----BEGIN ", "PRIVATE KEY", "Bearer ", "://", "@", "é"),
]
_SCRAPS += ["\ud83d", "\ude00", "<redacted>", "987654321", "Ж кit", " 😀 x-9", "Ж [b] {x}-9"]
scraps = st.lists(st.sampled_from(_SCRAPS), max_size=30).map("".join)
cuts = st.lists(st.integers(0, 400), max_size=12)


@pytest.mark.parametrize("law", LAWS, ids=[law.__name__ for law in LAWS])
@examples(270)
@given(seed=st.integers(0, 2**32))
@example(seed=381)  # a string that the end cuts off behind its first letter
@example(seed=709)  # a private key in a string of a document that breaks off
@example(seed=3793)
@example(seed=4471)  # a header that the end cuts off
@example(seed=406)  # a credential that ends with half of an escape
@example(seed=690)
def test_law(law: Callable[[Redactor, Random], None], seed: int) -> None:
    law(REDACTOR, Random(seed))


@examples(300)
@given(text=scraps, cuts=cuts)
@example(text='{"a":"\\ud83d\\ude00"}', cuts=list(range(20)))
def test_scraps_are_cleaned_the_same_for_every_cut(text: str, cuts: list[int]) -> None:
    for redactor in (PLAIN, REDACTOR):
        whole = redactor.arguments(text)
        for parts in (pieces(text, cuts), list(text)):
            stream = redactor.argument_stream()
            said = "".join(stream.feed(part).value for part in parts)
            end = stream.finish()
            assert said + end.rest.value == whole.text.value
            assert end.arguments == whole


# What the quick path reads, and what it must leave to the other one: keys again, escapes in two parts, disguises.
_ORDINARY = [
    *(" the ", "word", "pass word", "tokens of ", "secret", "; ", "st", "a=3", "D", "%3", "=", "\\\\u00", "7"),
    *("\\x1b[0", "m"),
    *('{"room": ', '"room": ', '"a b": ', '"name": "', '"value": "', '", ', "1, ", "}, ", "[", "]", '"'),
    '"password": {',
    *(
        "ghp" + "_" + "a1B2c3D4" * 5,
        '"sk-' + "a1B2c3D4" * 5 + '": 1, ',
        "p\u0430ssword: ",
        "pa\u200bssword = x1Y2z3W4q5",
    ),
]
ordinary = st.lists(st.sampled_from(_ORDINARY + _SCRAPS), max_size=30).map("".join)
_KEY = "sk-" + "a1B2c3D4" * 5


@examples(400)
@given(text=ordinary, count=st.integers(1, 40))
@example(text=f'[{{"password": {{"{_KEY}": 1, "a": 2}}, "{_KEY}": 3, "a": 4}}, {{"{_KEY}": 5, "a": 6}}]', count=40)
@example(text=f'[{{"name": "x", "value": "{_KEY}"}}, {{"name": "token", "value": "z"}}, {{"value": "z"}}]', count=40)
@example(text="x =3Dpassword=hunter2A ", count=4)
@example(text="=3Dpassword=hunter2A ", count=1)
def test_the_quick_path_shows_the_same_at_every_cut(text: str, count: int) -> None:
    """Every delta, not only the sum, is the same as without the quick path."""
    parts = [text[start : start + count] for start in range(0, len(text), count)]
    quick = _deltas(parts)
    with pytest.MonkeyPatch.context() as patch:
        for each in (TextFilter, JsonStreamFilter):
            patch.setattr(each, "quick", lambda *_: -1)
        patch.setattr(KnownMembers, "add", lambda *_: None)
        assert quick == _deltas(parts)


def _deltas(parts: list[str]) -> list[object]:
    found: list[object] = []
    for redactor in (PLAIN, REDACTOR):
        code, arguments, inner = redactor.code_stream(), redactor.argument_stream(), redactor.argument_stream()
        inner.feed('{"a": "')
        for part in parts:
            found += [code.feed(part), arguments.feed(part), inner.feed(part)]
        found += [code.close(), arguments.finish(), inner.finish()]
    return found


@examples(200)
@given(text=scraps)
def test_what_is_valid_json_is_known_as_such(text: str) -> None:
    assert_known(PLAIN, text)
