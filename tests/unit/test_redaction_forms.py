"""Forms of a secret that a reader or a program undoes, and places into which it may be cut, at every cut."""

from __future__ import annotations

import json
from typing import Final

import pytest

from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from tests.rule_samples import CLASSES, MIXED

GITHUB: Final = "ghp" + "_" + MIXED[:36]
SECRET: Final = "kX9mQ2vT7wLzR4"
ALL: Final = {"credentials": "mask", **{row.name: "mask" for row in CLASSES}}
TOOLS: Final = Redactor(Policy())
TEXT: Final = Redactor(Policy.load({"text": ALL}))


def cuts(text: str) -> list[list[str]]:
    return [[text], [*text], *([text[:at], text[at:]] for at in range(1, len(text)))]


def said_of_text(text: str) -> set[str]:
    """Return what is shown of a text that people read, at every cut."""
    found = set()
    for parts in cuts(text):
        stream = TEXT.message_stream()
        found.add("".join(stream.feed(part).value for part in parts) + stream.close().value)
    return found


def said_of_code(text: str) -> set[str]:
    """Return what is shown of a text of tools, whole and at every cut."""
    found = {TOOLS.text(text).value}
    for parts in cuts(text):
        stream = TOOLS.code_stream()
        found.add("".join(stream.feed(part).value for part in parts) + stream.close().value)
    return found


def wide(text: str, first: int = 0xFEE0) -> str:
    return "".join(chr(ord(char) + first) for char in text)


SPELLED: Final = {
    "braces": GITHUB.replace("_", r"\u{5f}"),
    "braces with zeros": GITHUB.replace("_", r"\u{005F}"),
    "eight digits": GITHUB.replace("_", r"\U0000005f"),
    "octal digits": GITHUB.replace("_", r"\137"),
    "a number without a semicolon": GITHUB.replace("_", "&#95") + "&",
    "hexadecimal digits without a semicolon": "&#x67hp" + GITHUB[3:],
    "the escapes of old scripts": GITHUB.replace("_", "%u005f"),
    "full-width letters": wide(GITHUB),
    "a full-width sign": GITHUB.replace("_", "\uff3f"),
    "mathematical letters": "\U0001d420\U0001d421\U0001d429" + GITHUB[3:],
    "a control character": GITHUB[:6] + "\x07" + GITHUB[6:],
    "a zero": "\x00".join(GITHUB),
    "a box around each character": "\u20e3".join(GITHUB),
    "an annotation": GITHUB[:6] + "\ufff9" + GITHUB[6:],
    "a long name of an entity": GITHUB[:6] + "&ZeroWidthSpace;" + GITHUB[6:],
    "a line that goes on": GITHUB[:9] + "\\\n" + GITHUB[9:],
    "a line of Windows that goes on": GITHUB[:9] + "\\\r\n" + GITHUB[9:],
    "a spelled colour": GITHUB[:6] + r"\x1b[31m" + GITHUB[6:],
    "a spelled colour in octal digits": GITHUB[:6] + r"\033[0;31m" + GITHUB[6:],
    "a spelled colour of JSON": GITHUB[:6] + r"\u001b[m" + GITHUB[6:],
    "another alphabet": GITHUB[:6] + "\x1b(B" + GITHUB[6:],
}


@pytest.mark.parametrize("written", SPELLED.values(), ids=SPELLED.keys())
def test_a_credential_is_found_in_each_spelling(written: str) -> None:
    text = f"see {written} ok"
    for said in (said_of_text(text), said_of_code(text)):
        assert len(said) == 1
        assert said.pop().removesuffix(" ok").rstrip("&") == "see <redacted>"


COLOURS: Final = (r"\033[32m", r"\x1b[1;32m", r"\e[0m", r"\u001b[32m", r"\u{1b}[32m", "\x1b(B\x1b[m", r"\012", "%u0020")
VALUES: Final = ("4111 1111 1111 1111", "+49 171 1234567", "203.0.113.77", "123-45-6789", GITHUB)


@pytest.mark.parametrize("before", COLOURS)
@pytest.mark.parametrize("value", VALUES)
def test_a_value_begins_behind_a_spelled_control(before: str, value: str) -> None:
    """A colour belongs to the value, as it is not seen."""
    said = said_of_text(f"see {before}{value} ok")
    assert len(said) == 1
    assert not said & {f"see {before}{value} ok"}
    assert said.pop().endswith("> ok")


@pytest.mark.parametrize("zero", [0x9E6, 0xE50, 0xBE6, 0x17E0])
def test_digits_of_other_scripts(zero: int) -> None:
    card = "".join(chr(zero + int(char)) for char in "4111111111111111")
    assert said_of_text(f"see {card} ok") == {"see <redacted:payment_card> ok"}


@pytest.mark.parametrize("blank", ["\u3000", "\u2005", "\u205f"])
def test_other_blanks_between_groups(blank: str) -> None:
    card = blank.join(["4111"] + ["1111"] * 3)
    assert said_of_text(f"see {card} ok") == {"see <redacted:payment_card> ok"}


SEPARATORS: Final = (
    *(":\u00a0", "\u00a0=\u00a0", "=\u2003", ":\u3000", "=\u2028", ":\x85", "\x0c", "=\n", "=\r\n  "),
    *(
        " ?= ",
        " += ",
        "||=",
        " ??= ",
        " was ",
        " equals ",
        " set to ",
        " ist ",
        " est ",
        " es ",
        " lautet ",
        " - ",
        "﹕",
        "﹦",
    ),
)


@pytest.mark.parametrize("key", ["password", "API_KEY"])
@pytest.mark.parametrize("separator", SEPARATORS)
def test_a_value_behind_each_separator(separator: str, key: str) -> None:
    assert said_of_code(f"x {key}{separator}{SECRET} y") == {f"x {key}{separator}<redacted> y"}


def test_letters_that_end_like_a_key_are_no_name_of_one() -> None:
    """`mdp` is short for `mot de passe`."""
    assert said_of_code("refreshToken=IlfVJUdrnKmItnaxTqIprmMDp x") == {"refreshToken=<redacted> x"}
    assert said_of_code("refreshToken=theMDP x") == {"refreshToken=theMDP x"}


HARMLESS: Final = (
    "the token was expired",
    "password - the password of the user",
    "PASSWORD=\nNAME=kX9mQ2vT7wLzR4",
    "token += next_token()",
    "secret ||= Rails.application.secrets",
    "a path C:\\137\\012 and \\u{zz} and \\U0000",
    "R&D, a&#b and 5%u",
    "curl \\\n  --verbose \\\n  https://example.org",
)


@pytest.mark.parametrize("text", HARMLESS)
def test_what_looks_alike_stays(text: str) -> None:
    assert said_of_code(text) == said_of_text(text) == {text}


ZHIPU: Final = "0a75d9a3708b02f8baa3d432e3802de5." + MIXED[:16]
LIVE: Final = "live_" + "aD2Fe93k40Jie7J77a128ie077JB78"


@pytest.mark.parametrize("escape", [r"done\n", r"a\t", "a%20", "a%0A", "a%2520", "a=3D", "a=20", r"a\x20", r"a\u0020"])
@pytest.mark.parametrize("secret", [ZHIPU, LIVE], ids=["a mark inside", "a mark before"])
def test_a_credential_of_exact_length_begins_behind_an_escape(escape: str, secret: str) -> None:
    for said in said_of_code(f"see {escape}{secret} ok"):
        assert secret[12:] not in said


@pytest.mark.parametrize("begins", ["a1", "abc1"])
def test_a_run_is_held_from_its_second_change_on(begins: str) -> None:
    """No other change between letters and digits follows before the mark, `.`."""
    digits = (begins + "bcdefa" * 6)[:32]
    assert said_of_code(f"see {digits}.{MIXED[:16]} ok") == {f"see {begins}<redacted> ok"}


REGISTERED: Final = "ba\"ck'tick\\slash-90"
ARRAYS: Final = {
    "an empty string between": ["sk_live_a1B2c3D4", "", "e5F6a1B2c3D4"],
    "a tail of more characters": ["ghs_1234567_ey", "Jaic9F02F", "6Ha41B", "3DeH4H.eyJa", "68B3ai", "8iFe0JFHFa9e41"],
    "a document that is cut off": ['["a", "PMAK-0f5e9cba', "1ce556c652d99571-0f6", "e5783b8baac45e0feb", "62623"],
    "a member that is cut off": ['{"id":"gb', "_api_aa563BJc", "Je76g9H9k2c11k", "1F4a", "5aJHFgBH5Bcce7"],
    "a number between": ["passw", 1, f"ord={SECRET}"],
    "null between": ["--password", None, SECRET],
}


@pytest.mark.parametrize("strings", ARRAYS.values(), ids=ARRAYS.keys())
def test_a_secret_goes_on_in_the_next_strings(strings: list[object]) -> None:
    tree = TOOLS.json(strings, string_max_chars=1_000).value
    assert isinstance(tree, list)
    assert all("<redacted>" in text for text in tree[2:] if isinstance(text, str))
    written = json.dumps(strings)
    for parts in cuts(written):
        stream = TOOLS.argument_stream()
        said = "".join(stream.feed(part).value for part in parts) + stream.finish().rest.value
        assert json.loads(said) == tree


@pytest.mark.parametrize("first", [0xFEE0, 0])
def test_a_registered_value_in_full_width_letters(first: int) -> None:
    written = wide("quiet-heron-7741", first)
    stream = Redactor(Policy(), ["quiet-heron-7741"]).message_stream()
    assert "".join(stream.feed(char).value for char in f"x {written} y") + stream.close().value == "x <redacted> y"


def test_a_registered_value_goes_on_behind_a_document_that_is_cut_off() -> None:
    redactor = Redactor(Policy(), [REGISTERED])
    strings = ['{"id": "ba\\"ck\'tic', "k\\\\slash-90", '"}']
    assert redactor.json(strings, string_max_chars=100).value == ['{"id": "<redacted>', "<redacted>", '"}']
