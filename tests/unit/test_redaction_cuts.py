"""Rows that `tests/property/test_cuts.py` has found: what is shown does not depend on the cut."""

from __future__ import annotations

from typing import Final

import pytest

from projector.redaction.ledger import BlockedError
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from projector.redaction.streams import Seam
from tests.rule_samples import CLASSES

REPORTS: Final = dict.fromkeys(("credentials", *(row.name for row in CLASSES)), "report")
VALUE: Final = {"registered": [{"value": "four green mills"}]}


def joined(redactor: Redactor, texts: list[str], *messages: str) -> list[str]:
    """Return what each of some texts shows that clients join."""
    seam = Seam()
    shown = []
    for text, message in zip(texts, messages, strict=True):
        stream = redactor.message_stream(seam, message)
        shown.append(stream.feed(text).value + stream.close().value)
    return shown


@pytest.mark.parametrize("parts", [["\\u3f00d::e:1 s"], ["\\u3f00d::e:1 ", "s"], [*"\\u3f00d::e:1 s"]])
def test_a_reported_value_loses_no_character(parts: list[str]) -> None:
    """It is read in two ways, of which one finds more of it."""
    redactor = Redactor(Policy.load({"text": REPORTS}))
    for stream in (redactor.structured_stream(), redactor.message_stream()):
        shown = "".join(stream.feed(part).value for part in parts) + stream.close().value
        assert shown == "\\u3f00d::e:1 s"


@pytest.mark.parametrize("text", ["four\\", "a four\\", "\xada1B2c3D4e5F6g7`~~four\\", "four gr\\u00"])
def test_an_unfinished_escape_ends_like_one_after_another_spelling(text: str) -> None:
    redactor = Redactor(Policy.load(VALUE))
    expected = text[: text.index("four")] + "<redacted>"
    for parts in ([text], [*text], [text[:-5], text[-5:]]):
        stream = redactor.message_stream()
        assert "".join(stream.feed(part).value for part in parts) + stream.close().value == expected


@pytest.mark.parametrize("value", ["+49 171 12345|67", "jane.doe@example.c|om"])
@pytest.mark.parametrize(("credentials", "others"), [("report", "mask"), ("mask", "mask"), ("mask", "report")])
def test_the_rest_of_a_value_has_the_action_of_its_class(value: str, credentials: str, others: str) -> None:
    """A value goes on in the next part of a message, and credentials have another action."""
    redactor = Redactor(
        Policy.load({"text": {**REPORTS, **dict.fromkeys(REPORTS, others), "credentials": credentials}})
    )
    shown = joined(redactor, value.split("|"), "m", "m")
    rest = value.partition("|")[2]
    assert shown[1] == (rest if others == "report" else "")


@pytest.mark.parametrize("texts", [["l%40", "g.v1.c3D4e5F6g7H8i9J0ka1B.012f"], ["4111 1111", " 1111 1111"]])
def test_the_rest_of_a_value_blocks_where_it_may_be_a_credential(texts: list[str]) -> None:
    """Joined with a blank line the second text is a credential, and with nothing it is the rest of an address."""
    redactor = Redactor(Policy.load({"text": {"credentials": "block", "email": "mask", "payment_card": "block"}}))
    with pytest.raises(BlockedError):
        joined(redactor, texts, "m", "n")


def test_a_reported_value_hides_no_other_one() -> None:
    """Joined with nothing the texts are the number of an account, and with a blank line that of a card."""
    redactor = Redactor(Policy.load({"text": {"iban": "report", "payment_card": "mask"}}))
    assert joined(redactor, ["DE", "4111111111111111"], "m", "n") == ["DE", "<redacted:payment_card>"]


@pytest.mark.parametrize(
    "text", ["a 4111 1111%201111 1111 b", "a +49 171%20 1234567 b", "a DE89 37%2004 0044 0532 0130 00 b"]
)
def test_a_spelling_inside_a_number_is_read_at_any_cut(text: str) -> None:
    """As it is written, a mail address may begin in the middle of the number."""
    redactor = Redactor(Policy.load({"text": dict.fromkeys(REPORTS, "mask")}))
    for parts in ([text], [*text], *([text[:at], text[at:]] for at in range(1, len(text)))):
        stream = redactor.message_stream()
        shown = "".join(stream.feed(part).value for part in parts) + stream.close().value
        assert shown.startswith("a <redacted:")
        assert shown.endswith("> b")


@pytest.mark.parametrize(
    ("texts", "name"),
    [
        (["card 4111 1111 ", "1111 1", "111."], "payment_card"),
        (["mail jane.d", "oe@exam", "ple.com x"], "email"),
        (["a ghp_a1B2c3D4a1B2c3D4", "a1B2c3D4a1B2", "c3D4a1B2c3D4 x"], "credentials"),
    ],
)
def test_the_rest_of_a_value_is_named_and_blocked_as_its_class(texts: list[str], name: str) -> None:
    masks = dict.fromkeys(REPORTS, "mask")
    redactor = Redactor(Policy.load({"text": masks}))
    seam = Seam()
    streams = [redactor.message_stream(seam, "m") for _ in texts]
    found = [stream.feed(text) for stream, text in zip(streams, texts, strict=True)]
    found += [stream.close() for stream in streams]
    messages = {notice.message for cleaned in found for notice in cleaned.notices}
    assert messages == {f"Withheld: {name} (1)."}
    with pytest.raises(BlockedError, match=name):
        joined(Redactor(Policy.load({"text": {**masks, name: "block"}})), texts, *"mmm")


def test_a_value_that_only_the_next_text_makes_one_is_blocked() -> None:
    """The characters were shown, so nothing is left to withhold; the stream ends all the same."""
    redactor = Redactor(Policy.load({"text": {"credentials": "mask", "ip_address": "block"}}))
    with pytest.raises(BlockedError, match="ip_address"):
        joined(redactor, ["::ffff:3.0", ".1.7c"], "m", "m")


def test_the_rest_of_a_reported_value_is_shown_where_another_text_came_between() -> None:
    redactor = Redactor(Policy.load({"text": REPORTS}))
    seam = Seam()
    first, second = (redactor.message_stream(seam, "m") for _ in range(2))
    shown = [first.feed("Y").value, second.feed("-----BEGIN OpenVPN Static-").value, first.feed("<").value]
    shown += [first.close().value, second.close().value]
    assert "".join(shown) == "Y<-----BEGIN OpenVPN Static-"


def test_what_follows_a_registered_value_inside_a_reported_one_is_shown() -> None:
    redactor = Redactor(Policy.load({"text": REPORTS, "registered": [{"value": "quiet-Heron-7741-vault"}]}))
    texts = ["-", "----BEGIN ", "OpenVPN Static quiet-Hero", "n-7741-vault2"]
    assert joined(redactor, texts, *"mmmm")[3] == "2"


@pytest.mark.parametrize(
    ("value", "pieces"),
    [
        ("ba;ckticketslash-90", ["password=ba;c", "kticketslash-90"]),
        ("ba\"ck'tick\\slash-90", ['password=ba"c', "k'tick\\slash-90"]),
        ("ba\"ck'tick\\slash-90", ["password='ba\"c", "k'tick\\slash-90"]),
        ("four green mills 52", ["password=four gre", "en mills 52"]),
        ("four green mills 52", ["x", "password=fou", "r green mills 52"]),
        ("ba;ckticketslash-90", ["password=ba;c", "kticket", "slash-90"]),
    ],
)
def test_a_registered_value_may_begin_in_another_value_of_the_string_before(value: str, pieces: list[str]) -> None:
    redactor = Redactor(Policy(), [value])
    assert redactor.json(pieces, string_max_chars=100).value[-1] == "<redacted>"
