"""Message text, refusals and citations: each row has events and their output (seed sections 9.3, 9.4, 9.6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pytest

Event: TypeAlias = dict[str, Any]
Play: TypeAlias = Callable[..., list[Event]]

AT: Final[Event] = {"output_index": 0, "item_id": "msg"}
PART: Final[Event] = {**AT, "content_index": 0}
ADDED: Final[Event] = {
    "kind": "output_item.added",
    **AT,
    "item_type": "message",
    "role": "assistant",
    "status": "in_progress",
}
DONE: Final[Event] = {**ADDED, "kind": "output_item.done", "status": "completed"}
WHOLE: Final[Event] = {**ADDED, "status": "completed"}  # announced by its own end
TITLE: Final = "T" * 500
URL: Final = "https://harbour.example/" + "u" * 4_072


def delta(text: object, **members: object) -> Event:
    return {"type": "response.output_text.delta", **PART, "delta": text, **members}


def numbered(text: object, number: int, **members: object) -> Event:
    return delta(text, sequence_number=number, **members)


def text_done(text: object, **members: object) -> Event:
    return {"type": "response.output_text.done", **PART, "text": text, **members}


def refusal(text: object) -> Event:
    return {"type": "response.refusal.delta", **PART, "delta": text}


def refusal_done(text: object) -> Event:
    return {"type": "response.refusal.done", **PART, "refusal": text}


def item_done(*parts: object, **members: object) -> Event:
    item = {"type": "message", "id": "msg", "status": "completed", "content": list(parts), **members}
    return {"type": "response.output_item.done", "output_index": 0, "item": item}


def part(text: str, *annotations: object) -> Event:
    return {"type": "output_text", "text": text, "annotations": list(annotations)}


def said_text(text: str, **members: object) -> Event:
    return {"kind": "message.delta", **PART, "delta": text, **members}


def said_refusal(text: str) -> Event:
    return {"kind": "refusal.delta", **PART, "delta": text}


def said_refusal_done(text: str) -> Event:
    return {"kind": "refusal.done", **PART, "refusal_text": text}


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param([delta("Hi"), delta(" you")], [ADDED, said_text("Hi"), said_text(" you")], id="9.3-deltas"),
        pytest.param([delta("")], [ADDED], id="an-empty-delta-says-no-text"),
        pytest.param([delta("Hi"), text_done("Hi")], [ADDED, said_text("Hi")], id="done-says-nothing-twice"),
        pytest.param(
            [delta("Hi"), text_done("Hi you")], [ADDED, said_text("Hi"), said_text(" you")], id="D30-a-longer-done"
        ),
        pytest.param([text_done("Hi")], [ADDED, said_text("Hi")], id="D30-text-only-in-done"),
        pytest.param([item_done(part("Hi"))], [WHOLE, said_text("Hi"), DONE], id="D30-text-only-in-the-item"),
        pytest.param(
            [delta("Hi"), text_done("Hi you"), item_done(part("Hi you"))],
            [ADDED, said_text("Hi"), said_text(" you"), DONE],
            id="D30-once",
        ),
        pytest.param(
            [delta("Hi"), text_done("Ho")], [ADDED, said_text("Hi")], id="D30-deltas-win-over-a-differing-done"
        ),
        pytest.param([delta("Hi you"), text_done("Hi")], [ADDED, said_text("Hi you")], id="D30-over-a-shorter-one-too"),
        pytest.param(
            [delta("A"), delta("B", content_index=1), text_done("A!"), item_done(part("A!"), part("B!"))],
            [
                ADDED,
                said_text("A"),
                said_text("B", content_index=1),
                said_text("!"),
                said_text("!", content_index=1),
                DONE,
            ],
            id="9.3-two-parts",
        ),
        pytest.param(
            [delta("Hi", content_index=3), item_done(part("Hi"))],
            [ADDED, said_text("Hi", content_index=3), DONE],
            id="a-part-that-streamed-under-another-index",
        ),
        pytest.param(
            [{"type": "response.output_text.delta", **AT, "delta": "Hi"}],
            [ADDED, said_text("Hi")],
            id="D30-a-missing-content-index-is-0",
        ),
        pytest.param(
            [delta("Hi"), delta("x", content_index=None), delta(None), delta(7), text_done([]), delta("!")],
            [ADDED, said_text("Hi"), said_text("!")],
            id="D30-null-and-wrong-types-cost-the-event",
        ),
        pytest.param(
            [delta("Hi"), item_done(None, 5, {"type": "output_text"}, {"type": "output_text", "text": None})],
            [ADDED, said_text("Hi"), DONE],
            id="D30-parts-without-text",
        ),
        pytest.param(
            [
                item_done(
                    {"type": "odd", "text": "x"}, {"type": "odd", "refusal": "x"}, {"type": "refusal", "refusal": 5}
                )
            ],
            [WHOLE, DONE],
            id="D30-parts-of-unknown-types",
        ),
        pytest.param([item_done(content=7)], [WHOLE, DONE], id="D30-content-that-is-no-list"),
        pytest.param(
            [delta("Hi", logprobs=[{"token": "Hi"}], obfuscation="xyz", future={"a": 1})],
            [ADDED, said_text("Hi")],
            id="D30-unknown-members-are-not-forwarded",
        ),
        pytest.param(
            [refusal("No"), refusal("!"), refusal_done("No!"), item_done({"type": "refusal", "refusal": "No!"})],
            [ADDED, said_refusal("No"), said_refusal("!"), said_refusal_done("No!"), DONE],
            id="9.6-refusal",
        ),
        pytest.param(
            [refusal("No"), refusal_done("No!")],
            [ADDED, said_refusal("No"), said_refusal("!"), said_refusal_done("No!")],
            id="D30-a-longer-refusal",
        ),
        pytest.param(
            [item_done({"type": "refusal", "refusal": "No"})],
            [WHOLE, said_refusal("No"), said_refusal_done("No"), DONE],
            id="D30-a-refusal-only-in-the-item",
        ),
        pytest.param(
            [refusal_done("No"), refusal_done("No"), refusal("!")],
            [ADDED, said_refusal("No"), said_refusal_done("No")],
            id="9.6-a-refusal-is-done-once",
        ),
        pytest.param([refusal(""), refusal("")], [], id="an-empty-refusal-opens-nothing"),
        pytest.param(
            [delta("Hi"), refusal_done(""), item_done(part("Hi"), {"type": "refusal", "refusal": ""})],
            [ADDED, said_text("Hi"), DONE],
            id="an-empty-refusal-is-none",
        ),
    ],
)
def test_texts(play: Play, events: list[Event], expected: list[Event]) -> None:
    assert play(*events) == expected


def cited(annotation: object, content_index: int = 0) -> Event:
    return {
        "type": "response.output_text.annotation.added",
        **AT,
        "content_index": content_index,
        "annotation_index": 0,
        "annotation": annotation,
    }


def redacted(*paths: str) -> list[tuple[str, str]]:
    return [("redacted", path) for path in paths]


@pytest.mark.parametrize(
    ("annotation", "expected", "notices"),
    [
        pytest.param(
            {"type": "url_citation", "start_index": 1, "end_index": 4, "title": "Tides", "url": "https://a.example/t"},
            {"type": "url_citation", "start_index": 1, "end_index": 4, "title": "Tides", "url": "https://a.example/t"},
            [],
            id="9.4-url",
        ),
        pytest.param(
            {"type": "file_citation", "index": 9, "file_id": "file_1", "filename": "tides.pdf"},
            {"type": "file_citation", "index": 9, "file_id": "file_1", "filename": "tides.pdf"},
            [],
            id="9.4-file",
        ),
        pytest.param(
            {
                "type": "container_file_citation",
                "container_id": "cntr_1",
                "file_id": "cfile_1",
                "filename": "plot.png",
                "start_index": 0,
                "end_index": 8,
            },
            {
                "type": "container_file_citation",
                "start_index": 0,
                "end_index": 8,
                "container_id": "cntr_1",
                "file_id": "cfile_1",
                "filename": "plot.png",
            },
            [],
            id="9.4-container-file",
        ),
        pytest.param(
            {"type": "url_citation", "title": None, "start_index": "1", "end_index": -1, "cited_text": "x", "id": 7},
            {"type": "url_citation"},
            [],
            id="D30-allow-list-and-said-with-what-it-has",
        ),
        pytest.param(
            {"type": "file_citation", "file_id": ""}, {"type": "file_citation"}, [], id="D30-a-file-without-id"
        ),
        pytest.param(
            {"type": "url_citation", "title": "Tides", "url": "javascript:alert(1)"},
            {"type": "url_citation", "title": "Tides", "url": "<redacted>"},
            redacted("citation.url"),
            id="D28-only-http-and-https",
        ),
        pytest.param(
            {"type": "url_citation", "url": "data:text/html,<b>"},
            {"type": "url_citation", "url": "<redacted>"},
            redacted("citation.url"),
            id="D28-data",
        ),
        pytest.param(
            {"type": "url_citation", "title": TITLE + "T", "url": URL + "u"},
            {"type": "url_citation", "title": TITLE, "url": URL},
            [("truncated", "citation.title"), ("truncated", "citation.url")],
            id="D27-titles-and-urls",
        ),
        pytest.param(
            {"type": "file_citation", "file_id": "file_1", "filename": "é" * 257},
            {"type": "file_citation", "file_id": "file_1", "filename": "é" * 256},
            [("truncated", "citation.filename")],
            id="D27-file-names",
        ),
        pytest.param(
            {"type": "url_citation", "title": TITLE, "url": URL},
            {"type": "url_citation", "title": TITLE, "url": URL},
            [],
            id="D27-of-exactly-the-limit",
        ),
    ],
)
def test_citations(play: Play, annotation: Event, expected: Event, notices: list[tuple[str, str]]) -> None:
    added, said = play(cited(annotation))
    assert added == ADDED
    assert [(notice["type"], notice["path"]) for notice in said.pop("notices", [])] == notices
    assert said == {"kind": "message.citation", **PART, "citation": expected}


@pytest.mark.parametrize(
    ("events", "counted"),
    [
        pytest.param(
            [cited({"type": "video_citation", "file_id": "f"})], {"annotation:video_citation": 1}, id="D30-unknown-type"
        ),
        pytest.param(
            [cited({"type": "x" * 5_000})],
            {f"annotation:{'x' * 80}": 1},
            id="D30-the-count-of-a-long-type-has-80-characters",
        ),
        pytest.param([cited({"url": "https://a.example"})], {"annotation:(no type)": 1}, id="D30-no-type"),
        pytest.param([cited({"type": ["url_citation"]})], {"annotation:(no type)": 1}, id="D30-a-type-that-is-no-text"),
        pytest.param([cited(None)], {"response.output_text.annotation.added": 1}, id="D30-no-object"),
    ],
)
def test_what_is_no_citation_is_counted(open_stream: Callable[..., Any], events: list[Event], counted: Event) -> None:
    stream = open_stream()
    assert all(it["kind"] == "output_item.added" for it in stream.feed(*events))
    assert stream.dropped == counted


PAGE: Final[Event] = {"type": "url_citation", "start_index": 0, "end_index": 2, "url": "https://a.example/t"}


@pytest.mark.parametrize(
    ("events", "places"),
    [
        pytest.param([cited(PAGE), item_done(part("Hi", PAGE))], [0], id="D30-once"),
        pytest.param([item_done(part("Hi", PAGE))], [0], id="D30-only-in-the-finished-part"),
        pytest.param([cited(PAGE), cited({**PAGE, "start_index": 1})], [0, 0], id="another-place-is-another-citation"),
        pytest.param([cited(PAGE), cited(PAGE, 1)], [0, 1], id="another-part-too"),
        pytest.param([cited(PAGE), cited({**PAGE, "new": 1})], [0], id="D30-a-new-member-changes-nothing"),
    ],
)
def test_a_citation_is_said_once(play: Play, events: list[Event], places: list[int]) -> None:
    assert [it["content_index"] for it in play(*events) if it["kind"] == "message.citation"] == places


def test_d27_long_text_is_split_over_several_deltas(play: Play) -> None:
    text = "é" * 70_000
    said = [it["delta"] for it in play(delta(text)) if it["kind"] == "message.delta"]
    assert [len(piece) for piece in said] == [32_768, 32_768, 4_464]
    assert "".join(said) == text


def test_d31_a_surrogate_pair_split_over_two_deltas(play: Play) -> None:
    said = [it["delta"] for it in play(delta("a\ud83d"), delta("\ude00b\ud83d"), item_done()) if "delta" in it]
    assert "".join(said) == "a😀b\ufffd"
    assert not any("\ud800" <= character <= "\udfff" for piece in said for character in piece)


def test_registered_values_are_withheld_across_deltas(play: Play) -> None:
    policy = {"registered": [{"id": "pier", "value": "quay-7781"}]}
    events = [delta("meet at qu"), delta("ay-77"), delta("81, or q"), item_done()]
    said = [it for it in play(*events, policy=policy) if it["kind"] == "message.delta"]
    assert "".join(it["delta"] for it in said) == "meet at [REDACTED:pier], or q"
    notices = [notice for it in said for notice in it.get("notices", [])]
    assert {(notice["type"], notice["path"]) for notice in notices} == {("redacted", "delta")}


@pytest.mark.parametrize(
    ("positions", "said"),
    [
        pytest.param((0, 4), (0, 4), id="before-the-value"),
        pytest.param((8, 17), (8, 23), id="the-value"),
        pytest.param((10, 12), (8, 23), id="inside-the-value"),
        pytest.param((0, 26), (0, 32), id="around-the-value"),
        pytest.param((19, 26), (25, 32), id="after-the-value"),
        pytest.param((27, 36), (33, 48), id="the-second-value"),
        pytest.param((40, 44), (52, 56), id="behind-the-text"),
    ],
)
def test_citations_stand_where_the_page_has_their_text(
    play: Play, positions: tuple[int, int], said: tuple[int, int]
) -> None:
    policy = {"registered": [{"id": "pier", "value": "quay-7781"}]}
    text = "meet at quay-7781, or then quay-7781"
    citation = {"type": "url_citation", "start_index": positions[0], "end_index": positions[1]}
    frames = play(delta(text[:13]), delta(text[13:]), cited(citation), item_done(part(text, citation)), policy=policy)
    places = [frame["citation"] for frame in frames if frame["kind"] == "message.citation"]
    assert places == [{"type": "url_citation", "start_index": said[0], "end_index": said[1]}]


UNKNOWN: Final[Event] = {"type": "response.unknown"}
REGISTERED: Final[Event] = {"registered": [{"id": "pier", "value": "quay-7781"}]}


@pytest.mark.parametrize(
    ("deltas", "policy"),
    [
        pytest.param([numbered("a", 1), numbered("b", 2), numbered("c", 3)], {}, id="one-text"),
        pytest.param(
            [numbered(text, at, content_index=at % 2) for at, text in enumerate("abcdef")], {}, id="two-parts-in-turn"
        ),
        pytest.param(
            [
                numbered(text, at, output_index=at // 2 % 2, item_id=f"msg_{at // 2 % 2}")
                for at, text in enumerate("abcdef")
            ],
            {},
            id="two-items-in-turn",
        ),
        pytest.param([numbered(text, 1, content_index=1_000) for text in "abc"], {}, id="a-large-index"),
        pytest.param(
            [numbered("a", 1, content_index=1), numbered("b", 2, content_index=True), numbered("c", 3)],
            {},
            id="true-is-no-index",
        ),
        pytest.param([delta("a"), numbered("b", 2), delta("c"), numbered("d", 3)], {}, id="a-number-now-and-then"),
        pytest.param([numbered("a", 1), numbered("b", -1), numbered("c", 2**53)], {}, id="numbers-out-of-range"),
        pytest.param([numbered("a", 1), numbered("", 2), numbered("b" * 20_000, 3)], {}, id="empty-and-long"),
        pytest.param([numbered("a", 1), numbered(None, 2), numbered("b", 3)], {}, id="no-text"),
        pytest.param(
            [delta("a"), *(numbered(text, 1, output_index=1, item_id="msg_1") for text in ("quay-77", "0", "1"))],
            REGISTERED,
            id="an-announcement-without-a-text",
        ),
        pytest.param(
            [numbered(text, at) for at, text in enumerate(["to ", "quay-", "7781", " or", " quay"])],
            REGISTERED,
            id="a-notice",
        ),
    ],
)
def test_a_delta_behind_another_one_is_handled_as_by_itself(
    open_stream: Callable[..., Any], deltas: list[Event], policy: Event
) -> None:
    together, apart = open_stream(policy=policy), open_stream(policy=policy)
    together.feed(*deltas)
    for event in deltas:
        apart.feed(UNKNOWN, event)
    assert together.sealed == apart.sealed
    assert together.lines == apart.lines


@pytest.mark.parametrize(
    ("between", "behind"),
    [
        pytest.param({"type": "projector.context", "agent": "Mina"}, {"agent": "Mina"}, id="another-agent"),
        pytest.param(text_done("a"), None, id="the-text-is-done"),
        pytest.param(item_done(part("a")), None, id="the-item-is-done"),
    ],
)
def test_what_comes_between_two_deltas_counts(
    open_stream: Callable[..., Any], between: Event, behind: Event | None
) -> None:
    stream = open_stream()
    stream.feed(numbered("a", 1), between, numbered("b", 2))
    said = [frame for frame in stream.sealed if frame["kind"] == "message.delta"]
    assert [frame["delta"] for frame in said] == (["a"] if behind is None else ["a", "b"])
    assert behind is None or behind.items() <= said[-1].items()
