"""Streams of the dialects with a `response` object, for their properties: playing them, secrets, reasoning, cost."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import cache
from typing import Any, Final

from hypothesis import strategies as st

from projector.core.context import StreamContext
from projector.core.faults import FAULTS
from projector.core.pipeline import Pipeline, build_pipeline
from projector.core.sse import DONE
from projector.dialects.descriptor import DialectOptions
from projector.recording.replay import Case, CaseSettings
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from tests.property.cost import assert_linear
from tests.property.mutations import Lines
from tests.property.soundness import cut

LEVELS: Final = ("off", "summary", "full")


def pipeline_of(
    dialect: str, provider: str, case: CaseSettings, options: DialectOptions | None = None, **policy: object
) -> Pipeline:
    return build_pipeline(
        provider=provider,
        dialect=dialect,
        context=StreamContext(stream_id=case.stream_id),
        run=case.run,
        input_format="ndjson",
        output_format="ndjson",
        takes_host_events=case.host_events,
        clock=lambda: datetime.fromisoformat(case.clock).timestamp(),
        options=options,
        redactor=_redactor(json.dumps({**case.policy, **policy})),
    )


@cache
def _redactor(policy: str) -> Redactor:
    return Redactor(Policy.load(json.loads(policy)))


def play(dialect: str, reads: Iterable[bytes], case: Case, **policy: Any) -> bytes:
    """Return all output of a stream; check that nothing follows its end."""
    pipeline = pipeline_of(dialect, case.provider, case.settings, **policy)
    said = b"".join(map(pipeline.feed, reads))
    said += pipeline.close(FAULTS[case.settings.close] if case.settings.close else None)
    assert pipeline.ended
    assert pipeline.feed(b'{"type":"response.created"}\n') + pipeline.close() == b""
    return said


def play_lines(dialect: str, case: Case, lines: Lines, **policy: Any) -> bytes:
    return play(dialect, [b"\n".join(lines)], case, **policy)


cuts: Final = st.lists(st.integers(0, 1 << 20), max_size=8)
"""Places at which a stream may be cut."""

host_calls: Final = st.lists(
    st.tuples(st.integers(0, 30), st.sampled_from(["cancel", "next_response", "close"])),
)
"""Calls of the host, each before a line of the stream."""


def assert_the_same_for_every_cut(dialect: str, stream: tuple[Case, Lines], places: list[int]) -> None:
    """Check that the output does not depend on how the bytes of a stream are cut."""
    case, lines = stream
    data = b"\n".join(lines)
    assert play(dialect, cut(data, places), case) == play(dialect, [data], case)


def play_with_host(dialect: str, stream: tuple[Case, Lines], calls: list[tuple[int, str]]) -> bytes:
    """Return all output of a run whose host calls methods of the pipeline between the lines."""
    case, lines = stream
    pipeline = pipeline_of(dialect, case.provider, case.settings.model_copy(update={"run": True}))
    said = b""
    for at, line in enumerate(lines):
        said += b"".join(getattr(pipeline, name)() for when, name in calls if when == at)
        said += pipeline.feed(line + b"\n")
    return said + pipeline.close()


SECRET: Final = 'quay vault/6fe1 \u00fc\n"'
VAULT: Final = CaseSettings(
    host_events=True,
    policy={"registered": [{"id": "vault", "value": SECRET}], "error_messages": "provider"},
)


def told(dialect: str, check: Callable[[bytes], object], events: list[dict[str, Any]], **policy: object) -> bytes:
    """Return the output of a stream in the format of the search for canaries: each event with a kind and an item."""
    lines = [json.dumps(event).encode() + b"\n" for event in events]
    pipeline = pipeline_of(dialect, "openai_responses", VAULT, **policy)
    said = b"".join(map(pipeline.feed, lines)) + pipeline.close()
    check(said)
    wire = [json.loads(line) for line in said.splitlines() if line != DONE]
    return b"\n".join(json.dumps({"kind": it["type"], "item_id": "", **it}, ensure_ascii=False).encode() for it in wire)


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


def assert_linear_cost(dialect: str, events: Callable[[int], list[dict[str, Any]]]) -> None:
    def work(size: int) -> Callable[[], object]:
        data = b"".join(json.dumps(event).encode() + b"\n" for event in events(size))

        def run() -> None:
            pipeline = pipeline_of(dialect, "openai_responses", CaseSettings())
            pipeline.feed(data)
            pipeline.close()

        return run

    assert_linear(work, 150)
