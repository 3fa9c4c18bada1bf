"""Each credential format: its example is found, its counter-example is not, and lookalikes pass untouched."""

from __future__ import annotations

import base64
import re
from collections import Counter

import pytest

from projector.redaction import patterns
from projector.redaction.format_search import Find, FormatSearch, Scans
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from projector.redaction.scanners import Scanner
from projector.redaction.search import Search
from projector.redaction.spellings import StepWriter
from projector.redaction.strings import clean_plain
from tests.rule_samples import FORMATS, WORD, Format

SEARCH = Search(Policy())
REDACTOR = Redactor(Policy())

each_format = pytest.mark.parametrize("row", FORMATS, ids=[row.name for row in FORMATS])


def cleaned(text: str) -> str:
    formats = Scanner(SEARCH.finds[0][0], SEARCH.context, "")
    return StepWriter().write(formats.feed(text) + formats.end(), text)


def said_of(text: str) -> str:
    """Return the part of an unfinished text that can be shown."""
    return StepWriter().write(Scanner(SEARCH.finds[0][0], SEARCH.context, "").feed(text), text)


def test_there_are_many_and_each_has_its_own_name() -> None:
    assert len(FORMATS) >= 40
    assert [name for name, count in Counter(row.name for row in FORMATS).items() if count > 1] == []


def first(text: str, search: Search = SEARCH) -> Find | None:
    """Return the credential that is found first, as a text that may continue."""
    return search._formats.live.first(text)


@each_format
def test_the_example_is_found_by_its_own_row(row: Format) -> None:
    run = SEARCH._formats.runs.first(row.matches[0], 0, at_end=True)
    found = run[2] if row.is_run and run is not None else first(row.matches[0])
    assert found is not None
    name = found.row.name if isinstance(found, Find) and found.row is not None else getattr(found, "name", None)
    assert name == row.name


@each_format
def test_nothing_of_the_example_but_a_context_is_said(row: Format) -> None:
    said = cleaned(f"before {row.matches[0]}")
    assert said.startswith("before ")
    assert said.count("<redacted>") == 1
    if row.is_run:
        assert said.endswith("<redacted>"), "some characters before the mark are shown, and none after it"
    else:
        assert row.matches[0][-12:] not in said


@each_format
def test_the_counter_example_passes(row: Format) -> None:
    assert cleaned(row.harmless[0]) == row.harmless[0]


def test_formats_can_be_switched_off() -> None:
    off = Search(Policy(formats_off=frozenset({"github-token", "bearer"})))
    assert {row.name for row in FORMATS} - {row.name for row in off._formats.rows} == {"github-token", "bearer"}
    assert clean_plain(off, "ghp" + "_" + "a" * 36) == "ghp" + "_" + "a" * 36


@each_format
def test_what_is_said_of_a_beginning_stays_true(row: Format) -> None:
    whole = cleaned(row.matches[0])
    for end in range(len(row.matches[0]) + 1):
        assert whole.startswith(said_of(row.matches[0][:end]))


@each_format
def test_a_beginning_that_turns_out_otherwise_is_given_back(row: Format) -> None:
    anchor = next(n for n in range(len(row.matches[0])) if said_of(row.matches[0][: n + 1]) != row.matches[0][: n + 1])
    for text in (row.matches[0][: anchor + 2] + "\x00", row.matches[0][: anchor + 3] + "\n\n"):
        assert cleaned(text).endswith(text[-1])


@each_format
def test_cleaning_twice_is_cleaning_once(row: Format) -> None:
    once = cleaned(f"x = {row.matches[0]}, y")
    assert cleaned(once) == once


@each_format
def test_its_anchor_is_long_enough(row: Format) -> None:
    """Three literal characters, a keyed context (CONTRACT D25), or many generated characters before the mark."""
    for anchor in patterns.alternatives(row.anchor):
        literal = sum(piece.least for piece in patterns.pieces(anchor) if not piece.atom.startswith("["))
        certain = sum(piece.least for piece in patterns.pieces(anchor))
        assert literal >= 3 or (literal >= 2 and certain >= 4) or WORD in anchor or row.is_run


@each_format
def test_no_class_takes_what_the_next_piece_needs(row: Format) -> None:
    """Counts do not backtrack, so a class must not match the start of the next piece."""
    for anchor in patterns.alternatives(row.anchor):
        for body in patterns.alternatives(row.pattern):
            sequence = [*patterns.pieces(anchor, ignore_case=row.ignore_case), *patterns.pieces(body)]
            for index, piece in enumerate(sequence):
                if piece.least == piece.most:
                    continue
                for follower in sequence[index + 1 :]:
                    both = [c for c in map(chr, range(128)) if re.match(piece.atom, c) and re.match(follower.atom, c)]
                    assert both == [], (piece, follower)
                    if follower.least:
                        break


LOOKALIKES = {
    "commit hash": "1f0c6a3b9d2e4f5a6b7c8d9e0f1a2b3c4d5e6f70",
    "short commit hash": "fix in 1f0c6a3b",
    "sha-256": "sha256:" + "0123456789abcdef" * 4,
    "uuid": "01234567-89ab-cdef-0123-456789abcdef",
    "uuid in a path": "/v1/items/01234567-89ab-cdef-0123-456789abcdef/parts",
    "base64 image": base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8).decode(),
    "data url": "data:image/png;base64," + base64.b64encode(bytes(range(255, -1, -1)) * 4).decode(),
    "base64 of json": base64.b64encode(b'{"id": 123, "after": "abc"}').decode(),
    "long word": "Donaudampfschifffahrtselektrizitatenhauptbetriebswerkbauunterbeamtengesellschaft",
    "chemistry": "methionylthreonylthreonylglutaminylarginyltyrosylglutamyl",
    "locale": "sk-SK",
    "class of a stylesheet": "sk-fading-circle-container sk-folding-cube-wrapper",
    "words with sk-": "task-oriented disk-backed ask-me-anything-about-kubernetes-and-friends",
    "identifier": "call_0123456789abcdefghijklmn",
    "response id": "resp_0123456789abcdef0123456789abcdef0123456789abcdef",
    "message id": "msg_68a1b2c3d4e5f60718293a4b5c6d7e8f",
    "file id": "file-A1b2C3d4E5f6G7h8I9j0K1",
    "address with a port": "http://localhost:8080",
    "address with a path": "https://example.com:443/a/b?page=2#top",
    "ipv6": "http://[::1]:8080/",
    "ssh remote": "git@example.com:team/project.git",
    "mail": "someone@example.com",
    "counts": "max_tokens=4096, prompt_tokens: 17, total_token_count=12",
    "tokenizer": 'tokenizer = AutoTokenizer.from_pretrained("some/model")',
    "question about passwords": "How do I reset my password? The token has expired.",
    "validation error": "password: required",
    "prose about bearers": "Send a bearer token with each request",
    "public key": "-----BEGIN PUBLIC KEY-----\nMFkw\n-----END PUBLIC KEY-----",
    "certificate": "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "table": "| --- | --- |\n|-----|-----|",
    "times": "2025-01-01T12:00:00Z 12345678:30",
    "publishable key": "pk_live_" + "a1B2c3D4" * 12,
    "css": "sk-spinner hf_model fw_version re_compile key-value fc-bayern",
    "code": "def author(tokens, authors): return [t for t in tokens if t in authors]",
    "empty assignments": "password = \"\"; token = ''; secret=",
    "comparison": "if token == other: pass",
    "our own mark": 'api_key = "<redacted>", password=<redacted>, Bearer <redacted>',
    "our own mark with an id": 'api_key = "[REDACTED:stripe]"',
}


@pytest.mark.parametrize("text", LOOKALIKES.values(), ids=LOOKALIKES.keys())
def test_lookalikes_pass_untouched(text: str) -> None:
    result = REDACTOR.text(text)
    assert (result.value, result.notices) == (text, ())
    tree: object = {"a": [text]}
    assert REDACTOR.json(tree, string_max_chars=8000).value == tree


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ghp" + "_" + "a" * 36 + "ghp" + "_" + "b" * 36, "<redacted>"),
        ("AKIA" + "A" * 16 + "sk_live_" + "a" * 24, "<redacted><redacted>"),
        ("AKIA" + "A" * 16 + "-AKIA" + "B" * 16, "<redacted>-<redacted>"),
        ("xAKIA" + "A" * 16, "xAKIA" + "A" * 16),
        ("_AKIA" + "A" * 16, "_<redacted>"),
        ("密钥AKIA" + "A" * 16 + "。", "密钥<redacted>。"),
    ],
)
def test_words_begin_where_a_word_or_a_credential_ended(text: str, said: str) -> None:
    assert cleaned(text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ends in sk-SK", "ends in sk-SK"),
        ("ends in sk-abc", "ends in sk-abc"),
        ("ends in sk-aB3x", "ends in <redacted>"),
        ("ends in gh", "ends in gh"),
        ("ends in ghp_", "ends in ghp_"),
        ("ends in ghp_a", "ends in <redacted>"),
        ("Authorization: Bearer ab", "Authorization: <redacted>"),
        ("postgres://app:hunter2", "postgres://app:<redacted>"),
        ("http://localhost:8080", "http://localhost:8080"),
    ],
)
def test_an_unfinished_one_at_the_end_is_withheld_once_its_anchor_is_certain(text: str, said: str) -> None:
    assert cleaned(text) == said


DISGUISES = {
    "newline": "\\n",
    "tab": "\\t",
    "carriage return": "\\r",
    "unicode escape": "\\u003d",
    "hexadecimal escape": "\\x3d",
    "escape in an escape": "\\\\n",
    "blank in an address": "%20",
    "equals in an address": "%3D",
    "slash in an address": "%2F",
    "encoded twice": "%253D",
    "quoted-printable": "=3D",
    "colour": "\x1b[32m",
    "bright colour": "\x1b[1;32m",
    "literal colour": "\\u001b[0m",
}
DISGUISED = (
    "aws-access-key-id",
    "google-api-key",
    "github-token",
    "github-fine-grained-token",
    "gitlab-token",
    "npm-token",
    "slack-token",
    "stripe-key",
    "openai-project-key",
    "anthropic-key",
    "huggingface-token",
    "sendgrid-key",
    "digitalocean-token",
    "netlify-token",
    "close-key",
    "jwt-header",
)


@pytest.mark.parametrize("name", DISGUISED)
@pytest.mark.parametrize("before", DISGUISES.values(), ids=DISGUISES.keys())
def test_an_escape_that_was_not_decoded_ends_a_word(before: str, name: str) -> None:
    sample = next(row.matches[0] for row in FORMATS if row.name == name)
    assert cleaned(f"key{before}{sample}") == f"key{before}<redacted>"
    assert cleaned(before + sample) == f"{before}<redacted>"


@pytest.mark.parametrize("text", ["xAKIA" + "A" * 16, "nAKIA" + "A" * 16, "3DAKIA" + "A" * 16, "2mAKIA" + "A" * 16])
def test_letters_that_end_no_escape_do_not_end_a_word(text: str) -> None:
    assert cleaned(text) == text


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_a_search_reads_a_text_a_constant_number_of_times(size: int) -> None:
    """Count the windows: those of a text with many possible starts and many credentials are as many as its length."""
    counts: Counter[str] = Counter()

    class Counting(FormatSearch):
        def _in_window(self, scans: Scans, text: str, begin: int, end: int) -> Find | None:
            counts["chars"] += end - begin
            return super()._in_window(scans, text, begin, end)

    search = Counting(SEARCH._formats.rows, ["token"], at_end=True)
    text = ("sk_live_no " * 40 + "ghp" + "_" + "a" * 36 + " ") * 16 * size
    at = 0
    while (found := search.first(text, at)) is not None:
        at = found.end
    assert counts["chars"] <= 3 * len(text)


@pytest.mark.parametrize("blanks", range(400, 520, 7))
@pytest.mark.parametrize("anchor", ["abc[x]{0,256}:", "abc[x]{150}:", "[a-c]{3}[x]{2,256}[:]"])
def test_a_long_anchor_is_found_where_the_windows_of_a_search_meet(blanks: int, anchor: str) -> None:
    form = Format("x", "x", anchor, "[0-9]{4}", "x")
    text = " " * blanks + "abc" + "x" * 150 + ":1234"
    for at_end in (True, False):
        found = FormatSearch([form], [], at_end=at_end).first(text + " " * 600)
        assert (found and (found.start, found.row)) == (blanks, form)
    is_open = FormatSearch([form], [], at_end=False).first(text[:-10])
    assert (is_open and (is_open.start, is_open.row)) == (blanks, None)
