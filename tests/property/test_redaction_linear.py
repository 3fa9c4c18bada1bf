"""Cleaning takes linear time, on hostile text too, and a character costs the same in a long text as in a short one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from projector.redaction import bounds
from projector.redaction.clean import CleanJson
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor

_WIDE = {"arguments_text_max_chars": 10_000_000, "output_string_max_chars": 10_000_000}
REDACTOR = Redactor(Policy.load({"limits": _WIDE}))
KNOWING = Redactor(Policy.load({"limits": _WIDE, "registered": [{"value": "aaaaaaab"}, {"value": '{"a": '}]}))


def seconds(run: Callable[[], object]) -> float:
    """The least CPU time of several runs."""
    best = float("inf")
    for _ in range(5):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return best


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
@pytest.mark.parametrize("size", [1, 4096])
def test_twice_the_text_takes_twice_the_time(unit: str, size: int) -> None:
    chars = 2_000 if size == 1 else 20_000
    for redactor in (REDACTOR, KNOWING):
        short, long = ('{"a":"' + unit * (count // len(unit)) + '"}' for count in (chars, 2 * chars))
        assert seconds(lambda: streamed(redactor, long, size)) < 3 * seconds(lambda: streamed(redactor, short, size))  # noqa: B023


def structured(chars: int) -> str:
    rows = [{"name": "some text here", "n": number, "ok": True, "token": "x"} for number in range(chars // 65)]
    return json.dumps({"rows": rows})


@pytest.mark.parametrize(("size", "redactor"), [(16, REDACTOR), (1000, KNOWING)])
def test_a_character_costs_the_same_at_a_thousand_and_at_a_million(size: int, redactor: Redactor) -> None:
    thousand, million = structured(1_000), structured(1_000_000)

    def twenty() -> None:
        for _ in range(20):
            streamed(redactor, thousand, size)

    short = seconds(twenty) / (20 * len(thousand))
    start = time.process_time()
    streamed(redactor, million, size)
    assert (time.process_time() - start) / len(million) < 3 * short


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
def test_whole_values_take_linear_time(make: Callable[[int], object]) -> None:
    def run(value: object) -> Callable[[], object]:
        return lambda: (REDACTOR.text(value), REDACTOR.url(value)) if isinstance(value, str) else tree(value)

    def tree(value: object) -> object:
        return Redactor.json(WIDE, value, string_max_chars=100)

    assert seconds(run(make(2_000))) < 3 * seconds(run(make(1_000)))


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
def test_cutting_takes_linear_time(make: Callable[[int], object]) -> None:
    short, long = CleanJson(make(5_000)), CleanJson(make(10_000))
    assert seconds(lambda: bounds.shrink(long, 9_000)) < 3 * seconds(lambda: bounds.shrink(short, 9_000)) + 0.005
