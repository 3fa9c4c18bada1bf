"""A run of deltas shows the same as its deltas one by one, and leaves a text in the same state (CONTRACT D40)."""

from __future__ import annotations

from itertools import chain, product
from typing import Any, Final, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projector.contracts import codec
from projector.redaction.clean import Cleaned
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from projector.redaction.stream import RUN_TEXT_MAX_CHARS, TextStream
from projector.redaction.text_ledger import BlockedError
from projector.redaction.text_stream import ProseStream
from tests.property.soundness import examples
from tests.rule_samples import CLASSES, MIXED

ALL: Final = {"credentials": "mask", **{row.name: "mask" for row in CLASSES}}
VALUE: Final = "the value"
POLICIES: Final[dict[str, dict[str, Any]]] = {
    "off": {"text": "off"},
    "credentials": {},
    "all classes": {"text": ALL},
    "one class": {"text": {"email": "report"}},
    "block": {"text": {**ALL, "credentials": "block"}},
    "values": {"text": "off", "registered": [{"value": VALUE}, {"value": "4711x"}]},
    "values and credentials": {"registered": [{"value": VALUE}]},
    "values and all classes": {"text": ALL, "registered": [{"value": VALUE}]},
}
TOKEN: Final = "ghp" + "_" + MIXED[:36]
WORDS: Final = [
    *(
        " the",
        " a",
        " it",
        " word",
        " sk",
        "ing",
        "s",
        ",",
        ".",
        " I",
        " “quoted”",
        " café",
        "é",
        "\n\n",
        " x ",
        " 12",
        "7",
    ),
    *(
        " th",
        "e",
        " value",
        " valu",
        "the",
        " ",
        "  ",
        "- ",
        " -",
        "**",
        ":",
        " (",
        ")",
        '"',
        " e.g",
        " of",
        "'s",
        " 47",
        "11",
    ),
]
HOSTILE: Final = [
    *(
        TOKEN[:3],
        TOKEN[3:9],
        TOKEN[9:],
        " sk-",
        "-----",
        "BEGIN",
        " PRIVATE KEY-----",
        "```",
        "``",
        "`",
        " ~~~",
        "%2D",
        "&#45;",
    ),
    *(
        "\\",
        "\\u0041",
        "\x1b[0m",
        " jane",
        "@",
        "jane@",
        "example",
        ".com",
        " +49",
        " 171",
        " 1234567",
        " 4111",
        " 1111",
    ),
    *(
        "DE89",
        " 3704",
        "4711",
        "x",
        "\u200b",
        " \u00ad",
        "\u2011",
        "\u00a0",
        "😀",
        "\ufffd",
        "=",
        " _auth",
        " eyJ",
        "AKIA",
    ),
    *(" key = '", "x" * 25, " " + "y" * 24, "z" * (RUN_TEXT_MAX_CHARS - 3), " secret", "\t", "/", "//", "<", "P<"),
]
SEQUENCES: Final[dict[str, list[str]]] = {
    "a format with a space": [" 7z", " a", " -p", "Zq81", "kx", " word"],
    "a scheme": [" Bearer", " the", " word", " Bearer", " eyJ", " it"],
    "an assignment": [" npm", "_auth", " =", " word", " the"],
    "a key in lines": ["-----", " BEGIN", " PRIVATE KEY-----", "\n", " the", " word", "-----", "END"],
    "a credential": [" is", " " + TOKEN, " word", " the", TOKEN[:9], TOKEN[9:], ",", " it"],
    "an address": [" to", " jane", "@", "example", ".com", " word", " jane@example.com", " it"],
    "numbers": [" +49", " 171", " 1234567", " word", " 4111", " 1111", " 1111", " 1111", " it"],
    "a registered value": [" the", " value", " word", " of", VALUE[:6], VALUE[6:], " it", " valu", " the"],
    "quotes and brackets": [
        " (",
        " the",
        ' "',
        " word",
        '"',
        " it",
        ")",
        " -",
        " a",
        "=",
        " it",
        "%",
        " a",
        "&",
        " it",
    ],
    "fences": [" ```", "py", "\n", "key", " =", " '", "Zq81kxW0pL3v", "'", "\n", "```", " the", " word"],
    "escapes": [" \\", "u0041", " it", " %", "2D", " the", " &#4", "5;", " word"],
    "invisible characters": [" wo", "\u200b", "rd", " the", "\u00a0", " it"],
}
"""Deltas in which a value begins, or a look-up would miss that one does."""
PIECES: Final = st.one_of(
    st.sampled_from([[word] for word in [*WORDS, *HOSTILE]]),
    st.sampled_from([*SEQUENCES.values()]),
    st.lists(st.sampled_from([[word] for word in WORDS]), max_size=8).map(lambda words: [*chain(*words)]),
)
DELTAS: Final = st.lists(PIECES, max_size=5).map(lambda pieces: [*chain(*pieces)])
PARTS: Final = st.lists(st.tuples(st.sampled_from([0, 0, 0, 1]), DELTAS), min_size=1, max_size=4)
"""Which of two joined texts grows, and by which deltas."""
RUNS: Final = st.lists(st.integers(0, 6), min_size=1, max_size=8)
"""Lengths of runs, again and again; 0 stands for a delta by itself."""
Part: TypeAlias = tuple[int, list[str]]
REDACTORS: Final = {name: Redactor(Policy.load(policy)) for name, policy in POLICIES.items()}


@pytest.mark.parametrize("redactor", REDACTORS.values(), ids=REDACTORS)
@examples(150)
@given(parts=PARTS, runs=RUNS)
def test_a_run_shows_what_its_deltas_show(redactor: Redactor, parts: list[Part], runs: list[int]) -> None:
    assert read(redactor, parts, runs) == read(redactor, parts, [0])


@pytest.mark.parametrize("redactor", REDACTORS.values(), ids=REDACTORS)
@pytest.mark.parametrize("length", [2, 5, 64])
def test_words_are_read_in_runs(redactor: Redactor, length: int) -> None:
    deltas = [" a", " stream", " of", " words", " is", " one", " for", " him"] * 8
    stream = redactor.message_stream()
    stream.feed("So")
    for at in [*range(0, len(deltas), length)] * 2:
        assert len(stream.feed_run(deltas[: at + length], at)) == len(deltas[at : at + length])


@pytest.mark.parametrize("deltas", SEQUENCES.values(), ids=SEQUENCES)
@pytest.mark.parametrize("redactor", REDACTORS.values(), ids=REDACTORS)
def test_known_words_hide_no_value(redactor: Redactor, deltas: list[str]) -> None:
    plain = [" it", *(word for word in [*WORDS, *deltas] if word[0] == " "), " it"]
    known = [(0, [each for word in plain for each in (word, " it", " it")])] * 2
    for length in (1, 2, 3, 7, 64):
        read(redactor, known, [length])
        for before in ([], [" word", " it"], ["."], [" ("], ["\n"], [" so", "-"]):
            for parts in ([(0, [*before, *deltas])], [(1, before), (0, deltas), (1, deltas), (0, deltas)]):
                assert read(redactor, parts, [length]) == read(redactor, parts, [0])


@pytest.mark.parametrize("delta", ["jane@example.com", "7", "4111", "+49", "```", "AKIA", "'s", ".5", "e:", "::1"])
@pytest.mark.parametrize("policy", ["credentials", "all classes"])
def test_what_is_known_of_a_text_depends_on_what_is_before_it(policy: str, delta: str) -> None:
    redactor = Redactor(Policy.load(POLICIES[policy]))
    for before in map("".join, product("a1 '.:+`", repeat=3)):
        parts = [(0, [" word", before, delta, "1 1111 1111 1111", " it"])]
        assert read(redactor, parts, [64]) == read(redactor, parts, [0])


@pytest.mark.parametrize("begin", [" the v", " the value", " the valu", " the"])
@pytest.mark.parametrize("redactor", REDACTORS.values(), ids=REDACTORS)
def test_a_value_may_go_on_in_the_next_text(redactor: Redactor, begin: str) -> None:
    rest = f" {VALUE}".removeprefix(begin)
    for parts in (
        [(0, [" say", begin]), (1, [*rest, " it", " it"])],
        [(0, [" say", begin]), (1, [rest[:1] or " it", " it", " it"]), (0, [" it", " it"])],
        [(0, [" say", begin]), (1, ["x", *rest, " it"])],
    ):
        for length in (1, 2, 64):
            assert read(redactor, parts, [length]) == read(redactor, parts, [0])


def read(redactor: Redactor, parts: list[Part], runs: list[int]) -> list[object]:
    """Return all that can be seen of two joined texts: after each delta what it shows, after each part their state."""
    joint = redactor.text_joint()
    texts = [redactor.message_stream(joint), redactor.message_stream(joint)]
    seen: list[object] = []
    try:
        for number, deltas in parts:
            text = texts[number]
            in_runs(text, deltas, runs, seen)
            ends = [text.positions.position(at, is_end=at % 2 == 0) for at in range(0, 300, 3)]
            seen.append((text.held, text.is_verbatim, text.positions.has_marks, ends))
        seen += [text.close() for text in texts]
    except BlockedError as error:
        seen.append(str(error))
    return seen


def in_runs(text: TextStream, deltas: list[str], runs: list[int], seen: list[object]) -> None:
    """Feed deltas in runs of the lengths; the delta that ends a run early is fed by itself."""
    at = number = 0
    while at < len(deltas):
        length = runs[number % len(runs)]
        shown = text.feed_run(deltas[: at + length], at) if length else []
        assert all(len(each) <= RUN_TEXT_MAX_CHARS for each in shown)
        seen += [Cleaned(each) for each in shown]
        at += len(shown)
        number += 1
        if len(shown) < length or not length:
            seen += [text.feed(delta) for delta in deltas[at : at + 1]]
            at += 1


def test_what_a_run_keeps_is_no_value_and_bounded() -> None:
    redactor = Redactor(Policy.load(POLICIES["all classes"]))
    stream = redactor.message_stream()
    stream.feed("I")
    letters = "abcdefghijklmnopqrst"
    words = [f" {first}{second}{third}" for first in letters for second in letters for third in letters]
    for at in range(0, len(words), 8):
        stream.feed_run([*words[at : at + 8], " 0171", " 12", " x@y", " " + "w" * 30], 0)
        stream.feed(" \n")
    assert isinstance(stream, ProseStream)
    steps, results = stream._gate.steps, stream._gate.results
    assert 0 < len(steps) <= 4_096
    assert 0 < len(results) <= 4_096
    assert max(map(len, results)) <= 24
    assert not [text for text in [*steps, *results] if {*text} & {*"0123456789@"}]
    assert max(map(len, steps)) <= 24


@examples(100)
@given(texts=st.lists(st.text(st.sampled_from([*'ab\\"\x1f\n\x7fé😀u0,1f']), max_size=8), min_size=1))
def test_texts_are_encoded_as_each_alone(texts: list[str]) -> None:
    assert codec.contents(texts) == [codec.dumps(text)[1:-1] for text in texts]
