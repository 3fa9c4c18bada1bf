"""Run streams through the pipeline, and check the properties that every output must have."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import cache
from itertools import pairwise, product
from typing import Any, Final

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from projector.contracts.kinds import TERMINAL_KINDS
from projector.contracts.stream_rules import check_stream
from projector.core.canonical import Frame
from projector.core.context import StreamContext
from projector.core.faults import FAULTS
from projector.core.input_formats import InputFormat
from projector.core.pipeline import Pipeline, build_pipeline
from projector.dialects.descriptor import DialectOptions
from projector.recording.replay import CaseSettings
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor

EFFORT: Final = int(os.environ.get("PROJECTOR_TESTS_EFFORT", "1"))
"""Factor on the number of examples; `make fuzz` sets a large one and uses different examples in each run."""

OURS: Final = frozenset({"internal_error", "redaction_failed"})
"""Internal faults, which no input may cause (CONTRACT D31)."""


def examples(most: int) -> settings:
    """Return settings for a number of examples: the same in every run, without a time limit."""
    return settings(
        max_examples=most * EFFORT,
        derandomize=EFFORT == 1,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def shows_only(text: str, original: str) -> bool:
    """Return whether a text has nothing but marks and, in their order, characters of another one."""
    rest = iter(original)
    return all(char in rest for char in re.sub('"<redacted>"|<redacted>', "", text))


def sampled(*columns: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return rows that pair each value of the longest column with one of each other column, in turn.

    `make fuzz` gets the whole product.
    """
    if EFFORT > 1:
        return list(product(*columns))
    length = max(map(len, columns))
    return [tuple(column[at % len(column)] for column in columns) for at in range(length)]


def pipeline_of(
    dialect: str,
    provider: str,
    case: CaseSettings,
    options: DialectOptions | None = None,
    *,
    input_format: InputFormat = "ndjson",
    on_frame: Callable[[Frame], None] | None = None,
    **policy: object,
) -> Pipeline:
    """Return the pipeline of a case; further arguments are members of its policy."""
    now = datetime.fromisoformat(case.clock).timestamp()
    return build_pipeline(
        provider=provider,
        dialect=dialect,
        context=StreamContext(stream_id=case.stream_id, **case.context.model_dump()),
        run=case.run,
        profile=case.profile,
        input_format=input_format,
        output_format="ndjson",
        takes_host_events=case.host_events,
        clock=lambda: now,
        options=options,
        redactor=_redactor(json.dumps({**case.policy, **policy})),
        on_frame=on_frame,
    )


def play(
    reads: Iterable[bytes],
    provider: str = "openai_responses",
    case: CaseSettings | None = None,
    input_format: InputFormat = "ndjson",
) -> bytes:
    """Return all output of a stream; check that nothing follows its end."""
    case = case or CaseSettings()
    pipeline = pipeline_of("public_sse_v1", provider, case, input_format=input_format)
    said = b"".join(map(pipeline.feed, reads))
    said += pipeline.close(FAULTS[case.close] if case.close else None)
    assert pipeline.ended
    assert pipeline.feed(b'{"type":"response.created"}\n') + pipeline.next_response() == b""
    assert pipeline.close() + pipeline.cancel() + pipeline.host({"type": "projector.context", "agent": "late"}) == b""
    return said


def cut(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    """Return the data in pieces; each cut is a position modulo the length."""
    edges = sorted(at % (len(data) + 1) for at in cuts)
    return [data[start:end] for start, end in pairwise([0, *edges, len(data)])]


def frames_of(said: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said.splitlines()]


def assert_sound(said: bytes) -> None:
    """Check for one terminal at the end, ids without gaps, closed items, and every rule of the contract."""
    frames = frames_of(said)
    kinds = [frame["kind"] for frame in frames]
    assert [kind in TERMINAL_KINDS for kind in kinds] == [False] * (len(kinds) - 1) + [True]
    assert [frame["event_id"] for frame in frames] == list(range(1, len(frames) + 1))
    opened = [frame["item_id"] for frame in frames if frame["kind"] == "output_item.added"]
    closed = [frame["item_id"] for frame in frames if frame["kind"] == "output_item.done"]
    assert sorted(opened) == sorted(closed)
    assert check_stream(said.splitlines()) == []
    assert frames[-1].get("error", {}).get("code") not in OURS


@cache
def _redactor(policy: str) -> Redactor:
    """Return the redactor of a policy, compiled once."""
    return Redactor(Policy.load(json.loads(policy)))


CALLS: Final = st.one_of(
    st.tuples(st.sampled_from(["cancel", "next_response", "close"])),
    st.tuples(st.just("close"), st.sampled_from([fault for fault in FAULTS.values() if fault.code not in OURS])),
)
"""Calls that a host may make during a stream: a method of the pipeline and its arguments."""


def interrupted(pipeline: Pipeline, lines: Iterable[bytes], calls: Iterable[tuple[int, tuple[Any, ...]]]) -> bytes:
    """Return the output for the lines and host calls; each call is made before the line with its number."""
    said = b""
    for at, line in enumerate(lines):
        said += b"".join(getattr(pipeline, name)(*given) for when, (name, *given) in calls if when == at)
        said += pipeline.feed(line + b"\n")
    return said + pipeline.close()
