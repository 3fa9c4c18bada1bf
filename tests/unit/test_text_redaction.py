"""What is withheld from text that people read, at every cut (CONTRACT D40)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, islice
from typing import Any, Final

import pytest

from projector.redaction.ledger import BlockedError
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from projector.redaction.rules import TextClass
from projector.redaction.streams import Seam
from tests.property.soundness import EFFORT
from tests.rule_samples import CLASSES, FORMATS, MIXED

GITHUB: Final = "ghp" + "_" + MIXED[:36]
ALL: Final = {"credentials": "mask", **{row.name: "mask" for row in CLASSES}}
OFTEN: Final = Redactor(Policy())
EVERY: Final = Redactor(Policy.load({"text": ALL}))


def clean(redactor: Redactor, *deltas: str) -> str:
    """Return the joined clean deltas of one text."""
    stream = redactor.message_stream()
    return "".join([*(stream.feed(delta).value for delta in deltas), stream.close().value])


def messages(redactor: Redactor, *deltas: str) -> list[str]:
    stream = redactor.message_stream()
    cleaned = [*map(stream.feed, deltas), stream.close()]
    return [notice.message for each in cleaned for notice in each.notices]


HEX: Final = "6544c2fd54d33ecea0ebf17672d3f811"
RANDOM: Final = "xK8s9Qz2LmN4pR7t"
UUID: Final = "550e8400-e29b-41d4-a716-446655440000"
ROWS: Final[dict[str, tuple[str, str]]] = {
    "a key": (f"use {GITHUB}.", "use <redacted>."),
    "an encoded blank before a key": (f"?q=%20{GITHUB}", "?q=%20<redacted>"),
    "a private key": (
        "-----BEGIN RSA PRIVATE " + f"KEY-----\n{MIXED[:64]}\n-----END RSA PRIVATE " + "KEY-----\nend",
        "<redacted>\nend",
    ),
    "an entity in a key": (GITHUB.replace("_", "&#95;") + " x", "<redacted> x"),
    **{
        f"a key with {written}": (f"see {GITHUB.replace('_', written)} x", "see <redacted> x")
        for written in ("%5F", "%5f", "%255F", "&#x5f;", "&#X5F;", "&lowbar;", r"\x5f")
    },
    "a key in percent-encoding": (
        f"https://x.org/?a=b%26k={''.join(f'%{ord(char):02X}' for char in GITHUB)}&c",
        "https://x.org/?a=b%26k=<redacted>&c",
    ),
    "a key in entities": (f"<a>{''.join(f'&#{ord(char)};' for char in GITHUB)}</a>", "<a><redacted></a>"),
    "a percentage": ("50%, 5%25 and 100 % of 7%2", "50%, 5%25 and 100 % of 7%2"),
    "an escape in a key": (GITHUB.replace("_", r"\u005f") + " x", "<redacted> x"),
    "an invisible character in a key": (GITHUB.replace("_", "\u200b_") + " x", "<redacted> x"),
    "hyphens that do not break": (f"use glpat\u2011{MIXED[:20]} x", "use <redacted> x"),
    "a password in prose": ("my password: hunter2", "my password: hunter2"),
    "a password in prose that looks random": ("my password: xK8s9Qz2LmN4pR7t", "my password: xK8s9Qz2LmN4pR7t"),
    "a random password in code": ('```\npassword = "xK8s9Qz2LmN4pR7t"\n```', '```\npassword = "<redacted>"\n```'),
    "a hexadecimal key in code": (f"```\nAPI_KEY={HEX}\n```", "```\nAPI_KEY=<redacted>\n```"),
    "a hexadecimal key in capital letters": (f"```\napi_key: {HEX.upper()}\n```", "```\napi_key: <redacted>\n```"),
    "a UUID of a secret": (f'```\nclient_secret = "{UUID}"\n```', '```\nclient_secret = "<redacted>"\n```'),
    "a hash in code": (f"```\ncommit = {HEX}\nid = {UUID}\n```", f"```\ncommit = {HEX}\nid = {UUID}\n```"),
    "a short hexadecimal number": ("```\napi_key = 0x6544c2fd\n```", "```\napi_key = 0x6544c2fd\n```"),
    "a plain password in code": ('```\npassword = "hunter2"\n```', '```\npassword = "hunter2"\n```'),
    "a random word in code": ("```\nname = xK8s9Qz2LmN4pR7t\n```", "```\nname = xK8s9Qz2LmN4pR7t\n```"),
    **{
        f"code: {before}": (f"```\n{before}{RANDOM}{after}\n```", f"```\n{before}<redacted>{after}\n```")
        for before, after in (
            ("ENV DB_PASSWORD ", ""),
            ("<password>", "</password>"),
            ("- name: DB_PASSWORD\n  value: ", "\n- name: X"),
            ("password:\n  value: ", ""),
            ("tokens:\n  - ", ""),
            ('variable "db_password" {\n  default = "', '"\n}'),
            ("ALTER ROLE me PASSWORD '", "'"),
            ("gpg --passphrase ", " -d a"),
            ('{"key": "password", "value": "', '"}'),
            ('<property name="password" value="', '"/>'),
            ("**Password:** `", "`"),
            ('password = """\n', '"""'),
            ("name,password\nme,", ""),
            ("machine db login me password ", ""),
        )
    },
    **{
        f"a key behind {before}{prefix}": (f"{before}{prefix}{MIXED[:36]}{end} x", f"{before}<redacted>{end} x")
        for before, prefix, end in (
            ("**", "ghp_**", ""),
            ("'", "ghp_' + '", "'"),
            ('"', 'ghp_"."', '"'),
            ("`", "ghp_` + `", "`"),
        )
    },
    "joined strings in code": (
        f'```\ntoken = "{RANDOM}" + "{RANDOM}"\n```',
        '```\ntoken = "<redacted>" + "<redacted>"\n```',
    ),
    "a list in code": (
        f"```\ntokens:\n  - {RANDOM}\n  - {RANDOM}\nid: {RANDOM}\n```",
        f"```\ntokens:\n  - <redacted>\n  - <redacted>\nid: {RANDOM}\n```",
    ),
    "calls in code": ("```\ntoken = getToken2Ab(x1)\n```", "```\ntoken = getToken2Ab(x1)\n```"),
    "behind code": ("```\nx\n```\npassword = xK8s9Qz2LmN4pR7t", "```\nx\n```\npassword = xK8s9Qz2LmN4pR7t"),
    "an address is no credential": ("jane@example.com", "jane@example.com"),
    "code of another language": (
        "~~~js\nconst apiKey = 'xK8s9Qz2LmN4pR7t';\n~~~",
        "~~~js\nconst apiKey = '<redacted>';\n~~~",
    ),
}


@pytest.mark.parametrize(("text", "said"), ROWS.values(), ids=ROWS.keys())
def test_credentials_in_text(text: str, said: str) -> None:
    assert clean(OFTEN, text) == said
    assert clean(OFTEN, *text) == said


CLASS_ROWS: Final[dict[str, tuple[str, str]]] = {
    "an SSN before a number": ("123-45-6789 5 children", "<redacted:us_ssn> 5 children"),
    "an SSN before a date": ("SSN 123-45-6789 2024-01-01", "SSN <redacted:us_ssn> 2024-01-01"),
    "two SSNs": ("123-45-6789 536-22-1234", "<redacted:us_ssn> <redacted:us_ssn>"),
    "a longer number than an SSN": ("123-45-6789-12 and 123 45 6789 12", "123-45-6789-12 and 123 45 6789 12"),
    "a national number before a date": ("call 020 7946 0958 2024-01-01", "call <redacted:phone> 2024-01-01"),
    "a national number before a number": ("020 7946 0958 12 times", "<redacted:phone> 12 times"),
    "a number in groups of four": ("0123 4560 8901 2345 is it", "0123 4560 8901 2345 is it"),
    "two numbers": ("tel +44 20 7946 0958 (415) 555-2671", "tel <redacted:phone> <redacted:phone>"),
    "a number with an extension": ("+1-415-555-2671x99.", "<redacted:phone>."),
    "a number behind a value": ("a@x.org/415-555-2671 x", "<redacted:email>/<redacted:phone> x"),
    "a range of addresses": ("203.0.113.7-203.0.113.9 x", "<redacted:ip_address>-<redacted:ip_address> x"),
    "several": (
        "jane@example.com, +49 171 1234567 and 4111 1111 1111 1111.",
        "<redacted:email>, <redacted:phone> and <redacted:payment_card>.",
    ),
    "percent-encoded": ("https://x.org/?m=jane%40example.com&y", "https://x.org/?m=<redacted:email>&y"),
    "encoded twice": ("u=jane%2540example.com x", "u=<redacted:email> x"),
    **{
        f"behind {blank}": (f"a{blank}203.0.113.77 x", f"a{blank}<redacted:ip_address> x")
        for blank in ("%0A", "%09", "%0d%0a", "%250A", "%20", r"\n", "&#10;", "%C2%A0", "%E2%80%89")
    },
    "entities": ("<a>jane&commat;example&period;com</a>", "<a><redacted:email></a>"),
    "escapes": (r"jane\u0040example.com x", "<redacted:email> x"),
    "invisible characters": ("4111\u200b1111\u200b1111\u200b1111 x", "<redacted:payment_card> x"),
    "blanks that do not break": ("4111\u00a01111\u00a01111\u00a01111 x", "<redacted:payment_card> x"),
    "full-width digits": ("\uff14\uff11\uff11\uff11111111111111 x", "<redacted:payment_card> x"),
    "a credential between": (f"a@x.org {GITHUB} b@x.org", "<redacted:email> <redacted> <redacted:email>"),
    "cut off": ("mail jane@exa", "mail <redacted:email>"),
    "a card cut off": ("card 4111 1111 1111 1", "card <redacted:payment_card>"),
    "in code": ("```\nmail = 'jane@example.com'\n```", "```\nmail = '<redacted:email>'\n```"),
}


@pytest.mark.parametrize(("text", "said"), CLASS_ROWS.values(), ids=CLASS_ROWS.keys())
def test_personal_data_in_text(text: str, said: str) -> None:
    assert clean(EVERY, text) == said
    assert clean(EVERY, *text) == said


def test_nothing_is_withheld_if_the_policy_says_so() -> None:
    assert clean(Redactor(Policy(text="off")), GITHUB) == GITHUB


def test_a_character_waits_only_while_it_can_become_a_match() -> None:
    stream = EVERY.message_stream()
    deltas = ["Hello wor", "ld jane", "@", "example.com", " is", "n't ", "2024", " or", " gh", "p", "x", "y z."]
    said = [stream.feed(delta).value for delta in deltas]
    assert said == ["Hello ", "world ", "", "", "<redacted:email> ", "isn't ", "", "2024 ", "or ", "", "", "ghpxy "]


@pytest.mark.parametrize(
    "texts", [("No", "No"), ("gh", "o"), ("x gh", "ost"), ("a.", "b"), ("```", "x"), ("N", "O", "P")]
)
def test_harmless_texts_that_are_joined_are_whole(texts: Sequence[str]) -> None:
    for redactor in (OFTEN, EVERY):
        joint = Seam()
        for text in texts:
            stream = redactor.message_stream(joint)
            assert stream.feed(text).value + stream.close().value == text


COUNTS: Final[dict[str, tuple[dict[str, Any], str, list[str]]]] = {
    "one of each": (ALL, "a@x.org 192.0.2.7 b@x.org now", ["Withheld: email (2), ip_address (1)."]),
    "reported": ({"email": "report"}, "a@x.org b@x.org now", ["Found, not withheld: email (2)."]),
    "both": (
        {"email": "report", "ip_address": "mask"},
        "a@x.org 192.0.2.7 now",
        ["Withheld: ip_address (1). Found, not withheld: email (1)."],
    ),
    "a credential": ({"credentials": "mask"}, GITHUB + ".", ["Withheld: credentials (1)."]),
}


@pytest.mark.parametrize(("text", "said", "expected"), COUNTS.values(), ids=COUNTS.keys())
def test_notices_have_class_and_count(text: dict[str, Any], said: str, expected: list[str]) -> None:
    assert messages(Redactor(Policy.load({"text": text})), said) == expected


def test_a_reported_value_is_shown() -> None:
    redactor = Redactor(Policy.load({"text": {"credentials": "report", "email": "report"}}))
    for text in (f"x {GITHUB} a@x.org y", f"{GITHUB}"):
        assert clean(redactor, text) == clean(redactor, *text) == text


@pytest.mark.parametrize("cut", [0, 2])
def test_a_reported_value_with_a_registered_one_in_it_goes_on_in_the_next_text(cut: int) -> None:
    policy = {"text": {"credentials": "report"}, "registered": [{"id": "vault", "value": "12345678"}]}
    redactor, seam = Redactor(Policy.load(policy)), Seam()
    first, second = redactor.message_stream(seam), redactor.message_stream(seam)
    assert first.feed("mzp_" + "0123456789abc").value + first.close().value == "mzp_0[REDACTED:vault]9abc"
    rest = "def0" + "abcdef90" * 6
    cleaned = [*(second.feed(each) for each in (rest[:cut], rest[cut:])), second.close()]
    assert "".join(each.value for each in cleaned) == rest


def test_a_blocked_value_raises_and_nothing_of_it_is_shown() -> None:
    stream = Redactor(Policy.load({"text": {"email": "block"}})).message_stream()
    assert stream.feed("write to jane").value == "write to "
    with pytest.raises(BlockedError, match=r"^email$"):
        stream.feed("@example.com today")


def _samples() -> Iterator[tuple[str, str]]:
    for row in CLASSES:
        for sample in row.matches:
            yield row.name, f"It is {sample} here."
    for format_row in FORMATS:
        if "WORD" not in format_row.anchor:
            for sample in format_row.matches:
                yield format_row.name, f"It is {sample} here."


SAMPLES: Final = [*_samples()]


@pytest.mark.parametrize(("name", "text"), SAMPLES, ids=[f"{name}-{at}" for at, (name, _) in enumerate(SAMPLES)])
def test_every_split_of_a_sample_into_two(name: str, text: str) -> None:
    """The output after n characters depends on these alone, so each split shows the same at each point."""
    whole = clean(EVERY, text)
    assert whole != text, name
    stream = EVERY.message_stream()
    shown = [""]
    for char in text:
        shown.append(shown[-1] + stream.feed(char).value)
    for at in range(1, len(text)):
        two = EVERY.message_stream()
        first = two.feed(text[:at]).value
        assert first == shown[at]
        assert whole.startswith(first)
        assert first + two.feed(text[at:]).value + two.close().value == whole


def _cuts(text: str, whole: str) -> Iterator[tuple[int, int]]:
    """Yield all pairs of cuts. Of those in the rest of a value one stands for all: the search is in the same state.

    The rest is between the character with which the value is decided, as its mark appears, and the last one.
    """
    stream = EVERY.message_stream()
    said = [stream.feed(char).value for char in text]
    decided = next((at for at, shown in enumerate(said) if "<redacted" in shown), len(text))
    end = len(text) - len(whole.rpartition(">")[2])
    is_one = whole.count("<redacted") == 1
    yield from combinations([at for at in range(1, len(text)) if not (is_one and decided + 2 < at < end - 1)], 2)


FIRST: Final = dict(reversed(SAMPLES))
"""Name of a class or format -> its first sample."""
SHARE: Final = 1 if EFFORT > 1 else 3
"""One in so many cuts of a first sample is tried, and a third of that of the others."""


@pytest.mark.parametrize(("name", "text"), SAMPLES, ids=[f"{name}-{at}" for at, (name, _) in enumerate(SAMPLES)])
def test_splits_of_a_sample_into_three(name: str, text: str) -> None:
    step = SHARE if FIRST[name] == text else 3 * SHARE
    text = text[len("It is") : -len("here.")]
    whole = clean(EVERY, text)
    assert whole != text, name
    for first, second in islice(_cuts(text, whole), len(text) % step, None, step):
        assert clean(EVERY, text[:first], text[first:second], text[second:]) == whole


@pytest.mark.parametrize("row", CLASSES, ids=[row.name for row in CLASSES])
def test_harmless_samples_are_shown_by_their_class(row: TextClass) -> None:
    redactor = Redactor(Policy.load({"text": {row.name: "mask"}}))
    assert [clean(redactor, sample) for sample in row.harmless] == list(row.harmless)


def _pieces(text: str, sizes: Sequence[int]) -> list[str]:
    pieces, at = [], 0
    while at < len(text):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(text[at : at + size])
        at += size
    return pieces


@pytest.mark.parametrize("sizes", [(1,), (2, 3), (7,), (40, 1), (200,)])
def test_long_texts_are_the_same_at_every_cut(sizes: Sequence[int]) -> None:
    text = "\n".join(sample for _, sample in SAMPLES)
    assert clean(EVERY, *_pieces(text, sizes)) == clean(EVERY, text)
    assert clean(OFTEN, *_pieces(text, sizes)) == clean(OFTEN, text)
