"""Rule files: the shipped ones are valid and match their samples; errors name file, entry and field."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from projector._resources import resource
from projector.redaction import rule_files
from projector.redaction.explain import check_samples
from projector.redaction.format_search import FormatSearch
from projector.redaction.policy import Policy
from projector.redaction.rule_files import RuleFileError
from projector.redaction.rules import Rules, shipped

POLICY = Policy()
GOOD = {
    "name": '"acme-key"',
    "about": '"Acme API keys"',
    "anchor": '"acme_"',
    "pattern": '"[a-z]{8}"',
    "source": '"Acme documentation"',
    "matches": '["acme_{lower:8}"]',
    "harmless": '["acme_x"]',
}


def entry(**fields: str | None) -> str:
    row = {**GOOD, **fields}
    return "\n".join(["[[format]]", *(f"{name} = {value}" for name, value in row.items() if value is not None)])


def test_every_sample_of_the_shipped_files_is_withheld_or_shown() -> None:
    rules = rule_files.shipped_files()
    assert check_samples(rules, POLICY) == []
    assert [len(rows) > 0 for rows in rules] == [True] * 6


def test_the_engine_reads_what_the_files_hold() -> None:
    assert (resource("projector") / "redaction" / "rules.json").read_bytes() == rule_files.compiled()
    rules = rule_files.shipped_files()
    bare = Rules(*(tuple(row._replace(matches=(), harmless=()) for row in rows) for rows in rules))  # type: ignore[arg-type]  # pairs of one type
    assert shipped() == bare


def test_every_file_of_the_folder_is_shipped() -> None:
    folder = resource("redaction")
    found = {str(path.relative_to(folder)) for path in folder.rglob("*.toml")}
    assert found == {*rule_files.FILES, rule_files.INTERNALS_FILE, "policies/default.toml", "policies/strict.toml"}


def test_a_wrong_sample_is_named_without_its_text() -> None:
    row = shipped().formats[0]._replace(matches=("no secret",), harmless=("ghp" + "_" + "a1B2" * 9,))
    word = shipped().words[0]._replace(matches=("name",), harmless=("token",))
    assert check_samples(Rules((row,), (word,)), POLICY) == [
        "`aws-access-key-id`: `matches` 1: expected to be withheld",
        "`aws-access-key-id`: `harmless` 1: expected to be shown",
        "`apikey`: `matches` 1: expected to be withheld",
        "`apikey`: `harmless` 1: expected to be shown",
    ]


def test_samples_are_put_together_from_made_up_material(tmp_path: Path) -> None:
    path = tmp_path / "ours.toml"
    path.write_text(entry(matches='["{mixed:4}-{upper:3}-{hex:5}", "a{join}b {uuid}", "{json: 1}"]'))
    (row,) = rule_files.read(path).formats
    assert row.matches == ("a1B2-A2B-01234", "ab 01234567-89ab-cdef-0123-456789abcdef", "{json: 1}")


def word(**fields: str) -> str:
    lines = {"about": '"a"', "source": '"a"', "matches": '["gate_phrase"]', "harmless": '["phrase"]', **fields}
    return "[[word]]\n" + "\n".join(f"{name} = {value}" for name, value in lines.items())


def text_class(**fields: str) -> str:
    lines = {"name": '"number"', "about": '"a"', "source": '"a"', "begins": '"KD-"', "run": '"[0-9]"'}
    lines |= {"matches": '["KD-1"]', "harmless": '["KD"]', **fields}
    return "[[class]]\n" + "\n".join(f"{name} = {value}" for name, value in lines.items())


BAD: Iterable[tuple[str, str]] = (
    ("a = 1\nb = x", "ours.toml: invalid TOML at line 2, column 5: invalid value; a text needs straight quotes"),
    ("a = [", "ours.toml: invalid TOML at end of document: invalid value"),
    ('[[format]]\nname = "a"\nname = "a"\n', "ours.toml: invalid TOML at line 3, column 11: it is already written "),
    ("formats = 1", "ours.toml: `formats`: expected entries that begin with one of `[[format]]`, `[[word]]`"),
    ("[format]", "ours.toml: `format`: expected entries that begin with one of `[[format]]`"),
    (entry(name=None), "ours.toml: `[[format]] 1`: `name` is missing"),
    (entry(name='"Acme Key"'), "ours.toml: `Acme Key`: `name` must match `^[a-z0-9-]{1,64}$`"),
    (entry(source=None), "ours.toml: `acme-key`: `source` is missing"),
    (entry(matches=None), "ours.toml: `acme-key`: `matches` is missing"),
    (entry(matches='"acme_{lower:8}"'), "ours.toml: `acme-key`: `matches` must be a list"),
    (entry(harmless="[]"), "ours.toml: `acme-key`: `harmless` must not be empty"),
    (entry(patern='"x"'), "ours.toml: `acme-key`: `patern` is unknown; did you mean `pattern`?"),
    (entry(pattern='"live"'), "ours.toml: `acme-key`: `tail`: expected one class, because the first alternative of"),
    (entry(pattern='"live|[a-z]{9}"'), "ours.toml: `acme-key`: `tail`: expected one class, because the first alternat"),
    (
        entry(pattern='"[a-z]{9}={0,2}"'),
        "ours.toml: `acme-key`: `tail`: expected a class with the characters of `=` at the end of `pattern`, which may",
    ),
    (
        entry(pattern='"[a-z]{9}|[0-9]{9,12}"'),
        "ours.toml: `acme-key`: `tail`: expected a class with the characters of `[0-9]` at the end of `pattern`, w",
    ),
    (entry(anchor='"x?acme_"'), "ours.toml: `acme-key`: `anchor`: expected alternatives that begin with an ASCII"),
    (
        entry(anchor='"acme_|é_acme_"'),
        "ours.toml: `acme-key`: `anchor`: expected alternatives that begin with an ASCII",
    ),
    (
        text_class(begins='"[A-Z]{0,2}-"'),
        "ours.toml: `number`: `begins`: expected alternatives that begin with an ASCI",
    ),
    (
        entry(anchor="'[^x]acme'"),
        "ours.toml: `acme-key`: `anchor`: expected alternatives that begin with an ASCII char",
    ),
    (entry(pattern='"[a-z]{0,9}"'), "ours.toml: `acme-key`: `pattern`: expected alternatives of at least one characte"),
    (entry(tail='"[a-z]{3}"'), "ours.toml: `acme-key`: `tail`: expected one class, such as `[A-Za-z0-9]`"),
    (entry(tail='"[a-z]?"'), "ours.toml: `acme-key`: `tail`: expected one class, such as `[A-Za-z0-9]`"),
    *(
        (entry(before=f'"{before}"'), "ours.toml: `acme-key`: `before`: expected one class with an exact count")
        for before in ("[a-z]{2,3}", "x{2}", "[a-z]{2}x", "x")
    ),
    (text_class(run='"[0-9]{8}"'), "ours.toml: `number`: `run`: expected one class, such as `[A-Za-z0-9]`"),
    (entry(pattern='"WORD"'), "ours.toml: `acme-key`: `pattern`: expected a pattern without `WORD`"),
    (entry(tail='"[a-z]{2}x"'), "ours.toml: `acme-key`: `tail`: expected one class, such as `[A-Za-z0-9]`"),
    (entry(open_chars="0"), 'ours.toml: `acme-key`: `open_chars`: expected a whole number of at least 1, or "never"'),
    (
        entry(matches='["acme_live_{mixd:32}"]'),
        "ours.toml: `acme-key`: `matches`: unknown placeholder `mixd`; did you mean `{mixed:32}`",
    ),
    (
        word(name='"gate-phrase"'),
        "ours.toml: `gate-phrase`: `name`: expected letters a-z only, as keys are compared, or",
    ),
    (entry(keep_anchor="1"), "ours.toml: `acme-key`: `keep_anchor` must be true or false"),
    (entry(anchor='"ac"'), "ours.toml: `acme-key`: `anchor`: expected at least three literal characters, or `WORD`"),
    (entry(anchor='"acm"', pattern='"[x]"'), "ours.toml: `acme-key`: `pattern`: expected at least 5 characters with"),
    (text_class(least="12", most="11"), "ours.toml: `number`: `most`: expected at least `least`"),
    (text_class(sure='"+"'), "ours.toml: `number`: `sure`: expected"),
    (text_class(before='"[A-Z]{2}"'), "ours.toml: `number`: `before`: expected a pattern without counts"),
    (entry() + "\n" + entry(), "ours.toml: `acme-key`: `name`: expected a new name"),
    ('[[word]]\nname = "a"\nwhere = "here"', "ours.toml: `a`: `where` must be 'contains', 'is' or 'ends'"),
)


@pytest.mark.parametrize(("text", "message"), BAD)
def test_a_file_that_is_not_in_form_is_refused_by_entry_and_field(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "ours.toml"
    path.write_text(text)
    with pytest.raises(RuleFileError) as caught:
        rule_files.read(path)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("field", "pattern", "character"),
    [
        ("pattern", "[a-z", 1),
        ("pattern", "(a|b)*", 1),
        ("pattern", "[0-9]{9}|ab[z-a]", 12),
        ("pattern", "[|]x{3}y+", 9),
        ("pattern", r"\w{32}", 1),
        ("pattern", r"[A-Z]\d{8}", 6),
        ("anchor", r"acme_\b", 6),
        ("pattern", "[a-z]{9}[0-9]{5,2}", 9),
        ("pattern", "[a-z]{9}x{0}", 9),
    ],
)
def test_a_pattern_that_is_not_in_the_language_is_refused_at_its_character(
    field: str, pattern: str, character: int, tmp_path: Path
) -> None:
    path = tmp_path / "ours.toml"
    path.write_text(entry(**{field: f"'{pattern}'"}))
    with pytest.raises(RuleFileError) as caught:
        rule_files.read(path)
    assert str(caught.value) == (
        f"ours.toml: `acme-key`: `{field}`: expected a literal, a class or a count at character {character}"
        " (redaction/README.md: The pattern language)"
    )


def test_every_entry_that_is_not_in_form_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ours.toml"
    path.write_text(entry(source=None) + "\n" + text_class(least="12", most="11"))
    with pytest.raises(RuleFileError) as caught:
        rule_files.read(path)
    assert str(caught.value) == (
        "ours.toml: `acme-key`: `source` is missing; ours.toml: `number`: `most`: expected at least `least`"
    )


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RuleFileError, match=r"ours\.toml: not found"):
        rule_files.read(tmp_path / "ours.toml")


def test_the_entries_in_the_readme_are_in_form_and_obey_their_samples(tmp_path: Path) -> None:
    blocks = re.findall(r"```toml\n(.*?)```", (resource("redaction") / "README.md").read_text(), re.DOTALL)
    (tmp_path / "readme.toml").write_text("\n".join(blocks))
    rules = rule_files.read(tmp_path / "readme.toml")
    (row,) = rules.formats
    search = FormatSearch([row], [], at_end=True)
    assert all(search.first(sample) is not None for sample in row.matches)
    assert all(search.first(sample) is None for sample in row.harmless)
    (tmp_path / "own.toml").write_text("\n".join(block for block in blocks if "[[context]]" not in block))
    policy = Policy(rules=(tmp_path / "own.toml",))  # so each entry has a new name
    assert check_samples(rules, policy) == []
