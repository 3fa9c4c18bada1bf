"""The cost of cleaning grows in proportion to the text, also for hostile text (counted: `cost.py`).

A regular expression that backtracks is not counted: hostile texts of a hundred thousand characters run under pytest's
time limit, which a cost that is not linear would exceed many times over.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from projector.redaction import compose
from projector.redaction.clean import CleanJson
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from tests.property.cost import assert_linear, cost_of

_WIDE = {"arguments_text_max_chars": 10_000_000, "output_string_max_chars": 10_000_000}
REDACTOR = Redactor(Policy.load({"limits": _WIDE}))
KNOWING = Redactor(Policy.load({"limits": _WIDE, "registered": [{"value": "aaaaaaab"}, {"value": '{"a": '}]}))


def streamed(redactor: Redactor, text: str, size: int) -> None:
    stream = redactor.argument_stream()
    for start in range(0, len(text), size):
        stream.feed(text[start : start + size])
    stream.finish()


HOSTILE = {
    "almost tokens": "eyJ-",
    "long almost tokens": "eyJabcdefghijklmnopqrstuvwxyz-",
    "almost addresses": "://a:",
    "almost private keys": "-----BEGIN ",
    "dashes": "-",
    "sensitive words": "password_token_secret",
    "credentials": "ghp" + "_" + "a" * 36 + " ",
    "one long word": "A",
    "digits": "123456789:",
    "escapes": "\\u0061",
    "quotes": '\\"',
    "documents": "[]",
    "deep documents": '{\\"a\\":',
    "almost registered": "aaaaaaa",
    "marks": "<redacted>",
}


@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("size", [1, 512])
def test_twice_the_text_costs_twice_as_much(unit: str, size: int) -> None:
    def work(redactor: Redactor) -> Callable[[int], Callable[[], object]]:
        return lambda chars: lambda: streamed(redactor, '{"a":"' + unit * (chars // len(unit)) + '"}', size)

    if size == 1 and unit.startswith("eyJ"):
        size, chars = 8, 2_400  # a token is read again with each piece up to its length
    else:
        chars = 600 if size == 1 else 2_048
    assert_linear(work(KNOWING), chars)


@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_long_hostile_text_comes_to_an_end(unit: str) -> None:
    streamed(REDACTOR, '{"a":"' + unit * (100_000 // len(unit)) + '"}', 4096)


def test_a_phrase_after_a_sensitive_word_is_not_decided_at_each_character() -> None:
    text = '{"notes":"The token of the session is renewed when the password policy says so, as always."}'
    by_the_character = cost_of(lambda: streamed(REDACTOR, text, 1)).steps
    assert by_the_character < 10 * cost_of(lambda: streamed(REDACTOR, text, len(text))).steps


def test_an_id_of_generated_characters_is_searched_without_a_filter() -> None:
    assert cost_of(lambda: REDACTOR.identifier("call_aB3dE5fG7hJ9kL1mN3pQ5rS7")).steps < 300


def structured(chars: int) -> str:
    rows = [{"name": "some text here", "n": number, "ok": True, "token": "x"} for number in range(chars // 65)]
    return json.dumps({"rows": rows})


@pytest.mark.parametrize(("size", "redactor"), [(16, REDACTOR), (1000, KNOWING)])
def test_a_character_costs_the_same_in_a_long_text(size: int, redactor: Redactor) -> None:
    assert_linear(lambda chars: lambda: streamed(redactor, structured(chars), size), 10_000)


@pytest.mark.parametrize(
    "make",
    [
        lambda n: "x = 1  # password of the token\n" * n,
        lambda n: '[{"token": 1}]\n' * n,
        lambda n: "https://example.com/" + "?a=%41&" * n,
        lambda n: [{"token": 1, "a": ["x", 1.5]}] * n,
    ],
    ids=["code", "json lines", "parameters", "trees"],
)
def test_whole_values_have_linear_cost(make: Callable[[int], object]) -> None:
    def run(value: object) -> Callable[[], object]:
        return lambda: (REDACTOR.text(value), REDACTOR.url(value)) if isinstance(value, str) else tree(value)

    def tree(value: object) -> object:
        return Redactor.json(WIDE, value, string_max_chars=100)

    assert_linear(lambda size: run(make(size)), 100)


WIDE = Redactor(Policy.load({"limits": {"container_max_entries": 1_000_000}}))


@pytest.mark.parametrize(
    "make",
    [
        lambda n: ["word" * 20] * n,
        lambda n: {str(key): [key] * 9 for key in range(n)},
        lambda n: 'é"\n' * n * 20,
    ],
    ids=["strings", "entries", "one string"],
)
def test_truncation_has_linear_cost(make: Callable[[int], object]) -> None:
    def work(size: int) -> Callable[[], object]:
        value = CleanJson(make(size))
        return lambda: compose.shrink(value, 900)

    assert_linear(work, 500)


def test_registered_values_of_many_lengths_cost_as_much_as_a_few() -> None:
    values = ["eyJh" + "x" * count + "!" for count in range(400)]
    few, many = (
        Redactor(Policy.load({"registered": [{"value": value} for value in each]})) for each in (values[-1:], values)
    )
    costs = [
        cost_of(lambda each=each: streamed(each, '{"a":"' + "eyJh " * 400 + '"}', 512)).steps for each in (few, many)
    ]
    assert costs[1] <= 2 * costs[0]
