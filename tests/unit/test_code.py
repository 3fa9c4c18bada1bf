"""Code of the code interpreter (seed section 9.9, CONTRACT D20, D27)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pytest

Event: TypeAlias = dict[str, Any]
Play: TypeAlias = Callable[..., list[Event]]

KINDS: Final = {"tool.code.delta": "delta", "tool.code.done": "code"}
LONG: Final = "x = 1\n" * 10_000


def delta(text: object) -> Event:
    return {"type": "response.code_interpreter_call_code.delta", "output_index": 0, "item_id": "ci", "delta": text}


def done(text: object) -> Event:
    return {"type": "response.code_interpreter_call_code.done", "output_index": 0, "item_id": "ci", "code": text}


def item_done(**members: object) -> Event:
    item = {"type": "code_interpreter_call", "id": "ci", "status": "completed", **members}
    return {"type": "response.output_item.done", "output_index": 0, "item": item}


def code(said: list[Event]) -> list[tuple[str, str]]:
    """Return a summary of the code events, with adjacent deltas joined; a possible credential is held until its end."""
    found: list[tuple[str, str]] = []
    for name, text in ((KINDS[it["kind"]], it[KINDS[it["kind"]]]) for it in said if it["kind"] in KINDS):
        before = found.pop()[1] if name == "delta" and found and found[-1][0] == "delta" else ""
        found.append((name, before + text))
    return found


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param(
            [delta("x ="), delta(" 1"), done("x = 1"), item_done(code="x = 1")],
            [("delta", "x = 1"), ("code", "x = 1")],
            id="9.9-code",
        ),
        pytest.param([done("x = 1")], [("code", "x = 1")], id="D30-only-done"),
        pytest.param([item_done(code="x = 1")], [("code", "x = 1")], id="D20-only-the-finished-item"),
        pytest.param([delta("x ="), done("x = 1")], [("delta", "x = 1"), ("code", "x = 1")], id="D30-longer-done"),
        pytest.param([delta("x = 1"), done("y")], [("delta", "x = 1"), ("code", "x = 1")], id="deltas-win"),
        pytest.param([done("x"), done("y"), delta("z")], [("code", "x")], id="9.9-done-is-said-once"),
        pytest.param([item_done(code=""), item_done(code=None)], [], id="no-code"),
        pytest.param([delta(5), done(None)], [], id="D30-wrong-types"),
        pytest.param([delta("x ="), item_done()], [("delta", "x ="), ("code", "x =")], id="code-that-nobody-ended"),
        pytest.param(
            [done(LONG)],
            [("delta", LONG), ("code", LONG)],
            id="D27-longer-code-travels-as-deltas",
        ),
    ],
)
def test_code(play: Play, events: list[Event], expected: list[tuple[str, str]]) -> None:
    assert code(play(*events)) == expected


def test_the_frames_name_their_call(play: Play) -> None:
    place = {"output_index": 0, "item_id": "ci", "tool_call_id": "ci"}
    assert play(delta("x = 1;\n"), done("x = 1;\n"))[-2:] == [
        {"kind": "tool.code.delta", **place, "delta": "x = 1;\n"},
        {"kind": "tool.code.done", **place, "code": "x = 1;\n"},
    ]


@pytest.mark.parametrize("pieces", [[LONG], [LONG[:100], LONG[100:]]])
def test_d27_deltas_are_short(play: Play, pieces: list[str]) -> None:
    said = play(*map(delta, pieces), done(LONG))
    assert max(len(it["delta"]) for it in said if it["kind"] == "tool.code.delta") == 32_768


def test_d27_done_holds_what_fits(open_stream: Callable[..., Any]) -> None:
    stream = open_stream()
    text = "é\x01" * 100_000
    stream.feed(done(text))
    assert "".join(text for name, text in code(stream.sealed) if name == "delta") == text
    assert max(map(len, stream.lines)) <= 262_144
    assert b'{"type":"truncated","path":"code"' in stream.lines[-1]


@pytest.mark.parametrize(
    ("cut_off", "expected"),
    [
        pytest.param("x = '\ud83d", "x = '\ufffd", id="D31-half-a-character"),
        pytest.param("x = 'quay-7781", "x = '<redacted>", id="D25-a-secret"),
    ],
)
def test_what_was_held_back_of_code_is_said_before_its_item_closes(play: Play, cut_off: str, expected: str) -> None:
    policy = {"registered": [{"value": "quay-7781"}]}
    said = play(delta(cut_off), {"type": "response.completed", "response": {}}, policy=policy)
    assert code(said) == [("delta", expected)]
    assert [it["kind"] for it in said[-4:-2]] == ["tool.code.delta", "output_item.done"]
