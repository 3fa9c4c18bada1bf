"""Recordings have no secrets, and replay as their streams (ADR 12)."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, Final

import pytest
from _pytest.mark import ParameterSet
from hypothesis import given
from hypothesis import strategies as st

from projector.contracts import codec
from projector.core.handlers import DROPPED, HANDLERS
from projector.dialects import DIALECTS
from projector.recording import record, replay
from projector.redaction.policy import Policy
from projector.redaction.whole_values import Finder
from tests.property.canaries import (
    DELTAS,
    NESTINGS,
    Event,
    cut_everywhere,
    deltas,
    errors_with,
    everywhere,
    secret_of,
)
from tests.property.recordings import FINDER, essence, leaks, lines_of, recorded, strings
from tests.property.soundness import cut, examples, play, sampled, shows_only
from tests.rule_samples import FORMATS, KEY_WORDS, Format, Word

EXAMPLES: Final = Path(__file__).parents[2] / "examples_ndjson"
CASES: Final = replay.load_cases(EXAMPLES)
KINDS: Final = (*DELTAS, "reasoning_text", "shell_call_command", "not_known")
"""Deltas of the Responses API, and of what comes after it."""

each_format: Final = pytest.mark.parametrize("row", FORMATS, ids=[row.name for row in FORMATS])
each_key: Final = pytest.mark.parametrize("rule", KEY_WORDS, ids=lambda rule: rule.name)
each_case: Final = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def recording_of(case: replay.Case, tmp_path: Path, finder: Finder = FINDER) -> tuple[replay.Case, int]:
    """Return a case whose input is the recording of another case, and how many values were changed."""
    kept = record(case.provider, case.source.read_bytes(), finder, input_format="ndjson")
    source = tmp_path / case.source.name
    source.write_bytes(kept.data)
    close = kept.settings.get("close", case.settings.close)
    return case._replace(source=source, settings=case.settings.model_copy(update={"close": close})), kept.withheld


# a recording plays as its stream does


@each_case
def test_a_recording_replays_as_its_stream_without_secrets(case: replay.Case, tmp_path: Path) -> None:
    copy, withheld = recording_of(case, tmp_path)
    for dialect in DIALECTS if not withheld else ("public_sse_v1",):
        before, now = replay.play(case, dialect), replay.play(copy, dialect)
        is_cut = b'"code":"upstream_truncated"' in before
        assert now == before if not withheld else essence(now, is_cut=is_cut) == essence(before, is_cut=is_cut)


@each_case
def test_a_recording_has_every_event_and_is_its_own_recording(case: replay.Case, tmp_path: Path) -> None:
    copy, _ = recording_of(case, tmp_path)
    given_lines = [line for line in case.source.read_bytes().splitlines() if line.strip() and line[:1] != b":"]
    assert len(copy.source.read_bytes().splitlines()) == len(given_lines)
    again = record(case.provider, copy.source.read_bytes(), FINDER, input_format="ndjson")
    assert (again.data, again.withheld) == (copy.source.read_bytes(), 0)


@each_case
def test_it_does_not_matter_how_a_stream_was_sent(case: replay.Case) -> None:
    lines = [line for line in case.source.read_bytes().splitlines() if line.strip()]
    as_sse, as_lines = (
        b"".join(head + line + end for line in lines) for head, end in (FRAMES["sse"], FRAMES["ndjson"])
    )
    sent = record(case.provider, as_sse, FINDER)
    assert sent == record(case.provider, as_lines, FINDER, input_format="ndjson")


FRAMES: Final = {"sse": (b"data: ", b"\n\n"), "ndjson": (b"", b"\n")}


# nothing secret


def cases_of(places: Iterable[str], usual: Collection[str]) -> list[ParameterSet]:
    """Return each format in one of the usual places, in turn, and one format in each place."""
    rows = [*sampled(FORMATS, [*usual]), *((FORMATS[0], place) for place in places if place not in usual)]
    return [pytest.param(row, place, id=f"{row.name}-{place}") for row, place in rows]


@pytest.mark.parametrize(("row", "kind"), cases_of(KINDS, ("function_call_arguments", "output_text", "not_known")))
def test_no_credential_is_kept_at_any_cut(row: Format, kind: str) -> None:
    text = f"is {row.matches[0]} here"
    known = kind if kind in DELTAS else "output_text"
    events = [{**event, "type": f"response.{kind}.delta"} for event in cut_everywhere(text, known)]
    assert leaks(recorded(events), *secret_of(row)) == set()


BEGINNINGS: Final = (
    ("content_part", "part", "text", "output_text"),
    ("content_part", "part", "refusal", "refusal"),
    ("reasoning_summary_part", "part", "text", "reasoning_summary_text"),
    ("output_item", "item", "arguments", "function_call_arguments"),
    ("output_item", "item", "arguments", "mcp_call_arguments"),
    ("output_item", "item", "input", "custom_tool_call_input"),
    ("output_item", "item", "code", "code_interpreter_call_code"),
)


@pytest.mark.parametrize(("event", "member", "name", "kind"), BEGINNINGS)
def test_what_begins_before_the_first_delta_is_found(event: str, member: str, name: str, kind: str) -> None:
    row = FORMATS[0]
    text = f"is {row.matches[0]} here"
    for owner in ({"item_id": "a"}, {"output_index": 0}):
        for at in range(len(text)):
            begun = {"type": f"response.{event}.added", member: {name: text[:at], "id": "a"}, **owner}
            data = recorded([begun, {"type": f"response.{kind}.delta", "delta": text[at:], **owner}])
            first, second = (json.loads(line) for line in data.splitlines())
            said = lines_of([{"type": "joined", "text": first[member][name] + second["delta"]}])
            assert leaks(said, *secret_of(row)) == set()


CHAT_DELTAS: Final[dict[str, Any]] = {
    "content": lambda piece: {"content": piece},
    "content of parts": lambda piece: {"content": [{"type": "text", "text": piece}]},
    "refusal": lambda piece: {"refusal": piece},
    "reasoning_content": lambda piece: {"reasoning_content": piece},
    "reasoning_details": lambda piece: {"reasoning_details": [{"type": "reasoning.text", "text": piece}]},
    "function_call": lambda piece: {"function_call": {"arguments": piece}},
    "tool_calls": lambda piece: {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]},
    "tool_calls without index": lambda piece: {"tool_calls": [{"custom": {"input": piece}}]},
    "not_known": lambda piece: {"not_known": [{"piece": piece}]},
}


def chunk(index: int, delta: Event) -> Event:
    return {"id": "chatcmpl-1", "choices": [{"index": index, "delta": delta, "finish_reason": None}]}


@pytest.mark.parametrize(("row", "name"), cases_of(CHAT_DELTAS, ("content", "tool_calls", "not_known")))
def test_no_credential_is_kept_at_any_cut_of_a_chat(row: Format, name: str) -> None:
    """Each choice has the text in two deltas; all first deltas come before all second ones."""
    text = f"is {row.matches[0]} here"
    ways = [(text[:at], text[at:]) for at in range(len(text))]
    events = [chunk(at, CHAT_DELTAS[name](way[half])) for half in (0, 1) for at, way in enumerate(ways)]
    data = recorded(events, "openai_chat")
    kept = [json.loads(line)["choices"][0] for line in data.splitlines()]
    halves = [kept[at]["delta"] for at in range(len(kept))]
    joined = ["".join(_texts(halves[at]) + _texts(halves[at + len(ways)])) for at in range(len(ways))]
    assert leaks(lines_of([{"type": "joined", "text": text} for text in joined]), *secret_of(row)) == set()


def _texts(value: object) -> list[str]:
    if isinstance(value, dict | list):
        members = value.values() if isinstance(value, dict) else value
        return [text for member in members for text in _texts(member)]
    return [value] if isinstance(value, str) and value not in {"text", "reasoning.text"} else []


@each_format
def test_no_credential_is_kept_in_any_place(row: Format) -> None:
    sample = row.matches[0]
    events = [*everywhere(sample), *errors_with(sample), {"type": "new.event", "a": [{"b": sample}]}]
    assert leaks(recorded(events), *secret_of(row)) == set()
    chats = [chunk(0, {"content": "a"}) | {"note": sample, "error": {"message": f"is {sample}"}}]
    assert leaks(recorded(chats, "openai_chat"), *secret_of(row)) == set()


@each_format
def test_no_credential_is_kept_of_an_unknown_provider(row: Format) -> None:
    events = [{"type": "content_block_delta", "delta": {"text": piece}} for piece in (f"is {row.matches[0]} here")]
    assert leaks(recorded(events, "not_known"), *secret_of(row)) == set()


@each_format
def test_an_id_that_looks_like_a_credential_is_replaced_everywhere_alike(row: Format) -> None:
    secret = secret_of(row)
    items = [{"type": "response.output_item.added", "output_index": 0, "item": {"id": row.matches[0]}}]
    text = {"type": "response.output_text.delta", "output_index": 0, "item_id": row.matches[0], "delta": "Hi"}
    data = recorded([*items, text, {**text, "item_id": "msg_1"}])
    added, first, second = (json.loads(line) for line in data.splitlines())
    assert leaks(data, *secret) == set()
    assert added["item"]["id"] == first["item_id"] == "redacted_1"
    assert second["item_id"] == "msg_1"


@pytest.mark.parametrize(("rule", "nest"), sampled(KEY_WORDS, ["value", "JSON text in JSON text"]))
def test_no_value_of_a_sensitive_key_is_kept_at_any_cut(rule: Word, nest: str) -> None:
    secrets = (771_177_117_711, {"a": ["quiet heron 7"]})
    for secret in secrets:
        whole = json.dumps({rule.matches[0]: secret, "kept": 1})
        whole = whole if nest == "value" else NESTINGS[nest](whole)
        ways = [[whole[:at], whole[at:]] for at in range(len(whole))]
        for kind in ("function_call_arguments", "output_text"):
            data = recorded([event for at, way in enumerate(ways) for event in deltas(kind, at, way)])
            assert leaks(data, "quiet heron 7") | leaks(data, "771177117711") == set()
            assert data.count(b"kept") > len(whole) // 2


@each_key
def test_no_value_of_a_sensitive_key_is_kept_in_an_object(rule: Word) -> None:
    tree = {"kept": [{rule.matches[0]: "quiet heron 7"}], "inner": json.dumps({rule.matches[0]: "quiet heron 7"})}
    events = [
        {"type": "response.output_item.done", "item": {"type": "mcp_call", "output": tree, "results": [tree]}},
        {"type": "projector.tool_output", "call_id": "c", "output": tree},
        {"type": "new.event", "payload": tree},
    ]
    assert leaks(recorded(events), "quiet heron 7") == set()


REGISTERED: Final = 'quay vault/6fe1 \u00fc\n"'
VAULT: Final = Finder(Policy.load({"registered": [{"id": "vault", "value": REGISTERED}, {"value": "48151623"}]}))


@pytest.mark.parametrize("kind", KINDS)
def test_no_registered_value_is_kept_at_any_cut(kind: str) -> None:
    known = kind if kind in DELTAS else "output_text"
    events = [{**event, "type": f"response.{kind}.delta"} for event in cut_everywhere(f"is {REGISTERED} here", known)]
    data = recorded(events, finder=VAULT)
    assert leaks(data, REGISTERED) == set()
    assert b"[REDACTED:vault]" in data


def test_no_registered_value_is_kept_in_any_place() -> None:
    events = [*everywhere(REGISTERED), *errors_with(REGISTERED), {"type": "new", "a": {"b": 48151623}}]
    data = recorded(events, finder=VAULT)
    assert leaks(data, REGISTERED) | leaks(data, "48151623") == set()


def test_a_registered_value_is_found_in_halves_of_a_character() -> None:
    finder = Finder(Policy.load({"registered": [{"value": "key \U0001f511 one"}]}))
    data = recorded(deltas("output_text", 0, ["a key \ud83d", "\udd11 one b"]), finder=finder)
    assert [json.loads(line)["delta"] for line in data.splitlines()] == ["a <redacted>", " b"]


def test_a_registered_number_does_not_match_positions() -> None:
    finder = Finder(Policy.load({"registered": [{"value": "48151623"}]}))
    event = {"type": "keepalive", "sequence_number": 48151623, "created_at": 48151623}
    assert json.loads(recorded([event], finder=finder)) == event


ROTATIONS: Final = (
    ("ids rotate", lambda at: {"item_id": f"msg_{at}", "output_index": 0}),
    ("indexes collide", lambda at: {"item_id": "msg_1", "output_index": at}),
    ("nothing names the item", lambda _: {}),
    ("only the first names it", lambda at: {"item_id": "msg_1"} if at == 0 else {}),
    ("they name it in turn", lambda at: {"item_id": "msg_1"} if at % 2 else {"output_index": 0}),
    ("some name nobody", lambda at: ({"item_id": "msg_1"}, {}, {"output_index": 0})[at % 3]),
    ("half of them name its part", lambda at: {"output_index": 0} | ({"content_index": 0} if at % 2 else {})),
)


IN_SEVERAL_WAYS: Final = frozenset({"they name it in turn", "some name nobody"})
"""Text that is joined in every possible way may lose more than necessary: a word may seem to continue a secret."""


@pytest.mark.parametrize(("name", "owner"), ROTATIONS, ids=[name for name, _ in ROTATIONS])
@given(cuts=st.lists(st.integers(0, 200), max_size=8))
@examples(25)
def test_pieces_are_found_together_however_they_are_named(name: str, owner: Any, cuts: list[int]) -> None:
    row = next(row for row in FORMATS if row.name == "github-token")
    parts = cut(f"is {row.matches[0]} here".encode(), cuts)
    added = {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": "msg_1"}}
    events = [
        {"type": "response.output_text.delta", **owner(at), "delta": part.decode()} for at, part in enumerate(parts)
    ]
    begun = [{"type": "response.content_part.added", **one} for one in ({"item_id": "msg_1"}, {"output_index": 0})]
    kept = [json.loads(line)["delta"] for line in recorded([*begun, added, *events]).splitlines()[3:]]
    said = "".join(kept)
    assert leaks(lines_of([{"type": "joined", "text": said}]), *secret_of(row)) == set()
    assert said.startswith("is <redacted>")
    if name not in IN_SEVERAL_WAYS:
        assert said == "is <redacted> here"


INTERLEAVED: Final[dict[str, tuple[str, Any]]] = {
    "by id": ("openai_responses", lambda item, text: text_delta(text, item_id=f"msg_{item}")),
    "by index": ("openai_responses", lambda item, text: text_delta(text, output_index=item)),
    "by both": ("openai_responses", lambda item, text: text_delta(text, item_id=f"msg_{item}", output_index=item)),
    "by part": ("openai_responses", lambda item, text: text_delta(text, output_index=0, content_index=item)),
    "calls by index": ("openai_chat", lambda item, text: call_delta(text, index=item)),
    "calls by id": ("openai_chat", lambda item, text: call_delta(text, id=f"call_{item}")),
    "choices": ("openai_chat", lambda item, text: chunk(item, {"content": text})),
}


def text_delta(text: str, **owner: object) -> Event:
    return {"type": "response.output_text.delta", **owner, "delta": text}


def call_delta(text: str, **owner: object) -> Event:
    return chunk(0, {"tool_calls": [{**owner, "type": "function", "function": {"arguments": text}}]})


@pytest.mark.parametrize("name", INTERLEAVED)
@given(data=st.data())
@examples(30)
def test_secrets_of_several_texts_are_found_however_they_interleave(name: str, data: st.DataObject) -> None:
    """What arrives behind the beginning of a secret may be its rest, also in another text: it may be withheld, too."""
    provider, say = INTERLEAVED[name]
    secret = next(row for row in FORMATS if row.name == "github-token").matches[0]
    parts = {
        item: cut(f"({item}) is {secret} here".encode(), data.draw(st.lists(st.integers(0, 200), max_size=6)))
        for item in range(3)
    }
    order = data.draw(st.permutations([item for item, texts in parts.items() for _ in texts]))
    waiting = {item: iter(texts) for item, texts in parts.items()}
    events = [say(item, next(waiting[item]).decode()) for item in order]
    kept: dict[int, str] = dict.fromkeys(parts, "")
    for item, line in zip(order, recorded(events, provider).splitlines(), strict=True):
        kept[item] += next(text for path, text in strings(json.loads(line)) if path[-1] in LAST_NAMES)
    for item, text in kept.items():
        assert not any(secret[at : at + 6] in text for at in range(len(secret) - 5))
        assert shows_only(text, f"({item}) is {secret} here")
    if order == sorted(order):
        assert kept == {item: f"({item}) is <redacted> here" for item in parts}


LAST_NAMES: Final = frozenset({"delta", "arguments", "content"})


# what is not secret


WORDS: Final = st.text(st.sampled_from('abc {}[]":,\\\n\u00fc\ud83d\udd11'), max_size=12)
VALUES: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "delta", "choices"]), inner),
    max_leaves=8,
)
EVENTS: Final = st.one_of(
    VALUES,
    st.builds(
        lambda kind, members: {"type": f"response.{kind}.delta", **members},
        st.sampled_from(KINDS),
        st.dictionaries(st.sampled_from(["delta", "item_id", "output_index", "content_index", "x"]), VALUES),
    ),
    st.builds(
        lambda delta, calls: {"choices": [{"index": 0, "delta": {"content": delta, "tool_calls": calls}}]},
        VALUES,
        st.lists(VALUES | st.dictionaries(st.sampled_from(["index", "id", "function"]), VALUES), max_size=2) | VALUES,
    ),
)


@pytest.mark.parametrize("provider", ["openai_responses", "openai_chat", "not_known"])
@given(events=st.lists(EVENTS, max_size=6))
@examples(60)
def test_harmless_text_is_unchanged(provider: str, events: list[object]) -> None:
    data = recorded(events, provider)
    lines = lines_of(events).splitlines()
    assert [codec.loads(line) for line in data.splitlines()] == [codec.loads(line) for line in lines]
    assert _digits(data) == _digits(lines_of(events))


def _digits(data: bytes) -> list[str]:
    return re.findall(r"(?<![\d.eE+-])-?\d{19,}(?![\d.eE])", data.decode())


@given(data=st.binary(max_size=200), input_format=st.sampled_from(["sse", "ndjson", "auto"]))
@examples(80)
def test_any_bytes_replay_as_before(data: bytes, input_format: Any) -> None:
    for provider in ("openai_responses", "openai_chat"):
        kept = record(provider, data, FINDER, input_format=input_format)
        case = replay.CaseSettings.model_validate(dict(kept.settings))
        before, now = play([data], provider, None, input_format), play([kept.data], provider, case)
        assert essence(now) == essence(before)


MEMBERS: Final = (
    "response", "item", "output", "tools", "text", "format", "usage", "id", "item_id", "type", "status", "error",
    "encrypted_content", "logprobs", "url", "index", "output_index", "choices", "delta", "message", "tool_calls",
    "function", "custom", "arguments", "name", "content", "part", "container", "action", "results", "summary",
    "reasoning_details", "data", "finish_reason", "token", "metadata",
)  # fmt: skip
KINDS_OF_EVENTS: Final = (*sorted(HANDLERS.keys() | DROPPED.keys()), "not.known")
NAMES: Final = st.sampled_from(
    ["message", "function_call", "reasoning", "code_interpreter", "completed", "stop", "https://me:x@example.org/?a=1"]
)
SHAPES: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | NAMES | st.text('ab{}[]":, ', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=5),
    max_leaves=15,
)
ANY_EVENTS: Final = st.dictionaries(st.sampled_from(MEMBERS), SHAPES, max_size=5).flatmap(
    lambda members: st.sampled_from(KINDS_OF_EVENTS).map(lambda kind: {**members, "type": kind})
)
CHUNKS: Final = st.lists(st.dictionaries(st.sampled_from(MEMBERS), SHAPES, max_size=4), max_size=2).map(
    lambda choices: {"id": "c", "choices": [{"delta": choice, **choice} for choice in choices]}
)


@pytest.mark.parametrize(("provider", "events"), [("openai_responses", ANY_EVENTS), ("openai_chat", CHUNKS)])
@given(data=st.data())
@examples(80)
def test_any_events_replay_as_before(provider: str, events: Any, data: st.DataObject) -> None:
    given_lines = lines_of(data.draw(st.lists(events, min_size=1, max_size=6)))
    kept = record(provider, given_lines, FINDER, input_format="ndjson")
    before, now = play([given_lines], provider), play([kept.data], provider)
    assert essence(now) == essence(before)
    assert record(provider, kept.data, FINDER, input_format="ndjson").data == kept.data
