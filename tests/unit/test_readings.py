"""A text is read as it is written and as it is seen: what is hidden in a credential or a key does not hide it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import pytest

from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from projector.redaction.search import Search
from projector.redaction.spellings import as_read

REDACTORS: Final = {
    "no registered values": Redactor(Policy()),
    "registered values": Redactor(Policy.load({"registered": [{"value": "quiet-Heron-7741-vault", "id": "bird"}]})),
}
TOKEN: Final = "ghp" + "_" + "a1B2c3D4" * 5
HIDDEN: Final[Mapping[str, tuple[str, str]]] = {
    "zero-width spaces in a token": (f"x {chr(0x200B).join(TOKEN)} y", "x <redacted> y"),
    "soft hyphens in a value": (f"password={chr(0xAD).join('hunter2x9')} z", "password=<redacted> z"),
    "joiners in a key": ("pass\u2060wo\u2060rd=hunter2x9 z", "pass\u2060wo\u2060rd=<redacted> z"),
    "several in a row": (f"x gh\u200b\u200c\u200d\u2060p{TOKEN[3:]} y", "x <redacted> y"),
    "tags of Unicode": (f"x {chr(0xE0041).join(TOKEN)} y", "x <redacted> y"),
    "colour before a value": ("password=\x1b[1;32mhunter2x9\x1b[0m z", "password=<redacted> z"),
    "colours in a token": (f"R&D {TOKEN[:9]}\x1b[01;31m{TOKEN[9:]}\x1b[m.", "R&D <redacted>\x1b[m."),
    "a token behind a colour": (f"a\x1b[32m{TOKEN}", "a\x1b[32m<redacted>"),
    "a token behind an unseen character": (f"foo\u200b{TOKEN} z", "foo\u200b<redacted> z"),
    "escapes in a key": ('text {"\\u0070assword": "hunter"} z', 'text {"\\u0070assword": "<redacted>"} z'),
    "escapes of strings in strings": ("see \\\\\\u0070assword=hunter2x9 ok", "see \\\\\\u0070assword=<redacted> ok"),
    "bytes of a string": (f"x \\x67hp_{TOKEN[4:]} y", "x <redacted> y"),
    "entities": ("pass&#119;ord=hunt&#x65;r2x9 z", "pass&#119;ord=<redacted> z"),
    "entities for quotes": (
        "{&quot;password&quot;: &quot;hunter&quot;}",
        "{&quot;password&quot;: &quot;<redacted>&quot;}",
    ),
    "entities that are not seen": (f"x {TOKEN[:9]}&shy;{TOKEN[9:]} y", "x <redacted> y"),
    "an entity behind a tag": (f"<p>{TOKEN.replace('_', '&#95;').replace('ghp', '&#x67;hp')}</p>", "<p><redacted></p>"),
    "two secrets": (
        f"{chr(0x200B).join(TOKEN)}, password={chr(0x200B).join('hunter2x9')}",
        "<redacted>, password=<redacted>",
    ),
    "look-alikes in a header": ("Set-C\u043e\u043ekie: sid=a1B2c3D4e5; Path=/", "Set-C\u043e\u043ekie: <redacted>"),
}
SHOWN: Final = (
    "a\u200bb \u200d\u200d c",
    "\ufeffhello",
    "\x1b[32mgreen\x1b[0m and \x1b[1mbold\x1b",
    "ok & x && y &am",
    "a &lt; b &amp;&amp; c &unknown; &#0; &#9999999;",
    "\\ud83d tail \\u00",
    "C:\\users\\x64\\new \\\\server\\share\\",
    "\U0001f469\u200d\U0001f4bb\ufe0f writes code",
    "\u200b" * 200,
    "\\" * 200 + "u0041",
)


def every_way(redactor: Redactor, text: str) -> set[str]:
    """Return what is shown of a text: cut once at every place, in single characters, whole."""
    pieces = [[text[:at], text[at:]] for at in range(len(text))] + [[*text]]
    shown = {str(redactor.text(text).value)}
    for way in pieces:
        stream = redactor.code_stream()
        shown.add("".join(stream.feed(piece).value for piece in way) + stream.close().value)
    return shown


@pytest.mark.parametrize("redactor", REDACTORS.values(), ids=REDACTORS)
@pytest.mark.parametrize(("text", "shown"), HIDDEN.values(), ids=HIDDEN)
def test_what_is_hidden_is_found(redactor: Redactor, text: str, shown: str) -> None:
    assert every_way(redactor, text) == {shown}


@pytest.mark.parametrize("redactor", REDACTORS.values(), ids=REDACTORS)
@pytest.mark.parametrize("text", SHOWN, ids=range(len(SHOWN)))
def test_harmless_texts_stay(redactor: Redactor, text: str) -> None:
    assert every_way(redactor, text) == {text}


def test_a_registered_value_is_found_as_it_is_seen_and_as_it_is_written() -> None:
    family = "\U0001f468\u200d\U0001f469-7741"
    redactor = Redactor(Policy.load({"registered": [{"value": family}, {"value": "quiet-Heron-7741"}]}))
    assert every_way(redactor, f"is {family}.") == {"is <redacted>."}
    assert every_way(redactor, f"is {chr(0x200B).join('quiet-Heron-7741')}.") == {"is <redacted>."}


@pytest.mark.parametrize(
    ("strings", "shown"),
    [
        (['{"id": "\\u017', 'du\\u0165ou\\u010dk\\u00fd-k\\u016f\\u0148-31"}'], ['{"id": "\\u017', '<redacted>"}']),
        (['{"id": "\\u017', "du\\u0165", "ou\\u010dk\\u00", 'fd-k\\u016f\\u0148-31"}'], None),
        (["is \\u017d", "u\\u0165ou\\u010d", "k\\u00fd-k\\u016f\\u0", "148-31."], None),
        (["is %C5%BDu%C5", "%A5ou%C4%8Dk%C3%B", "D-k%C5%AF%C5%88", "-31."], None),
        (["is &#381;", "u&#x165;ou&#26", "9;k&yacute;-k&#367;&#3", "28;-31."], None),
        (["is \u017du\u200b\u0165o", "u\u010d\u200b\u200bk\u200b\u00fd", "-k\u016f\u200b", "\u0148-31."], None),
    ],
)
def test_a_registered_value_in_strings_that_cut_an_escape_of_it(strings: list[str], shown: list[str] | None) -> None:
    redactor = Redactor(Policy.load({"registered": [{"value": "\u017du\u0165ou\u010dk\u00fd-k\u016f\u0148-31"}]}))
    found = redactor.json([*strings, "end"], string_max_chars=100).value
    assert isinstance(found, list)
    assert found[-1] == "end"
    if shown is not None:
        assert found[:-1] == shown
    assert all("<redacted>" in string for string in found[2:-1])
    assert not re.search(r"[a-z0-9]{3}", "".join(found[2:-1]).replace("<redacted>", ""))


def test_a_value_that_ends_in_its_string_withholds_nothing_of_the_next_one() -> None:
    """At each length that is decided with each character there, although texts that grow are decided in steps."""
    redactor, following = Redactor(Policy.load({})), ["next step", "x = 1"]
    for count in range(7, 62):
        value = ("hunter2" * 15)[:count]
        found = redactor.json([f'# auth: {value}"', *following], string_max_chars=200).value
        assert found == ["# auth: <redacted>", *following], count


def test_a_whole_text_is_read_as_its_pieces_are() -> None:
    assert as_read("a\u200bb\x1b[1m\\u0063&#100;&quot;") == 'abcd"'


def test_a_piece_that_needs_readings_is_searched_once_before(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    shown = Search.shown

    def counted(search: Search, text: str, start: int, *, is_whole: bool = False) -> int:
        asked.append(text[start:])
        return shown(search, text, start, is_whole=is_whole)

    monkeypatch.setattr(Search, "shown", counted)
    redactor = REDACTORS["no registered values"]
    for stream in (redactor.argument_stream(), redactor.code_stream()):
        stream.feed('{"notes": "it reads ')
        stream.feed("tokens of a long page, and ")
        assert sum("tokens of a long page" in text for text in asked) == 1
        asked.clear()
