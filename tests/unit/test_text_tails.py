"""The rest of a value that continues in the next delta, part or text is the same value: nothing of it is shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pytest

from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from projector.redaction.streams import Seam
from tests.rule_samples import CLASSES, FORMATS, MIXED

GITHUB: Final = "ghp" + "_" + MIXED[:36]
CARD: Final = "4111 1111 1111 1111"
ALL: Final = {"credentials": "mask", **{row.name: "mask" for row in CLASSES}}
EVERY: Final = Redactor(Policy.load({"text": ALL}))
WINDOW_CHARS: Final = 6


def parts(*texts: Sequence[str]) -> tuple[list[str], list[bool]]:
    """Return what is shown of parts that clients join, each in deltas, and whether it has a notice."""
    joint = Seam()
    shown, noted = [], []
    for deltas in texts:
        stream = EVERY.message_stream(joint)
        cleaned = [*map(stream.feed, deltas), stream.close()]
        shown.append("".join(each.value for each in cleaned))
        noted.append(any(each.notices for each in cleaned))
    return shown, noted


ROWS: Final[dict[str, tuple[list[str], list[str]]]] = {
    "further characters of a key": ([f"x {GITHUB}", "abcDEF123 rest"], ["x <redacted>", " rest"]),
    "in two more parts": ([f"x {GITHUB}", "abcDEF123", "zzz99 rest"], ["x <redacted>", "", " rest"]),
    "a blank before the next part": ([f"x {GITHUB} ", "abcDEF123 rest"], ["x <redacted> ", "abcDEF123 rest"]),
    "the second half": ([f"x {GITHUB[:20]}", f"{GITHUB[20:]} rest"], ["x <redacted>", " rest"]),
    "three parts": (
        [f"x {GITHUB[:12]}", GITHUB[12:22], f"{GITHUB[22:]} rest"],
        ["x <redacted>", "", " rest"],
    ),
    "a private key": (
        ["-----BEGIN RSA PRIVATE " + "KEY-----\nMIIEabc", "defghijk\nlmn\n", "-----END RSA PRIVATE KEY-----\nend"],
        ["<redacted>", "", "\nend"],
    ),
    "the end": ([f"x {GITHUB}", "abcDEF123"], ["x <redacted>", ""]),
    "an address": (["to jane@exam", "ple.com now"], ["to <redacted:email>", " now"]),
    "a number": (
        ["card 4111 1111 1111 ", "1111 now"],
        ["card <redacted:payment_card> ", "<redacted:payment_card> now"],
    ),
}


@pytest.mark.parametrize(("texts", "said"), ROWS.values(), ids=ROWS)
def test_a_value_continues_in_the_next_part(texts: list[str], said: list[str]) -> None:
    whole, noted = parts(*([text] for text in texts))
    assert whole == said
    assert parts(*texts) == (whole, noted)  # character by character
    assert noted == [shown != text for shown, text in zip(said, texts, strict=True)]


def test_a_value_continues_in_the_next_delta() -> None:
    stream = EVERY.message_stream()
    deltas = [f"x {GITHUB}", "abc", "DEF", "", "123", " rest. ", CARD, " ", "now "]
    said = [stream.feed(delta).value for delta in deltas]
    assert said == ["x <redacted>", "", "", "", "", " rest. ", "", "", "<redacted:payment_card> now "]


def _samples() -> Iterator[tuple[str, str]]:
    for row in FORMATS:
        if "WORD" not in row.anchor and not row.value:
            yield row.name, row.matches[0]


SAMPLES: Final = dict(_samples())


@pytest.mark.parametrize("name", SAMPLES)
def test_nothing_of_a_credential_is_shown_behind_the_seam(name: str) -> None:
    sample = SAMPLES[name]
    whole = "".join(parts([f"It is {sample} here."])[0])
    for at in range(1, len(sample)):
        shown = parts([f"It is {sample[:at]}"], [f"{sample[at:]} here."])[0][1]
        rest = sample[at:]
        windows = {rest[begin : begin + WINDOW_CHARS] for begin in range(len(rest) - WINDOW_CHARS + 1)}
        assert {window for window in windows if window in shown and window not in whole} == set(), at
