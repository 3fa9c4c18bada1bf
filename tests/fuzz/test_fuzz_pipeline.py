"""Random bytes as input of the pipeline: the output is valid and does not depend on how the bytes are cut.

The fuzz target is `check`. `make test` tries a few hundred fixed inputs, `make fuzz` many thousands of random ones.
"""

from __future__ import annotations

import json
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projector.core.input_formats import InputFormat
from projector.core.sse import encode_sse
from projector.providers import PROVIDERS
from projector.recording.replay import CaseSettings
from tests.fuzz.found_cases import FOUND, FoundCase
from tests.property import dialect_streams
from tests.property.dialect_streams import CHECKS
from tests.property.mutations import ALL_LINES, GARBAGE, NOISE
from tests.property.soundness import assert_sound, cut, examples, frames_of, pipeline_of, play

FORMATS: Final[tuple[InputFormat, ...]] = ("sse", "ndjson", "auto")

FRAMING: Final = (
    *(b"\n", b"\r", b"\r\n", b"\n\n", b"\r\r", b" ", b"\0", b"\xef\xbb\xbf", b"\xff", b"\xe2\x80\xa8"),
    *(b"data:", b"data: ", b"data", b"event: error\n", b"event:", b": keep-alive\n\n", b"id: 7\n", b"retry: 1\n"),
    *(b"error: {}", b"data: [DONE]\n\n", b"[DONE]", b"{", b"}", b'"', b"\\", b",", b'{"type":"', b'","', b"null"),
)
EVENTS: Final = st.sampled_from([*ALL_LINES, *NOISE, *GARBAGE])
PIECES: Final = st.one_of(
    EVENTS.map(encode_sse),
    EVENTS.map(lambda line: line + b"\n"),
    st.tuples(EVENTS, st.slices(400)).map(lambda cut_out: cut_out[0][cut_out[1]]),
    st.sampled_from(FRAMING),
    st.binary(max_size=12),
)
STREAMS: Final = st.one_of(st.binary(max_size=200), st.lists(PIECES, max_size=24).map(b"".join))


def check(data: bytes, provider: str, case: CaseSettings, input_format: InputFormat, cuts: list[int]) -> bytes:
    """Project bytes, whole and in pieces, check the output and return it."""
    whole = play([data], provider, case, input_format)
    assert play(cut(data, cuts), provider, case, input_format) == whole
    assert_sound(whole)
    return whole


@pytest.mark.parametrize("provider", PROVIDERS)
@examples(250)
@given(
    data=STREAMS,
    run=st.booleans(),
    host_events=st.booleans(),
    input_format=st.sampled_from(FORMATS),
    cuts=st.lists(st.integers(0, 1 << 20), max_size=6),
)
def test_any_bytes(
    *, provider: str, data: bytes, run: bool, host_events: bool, input_format: InputFormat, cuts: list[int]
) -> None:
    check(data, provider, CaseSettings(run=run, host_events=host_events), input_format, cuts)


@pytest.mark.parametrize("dialect", CHECKS)
@pytest.mark.parametrize("provider", PROVIDERS)
@examples(40)
@given(data=STREAMS, run=st.booleans(), cuts=st.lists(st.integers(0, 1 << 20), max_size=6))
def test_any_bytes_in_a_dialect(*, provider: str, dialect: str, data: bytes, run: bool, cuts: list[int]) -> None:
    case, input_format = CaseSettings(run=run), FORMATS[len(data) % len(FORMATS)]

    def played(reads: list[bytes]) -> bytes:
        pipeline = pipeline_of(dialect, provider, case, input_format=input_format)
        return b"".join(map(pipeline.feed, reads)) + pipeline.close()

    whole = played([data])
    assert played(cut(data, cuts)) == whole
    dialect_streams.assert_sound(dialect, whole)


@pytest.mark.parametrize("found", FOUND, ids=lambda found: found.was)
def test_what_was_found_stays_mended(found: FoundCase) -> None:
    lines = [json.dumps(event).encode() + b"\n" for event in found.events]
    said = check(b"".join(lines), "openai_responses", found.settings, "ndjson", [*range(0, 400, 7)])
    if found.text is not None:
        assert frames_of(said)[-1]["final"]["response_text"] == found.text
