"""Recordings: the redaction of each part of an event, and the files of a case."""

from __future__ import annotations

import json
import stat
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from openai.types.responses import response_stream_event

from projector import FAULTS, UsageError
from projector.core.handlers import DROPPED, HANDLERS
from projector.providers.openai_responses.recording import DELTAS
from projector.recording import Recording, record, replay, write
from projector.redaction.policy import Policy
from projector.redaction.whole_values import Finder, Span, without

FINDER: Final = Finder(Policy.load({"registered": [{"id": "vault", "value": "quiet heron"}, {"value": "48151623"}]}))


def one(event: object, provider: str = "openai_responses") -> Any:
    """Return the recording of one event."""
    data = record(provider, json.dumps(event).encode() + b"\n", FINDER, input_format="ndjson").data
    (line,) = data.splitlines()
    return json.loads(line)


# members with a rule of their own


RESPONSE: Final = {
    "id": "resp_1",
    "object": "response",
    "status": "in_progress",
    "model": "m",
    "created_at": 1765800000,
    "background": False,
    "temperature": 0.5,
    "error": None,
    "previous_response_id": "resp_0",
    "usage": {"input_tokens": 3, "input_tokens_details": {"cached_tokens": 1}},
}
PRIVATE: Final = {
    "instructions": ("Be kind.", ""),
    "metadata": ({"customer": "c-1"}, {}),
    "tools": ([{"type": "function", "name": "f"}, {"type": "web_search"}], []),
    "prompt": ({"id": "pmpt_1"}, {}),
    "user": ("someone", ""),
    "prompt_cache_key": ("someone", ""),
    "not_known_yet": (["Be kind."], []),
    "text": (
        {"format": {"type": "json_schema", "schema": {"a": 1}}, "verbosity": "low"},
        {"format": {"type": "json_schema"}},
    ),
}


@pytest.mark.parametrize("name", PRIVATE)
def test_the_response_object_is_kept_without_configuration(name: str) -> None:
    before, after = PRIVATE[name]
    event = {"type": "response.created", "response": {**RESPONSE, name: before}}
    assert one(event) == {"type": "response.created", "response": {**RESPONSE, name: after}}


@pytest.mark.parametrize(
    ("container", "kept"),
    [({"type": "auto", "file_ids": ["file-1"]}, {}), ("cntr_1", "")],
    ids=["automatic", "the host's"],
)
def test_of_tools_only_the_kind_of_container_is_kept(container: object, kept: object) -> None:
    tools = [{"type": "mcp", "server_url": "https://example.org"}, {"type": "code_interpreter", "container": container}]
    event = one({"type": "response.created", "response": {"tools": tools}})
    assert event["response"]["tools"] == [{"type": "code_interpreter", "container": kept}]


ITEM_DONE: Final = "response.output_item.done"
MEMBERS: Final = {
    "encrypted reasoning": (
        {"type": ITEM_DONE, "item": {"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAAA"}},
        {"type": ITEM_DONE, "item": {"type": "reasoning", "id": "rs_1", "encrypted_content": "redacted_1"}},
    ),
    "none of it": (
        {"type": ITEM_DONE, "item": {"type": "reasoning", "encrypted_content": None}},
        {"type": ITEM_DONE, "item": {"type": "reasoning", "encrypted_content": None}},
    ),
    "the tools of a server": (
        {"type": ITEM_DONE, "item": {"type": "mcp_list_tools", "tools": [{"name": "t"}]}},
        {"type": ITEM_DONE, "item": {"type": "mcp_list_tools", "tools": []}},
    ),
    "the same in a snapshot": (
        {"type": "response.completed", "response": {"output": [{"type": "mcp_list_tools", "tools": [{"name": "t"}]}]}},
        {"type": "response.completed", "response": {"output": [{"type": "mcp_list_tools", "tools": []}]}},
    ),
    "probabilities of tokens": (
        {"type": "response.output_text.delta", "delta": "Hi", "logprobs": [{"token": "Hi", "logprob": -0.1}]},
        {"type": "response.output_text.delta", "delta": "Hi", "logprobs": []},
    ),
    "numbers that are registered": (
        {"type": ITEM_DONE, "item": {"type": "mcp_call", "output": {"pin": 48151623}}, "sequence_number": 48151623},
        {"type": ITEM_DONE, "item": {"type": "mcp_call", "output": {"pin": "<redacted>"}}, "sequence_number": 48151623},
    ),
    "sensitive keys": (
        {"type": ITEM_DONE, "item": {"type": "mcp_call", "output": {"token": 7, "max_tokens": 7, "cookie": None}}},
        {
            "type": ITEM_DONE,
            "item": {"type": "mcp_call", "output": {"token": "<redacted>", "max_tokens": 7, "cookie": None}},
        },
    ),
    "keys that are secret": (
        {"type": ITEM_DONE, "item": {"type": "mcp_call", "output": {"quiet heron": 7}}},
        {"type": ITEM_DONE, "item": {"type": "mcp_call", "output": {"[REDACTED:vault]": 7}}},
    ),
    "addresses": (
        {"type": ITEM_DONE, "item": {"action": {"url": "https://me:quiet@example.org/?a=1&%74oken=b"}}},
        {"type": ITEM_DONE, "item": {"action": {"url": "https://<redacted>@example.org/?a=1&%74oken=<redacted>"}}},
    ),
    "JSON that is no object": (["a quiet heron"], ["a [REDACTED:vault]"]),
}


@pytest.mark.parametrize("name", MEMBERS)
def test_members_with_a_rule(name: str) -> None:
    before, after = MEMBERS[name]
    assert one(before) == after


CHAT_MEMBERS: Final = {
    "reasoning that only the provider reads": (
        {"choices": [{"delta": {"reasoning_details": [{"type": "reasoning.encrypted", "data": "gAAAA"}]}}]},
        {"choices": [{"delta": {"reasoning_details": [{"type": "reasoning.encrypted", "data": "redacted_1"}]}}]},
    ),
    "signatures": (
        {"choices": [{"delta": {"reasoning_details": [{"type": "reasoning.text", "text": "a", "signature": "s"}]}}]},
        {
            "choices": [
                {"delta": {"reasoning_details": [{"type": "reasoning.text", "text": "a", "signature": "redacted_1"}]}}
            ]
        },
    ),
    "a type that is none": (
        {"choices": [{"delta": {"reasoning_details": [{"type": [], "data": "a"}]}}]},
        {"choices": [{"delta": {"reasoning_details": [{"type": [], "data": "a"}]}}]},
    ),
    "prompts": ({"choices": [], "prompt_text": "Be kind."}, {"choices": [], "prompt_text": ""}),
    "counts": (
        {"choices": [], "usage": {"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 0}}},
        {"choices": [], "usage": {"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 0}}},
    ),
    "texts among counts": ({"usage": {"token": "quiet"}}, {"usage": {"token": "<redacted>"}}),
    "counts that are none": ({"note": {"usage": {"token": 1}}}, {"note": {"usage": {"token": "<redacted>"}}}),
}


@pytest.mark.parametrize("name", CHAT_MEMBERS)
def test_members_of_chunks_with_a_rule(name: str) -> None:
    before, after = CHAT_MEMBERS[name]
    assert one(before, "openai_chat") == after


def test_the_same_private_value_has_the_same_placeholder() -> None:
    items = [{"type": ITEM_DONE, "item": {"encrypted_content": blob}} for blob in ("x", "y", "x")]
    data = record(
        "openai_responses", b"".join(json.dumps(item).encode() + b"\n" for item in items), FINDER, input_format="ndjson"
    ).data
    kept = [json.loads(line)["item"]["encrypted_content"] for line in data.splitlines()]
    assert kept == ["redacted_1", "redacted_2", "redacted_1"]


def test_depth_is_limited() -> None:
    deep: Any = "bottom"
    for _ in range(200):
        deep = [deep]
    kept, levels = one({"type": "a", "deep": deep})["deep"], 0
    while isinstance(kept, list):
        kept, levels = kept[0], levels + 1
    assert (kept, levels) == ("<redacted>", 127)


# every delta is known


def test_every_delta_of_the_sdk_is_a_piece() -> None:
    union = typing.get_args(typing.get_args(response_stream_event.ResponseStreamEvent)[0])
    deltas = {
        typing.get_args(kind.model_fields["type"].annotation)[0] for kind in union if "delta" in kind.model_fields
    }
    assert deltas <= DELTAS <= HANDLERS.keys() | DROPPED.keys()


# input that is not an event


@pytest.mark.parametrize(
    ("provider", "stream", "lines"),
    [
        pytest.param("openai_responses", b"event: keepalive\ndata: {}\n\n", [b'{"type":"keepalive"}'], id="name"),
        pytest.param("openai_responses", b'event: a\ndata: {"error":1}\n\n', [b'{"error":1}'], id="error-has-its-own"),
        pytest.param("openai_responses", b"data: [DONE]\n\ndata:\n\n: hi\n\n", [b"[DONE]"], id="end-mark"),
        pytest.param("openai_responses", b"data: quiet heron\n\n", [b"(no JSON: withheld)"], id="no-JSON"),
        pytest.param("openai_responses", b"<html>quiet heron</html>", [b"(no JSON: withheld)"], id="no-stream"),
        pytest.param("openai_responses", b"data: " + b"[" * 100_000 + b"\n\n", [b'"(too deep: withheld)"'], id="deep"),
        pytest.param("openai_chat", b"error: the quiet heron\n\n", [b'{"error":"the [REDACTED:vault]"}'], id="words"),
        pytest.param(
            "openai_chat", b'event: error\ndata: {"a":1}\n\n', [b'{"a":1,"error":{"a":1}}'], id="error-by-name"
        ),
        pytest.param(
            "openai_chat", b'data: {"n":12345678901234567890123}\n\n', [b'{"n":12345678901234567890123}'], id="digits"
        ),
        pytest.param("openai_chat", b'data: {"a":"\\ud83d"}\n\n', [b'{"a":"\\ud83d"}'], id="half-a-character"),
        pytest.param("openai_responses", b"", [], id="nothing"),
    ],
)
def test_messages_that_are_not_events(provider: str, stream: bytes, lines: list[bytes]) -> None:
    assert record(provider, stream, FINDER).data.splitlines() == lines


def test_an_event_that_is_too_large_ends_the_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("projector.contracts.limits.EVENT_MAX_BYTES", 20)
    kept = record("openai_responses", b'data: {"a":1}\n\ndata: ' + b" " * 30 + b"\n\n", FINDER)
    assert (kept.data, kept.settings) == (b'{"a":1}\n', {"close": "upstream_event_too_large"})


# cases


HELLO: Final = Recording("openai_chat", b'{"choices":[]}\n', 1, 0)


def test_a_case_with_settings_is_read_again(tmp_path: Path) -> None:
    profile = {"think_mode": "assume_open", "think_tags": [["<a>", "\x7f\u00fc\\"]], "takes_stream_options": False}
    settings = {"about": 'It "says".', "profile": profile, "close": "upstream_reset"}
    write(tmp_path, "first.case", HELLO._replace(settings=settings))
    write(tmp_path, "second", HELLO._replace(settings={"host_events": True}))
    write(tmp_path, "third", HELLO)
    cases = {case.name: case.settings for case in replay.load_cases(tmp_path)}
    assert cases["first.case"].model_dump(include=set(settings)) == settings
    assert (cases["second"].host_events, cases["third"]) == (True, replay.CaseSettings())


def test_a_case_joins_those_that_are_there(tmp_path: Path) -> None:
    (tmp_path / "openai_responses").mkdir()
    (tmp_path / "openai_responses" / "old.ndjson").write_text("{}\n")
    (tmp_path / replay.CASES_FILE).write_text('[cases.old]\nabout = "Old."')  # without a line end
    write(tmp_path, "new", HELLO._replace(settings={"about": "New."}))
    assert [case.settings.about for case in replay.load_cases(tmp_path)] == ["Old.", "New."]


def test_only_its_owner_reads_a_recording(tmp_path: Path) -> None:
    source = write(tmp_path, "mine", HELLO._replace(settings={"run": True}))
    for path in (source, tmp_path / replay.CASES_FILE):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "a b", "a\n", "x" * 129, "caf\u00e9"])
def test_invalid_names(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="name of a case: expected a letter or digit, then"):
        write(tmp_path, name, HELLO)


@pytest.mark.parametrize(
    "take",
    [
        lambda folder: write(folder, "taken", HELLO._replace(provider="openai_responses")),
        lambda folder: (folder / replay.CASES_FILE).write_text("[cases.taken]\n"),
    ],
    ids=["another provider's", "settings"],
)
def test_a_name_is_used_once(tmp_path: Path, take: Callable[[Path], object]) -> None:
    take(tmp_path)
    with pytest.raises(UsageError, match="`taken`: expected a new name"):
        write(tmp_path, "taken", HELLO)


def test_a_failing_disk_leaves_no_partial_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path, "mine", HELLO)
    assert not list(tmp_path.glob("*/*"))


def test_a_fault_of_the_transport_goes_with_the_case() -> None:
    kept = record("openai_chat", b"", FINDER, fault=FAULTS["upstream_reset"], settings={"about": "A."})
    assert kept.settings == {"about": "A.", "close": "upstream_reset"}


def test_without_a_finder_everything_is_kept() -> None:
    event = b'{"type":"a","response":{"instructions":"quiet heron"}}\n'
    kept = record("openai_responses", event, None, input_format="ndjson")
    assert (kept.data, kept.events, kept.withheld) == (event, 1, 0)


def test_the_work_is_done_in_small_pieces() -> None:
    pauses: list[None] = []
    finder = Finder(Policy(), lambda: pauses.append(None))
    events = [{"type": "response.output_text.delta", "delta": "a word "}] * 50
    record(
        "openai_responses",
        b"".join(json.dumps(event).encode() + b"\n" for event in events),
        finder,
        input_format="ndjson",
    )
    assert len(pauses) > 2 * len(events)
    pauses.clear()
    finder.spans("a long text " * 20_000)
    assert len(pauses) > 50


# spans


@pytest.mark.parametrize(
    ("text", "spans", "left"),
    [
        ("plain", [], "plain"),
        ("abcdef", [Span(1, 3, "*")], "a*def"),
        ("abcdef", [Span(3, 5, "-"), Span(1, 3, "*")], "a*-f"),
        ("abcdef", [Span(1, 4, "*"), Span(2, 6, "-")], "a*"),
        ("abcdef", [Span(1, 5, "*"), Span(2, 3, "-")], "a*f"),
        ("abcdef", [Span(0, 6, "")], ""),
    ],
)
def test_spans_are_cut_out(text: str, spans: list[Span], left: str) -> None:
    assert without(text, spans) == left


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Authorization: Bearer example-bearer-000", "Authorization: <redacted>"),
        ("token: 'abcd1234' AKIAIOSFODNN7EXAMPLE", "token: '<redacted>' <redacted>"),
        ("say password=hunter2", "say password=<redacted>"),
    ],
)
def test_a_value_behind_a_sensitive_word_leaves_a_mark(text: str, clean: str) -> None:
    assert without(text, FINDER.spans(text)) == clean


def test_a_value_beside_a_registered_one_is_found() -> None:
    finder = Finder(Policy.load({"text": {"email": "mask"}, "registered": [{"value": "; quiet; "}]}))
    text = "a@example.org; quiet; b@example.org and c@example.org"
    clean = "<redacted:email><redacted><redacted:email> and <redacted:email>"
    assert without(text, finder.spans(text)) == clean


def test_spans_are_positions_in_the_original_text() -> None:
    text = "\ud83d\udd11 quiet heron \ud83d"
    assert FINDER.spans(text) == [Span(3, 14, "[REDACTED:vault]")]
