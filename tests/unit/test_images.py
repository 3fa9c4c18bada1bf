"""Generated images: their bytes are sent in chunks only (seed section 9.11, CONTRACT D21)."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pytest

Event: TypeAlias = dict[str, Any]
Play: TypeAlias = Callable[..., list[Event]]

AT: Final[Event] = {"output_index": 0, "item_id": "ig"}
LARGE: Final = base64.b64encode(bytes(range(256)) * 800).decode()


def partial(data: object, index: object = 0, **members: object) -> Event:
    name = "response.image_generation_call.partial_image"
    return {"type": name, **AT, "partial_image_index": index, "partial_image_b64": data, **members}


def done(**members: object) -> Event:
    item = {"type": "image_generation_call", "id": "ig", "status": "completed", **members}
    return {"type": "response.output_item.done", "output_index": 0, "item": item}


def target(field: str, part_index: int) -> Event:
    return {"entity_kind": "tool_call", "entity_id": "ig", "field": field, "part_index": part_index}


def chunks(said: list[Event]) -> list[tuple[str, int, int | None, str | None]]:
    """Each chunk as (field, part, number, data); the last two are None where the target is done."""
    return [
        (it["target"]["field"], it["target"]["part_index"], it.get("chunk_index"), it.get("data"))
        for it in said
        if it["kind"].startswith("chunk.")
    ]


def test_d21_the_frames(play: Play) -> None:
    said = play(partial("AAAA", 2), done(result="BBBB"))
    assert [it for it in said if it["kind"].startswith("chunk.")] == [
        {
            "kind": "chunk.delta",
            **AT,
            "target": target("partial_image_b64", 2),
            "encoding": "base64",
            "chunk_index": 0,
            "data": "AAAA",
        },
        {"kind": "chunk.done", **AT, "target": target("partial_image_b64", 2)},
        {
            "kind": "chunk.delta",
            **AT,
            "target": target("image_b64", 0),
            "encoding": "base64",
            "chunk_index": 0,
            "data": "BBBB",
        },
        {"kind": "chunk.done", **AT, "target": target("image_b64", 0)},
    ]


@pytest.mark.parametrize(
    ("events", "policy", "expected"),
    [
        pytest.param(
            [partial("AAAABBBB", 0), partial("CCCC", 1)],
            {"limits": {"image_chunk_max_chars": 4}},
            [
                ("partial_image_b64", 0, 0, "AAAA"),
                ("partial_image_b64", 0, 1, "BBBB"),
                ("partial_image_b64", 0, None, None),
                ("partial_image_b64", 1, 0, "CCCC"),
                ("partial_image_b64", 1, None, None),
            ],
            id="D21-numbers-count-per-target",
        ),
        pytest.param(
            [partial("AAAA"), partial("BBBB"), partial("CCCC", 1), done(result="DDDD")],
            {},
            [
                ("partial_image_b64", 0, 0, "AAAA"),
                ("partial_image_b64", 0, None, None),
                ("partial_image_b64", 1, 0, "CCCC"),
                ("partial_image_b64", 1, None, None),
                ("image_b64", 0, 0, "DDDD"),
                ("image_b64", 0, None, None),
            ],
            id="D21-a-closed-target-does-not-reopen",
        ),
        pytest.param(
            [partial("AAAA"), done(result="BBBB")],
            {"images": "host"},
            [("partial_image_b64", 0, 0, "AAAA"), ("partial_image_b64", 0, None, None)],
            id="D21-policy-leaves-the-image-to-the-host",
        ),
        pytest.param(
            [partial("not base64!"), partial("AAA", 1), done(result="<svg>")],
            {},
            [("partial_image_b64", 0, None, None), ("partial_image_b64", 1, None, None), ("image_b64", 0, None, None)],
            id="D21-what-is-not-base64-is-dropped",
        ),
        pytest.param([done(result=None), done(result="")], {}, [], id="no-image"),
        pytest.param([partial(None), partial("AAAA", None), partial("AAAA", "0")], {}, [], id="D30-wrong-types"),
    ],
)
def test_chunks(play: Play, events: list[Event], policy: Event, expected: list[Any]) -> None:
    assert chunks(play(*events, policy=policy)) == expected


def test_d21_what_is_dropped_is_noticed(play: Play) -> None:
    said = [it for it in play(partial("not base64!")) if it["kind"] == "chunk.done"]
    assert [(notice["type"], notice["path"]) for notice in said[0]["notices"]] == [("truncated", "target")]


def test_8_1_chunks_hold_at_most_128_kib_and_decode_alone(play: Play) -> None:
    pieces = [data for _, _, _, data in chunks(play(done(result=LARGE))) if data is not None]
    assert [len(piece) for piece in pieces] == [131_072, 131_072, len(LARGE) - 262_144]
    assert b"".join(base64.b64decode(piece, validate=True) for piece in pieces) == base64.b64decode(LARGE)


def test_d21_bytes_travel_in_chunks_only(play: Play) -> None:
    data = "QUJD" * 50
    said = play(partial(data, size="1x1", output_format="png"), done(result=data))
    others = [it for it in said if it["kind"] != "chunk.delta"]
    assert data not in repr(others)
    assert said[2]["tool"] == {
        "tool_type": "image_generation",
        "tool_call_id": "ig",
        "status": "partial_image",
        "format": "png",
        "size": "1x1",
    }
