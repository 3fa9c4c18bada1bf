"""Telephone numbers directly behind and before other numbers, words and extensions: nothing of a number is shown."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product
from random import Random
from typing import Final

import pytest

from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor

PHONES: Final = Redactor(Policy.load({"text": {"phone": "mask"}}))
MARK: Final = "<redacted:phone>"
NUMBERS: Final = (
    "+44 20 7946 0958",
    "+14155552671",
    "+1 (415) 555-2671",
    "+1.415.555.2671",
    "+49 (0)171 1234567",
    "+49 30 901820-21",
    "+33 6 12 34 56 78",
    "+86 138 0013 8000",
    "0044 20 7946 0958",
    "00 49 171 1234567",
    "(415) 555-2671",
    "415-555-2671",
    "415.555.2671",
    "415 555 2671",
    "1-415-555-2671",
    "020 7946 0958",
    "(020) 7946 0958",
    "0171/1234567",
    "06 12 34 56 78",
    "06-12-34-56-78",
    "030/901820 22",
    "030 901820",
    "03-1234-5678",
)
SEPARATORS: Final = (
    *(" ", "  ", "/", " / ", ".", ". ", "-", " - ", "\u2013", "(", " (", ")", ") ", ") (", ")("),
    *(",", ", ", ";", ":", "=", "|", "&", "*", "\n", "\t", "\u00a0", " or ", " + ", '", "', "<br>"),
)
EXTENSIONS: Final = (
    *("x99", "X99", " x99", " x 99", "ext99", "EXT99", " ext. 99", ", ext. 99", " extn 99", " extension 1234"),
    *("#99", " #99", ";ext=99", "p99", "w99", "x1", "x123456789"),
)
WORDS: Final = (
    *("9am-5pm", "24h", "2nd floor", "3x a week", "7th", "100k", "99a", "10:30", "12 apples", "1.5 m", "5%", "$5"),
    *("12,50", "12345", "2024-01-15", "15.01.2024", "1920x1080", "x86", "0x1F", "3x4"),
)


def clean(*deltas: str) -> str:
    """Return the joined clean deltas of one text."""
    stream = PHONES.message_stream()
    return "".join([*(stream.feed(delta).value for delta in deltas), stream.close().value])


def digits(text: str) -> str:
    return "".join(char for char in text if char.isdigit())


ROWS: Final[dict[str, tuple[str, str]]] = {
    "an international number before one in parentheses": (
        "tel +44 20 7946 0958 (415) 555-2671\n",
        f"tel {MARK} {MARK}\n",
    ),
    "an international number before one with hyphens": ("+44 20 7946 0958 415-555-2671", f"{MARK} {MARK}"),
    "nine digits behind 00, before another one": ("00376 312 345 415-555-2671", f"{MARK} {MARK}"),
    "before a number in parentheses": ("+44 20 7946 0958 (12 apples)", f"{MARK} (12 apples)"),
    "numbers of five groups": ("06 12 34 56 78 06 12 34 56 79", f"{MARK} {MARK}"),
    "two numbers with one slash": ("030 901820/030 901821", f"{MARK}/{MARK}"),
    "other last digits": ("415-555-2671/72/73 or", f"{MARK} or"),
    "fields of a table": ("+442079460958,+14155552671,415-555-2671", f"{MARK},{MARK},{MARK}"),
    "a field behind a number": ("5,+442079460958\n6,+442079460959", f"5,{MARK}\n6,{MARK}"),
    "in parentheses": ("(+44 20 7946 0958) or (415-555-2671)", f"({MARK}) or ({MARK})"),
    "a code in parentheses": ("(+44) 20 7946 0958", f"({MARK}"),
    "behind an abbreviation": ("Tel.+49 30 901820", f"Tel.{MARK}"),
    "in an address": ("https://wa.me/+14155552671", f"https://wa.me/{MARK}"),
    "before a date": ("+1 415 555 2671 2024-01-15", f"{MARK} 2024-01-15"),
    "of five groups, before a date": ("06 12 34 56 78 01.02.2024", f"{MARK} 01.02.2024"),
    "before hours": ("+1 415 555 2671 9am-5pm", f"{MARK} 9am-5pm"),
    "before a count": ("030 901820 24h", f"{MARK} 24h"),
    "behind a date": ("2024-01-15 415-555-2671", f"2024-01-15 {MARK}"),
    "behind a time": ("10:30 +44 20 7946 0958", f"10:30 {MARK}"),
    "behind a price": ("$5 020 7946 0958", f"$5 {MARK}"),
    "an extension in prose": ("415-555-2671 ext. 99, please", f"{MARK}, please"),
    "an extension before a number": ("415-555-2671x99/020 7946 0958", f"{MARK}/{MARK}"),
    "an extension of the second number": ("(+44 20 7946 0958) 415-555-2671x99", f"({MARK}) {MARK}"),
    "a word at the second number": ("+44 20 7946 0958 12 9am", f"{MARK} 9am"),
    "an extension that the end cuts off": ("415-555-2671 ext", f"{MARK} ext"),
    "the letter of an extension at the end": ("415-555-2671x", MARK),
    "a list that the end cuts off": ("415-555-2671-415-555-26", f"{MARK}-415-555-26"),
}


@pytest.mark.parametrize(("text", "said"), ROWS.values(), ids=ROWS)
def test_numbers_in_text(text: str, said: str) -> None:
    assert clean(text) == said
    assert clean(*text) == said


@pytest.mark.parametrize("separator", SEPARATORS)
def test_nothing_of_two_numbers_is_shown(separator: str) -> None:
    for first, second in product(NUMBERS, NUMBERS):
        for text in (
            f"{first}{separator}{second} x",
            f"tel {first}{separator}{second}\n",
            f"({first}{separator}{second})",
        ):
            assert digits(clean(text)) == "", text


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_nothing_of_a_number_with_an_extension_is_shown(extension: str) -> None:
    for number, behind in product(NUMBERS, (" y", "\n", ".", ", b", ")", "/b", "")):
        text = f"tel {number}{extension}{behind}"
        assert clean(text) in {f"tel {MARK}{behind}", f"tel ({MARK}{behind}"}, text
        assert clean(*text) == clean(text)


@pytest.mark.parametrize("word", WORDS)
def test_nothing_of_a_number_before_a_word_is_shown(word: str) -> None:
    for number, separator in product(NUMBERS, (" ", ", ", ". ", ": ", "\n")):
        text = f"tel {number}{separator}{word} y"
        if number == "030/901820 22" and word[:2].isdigit():
            continue  # groups of two digits may go on
        said = clean(text)
        assert said.startswith(f"tel {MARK}"), text
        assert f"{separator}{word} y".endswith(said.removeprefix(f"tel {MARK}")), text


def _texts() -> Iterator[str]:
    random = Random(4)
    parts = (*NUMBERS, "jane@example.com", "203.0.113.7", "word", "4111 1111 1111 1111")
    for _ in range(400):
        count = random.randint(2, 5)
        yield "".join(random.choice(parts) + random.choice((*SEPARATORS, *EXTENSIONS, *WORDS)) for _ in range(count))


def test_cuts_do_not_matter() -> None:
    random = Random(5)
    for text in _texts():
        whole = clean(text)
        edges = [0, *sorted(random.choices(range(len(text)), k=4)), len(text)]
        assert clean(*text) == whole
        assert clean(*(text[start:end] for start, end in pairwise(edges))) == whole


HARMLESS: Final = (
    *("on 2024-01-15 at 10:30:00.123456", "2024-01-15T10:30:00+01:00 12345", "10:30:00,015 123456 INFO", "15.01.2024"),
    *("$1,234,567.89 or 1.234.567,89 EUR", "version 10.2.30.4 of 1.22.333.4444", "203.0.113.7:8080", "10.0.0.0/8"),
    *("3x4 and 1920x1080 on x86, 0x7fffffffdead", "SN 0123-4567-8901-2345", "415-555-2671-99", "a415-555-2671x99"),
    *("0123 4560 8901 2345 is it", "deadbeef 550e8400-e29b-41d4-a716-446655440000", "ISBN 978-3-16-148410-0"),
    *(
        "f(100, 200) and (2021) 1234",
        "[12](34)",
        "order 4500123456x2",
        "1 + 12 = 13",
        "+100 +200 -300 now",
        "x = +12345;",
    ),
    *("@@ -415,12 +267,10 @@", "1e+10 and 1.5e+12345", "C++11/14/17/20", "9am-5pm, 24h, 2nd", "100,200.300 400-500"),
)


@pytest.mark.parametrize("text", HARMLESS)
def test_other_numbers_are_shown(text: str) -> None:
    assert clean(text) == text
    assert clean(*text) == text
