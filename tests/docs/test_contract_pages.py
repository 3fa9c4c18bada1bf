"""The pages of `contracts/`: what is generated in them is complete, and what is written by hand is true."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final, get_args

import jsonschema_rs
import pytest

from projector.contracts import limits
from projector.contracts import public_sse_v1 as models
from projector.contracts.kinds import Kind
from projector.contracts.parts import Model
from projector.contracts.stream_rules import RULES
from projector.contracts.stream_rules.values import PAYLOADS, TEXTS, URLS
from projector.core.faults import FAULTS
from projector.dialects import DIALECTS
from projector.generate.member_tables import ENVELOPE_MEMBERS
from projector.generate.pages import LIMITS, SAMPLES, SPLIT_LIMITS, WRITERS, page, pages, sample
from projector.providers.agents_sdk.failures import RUN_FAULTS
from projector.server.streaming.response_writer import HEADERS as SENT

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "contracts" / "public_sse_v1"
PAGE: Final = (FOLDER / "README.md").read_text(encoding="utf-8")
SCHEMA: Final = jsonschema_rs.validator_for((FOLDER / "public_sse_v1.schema.json").read_text(encoding="utf-8"))
SECTIONS: Final = dict(re.findall(r"^### `([\w.]+)`\n(.*?)(?=^#{2,3} |\Z)", PAGE, re.MULTILINE | re.DOTALL))
"""Kind -> its section, with the sections of its parts."""
MODELS: Final = {
    get_args(one.model_fields["kind"].annotation)[0]: one for one in get_args(get_args(models.PublicEvent)[0])
}
TABLES: Final = {
    name: (text, prefix.strip())
    for name, prefix, text in re.findall(
        r"^<!-- generated: members (\w+)( \S+)? -->\n(.*?)^<!-- end -->$", PAGE, re.MULTILINE | re.DOTALL
    )
} | {
    name: (text, "")
    for name, text in re.findall(
        r"^<!-- generated: event (\w+) \S+ -->\n(.*?)^<!-- end -->$", PAGE, re.MULTILINE | re.DOTALL
    )
}
"""Model -> its table, and the path from an event to it."""


def members_of(table: str) -> set[str]:
    return set(re.findall(r"^\| `(\w+)\??` \|", table, re.MULTILINE))


def shown(model: type[Model]) -> set[str]:
    """Return the members of a model in the tables of it and of the models that it extends."""
    names = {one.__name__ for one in model.__mro__}
    return {member for name in names & TABLES.keys() for member in members_of(TABLES[name][0])}


def parts_of(model: type[Model]) -> set[type[Model]]:
    """Return a model and those of its members."""
    found, pending = {model}, [model]
    while pending:
        for field in pending.pop().model_fields.values():
            new = {part for part in _types(field.annotation) if issubclass(part, Model)} - found
            found |= new
            pending += new
    return found


def _types(annotation: Any) -> set[type]:
    if isinstance(annotation, type) and not get_args(annotation):
        return {annotation}
    return {one for each in get_args(annotation) for one in _types(each)}


def test_every_kind_has_a_section() -> None:
    assert list(MODELS) == [*Kind]
    assert sorted(SECTIONS) == sorted(Kind)


@pytest.mark.parametrize("kind", Kind)
def test_a_section_has_its_table_and_a_sample(kind: Kind) -> None:
    assert f"<!-- generated: event {MODELS[kind].__name__} {kind} -->" in SECTIONS[kind]


@pytest.mark.parametrize("model", sorted({part for one in MODELS.values() for part in parts_of(one)}, key=str))
def test_every_member_is_listed_with_its_meaning(model: type[Model]) -> None:
    names = {field.alias or name for name, field in model.model_fields.items()}
    assert names - {"kind"} == shown(model)
    for row in re.findall(r"^\| `\w+\??` \|.*$", TABLES.get(model.__name__, ("", ""))[0], re.MULTILINE):
        assert row.split("|")[3].strip(), row


def test_every_sample_is_valid() -> None:
    assert SAMPLES.keys() == {*Kind}
    samples = r"^<!-- generated: (?:event \w+|sample) (\S+)(?: (\S+))? -->\n(?:\n|\|.*\n)*```json\n(.*?)\n```"
    blocks = re.findall(samples, PAGE, re.MULTILINE)
    assert {kind for kind, _, _ in blocks} == {*Kind}
    for kind, case, text in blocks:
        event = sample(kind, case or None)
        envelope = {name: value for name, value in event.items() if name in ENVELOPE_MEMBERS}
        assert envelope | json.loads(text) == event
        SCHEMA.validate(event)


SPEC: Final = {name: rule for name, rule in RULES.items() if rule.level == "spec"}


@pytest.mark.parametrize("name", sorted(RULES.keys() - SPEC.keys()))
def test_every_rule_of_a_decision_is_named_with_it(name: str) -> None:
    decisions = dict(re.findall(r"^- \*\*(D\d+)\*\* (.*)$", PAGE, re.MULTILINE))
    named = [number for number, text in decisions.items() if f"`{name}`" in text.partition(" Rule")[2]]
    assert named == RULES[name].source.split(", ")[:1]


def test_codes_of_runs_are_named() -> None:
    assert {code for code in RUN_FAULTS if f"`{code}`" not in PAGE} == set()


def test_no_unknown_rule_is_named() -> None:
    named = re.findall(r" Rules?: ((?:`\w+`(?:, )?)+)\.$", PAGE, re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", " ".join(named))) == sorted(RULES.keys() - SPEC.keys())


def test_every_code_has_its_row() -> None:
    tables = re.findall(r"^\| code \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    rows = [name for table in tables for name in re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)]
    assert sorted(rows) == sorted(FAULTS)


def test_every_rule_of_the_specification_is_named() -> None:
    [line] = re.findall(r"^<!-- generated: rules -->\n\n(.*)$", PAGE, re.MULTILINE)
    assert re.findall(r"`(\w+)`", line) == list(SPEC)


def test_every_limit_is_listed() -> None:
    names = [name for name in vars(limits) if name.isupper()]
    of_the_contract = names[: names.index("EVENT_MAX_BYTES")]
    assert set(of_the_contract) | SPLIT_LIMITS == LIMITS.keys()
    table = PAGE.partition("<!-- generated: limits -->")[2].partition("<!-- end -->")[0]
    assert table.count("\n| ") == len(LIMITS) + 1
    for name in LIMITS:
        assert f"| {getattr(limits, name):,} " in table, name


def test_the_limit_of_ids_is_stated_once() -> None:
    assert {TEXTS["id_chars"][0]} == {limits.ID_MAX_CHARS, limits.NAME_MAX_CHARS}
    assert f"IDs, names, reasons and statuses have at most {limits.ID_MAX_CHARS} characters." in PAGE


PATHS: Final = {
    *(f"{path}: {most:,} characters" for rule, (most, paths) in TEXTS.items() if rule != "id_chars" for path in paths),
    *(f"{path}: [tree](#limits)" for path in PAYLOADS),
    *(f"{path}: `http` or `https`" for path in URLS),
}


@pytest.mark.parametrize("limit", sorted(PATHS))
def test_every_limit_of_a_member_is_in_its_row(limit: str) -> None:
    path, _, text = limit.partition(": ")
    rows = {
        f"{prefix}{name}": row
        for table, prefix in TABLES.values()
        for row, name in re.findall(r"^(\| `(\w+)\??` \|.*)$", table, re.MULTILINE)
    }
    matching = [row for name, row in rows.items() if re.fullmatch(path.replace(".", r"\.").replace("*", r"\w+"), name)]
    matching += [rows[path.removesuffix(".*")]] if path.removesuffix(".*") in rows and not matching else []
    assert matching
    assert [row for row in matching if text not in row and "string" in row.split("|")[2]] == []


def test_a_block_that_was_changed_is_written_again() -> None:
    for removed in ("| `event_id` ", "`one_terminal`", "| `response_text?` ", '"kind":"refusal.done"'):
        line = next(one for one in PAGE.splitlines(keepends=True) if removed in one)
        assert page(PAGE.replace(line, "")) == PAGE, removed


def test_each_block_has_a_writer() -> None:
    for path in pages(ROOT):
        text = (ROOT / path).read_text(encoding="utf-8")
        names = re.findall(r"^<!-- generated: (\w+)", text, re.MULTILINE)
        assert set(names) <= WRITERS.keys(), path
        assert len(names) == text.count("<!-- end -->"), path


def test_each_dialect_has_a_page() -> None:
    assert {path.parts[1] for path in pages(ROOT) if path.parts[0] == "contracts"} == set(DIALECTS)
    for name in DIALECTS:
        assert (ROOT / "contracts" / name / "README.md").read_text(encoding="utf-8").startswith(f"# {name}\n")


HEADERS: Final = re.compile(r"`([a-z-]+): ([^`]+)`")


def test_the_headers_are_those_of_the_server() -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith("| headers |"))
    assert dict(HEADERS.findall(row)) == {name.decode(): value.decode() for name, value in SENT}
