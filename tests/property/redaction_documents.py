"""Generated tool arguments with secrets in every position and spelling, and the laws of their redaction.

The secret part of each secret begins with a letter that occurs nowhere else. If that letter is in the fully decoded
output, more than the anchor has leaked. A law raises `AssertionError`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from itertools import pairwise
from random import Random
from typing import Final, NamedTuple

from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor

SECRET: Final = "Ж"
"""First letter of each secret that is identified by its key or registered."""
CREDENTIAL: Final = "Q"
"""First letter of the body of each credential."""
REGISTERED: Final = (f"{SECRET} кit 😀 x-9", f"{SECRET} [b] {{x}}-9")
NUMBER: Final = 987_654_321

POLICY: Final = Policy.load(
    {
        "registered": [{"id": "kit", "value": REGISTERED[0]}, {"value": REGISTERED[1]}, {"value": str(NUMBER)}],
        "limits": {"arguments_text_max_chars": 1_000_000},
    }
)

_KEYS: Final = ("api_key", "Authorization", "x-token", "client.secret", "passwd", "auth", "sessionId", "max_tokens")
_WORDS: Final = (
    *("name", "text", "a b", "x.y", "ключ", "", "sk-", "gh", "eyJ", "n", 'qu"ote', "back\\slash", "line\nend"),
)
_CREDENTIALS: Final = (
    "ghp" + "_" + CREDENTIAL + "w2E3r" * 7,
    "sk-" + "proj-" + CREDENTIAL + "w2E3r_-" * 5,
    "AKIA" + CREDENTIAL + "WERTYUI" * 3,
    "xoxb" + "-" + CREDENTIAL + "123456789-abc",
    "eyJ" + "hbGciOiJ9" + "." + CREDENTIAL + "eyJzdWIiOi.sig-nature",
    "postgres://me:" + CREDENTIAL + "pass@db.internal/x",
    "-----BEGIN " + "PRIVATE KEY-----\n" + CREDENTIAL + "\n" + CREDENTIAL,
    "Authorization: Bearer " + CREDENTIAL + "abc",
    'password="' + CREDENTIAL + 'hunter2"',
    "AKIA" + CREDENTIAL + "WERTYUI" * 3 + "ghp" + "_" + CREDENTIAL + "w2E3r" * 7,
)
_MORE_THAN_THREE_LETTERS: Final = rf"{SECRET}(?! ?[к\[]?[\\u0-9]*$)"
"""At the end of a text, the first letters of a registered value may be an ordinary word.

Behind them may be the beginning of an escape, which may itself be written in escapes.
"""
_FRAGMENT: Final = f'"api_key": "{SECRET}abc", "b": 1'
_BREAKERS: Final = ("{", "}", "[", "]", ",", ":", '"', "\\", "x", "1", "\n", "\x00", "'", "tru", "-", " ")


class Document(NamedTuple):
    """Arguments as a provider could send them; `broken` text is not JSON, `clean` text contains no secret."""

    text: str
    broken: bool
    clean: bool


class _Writer:
    """Writes one document; between its atoms it may be broken, inside a secret it is not.

    Where a document in a string is broken the rest is plain text: there `simple_secrets` are known without decoding. A
    document is broken itself, or holds documents that are.
    """

    def __init__(
        self, random: Random, *, clean: bool, level: int, simple_secrets: bool, may_break: bool = False
    ) -> None:
        self.random = random
        self.clean = clean
        self.level = level
        self.simple_secrets = simple_secrets
        self.may_break = may_break
        self.atoms: list[str] = []

    def string(self, text: str) -> str:
        """Spell a string, some characters as escapes."""
        rare = self.random.choice(text) if text else ""
        return f'"{"".join(self.spelled(char, rare) for char in text)}"'

    def spelled(self, char: str, rare: str) -> str:
        if char == rare and char < "\uffff":
            return f"\\u{ord(char):04x}"
        return json.dumps(char, ensure_ascii=char == rare or self.random.random() < 0.15)[1:-1]

    def blank(self) -> str:
        blanks = ["", "", "", " ", "\n ", "\t"]
        return self.random.choice(blanks[:4] if self.simple_secrets else blanks)

    def value(self, depth: int) -> None:
        pick = self.random.random()
        if depth and pick < 0.3:
            self.container(depth, "{", "}")
        elif depth and pick < 0.45:
            self.container(depth, "[", "]")
        elif pick < 0.6:
            self.atoms.append(
                self.random.choice(("1", "-0.5e+3", "true", "false", "null", "0", "98765", "12345678901234567890"))
            )
        elif pick < 0.75 and self.level < 3:
            inner = self.inner()
            self.atoms.append(json.dumps(inner, ensure_ascii=False) if self.simple_secrets else self.string(inner))
        elif pick < 0.9 and not self.clean:
            self.atoms.append(self.secret())
        else:
            self.atoms.append(self.string(" ".join(self.random.choices(_WORDS, k=3))))

    def container(self, depth: int, opener: str, closer: str, fewest: int = 0) -> None:
        self.atoms.append(opener)
        for number in range(self.random.randrange(fewest, fewest + 4)):
            if number:
                self.atoms.append("," + self.blank())
            if opener == "{":
                self.member(depth)
            else:
                self.value(depth - 1)
        self.atoms.append(closer)

    def member(self, depth: int) -> None:
        if self.clean and self.random.random() < 0.1:
            self.atoms += [self.string("max_tokens"), ":512"]
        elif self.clean or self.random.random() < 0.6:
            self.atoms.append(self.string(self.random.choice(_WORDS)))
            self.atoms.append(self.blank() + ":" + self.blank())
            self.value(depth - 1)
        elif self.random.random() < 0.2:
            key = self.random.choice(_CREDENTIALS[:4])
            self.atoms.append((json.dumps(key) if self.simple_secrets else self.string(key)) + ":1")
        else:
            key = self.string(self.random.choice(_KEYS)) if not self.simple_secrets else '"api_key"'
            self.atoms.append(key + ":" + self.blank() + self.withheld())

    def withheld(self) -> str:
        """A value under a sensitive key."""
        text = self.string(SECRET + self.random.choice(_WORDS))
        if self.simple_secrets:
            return f'"{SECRET}abc"'
        return self.random.choice((text, f'[{text}, {{"a": {text}}}]', f'{{"b": {{"c": {text}}}}}'))

    def secret(self) -> str:
        """A string or number that is or contains a secret."""
        pick = self.random.random()
        if pick < 0.1 and not self.simple_secrets:
            return str(NUMBER)
        if pick < 0.2:
            return json.dumps(_FRAGMENT, ensure_ascii=False) if self.simple_secrets else self.string(_FRAGMENT)
        core = self.random.choice(REGISTERED if pick < 0.4 else _CREDENTIALS)
        text = self.random.choice(("", "see ", "密", "a-")) + core + self.random.choice(("", " end", "\n", "!"))
        return json.dumps(text, ensure_ascii=False) if self.simple_secrets else self.string(text)

    def inner(self) -> str:
        """A document to be put into a string."""
        inner = _Writer(self.random, clean=self.clean, level=self.level + 1, simple_secrets=self.simple_secrets)
        inner.container(2, *self.random.choice(("{}", "[]")))
        if self.may_break:
            self.random.choice((inner.spoil, inner.break_off_in_a_secret, lambda: None))()
        return "".join(inner.atoms)

    def spoil(self) -> None:
        """Break the document between two atoms."""
        self.atoms.insert(self.random.randrange(len(self.atoms) + 1), self.random.choice(_BREAKERS))

    def break_off_in_a_secret(self) -> None:
        """End the document inside the value of a sensitive key, as invalid JSON."""
        secret = self.random.choice((f'x "{SECRET}abc"', f'{{"b" "{SECRET}abc"}}', f'["a" {SECRET}]', f"'{SECRET}'"))
        self.atoms = ['{"a":', *self.atoms, ', "api_key":', secret, "}"]


def document(random: Random, *, clean: bool = False, broken: bool = False, cut_off: bool = False) -> Document:
    """Write a document; `broken` in the middle or `cut_off` at its end."""
    writer = _Writer(random, clean=clean, level=0, simple_secrets=broken, may_break=broken and random.random() < 0.5)
    writer.atoms.append(writer.blank())
    writer.container(4, "{", "}", fewest=2)
    writer.atoms.append(writer.blank())
    if broken and not writer.may_break:
        writer.spoil()
    text = "".join(writer.atoms)
    return Document(text[: random.randrange(len(text) + 1)] if cut_off else text, broken or cut_off, clean)


def any_document(random: Random) -> Document:
    """Write a document with each kind of value."""
    kind = random.randrange(5)
    return document(random, clean=kind == 1, broken=kind == 2, cut_off=kind == 3)


def pieces(text: str, cuts: Iterable[int]) -> list[str]:
    """Cut a text."""
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


def random_cuts(random: Random, text: str) -> list[int]:
    """Cut at every position, or at random ones."""
    return list(range(len(text))) if random.random() < 0.5 else [random.randrange(len(text) + 1) for _ in range(9)]


def decoded(text: str) -> str:
    """Undo escapes until none are left."""
    for _ in range(5):
        text = re.sub(r"\\+u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), text)
    return text


# the laws


def cuts_do_not_matter(redactor: Redactor, random: Random) -> None:
    """The output after n characters depends on those characters only; the joined deltas equal the text at any cut."""
    text = any_document(random).text
    whole = redactor.arguments(text)
    stream = redactor.argument_stream()
    said, read = "", 0
    for piece in pieces(text, random_cuts(random, text)):
        said += stream.feed(piece).value
        read += len(piece)
        if random.random() < 0.1:
            assert redactor.argument_stream().feed(text[:read]).value == said
    end = stream.finish()
    assert said + end.rest.value == whole.text.value
    assert end.arguments == whole


def no_secret_leaves(redactor: Redactor, random: Random) -> None:
    """No part of a secret after its anchor is in the text, in the object, or in any delta."""
    text = any_document(random).text
    stream = redactor.argument_stream()
    said = "".join(stream.feed(piece).value for piece in pieces(text, random_cuts(random, text)))
    end = stream.finish()
    parsed = json.dumps(end.arguments.json.value, ensure_ascii=False) if end.arguments.json else ""
    for place in (said + end.rest.value, parsed):
        assert CREDENTIAL not in decoded(place)
        assert not re.search(_MORE_THAN_THREE_LETTERS, decoded(place))
        assert str(NUMBER) not in place


def clean_text_stays(redactor: Redactor, random: Random) -> None:
    """Text without a secret is emitted and parsed unchanged, without a notice."""
    text = document(random, clean=True).text
    result = redactor.arguments(text)
    assert (result.text.value, result.text.notices) == (text, ())
    assert result.json is not None
    assert json.dumps(result.json.value) == json.dumps(json.loads(text, parse_int=_integer))
    assert result.json.notices == ()


def _integer(digits: str) -> object:
    return int(digits) if int(digits) < 2**64 else digits


def cleaning_twice_is_cleaning_once(redactor: Redactor, random: Random) -> None:
    """Marks are not treated as secrets."""
    once = redactor.arguments(document(random).text)
    twice = redactor.arguments(once.text.value)
    assert twice.text.value == once.text.value
    assert (twice.json and twice.json.value) == (once.json and once.json.value)


def notices_name_marks(redactor: Redactor, random: Random) -> None:
    """Every mark has a notice, and every notice of a withheld value has a mark."""
    result = redactor.arguments(document(random).text)
    assert result.json is not None
    told = bool(result.json.notices) or any(n.type == "redacted" for n in result.text.notices)
    assert told is ("<redacted>" in result.text.value or "[REDACTED:" in result.text.value)


def code_is_cleaned_alike(redactor: Redactor, random: Random) -> None:
    """The output for a text that may contain a document is the same for every cut, and contains no secret."""
    text = random.choice(("", "# ", " ")) + any_document(random).text
    stream = redactor.code_stream()
    said = "".join(stream.feed(piece).value for piece in pieces(text, random_cuts(random, text))) + stream.close().value
    assert said == redactor.text(text).value


def whole_text_is_known(redactor: Redactor, random: Random) -> None:
    """Our grammar and the standard library accept the same whole values."""
    assert_known(redactor, any_document(random).text)


def assert_known(redactor: Redactor, text: str) -> None:
    """Check that a text is told to be whole if the standard library reads it; NaN and infinities are no JSON."""
    try:
        json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"), parse_constant=_refused)
        whole = True
    except ValueError:
        whole = not text.strip(" \t\n\r")
    assert ("truncated" not in [n.type for n in redactor.arguments(text).text.notices]) is whole


def _refused(_name: str) -> None:
    raise ValueError


LAWS: Final[tuple[Callable[[Redactor, Random], None], ...]] = (
    cuts_do_not_matter,
    no_secret_leaves,
    clean_text_stays,
    cleaning_twice_is_cleaning_once,
    notices_name_marks,
    code_is_cleaned_alike,
    whole_text_is_known,
)
