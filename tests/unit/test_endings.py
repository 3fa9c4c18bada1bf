"""Every way in which a stream ends (CONTRACT D11 to D14): one terminal, at the end, after all closing events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pytest

from projector.core.faults import FAULTS
from projector.core.handlers import endings, items
from projector.redaction.redactor import Redactor

Event: TypeAlias = dict[str, Any]
Ending: TypeAlias = Callable[[Any], list[Event]]


def on(name: str, **response: object) -> Event:
    return {"type": f"response.{name}", "response": response}


def delta(text: str, index: int = 0, **members: object) -> Event:
    return {
        "type": "response.output_text.delta",
        "output_index": index,
        "item_id": f"m{index}",
        "delta": text,
        **members,
    }


def refusal(text: str, index: int = 0, **members: object) -> Event:
    return {"type": "response.refusal.delta", "output_index": index, "item_id": f"m{index}", "delta": text, **members}


def summary(text: str, index: int, summary_index: int) -> Event:
    place = {"output_index": index, "item_id": f"m{index}", "summary_index": summary_index}
    return {"type": "response.reasoning_summary_text.delta", **place, "delta": text}


def call(index: int) -> Event:
    item = {"type": "function_call", "id": f"m{index}", "call_id": f"c{index}", "name": "f"}
    return {"type": "response.output_item.added", "output_index": index, "item": item}


OPEN: Final = [on("created", id="resp_1", status="in_progress"), delta("Hi"), summary("Hm", 1, 0), call(2)]
"""A response with a message, a reasoning item and a call, all open."""
REFUSED: Final = [on("created", status="in_progress"), refusal("No")]


def fed(*events: Event) -> Ending:
    return lambda stream: stream.feed(*events)


def failed(code: str) -> Ending:
    return lambda stream: stream.fail(code)


def closed(stream: Any) -> list[Event]:
    return list(stream.close())


def cancelled(stream: Any) -> list[Event]:
    return list(stream.cancel())


@pytest.mark.parametrize(
    ("before", "ending", "expected"),
    [
        pytest.param(OPEN, fed(on("completed", status="completed")), "final completed", id="D12-completed"),
        pytest.param(OPEN, fed(on("incomplete", status="incomplete")), "final incomplete", id="D12-incomplete"),
        pytest.param(OPEN, fed(on("failed", status="failed")), "final failed", id="D12-failed"),
        *(
            pytest.param(before, fed(event), "final cancelled", id=f"D45-cancelled-{name}{how}")
            for name, event in {
                "completed": on("completed", status="cancelled"),
                "incomplete": on("incomplete", status="cancelled"),
                "failed": on("failed", status="cancelled"),
                "in-progress": on("in_progress", status="cancelled"),
                "created": on("created", status="cancelled"),
                "cancelled": on("cancelled", status="cancelled"),
                "cancelled-without-a-status": {"type": "response.cancelled"},
                "unknown": on("canceled", status="cancelled"),
                "content-part": {"type": "response.content_part.done", "response": {"status": "cancelled"}},
            }.items()
            for before, how in ((OPEN, ""), ([], "-before-any-event"))
        ),
        pytest.param(REFUSED, fed(on("completed", status="completed")), "final refused", id="D12-refused"),
        pytest.param(
            [*REFUSED, delta("Hi", 1)], fed(on("completed")), "final completed", id="D12-a-refusal-beside-text"
        ),
        pytest.param(
            [*REFUSED, delta("\n\n", 1)], fed(on("completed")), "final refused", id="D12-a-refusal-beside-blanks"
        ),
        pytest.param(REFUSED, fed(on("incomplete")), "final incomplete", id="D12-an-incomplete-refusal"),
        pytest.param(OPEN, fed({"type": "error", "code": "bad"}), "error bad provider False", id="D12-provider-error"),
        pytest.param([], fed({"type": "error", "code": "bad"}), "error bad provider False", id="D12-error-alone"),
        pytest.param(OPEN, closed, "error upstream_truncated provider True", id="D12-truncated"),
        pytest.param(
            [{"type": "keepalive"}], closed, "error upstream_truncated provider True", id="D12-keepalive-only"
        ),
        pytest.param([], closed, "error upstream_empty provider True", id="D12-empty"),
        pytest.param(
            [{"type": "projector.odd"}, {"type": "projector.context", "agent": "a"}],
            closed,
            "error upstream_empty provider True",
            id="D12-the-host-alone-is-no-stream",
        ),
        *(
            pytest.param(
                before, failed(code), f"error {code} {fault.source} {fault.is_retryable}", id=f"D12-{code}{how}"
            )
            for code, fault in FAULTS.items()
            for before, how in ((OPEN, ""), ([], "-before-any-event"))
        ),
        pytest.param(OPEN, cancelled, "final cancelled", id="D12-cancelled-by-the-host"),
        pytest.param([], cancelled, "final cancelled", id="D12-cancelled-before-any-event"),
    ],
)
@pytest.mark.parametrize("run", [False, True])
def test_ways_of_ending(
    open_stream: Callable[..., Any], before: list[Event], ending: Ending, expected: str, *, run: bool
) -> None:
    stream = open_stream(run=run)
    said = stream.feed(*before) + ending(stream)
    if run and not stream.ended:
        said += stream.close()
    terminal = said[-1]
    if terminal["kind"] == "error":
        error = terminal["error"]
        assert f"error {error['code']} {error['source']} {error['is_retryable']}" == expected
    else:
        assert f"final {terminal['final']['status']}" == expected
    kinds = [it["kind"] for it in said]
    assert [kind for kind in kinds if kind in {"error", "final"}] == [terminal["kind"]]
    assert kinds.count("output_item.added") == kinds.count("output_item.done")
    assert stream.ended
    assert (
        stream.feed(*OPEN, on("completed")) == stream.cancel() == stream.close() == stream.fail("internal_error") == []
    )
    assert stream.feed({"type": "projector.context", "agent": "x"}, {"type": "odd"}) == stream.next_response() == []


def test_d45_a_response_that_begins_cancelled_ends_the_run_cancelled(open_stream: Callable[..., Any]) -> None:
    stream = open_stream(run=True)
    stream.feed(on("created", id="resp_1"), delta("Hi"), on("completed", id="resp_1"))
    said = stream.feed(on("in_progress", id="resp_2", status="cancelled")) + stream.close()
    assert [it.get("status") or it["final"]["status"] for it in said if it["kind"] != "response.meta"] == [
        "cancelled"
    ] * 2


def test_d11_closers_then_lifecycle_then_the_terminal(open_stream: Callable[..., Any]) -> None:
    stream = open_stream()
    stream.feed(*OPEN)
    said = stream.feed(on("incomplete", status="incomplete"))
    assert [it["kind"] for it in said] == [*["output_item.done"] * 3, "lifecycle", "final"]
    assert [it["status"] for it in said[:3]] == ["incomplete"] * 3


COMPLETED, INCOMPLETE, FAILED, CANCELLED = (
    [on("completed")],
    [on("incomplete")],
    [on("failed")],
    [on("completed", status="cancelled")],
)
REFUSING: Final = [refusal("No"), on("completed")]


@pytest.mark.parametrize(
    ("run", "status"),
    [
        pytest.param([COMPLETED, COMPLETED], "completed", id="D12-completed"),
        pytest.param([INCOMPLETE, COMPLETED], "incomplete", id="D12-incomplete-over-completed"),
        pytest.param([COMPLETED, REFUSING], "refused", id="D12-the-last-one-refused"),
        pytest.param([REFUSING, COMPLETED], "completed", id="D12-refused-counts-in-the-last-only"),
        pytest.param([INCOMPLETE, REFUSING], "refused", id="D12-refused-over-incomplete"),
        pytest.param([FAILED, REFUSING], "failed", id="D12-failed-over-refused"),
        pytest.param([CANCELLED, FAILED], "cancelled", id="D12-cancelled-over-failed"),
    ],
)
def test_the_status_of_a_run(open_stream: Callable[..., Any], run: list[list[Event]], status: str) -> None:
    assert ended_run(open_stream(run=True), run)["status"] == status


def ended_run(stream: Any, run: list[list[Event]]) -> Event:
    """Project the responses of a run and return `final`."""
    for number, response in enumerate(run):
        assert number == 0 or stream.next_response() == []
        stream.feed(on("created", status="in_progress"), *response)
        assert not stream.ended
    return dict(stream.close()[-1]["final"])


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        pytest.param(
            [[delta("One"), on("completed")], [delta("Two"), on("completed")]],
            {"response_text": "Two"},
            id="D13-the-last-response-that-has-text",
        ),
        pytest.param(
            [[delta("One"), on("completed")], [call(0), on("completed")]],
            {"response_text": "One"},
            id="D13-a-response-without-text-takes-nothing-away",
        ),
        pytest.param(
            [[delta("A"), delta("B", content_index=1), delta("C", 1), on("completed")]],
            {"response_text": "AB\n\nC"},
            id="D13-parts-join-with-nothing-items-with-a-blank-line",
        ),
        pytest.param(
            [[refusal("No"), refusal("Never", content_index=1), on("completed")]],
            {"refusal_text": "No\n\nNever"},
            id="D13-refusals",
        ),
        pytest.param(
            [[summary("Hm", 0, 0), summary("Aha", 0, 1), delta("So", 1), on("completed")]],
            {"response_text": "So", "reasoning_summary_text": "Hm\n\nAha"},
            id="D13-summaries",
        ),
        pytest.param([[delta(""), refusal(""), on("completed")]], {}, id="D3-no-empty-texts"),
    ],
)
def test_the_texts_of_final(open_stream: Callable[..., Any], run: list[list[Event]], expected: dict[str, str]) -> None:
    assert ended_run(open_stream(run=True), run) == {
        "status": "refused" if "refusal_text" in expected else "completed",
        **expected,
    }


def test_d12_cancelled_has_the_text_so_far(open_stream: Callable[..., Any]) -> None:
    stream = open_stream()
    stream.feed(*OPEN)
    final = {"status": "cancelled", "response_text": "Hi", "reasoning_summary_text": "Hm"}
    assert stream.cancel()[-1] == {"kind": "final", "final": final}


def test_d13_structured_output_is_of_the_response_with_the_text(open_stream: Callable[..., Any]) -> None:
    structured = [on("created", text={"format": {"type": "json_object"}}), delta("{}"), on("completed")]
    assert ended_run(open_stream(run=True), [structured, COMPLETED])["structured_output"] == {}
    assert "structured_output" not in ended_run(open_stream(run=True), [structured, [delta("1"), on("completed")]])


def test_a_run_whose_last_upstream_says_nothing_is_empty(open_stream: Callable[..., Any]) -> None:
    stream = open_stream(run=True)
    stream.feed(*COMPLETED)
    stream.next_response()
    assert stream.close()[-1]["error"]["code"] == "upstream_empty"


def test_what_comes_behind_the_end_of_a_response_is_counted(open_stream: Callable[..., Any]) -> None:
    stream = open_stream(run=True)
    stream.feed(*COMPLETED)
    assert stream.feed(delta("late"), on("completed"), {"type": "keepalive"}) == []
    assert stream.dropped.total() == 3


def broken(*_: object, **__: object) -> None:
    raise ZeroDivisionError("a secret of ours")


@pytest.mark.parametrize(
    ("owner", "member", "event", "code"),
    [
        pytest.param(Redactor, "message_stream", delta("x", 3), "redaction_failed", id="D12-redactor-message"),
        pytest.param(Redactor, "identifier", delta("x", 3), "redaction_failed", id="D12-redactor-identifier"),
        pytest.param(Redactor, "name", call(3), "redaction_failed", id="D12-redactor-name"),
        pytest.param(endings, "usage", on("completed"), "internal_error", id="D12-a-handler"),
        pytest.param(endings, "_run_status", on("completed"), "internal_error", id="D12-the-terminal-itself"),
        pytest.param(items, "close", on("completed"), "internal_error", id="D12-a-closer"),
    ],
)
def test_a_failure_of_ours_ends_the_stream_closed(
    open_stream: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    owner: object,
    member: str,
    event: Event,
    code: str,
) -> None:
    stream = open_stream()
    before = stream.feed(*OPEN)
    if isinstance(owner, type):
        monkeypatch.setattr(owner, member, redactor_that_fails(member))
    else:
        monkeypatch.setattr(owner, member, broken)
    said = stream.feed(event)
    monkeypatch.undo()
    kinds = [it["kind"] for it in before + said]
    assert kinds.count("output_item.added") == kinds.count("output_item.done")
    assert [it["kind"] for it in said if it["kind"] in {"error", "final"}] == ["error"]
    assert said[-1]["error"] == FAULTS[code]._asdict() | {"code": code}
    assert stream.feed(delta("more")) == stream.close() == []


def redactor_that_fails(member: str) -> Callable[..., object]:
    """Return a method that raises inside the redaction package, as a defect in it would."""
    scope = {"__name__": "projector.redaction.broken"}
    exec(f"def {member}(*_, **__): raise ZeroDivisionError", scope)  # noqa: S102 - a frame of the right module
    return scope[member]  # type: ignore[return-value]  # the function just made
