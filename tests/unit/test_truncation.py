"""Frames within their limits: long fields are split or cut, with notices (seed section 7.3, CONTRACT D21, D27)."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

import pytest

from projector.contracts import codec, paths
from projector.contracts.limits import DELTA_MAX_CHARS, FRAME_MAX_BYTES
from projector.core.sse import encode_sse
from projector.core.truncation import HOLDERS, fit, split_base64, split_delta
from projector.dialects.public_sse_v1.writer import FRAMING_BYTES, PublicSseV1
from projector.redaction.clean import REDACTED_HERE, Cleaned, CleanText

Frame: TypeAlias = dict[str, Any]

BUDGET = 8_192


def final(**fields: object) -> Frame:
    return {"kind": "final", "final": {"status": "completed", **fields}}


def output(value: object) -> Frame:
    return {"kind": "tool.output", "item_id": "it", "output": value}


@pytest.mark.parametrize(
    ("frame", "cut"),
    [
        pytest.param(final(response_text="x" * 9_000), ["final.response_text"], id="one-text"),
        pytest.param(
            final(response_text="x" * 100_000, refusal_text="short", usage={"input_tokens": 1}),
            ["final.response_text"],
            id="small-fields-stay",
        ),
        pytest.param(
            final(response_text="x" * 50_000, reasoning_summary_text="y" * 40_000),
            ["final.reasoning_summary_text", "final.response_text"],
            id="two-texts",
        ),
        pytest.param(
            final(response_text="x" * 6_000, reasoning_summary_text="y" * 3_000),
            ["final.response_text"],
            id="the-longest-first",
        ),
        pytest.param(final(response_text="\x01" * 9_000), ["final.response_text"], id="bytes-not-characters"),
        pytest.param(output("😀" * 9_000), ["output"], id="a-field-at-the-top"),
        pytest.param(output({"logs": "x" * 9_000, "ok": True}), ["output.logs"], id="a-text-in-a-tree"),
        pytest.param(output(["x" * 100] * 500), ["output"], id="many-short-texts"),
        pytest.param(output({f"k{at}": {"n": at} for at in range(5_000)}), ["output"], id="many-members"),
        pytest.param(
            {"kind": "error", "error": {"code": "c", "message": "m" * 9_000}}, ["error.message"], id="an-error"
        ),
        pytest.param(
            {"kind": "tool.status", "tool": {"status": "completed", "arguments_text": "x" * 9_000}},
            ["tool.arguments_text"],
            id="a-status",
        ),
        pytest.param(
            {"kind": "message.citation", "citation": {"type": "url_citation", "url": "u" * 9_000}},
            ["citation.url"],
            id="a-citation",
        ),
    ],
)
def test_what_is_too_long_is_cut_with_a_notice(frame: Frame, cut: list[str]) -> None:
    before = json.dumps(frame)
    fitted = fit(frame, BUDGET)
    assert BUDGET // 3 < len(codec.dumps(fitted)) <= BUDGET
    assert json.dumps(frame) == before, "the frame itself is not touched"
    assert sorted({notice["path"] for notice in fitted["notices"]}) == cut
    assert {notice["type"] for notice in fitted["notices"]} == {"truncated"}
    assert fitted["kind"] == frame["kind"]


def test_what_has_nothing_to_cut_stays_as_it_is() -> None:
    frame = {"kind": "error", "error": {"code": "c", "is_retryable": True}}
    assert fit(frame, 10) == frame


def test_notices_stay_where_their_places_stay() -> None:
    frame = output({"rows": [{"key": "<redacted>", "text": "x" * 300} for _ in range(100)]})
    here = [{"type": "redacted", "path": f"output.rows[{at}].key", "message": "m"} for at in (0, 99)]
    fitted = fit({**frame, "notices": here}, BUDGET)
    assert fitted["notices"][0] == here[0]
    assert all(paths.resolve(fitted, notice["path"]) is not paths.ABSENT for notice in fitted["notices"])


def written(frame: Frame) -> bytes:
    [(_, data)] = PublicSseV1(FRAME_MAX_BYTES).feed(frame)
    return data


def test_a_frame_within_the_budget_is_written_as_it_is() -> None:
    around = len(codec.dumps(final(response_text=""))) + FRAMING_BYTES
    frame = final(response_text="x" * (FRAME_MAX_BYTES - around))
    assert written(frame) == codec.dumps(frame)
    assert len(encode_sse(written(frame))) == FRAME_MAX_BYTES
    frame["final"]["response_text"] += "x"
    assert b'"path":"final.response_text"' in written(frame)
    assert len(encode_sse(written(frame))) <= FRAME_MAX_BYTES


def test_every_kind_with_a_holder_has_its_fields_there() -> None:
    assert HOLDERS == {"tool.status": "tool", "message.citation": "citation", "error": "error", "final": "final"}


@pytest.mark.parametrize(
    ("chars", "pieces"),
    [
        (0, []),
        (1, [1]),
        (DELTA_MAX_CHARS, [DELTA_MAX_CHARS]),
        (DELTA_MAX_CHARS + 1, [DELTA_MAX_CHARS, 1]),
        (3 * DELTA_MAX_CHARS, [DELTA_MAX_CHARS] * 3),
    ],
)
def test_d27_deltas(chars: int, pieces: list[int]) -> None:
    text = ("é😀a" * chars)[:chars]
    said = split_delta(Cleaned(CleanText(text)))
    assert [len(piece.value) for piece in said] == pieces
    assert "".join(piece.value for piece in said) == text


@pytest.mark.parametrize(("text", "noticed"), [("", [True]), ("a", [True]), ("a" * 40_000, [True, False])])
def test_the_first_piece_carries_the_notices(text: str, noticed: list[bool]) -> None:
    said = split_delta(Cleaned(CleanText(text), REDACTED_HERE))
    assert [piece.notices == REDACTED_HERE for piece in said] == noticed


@pytest.mark.parametrize(
    ("text", "max_chars", "pieces"),
    [
        ("", 8, []),
        ("AAAA", 8, ["AAAA"]),
        ("AAAABBBBCC==", 8, ["AAAABBBB", "CC=="]),
        pytest.param("AAAABBBBCCCC", 11, ["AAAABBBB", "CCCC"], id="D21-each-piece-decodes-alone"),
        pytest.param("AAAABBBB", 1, ["AAAA", "BBBB"], id="D21-no-piece-is-shorter-than-a-group"),
    ],
)
def test_d21_base64(text: str, max_chars: int, pieces: list[str]) -> None:
    assert split_base64(CleanText(text), max_chars) == pieces


@pytest.mark.parametrize("max_bytes", range(FRAME_MAX_BYTES - 2_000, FRAME_MAX_BYTES, 97))
def test_a_thousand_texts_of_one_length_fit(max_bytes: int) -> None:
    """Their length falls a thousand characters at a time, while the notices of them need a few bytes."""
    assert codec.size(fit(output(["é" * 600] * 1_000), max_bytes)) <= max_bytes
