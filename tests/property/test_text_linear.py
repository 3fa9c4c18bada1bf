"""The cost of the search of text that people read grows in proportion to it, also for hostile text (`cost.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from tests.property.cost import assert_linear, assert_linear_up_to_eight, cost_of
from tests.rule_samples import CLASSES

EVERY: Final = Redactor(Policy.load({"text": {"credentials": "mask", **{row.name: "mask" for row in CLASSES}}}))
HOSTILE: Final = {
    "digits": "1",
    "groups of digits": "4111 ",
    "almost cards": "4111 1111 1111 1112 ",
    "cards": "4111 1111 1111 1111 ",
    "almost addresses": "a.",
    "signs of addresses": "a@",
    "quotes of addresses": '"a b',
    "lists of addresses": "{a, b",
    "domains of other scripts": "a@\u4f8b\u3048.",
    "names of other scripts": "\u7528\u6237",
    "addresses": "a@b.org ",
    "almost phones": "+1 (",
    "almost national phones": "415 555 ",
    "groups of cards": "4111 - 1111 ",
    "almost tax numbers": "912-70-123 ",
    "phones": "+44 20 7946 0958 020 7946 0958/",
    "extensions": "415-555-2671x9",
    "almost accounts": "DE89 3704 ",
    "colons": "1::",
    "dots": "1.2.3.",
    "brackets of dots": "1[.]2[.",
    "zones": "fe80::1%a.",
    "versions": "version 1.2.3.4",
    "lines of passports": "P<UTOERIKSSON<<",
    "fences": "```\n",
    "assignments in code": "```\npassword = ",
    "almost keys": "ghp" + "_a ",
    "keys": "ghp" + "_" + "a1B2c3D4" * 5 + " ",
    "almost tokens": "eyJabcdefgh",
    "almost private keys": "-----BEGIN ",
    "schemes": "Bearer ",
    "passwords in addresses": "://a:",
    "unfinished percent-encoding": "%2",
    "percent-encoding": "%67%68%70%5F",
    "entities": "&#103;",
    "unfinished entities": "&#",
    "escapes": "\\u0067",
    "invisible characters": "g\u200b",
    "colours": "\x1b[32m",
}


def streamed(redactor: Redactor, text: str, size: int) -> None:
    stream = redactor.message_stream()
    for start in range(0, len(text), size):
        stream.feed(text[start : start + size])
    stream.close()


def _work(unit: str, size: int) -> Callable[[int], Callable[[], object]]:
    def make(chars: int) -> Callable[[], object]:
        text = unit * (chars // len(unit) + 1)
        return lambda: streamed(EVERY, text, size)

    return make


@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE)
def test_eight_times_the_text_costs_eight_times_as_much(unit: str) -> None:
    assert_linear_up_to_eight(_work(unit, 200), 500)


@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE)
def test_twice_the_text_costs_twice_as_much_in_single_characters(unit: str) -> None:
    """A candidate is read again with each of its characters, up to its greatest length: half of the text is longer."""
    assert_linear(_work(unit, 1), 2_400 if unit.startswith("eyJ") else 500)


@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE)
def test_a_long_hostile_text_comes_to_an_end(unit: str) -> None:
    streamed(EVERY, unit * (50_000 // len(unit)), 4_096)


@pytest.mark.parametrize("unit", ["4111 ", "4111-", "4111 1111 1111 1112 "])
def test_a_character_of_a_number_takes_few_steps(unit: str) -> None:
    chars = 4_000
    text = unit * (chars // len(unit))
    assert cost_of(lambda: streamed(EVERY, text, 4_096)).steps <= _STEPS_MOST * chars


_STEPS_MOST: Final = 6
"""Steps for each character; 20 if each number is tried as a candidate of each class."""


def _in_roles(text: str) -> object:
    body: object = [text] * 2_000
    for _ in range(1_000):
        body = {"role": body}
    return body


@pytest.mark.parametrize(
    "body",
    [[f"{at}@b.org" for at in range(10_000)], ["a@b.org"] * 20_000, _in_roles("a@b.org")],
    ids=["short texts", "equal texts", "deep texts"],
)
def test_values_of_a_long_request_take_few_steps(body: object) -> None:
    redactor = Redactor(Policy.load({"text": {"email": "mask"}, "echo": "pass"}))
    assert cost_of(lambda: redactor.for_request(body, b"key")).steps <= _STEPS_OF_A_REQUEST


_STEPS_OF_A_REQUEST: Final = 2_000_000
"""Most are those of texts that are all values."""
