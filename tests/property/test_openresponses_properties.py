"""Properties of Open Responses for any input: valid, accepted by a client, no secret, no hidden reasoning."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import cache
from typing import Any, Final

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai import APIError, OpenAI

from projector.contracts.stream_rules.table import check_lines
from projector.core.context import StreamContext
from projector.core.faults import FAULTS
from projector.core.pipeline import Pipeline, build_pipeline
from projector.core.sse import encode_sse
from projector.dialects.openresponses.checker import OpenResponsesChecker
from projector.recording.replay import Case, CaseSettings
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from tests.json_answers import assemble
from tests.property.canaries import DELTAS, cut_everywhere, errors_with, everywhere, leaks
from tests.property.cost import assert_linear
from tests.property.mutations import CASES, Lines, lines_of, spoiled
from tests.property.soundness import OURS, cut, examples

each_case: Final = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
LEVELS: Final = ("off", "summary", "full")


def pipeline_of(provider: str, case: CaseSettings, **policy: object) -> Pipeline:
    return build_pipeline(
        provider=provider,
        dialect="openresponses",
        context=StreamContext(stream_id=case.stream_id),
        run=case.run,
        input_format="ndjson",
        output_format="ndjson",
        takes_host_events=case.host_events,
        clock=lambda: datetime.fromisoformat(case.clock).timestamp(),
        redactor=_redactor(json.dumps({**case.policy, **policy})),
    )


@cache
def _redactor(policy: str) -> Redactor:
    return Redactor(Policy.load(json.loads(policy)))


def play(reads: Iterable[bytes], case: Case, **policy: object) -> bytes:
    """Return all output of a stream; check that nothing follows its end."""
    pipeline = pipeline_of(case.provider, case.settings, **policy)
    said = b"".join(map(pipeline.feed, reads))
    said += pipeline.close(FAULTS[case.settings.close] if case.settings.close else None)
    assert pipeline.ended
    assert pipeline.feed(b'{"type":"response.created"}\n') + pipeline.close() == b""
    return said


def play_lines(case: Case, lines: Lines, **policy: object) -> bytes:
    return play([b"\n".join(lines)], case, **policy)


def assert_sound(said: bytes) -> None:
    """Check every rule, the JSON answer, and that there is no internal fault."""
    lines = said.splitlines()
    assert check_lines(OpenResponsesChecker(), lines) == []
    answer = assemble(lines)
    assert (answer.status == 200) == (answer.body.get("object") == "response")
    assert (answer.body.get("error") or {}).get("code") not in OURS


def assert_accepted(said: bytes) -> None:
    """The SDK's accumulator reads the stream to its end; it raises the error of an `error` event and no other."""
    lines = said.splitlines()
    body = b"".join(encode_sse(line, json.loads(line)["type"]) for line in lines[:-1]) + encode_sse(lines[-1])
    answer = httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body)
    transport = httpx2.MockTransport(lambda _request: answer)
    with OpenAI(api_key="none", http_client=httpx2.Client(transport=transport), max_retries=0) as client:
        try:
            with (
                warnings.catch_warnings(action="ignore", category=UserWarning),  # of items that it does not know
                client.responses.stream(model="any", input="Hi") as stream,
            ):
                names = [event.type for event in stream]
        except APIError:
            assert any(line.startswith(b'{"type":"error",') for line in lines)
        else:
            assert names == [json.loads(line)["type"] for line in lines[:-1]]


# any input


@each_case
def test_a_stream_may_end_after_any_event(case: Case) -> None:
    lines = lines_of(case)
    for end in range(len(lines)):
        assert_sound(play_lines(case, lines[:end], reasoning="full"))


@each_case
def test_the_client_accepts_a_truncated_stream(case: Case) -> None:
    lines = lines_of(case)
    for end in {len(lines) // 3, len(lines) * 2 // 3}:
        assert_accepted(play_lines(case, lines[:end], reasoning="full"))


@examples(300)
@given(spoiled(), st.sampled_from(LEVELS))
def test_any_stream_is_sound(stream: tuple[Case, Lines], reasoning: str) -> None:
    case, lines = stream
    assert_sound(play_lines(case, lines, reasoning=reasoning))


@examples(120)
@given(spoiled())
def test_the_client_accepts_any_stream(stream: tuple[Case, Lines]) -> None:
    case, lines = stream
    assert_accepted(play_lines(case, lines, reasoning="full"))


@examples(60)
@given(spoiled(), st.lists(st.integers(0, 1 << 20), max_size=8))
def test_bytes_may_be_cut_anywhere(stream: tuple[Case, Lines], cuts: list[int]) -> None:
    case, lines = stream
    data = b"\n".join(lines)
    assert play(cut(data, cuts), case) == play([data], case)


@examples(100)
@given(spoiled(most=2), st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["cancel", "next_response", "close"]))))
def test_host_events_at_any_time_keep_the_stream_sound(
    stream: tuple[Case, Lines], calls: list[tuple[int, str]]
) -> None:
    case, lines = stream
    pipeline = pipeline_of(case.provider, case.settings.model_copy(update={"run": True}))
    said = b""
    for at, line in enumerate(lines):
        said += b"".join(getattr(pipeline, name)() for when, name in calls if when == at)
        said += pipeline.feed(line + b"\n")
    assert_sound(said + pipeline.close())


# secrets

SECRET: Final = 'quay vault/6fe1 \u00fc\n"'
VAULT: Final = CaseSettings(host_events=True, policy={"registered": [{"id": "vault", "value": SECRET}]})


def told(events: list[dict[str, Any]], **policy: object) -> bytes:
    """Return the output of a stream in the format of the search for canaries: each event with a kind and an item."""
    lines = [json.dumps(event).encode() + b"\n" for event in events]
    pipeline = pipeline_of("openai_responses", VAULT, **policy)
    said = b"".join(map(pipeline.feed, lines)) + pipeline.close()
    assert_sound(said)
    wire = [json.loads(line) for line in said.splitlines()[:-1]]
    return b"\n".join(json.dumps({"kind": it["type"], "item_id": "", **it}, ensure_ascii=False).encode() for it in wire)


@pytest.mark.parametrize("reasoning", LEVELS)
def test_no_registered_value_is_written_from_any_field(reasoning: str) -> None:
    assert leaks(told(everywhere(SECRET), reasoning=reasoning), SECRET) == set()
    assert all(leaks(told([error], reasoning=reasoning), SECRET) == set() for error in errors_with(SECRET))


@pytest.mark.parametrize("kind", [*DELTAS, "reasoning_text"])
def test_no_registered_value_is_written_at_any_cut(kind: str) -> None:
    events = cut_everywhere(f"is {SECRET} here", kind if kind in DELTAS else "output_text")
    if kind not in DELTAS:
        events = [{**event, "type": f"response.{kind}.delta"} for event in events]
    said = told([*events, {"type": "response.completed"}], reasoning="full")
    assert leaks(said, SECRET) == set()


def test_no_credential_of_a_tool_is_written() -> None:
    key = "AKIA" + "Q3EGSNDKLOPQRTU7"
    assert leaks(told(everywhere(key)), key[4:]) == set()


# data that the policy hides

THOUGHT: Final = "the heron waits until the tide has turned"
GIST: Final = "a bird is patient at the shore"


def reasoned() -> list[dict[str, Any]]:
    """Return full reasoning and its summary, each as deltas, as `done`, in a finished item and in the snapshot."""
    content, summary = [{"type": "reasoning_text", "text": THOUGHT}], [{"type": "summary_text", "text": GIST}]
    item = {"type": "reasoning", "content": content, "summary": summary}
    return [
        {"type": "response.reasoning_text.delta", "output_index": 0, "delta": THOUGHT},
        {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": GIST},
        {"type": "response.reasoning_text.done", "output_index": 1, "text": THOUGHT},
        {"type": "response.reasoning_summary_text.done", "output_index": 1, "text": GIST},
        {"type": "response.output_item.done", "output_index": 2, "item": item},
        {"type": "response.completed", "response": {"output": [item, item, item, item]}},
    ]


@pytest.mark.parametrize(
    ("level", "has_thought", "has_gist"), [("off", False, False), ("summary", False, True), ("full", True, True)]
)
def test_reasoning_is_written_as_the_policy_allows(*, level: str, has_thought: bool, has_gist: bool) -> None:
    said = told(reasoned(), reasoning=level)
    assert (bool(leaks(said, THOUGHT)), bool(leaks(said, GIST))) == (has_thought, has_gist)


# cost


def many_deltas(count: int) -> list[dict[str, Any]]:
    return [{"type": "response.output_text.delta", "delta": "word "}] * count


def many_items(count: int) -> list[dict[str, Any]]:
    return [{"type": "response.output_text.delta", "output_index": at, "delta": "word "} for at in range(count)]


def many_parts(count: int) -> list[dict[str, Any]]:
    return [{"type": "response.output_text.delta", "content_index": at, "delta": "word "} for at in range(count)]


def many_citations(count: int) -> list[dict[str, Any]]:
    name = "response.output_text.annotation.added"
    cited = ({"type": "url_citation", "url": f"https://example.org/{at}"} for at in range(count))
    return [{"type": name, "annotation": annotation} for annotation in cited]


@pytest.mark.parametrize("events", [many_deltas, many_items, many_parts, many_citations])
def test_cost_is_linear(events: Any) -> None:
    def work(size: int) -> Callable[[], object]:
        data = b"".join(json.dumps(event).encode() + b"\n" for event in events(size))

        def run() -> None:
            pipeline = pipeline_of("openai_responses", CaseSettings())
            pipeline.feed(data)
            pipeline.close()

        return run

    assert_linear(work, 150)
