"""Reasoning: summaries for pages, full text for dialects that may emit it (seed section 9.5, CONTRACT D29, D36)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pytest

Event: TypeAlias = dict[str, Any]

AT: Final[Event] = {"output_index": 0, "item_id": "rs"}
ADDED: Final[Event] = {"kind": "output_item.added", **AT, "item_type": "reasoning", "status": "in_progress"}
DONE: Final[Event] = {**ADDED, "kind": "output_item.done", "status": "completed"}


def summary(text: object, **members: object) -> Event:
    return {"type": "response.reasoning_summary_text.delta", **AT, "summary_index": 0, "delta": text, **members}


def summary_done(text: object) -> Event:
    return {"type": "response.reasoning_summary_text.done", **AT, "summary_index": 0, "text": text}


def full(text: object) -> Event:
    return {"type": "response.reasoning_text.delta", **AT, "content_index": 0, "delta": text}


def full_done(text: object) -> Event:
    return {"type": "response.reasoning_text.done", **AT, "content_index": 0, "text": text}


def item_done(**members: object) -> Event:
    item = {"type": "reasoning", "id": "rs", **members}
    return {"type": "response.output_item.done", "output_index": 0, "item": item}


def said(text: str, summary_index: int = 0) -> Event:
    return {"kind": "reasoning_summary.delta", **AT, "summary_index": summary_index, "delta": text}


def said_full(text: str) -> Event:
    return {"kind": "reasoning.delta", **AT, "content_index": 0, "delta": text}


def said_full_done(text: str) -> Event:
    return {"kind": "reasoning.done", **AT, "content_index": 0, "text": text}


def said_encrypted(text: str) -> Event:
    return {"kind": "reasoning.encrypted", **AT, "encrypted_content": text}


PART: Final = [{"type": "summary_text", "text": "Thinking"}]
CONTENT: Final = [{"type": "reasoning_text", "text": "step one"}]


@pytest.mark.parametrize(
    ("policy", "events", "expected"),
    [
        pytest.param(
            {},
            [summary("Think"), summary("ing"), summary_done("Thinking"), item_done(summary=PART)],
            [ADDED, said("Think"), said("ing"), DONE],
            id="9.5-summary",
        ),
        pytest.param(
            {}, [summary("Think"), summary_done("Thinking")], [ADDED, said("Think"), said("ing")], id="D30-longer-done"
        ),
        pytest.param({}, [summary_done("Thinking")], [ADDED, said("Thinking")], id="D30-only-in-done"),
        pytest.param({}, [item_done(summary=PART)], [ADDED, said("Thinking"), DONE], id="D30-only-in-the-item"),
        pytest.param(
            {},
            [summary("A"), summary("B", summary_index=1), item_done(summary=[{"text": "A"}, None, {"text": "B"}])],
            [ADDED, said("A"), said("B", 1), DONE],
            id="9.5-two-parts",
        ),
        pytest.param(
            {},
            [{"type": "response.reasoning_summary_text.delta", **AT, "delta": "A"}, summary("x", summary_index=None)],
            [ADDED, said("A")],
            id="D30-a-missing-index-is-0-and-null-costs-the-event",
        ),
        pytest.param(
            {},
            [full("step "), full("one"), full_done("step one"), item_done(content=CONTENT)],
            [ADDED, DONE],
            id="D29-full-text-is-not-said",
        ),
        pytest.param(
            {"reasoning": "off"},
            [summary("Think"), summary_done("Thinking"), full("step"), item_done(summary=PART, content=CONTENT)],
            [ADDED, DONE],
            id="D36-off",
        ),
        pytest.param(
            {"reasoning": "full"},
            [full("step "), full_done("step one"), summary("Think"), item_done(summary=PART, content=CONTENT)],
            [ADDED, said_full("step "), said_full("one"), said_full_done("step one"), said("Think"), said("ing"), DONE],
            id="D36-full",
        ),
        pytest.param(
            {"reasoning": "full"},
            [item_done(content=CONTENT)],
            [ADDED, said_full("step one"), said_full_done("step one"), DONE],
            id="D36-full-only-in-the-item",
        ),
        pytest.param(
            {"reasoning": "full"},
            [full("st"), full_done("step"), full_done("step"), item_done()],
            [ADDED, said_full("st"), said_full("ep"), said_full_done("step"), DONE],
            id="D36-full-text-is-done-once",
        ),
        pytest.param(
            {"reasoning": "full"},
            [full("st"), item_done()],
            [ADDED, said_full("st"), said_full_done("st"), DONE],
            id="D36-full-text-that-nobody-ended",
        ),
        pytest.param(
            {"reasoning": "full"},
            [full("a\ud83d"), item_done()],
            [ADDED, said_full("a"), said_full("\ufffd"), said_full_done("a\ufffd"), DONE],
            id="D31-half-a-character-of-full-text",
        ),
        pytest.param({}, [item_done(encrypted_content="gAAA")], [ADDED, DONE], id="D36-encrypted-stays-behind"),
        pytest.param(
            {"encrypted_reasoning": True},
            [item_done(encrypted_content="gAAA")],
            [ADDED, said_encrypted("gAAA"), DONE],
            id="D36-encrypted-under-its-own-switch",
        ),
        pytest.param({}, [summary(None), summary_done(5), full(5), full_done(None)], [], id="D30-wrong-types"),
        pytest.param(
            {},
            [item_done(summary=[{"type": ["summary_text"], "text": "Hm"}])],
            [ADDED, said("Hm"), DONE],
            id="D30-a-type-that-is-a-list",
        ),
        pytest.param(
            {},
            [summary("Think\ud83d"), summary("B", summary_index=1), summary("C", summary_index=1)],
            [ADDED, said("Think"), said("\ufffd"), said("B", 1), said("C", 1)],
            id="D31-what-a-part-holds-is-said-before-the-next-part",
        ),
        pytest.param(
            {"reasoning": "full"},
            [full("a"), full_done("a"), full("b"), item_done()],
            [ADDED, said_full("a"), said_full_done("a"), DONE],
            id="D40-a-delta-after-its-done",
        ),
    ],
)
def test_reasoning(play: Callable[..., list[Event]], policy: Event, events: list[Event], expected: list[Event]) -> None:
    assert play(*events, policy=policy) == expected


def test_d29_the_public_dialect_drops_what_is_private(open_stream: Callable[..., Any]) -> None:
    stream = open_stream(policy={"reasoning": "full", "encrypted_reasoning": True})
    stream.feed(full("step one"), full_done("step one"), item_done(encrypted_content="gAAA"))
    assert len(stream.sealed) == 5
    assert [frame["event_id"] for frame in stream.sealed] == [1, 1, 1, 1, 2], "private frames take no event id"
    assert b"step" not in b"".join(stream.lines)
    assert b"gAAA" not in b"".join(stream.lines)


def test_d31_a_surrogate_held_back_is_said_at_the_end(play: Callable[..., list[Event]]) -> None:
    said_now = play(summary("a\ud83d"), summary("\ude00\ud83d"), item_done())
    assert "".join(it["delta"] for it in said_now if "delta" in it) == "a😀\ufffd"
