"""No secret is emitted: each format, sensitive key and registered value, in every field, at every cut (D25)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projector.recording.replay import CaseSettings
from projector.redaction.internals import without_internals
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from tests.property.canaries import (
    DELTAS,
    TOOL_DELTAS,
    WINDOW_CHARS,
    Event,
    broken_off_everywhere,
    cut_everywhere,
    deltas,
    done,
    errors_with,
    everywhere,
    leaks,
    secret_of,
    shown,
)
from tests.property.soundness import assert_sound, examples, frames_of, play, sampled, shows_only
from tests.rule_samples import FORMATS, KEY_WORDS, Format, Word


def named(value: object) -> str | None:
    """Return the name of a format or word as part of a test's id."""
    return getattr(value, "name", None) or getattr(value, "word", None)


each_format: Final = pytest.mark.parametrize("row", FORMATS, ids=[row.name for row in FORMATS])
in_turn: Final = pytest.mark.parametrize(
    ("row", "kind"), sampled(FORMATS, ("function_call_arguments", "code_interpreter_call_code")), ids=named
)
REDACTOR: Final = Redactor(Policy())
HOST: Final = CaseSettings(host_events=True, policy={"error_messages": "provider"})


def say(events: list[Event], case: CaseSettings = HOST) -> bytes:
    return play([json.dumps(event).encode() + b"\n" for event in events], case=case)


@each_format
def test_no_credential_leaves_from_any_place(row: Format) -> None:
    said = say(everywhere(row.matches[0]))
    assert leaks(said, *secret_of(row)) == set()
    assert_sound(said)


@each_format
def test_no_credential_leaves_in_an_error(row: Format) -> None:
    for error in errors_with(row.matches[0]):
        assert leaks(say([error]), *secret_of(row)) == set()


@in_turn
def test_no_credential_leaves_at_any_cut(row: Format, kind: str) -> None:
    assert leaks(say(cut_everywhere(f"is {row.matches[0]} here", kind)), *secret_of(row)) == set()


@each_format
def test_no_credential_leaves_in_characters(row: Format) -> None:
    wholes = [(kind, DELTAS[kind](f"is {row.matches[0]} here")) for kind in TOOL_DELTAS]
    said = say([event for at, (kind, whole) in enumerate(wholes) for event in deltas(kind, at, [*whole])])
    assert leaks(said, *secret_of(row)) == set()


@in_turn
def test_no_credential_leaves_where_a_stream_breaks_off(row: Format, kind: str) -> None:
    """At the end of a text, the start of a format shorter than `open_chars` is shown, because it may be a word."""
    said = say(broken_off_everywhere(f"is {row.matches[0]}", kind))
    secret, before = secret_of(row)
    anchor_chars = len(before) if "[" in row.anchor else 0  # it has made-up characters, as the secret
    assert leaks(said, secret, before, max(WINDOW_CHARS, row.open_chars + 1 + anchor_chars)) == set()


SECRET_VALUES: Final = (
    "quiet heron 7",
    771_177_117_711,
    -7.711771177,
    ["quiet heron 7"],
    {"a": {"b": "quiet heron 7"}},
)
SECRETS: Final = ("quiet heron 7", "771177117711", "7.711771177")


each_key: Final = pytest.mark.parametrize("rule", KEY_WORDS, ids=lambda rule: rule.name)


@pytest.mark.parametrize(("rule", "value"), sampled(KEY_WORDS, SECRET_VALUES), ids=named)
def test_no_value_under_a_sensitive_key_leaves_from_any_place(rule: Word, value: object) -> None:
    key = rule.matches[0]
    tree = {"kept": 1, "x": [{key: value}], "inner": json.dumps({key: value}), key: value}
    text = json.dumps(tree)
    said = say(
        [
            *(done(0, "function_call", call_id="c", arguments=text), done(1, "mcp_call", arguments=text, output=text)),
            *(done(2, "mcp_call", arguments="{}", error=tree), done(3, "mcp_approval_request", arguments=text)),
            done(4, "file_search_call", results=[{"attributes": tree}]),
            {"type": "projector.tool_output", "call_id": "c", "output": tree},
        ]
    )
    assert not any(leaks(said, secret) for secret in SECRETS)
    assert shown(said).count("kept") > 6
    assert_sound(said)


@each_key
def test_no_value_under_a_sensitive_key_leaves_at_any_cut(rule: Word) -> None:
    wholes = [json.dumps([{rule.matches[0]: value}, json.dumps({rule.matches[0]: value})]) for value in SECRET_VALUES]
    ways = [[whole[:at], whole[at:]] for whole in wholes for at in range(len(whole))]
    kind = "function_call_arguments"
    said = say([event for index, pieces in enumerate(ways) for event in deltas(kind, index, pieces)])
    assert not any(leaks(said, secret) for secret in SECRETS)


REGISTERED: Final = 'quay vault/6fe1 \u00fc\n"'
VAULT: Final = CaseSettings(
    host_events=True,
    policy={"registered": [{"id": "vault", "value": REGISTERED}], "error_messages": "provider"},
)


def test_no_registered_value_leaves_from_any_place() -> None:
    said = say(everywhere(REGISTERED), VAULT)
    assert leaks(said, REGISTERED) == set()
    assert_sound(said)
    assert all(leaks(say([error], VAULT), REGISTERED) == set() for error in errors_with(REGISTERED))


@pytest.mark.parametrize("kind", DELTAS)
def test_no_registered_value_leaves_at_any_cut(kind: str) -> None:
    events = cut_everywhere(f"is {REGISTERED} here", kind)
    said = say([*events, {"type": "response.completed"}], VAULT)
    assert leaks(said, REGISTERED) == set()
    assert_sound(said)


# clean values stay unchanged


MATERIAL: Final = (
    *(text for row in FORMATS for text in (row.matches[0], row.harmless[0])),
    *(rule.matches[0] for rule in KEY_WORDS),
    *("{", "}", "[", "]", '"', ":", ",", "'", "\\", "=", " ", "\n", "-", "_", ".", "/", "?", "&", "@", "\\u0061"),
    '\\"',
    *('="', ": ", '"a":', "Bearer ", "<redacted>", "[REDACTED:x]", "word", "0123", "null", "é", "\U0001f511"),
)
TEXTS: Final = st.lists(st.sampled_from(MATERIAL), max_size=6).map("".join)
TREES: Final = st.recursive(
    st.one_of(TEXTS, st.integers(), st.floats(allow_nan=False), st.booleans(), st.none()),
    lambda children: st.one_of(st.lists(children, max_size=3), st.dictionaries(TEXTS, children, max_size=3)),
    max_leaves=6,
)
CLEANERS: Final[dict[str, Callable[[Redactor, Any], object]]] = {
    "text": lambda redactor, text: redactor.text(text).value,
    "url": lambda redactor, text: redactor.url(text).value,
    "arguments": lambda redactor, text: redactor.arguments(text).text.value,
    "json": lambda redactor, tree: redactor.json(tree, string_max_chars=8_000).value,
}


@pytest.mark.parametrize("name", CLEANERS)
@examples(100)
@given(text=TEXTS, tree=TREES)
def test_cleaning_twice_shows_nothing_else(name: str, text: str, tree: object) -> None:
    """A second cleaning may withhold more: a mark behind a sensitive word looks like the beginning of a value."""
    clean = partial(CLEANERS[name], REDACTOR)
    values: dict[str, list[object]] = {"json": [tree], "url": [f"https://example.org/{text}"]}
    for value in values.get(name, [text, json.dumps(tree)]):
        once = clean(value)
        twice = clean(once)
        assert shows_only(*(said if isinstance(said, str) else json.dumps(said) for said in (twice, once)))


# these tests can fail


def test_a_harmless_text_is_shown_in_every_place() -> None:
    assert places_of("heron", say(everywhere("heron"))) == SHOWN
    for error in errors_with("heron"):
        assert places_of("heron", say([error])) == {"error: error.message"}


@each_format
def test_a_credential_leaves_where_its_format_is_off(row: Format) -> None:
    off = CaseSettings(policy={"formats_off": [other.name for other in FORMATS], "error_messages": "provider"})
    sample = row.matches[0]
    assert leaks(say(cut_everywhere(f"is {sample}", "code_interpreter_call_code"), off), *secret_of(row)) != set()
    if without_internals(f"with {sample}") == f"with {sample}":  # a URL, for example, is in no error message
        assert leaks(say(errors_with(sample)[0:1], off), *secret_of(row)) != set()


def places_of(word: str, said: bytes) -> set[str]:
    """Return the kind and member of each value of a stream that contains a word."""

    def walk(value: object, path: str) -> Iterator[str]:
        if isinstance(value, str) and word in value:
            yield path
        if isinstance(value, dict):
            for key, child in value.items():
                yield from [f"{path}.*key*"] if word in key else []
                yield from walk(child, f"{path}.{key}")
        if isinstance(value, list):
            for child in value:
                yield from walk(child, f"{path}[]")

    frames = frames_of(said)
    kept = [(frame.get("tool_type") or frame["kind"], name, frame[name]) for frame in frames for name in frame]
    return {place for kind, name, value in kept for place in walk(value, f"{kind}: {name}")}


SHOWN: Final = {
    *(
        "function: tool_name",
        "function: arguments_text",
        "function: arguments_json.a",
        "function: arguments_json.a.*key*",
    ),
    *("function: output", "function: output.a[]", "function: output[][]", "function: output.*key*"),
    *("tool.status: tool.name", "tool.status: tool.tool_name", "tool.status: tool.server_label"),
    *("tool.status: tool.arguments_text", "tool.status: tool.arguments_json.a[]"),
    *("mcp: tool_name", "mcp: output", "mcp: output.error.message"),
    *("tool.status: tool.query", "tool.status: tool.sources[]", "tool.status: tool.queries[]"),
    *("tool.status: tool.results[].filename", "tool.status: tool.results[].text"),
    *("tool.status: tool.results[].attributes.note", "tool.status: tool.results[].attributes.*key*"),
    *("tool.code.done: code", "code_interpreter: output[].logs", "code_interpreter: output[].url"),
    *("code_interpreter: output[].files[].filename", "tool.status: tool.revised_prompt"),
    *("message.citation: citation.title", "message.citation: citation.url", "message.citation: citation.filename"),
    *("final: final.attachments[].filename", "final: final.attachments[].url"),
}
"""Every field that D25 covers, in the public stream: `<kind or tool type>: <path>`."""
