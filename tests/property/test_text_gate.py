"""What the gate of texts decides behind a space does not depend on what is before it, so it is kept for other texts."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projector.redaction.detector import Detector
from projector.redaction.policy import Policy
from projector.redaction.rules import merged
from projector.redaction.text_gate import Prose
from projector.redaction.text_stream import ProseStream
from tests.property.soundness import examples
from tests.rule_samples import CLASSES, MIXED

ALL: Final = {"credentials": "mask", **{row.name: "mask" for row in CLASSES}}
POLICIES: Final = {"credentials": Policy(), "all classes": Policy.load({"text": ALL})}
WORDS: Final = ["sk-", "ghp_", "AKIA", "eyJ", "-----BEGIN", "```", "~~~py\n", "%2D", "&#45;", "\\u0041", "a@b.c"]
TEXTS: Final = st.lists(st.sampled_from([*WORDS, MIXED[:9], *"`~ \n=&%[\\-_.@:/+019aeghksxAEIPZé"]), max_size=8).map(
    "".join
)


OWN_CLASS: Final = """
[[class]]
name = "customer"
about = "a number of a customer"
begins = "KD-"
run = "[A-Z]"
least = 8
most = 8
source = "our handbook"
matches = ["customer KD-ABCDE"]
harmless = ["KD-AB"]
"""


def prose_of(policy: Policy) -> Prose:
    return Prose(Detector(policy), policy.text_actions, merged(policy.own_rules).classes)


PROSES: Final = {name: prose_of(policy) for name, policy in POLICIES.items()}


@pytest.mark.parametrize("prose", PROSES.values(), ids=PROSES)
@examples(400)
@given(before=TEXTS, data=st.data())
def test_a_match_behind_a_space_depends_on_nothing_before_it(prose: Prose, before: str, data: st.DataObject) -> None:
    search = prose.gate.search
    last = data.draw(st.sampled_from(sorted(prose.gate.quiet)), "last character before")
    text = data.draw(TEXTS, "text")
    if last != " ":
        text = " " + text
    found, alone = search(before + last + text, len(before)), search(" " + text)
    assert (found is None) == (alone is None)
    if found is not None and alone is not None:
        assert found.lastindex == alone.lastindex
        assert [at - len(before) for at in found.span()] == [*alone.span()]


def test_most_characters_are_quiet() -> None:
    assert PROSES["credentials"].gate.quiet >= {*"abcdefghijklmnopqrstuvwxyz ., "}
    assert PROSES["all classes"].gate.quiet >= {*"abcdefghijklmnopqrstuvwxyz ., "}


@pytest.mark.parametrize("prose", PROSES.values(), ids=PROSES)
@examples(200)
@given(texts=st.lists(st.lists(TEXTS, max_size=6), min_size=1, max_size=4))
def test_what_was_decided_for_other_texts_changes_nothing(prose: Prose, texts: list[list[str]]) -> None:
    alone = []
    for deltas in texts:
        prose.gate.words.clear()
        alone.append(cleaned(prose, deltas))
    assert [cleaned(prose, deltas) for deltas in texts * 2] == alone * 2


def cleaned(prose: Prose, deltas: list[str]) -> list[str]:
    """Return what is shown after each delta, and at the end."""
    stream = ProseStream(prose)
    return [*(stream.feed(delta).value for delta in deltas), stream.close().value]


@pytest.mark.parametrize("prose", PROSES.values(), ids=PROSES)
def test_what_was_decided_is_bounded(prose: Prose) -> None:
    stream = ProseStream(prose)
    for number in range(10_000):
        stream.feed(f" w{number:x}")
        stream.feed(" of a long line of words without any digits in it" * 2)
    assert 0 < len(prose.gate.words) <= 4_096
    assert max(map(len, prose.gate.words)) <= 24


def test_no_value_of_a_class_is_kept() -> None:
    prose = PROSES["all classes"]
    prose.gate.words.clear()
    for deltas in (
        ["I", " live", " here", ",", " naïve", " she", " said"],
        [" write to", " jane.doe", "@mail.example", " or", " +1 (415)", " 555-0199", ", it"],
        [" so", " so", " 4111", " 1111", " so", " so", " fe80", ":", ":1", "x", " P<UTO", "<", "x"],
    ):
        cleaned(prose, deltas)
        stream = ProseStream(prose)
        for at in range(len(deltas)):
            if not stream.feed_run(deltas[at : at + 1], 0):
                stream.feed(deltas[at])
    assert {*prose.gate.words} >= {"live ", "here"}
    assert prose.gate.results
    kept = [*prose.gate.words, *prose.gate.results, *prose.gate.steps, *prose.gate._ends]
    assert not [text for text in kept if {*text} & {*"0123456789@"}]


def test_of_a_class_without_a_check_only_words_are_kept(tmp_path: Path) -> None:
    rules = tmp_path / "ours.toml"
    rules.write_text(OWN_CLASS, encoding="utf-8")
    prose = prose_of(Policy.load({"text": {"customer": "mask"}, "rules": [str(rules)]}))
    stream = ProseStream(prose)
    deltas = ["We", " know", " KD", "-ABCDE", " and", " so", " on", ",", " it", " is", " KD-", "FGHIJ", " now"]
    for at in range(len(deltas)):
        if not stream.feed_run(deltas[at : at + 1], 0):
            stream.feed(deltas[at])
    kept = [*prose.gate.words, *prose.gate.results, *prose.gate.steps, *prose.gate._ends]
    assert kept
    assert not [text for text in kept if not text.replace(" ", "").isalpha()]
