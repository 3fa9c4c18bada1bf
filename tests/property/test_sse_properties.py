"""Properties of the SSE decoder for every input and cut: same messages, in linear time."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projector.core.faults import Fault
from projector.core.input_formats import AutoDecoder, NdjsonDecoder
from projector.core.sse import SseDecoder, SseMessage, encode_comment, encode_sse
from tests.property.cost import assert_linear
from tests.property.soundness import examples

Decoder = SseDecoder | NdjsonDecoder | AutoDecoder
MAKERS: dict[str, Callable[[int], Decoder]] = {
    "sse": lambda limit: SseDecoder(limit, message_fields=["error"]),
    "ndjson": NdjsonDecoder,
    "auto": lambda limit: AutoDecoder(SseDecoder(limit, message_fields=["error"])),
}
FIELDS = [b"data: ", b"data:", b"data", b"event: e", b"error: {}", b": c", b"id: 1"]
LINE_ENDS = [b"\n", b"\r", b"\r\n", b"\n\n"]
VALUES = [b" ", b"{}", b'{"a": "', b'"}', b"[DONE]", b"x", b"\xef\xbb\xbf", "λ🎈".encode(), b"\xff", b"\0"]
LINES = st.tuples(*map(st.sampled_from, (FIELDS, VALUES, LINE_ENDS))).map(b"".join)
PIECES = st.one_of(LINES, st.sampled_from([*FIELDS, *LINE_ENDS, *VALUES]))
STREAMS = st.lists(PIECES, max_size=20).map(b"".join)


def run(decoder: Decoder, reads: list[bytes]) -> list[SseMessage | Fault]:
    said = [message for read in reads for message in decoder.feed(read)]
    return said + decoder.close()


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS.keys())
@given(stream=STREAMS, limit=st.integers(4, 60), cuts=st.lists(st.integers(0, 300), max_size=20))
@examples(200)
def test_cuts_do_not_matter(maker: Callable[[int], Decoder], stream: bytes, limit: int, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    whole = run(maker(limit), [stream])
    assert run(maker(limit), [stream[start:end] for start, end in pairwise(edges)]) == whole
    assert run(maker(limit), [stream[at : at + 1] for at in range(len(stream))]) == whole


@given(stream=st.binary(max_size=200))
@examples(100)
def test_any_bytes_are_read(stream: bytes) -> None:
    for said in run(SseDecoder(), [stream])[:-1]:
        assert isinstance(said, SseMessage)


@given(st.lists(st.tuples(st.text().map(str.encode), st.sampled_from([None, "e", "λ"]), st.text()), max_size=5))
@examples(60)
def test_what_was_written_is_read(sent: list[tuple[bytes, str | None, str]]) -> None:
    stream = b"".join(encode_sse(data, event) + encode_comment(comment) for data, event, comment in sent)
    joined = [data.replace(b"\r\n", b"\n").replace(b"\r", b"\n") for data, _, _ in sent]
    expected = [SseMessage(data, event or "") for data, (_, event, _) in zip(joined, sent, strict=True)]
    assert SseDecoder().feed(stream) == expected


HOSTILE: dict[str, Callable[[int], tuple[Decoder, list[bytes]]]] = {
    "one event byte by byte": lambda size: (SseDecoder(), [b"data: ", *[b"x"] * size, b"\n\n"]),
    "one event in small reads": lambda size: (SseDecoder(), [b"data: ", *[b"x" * 100] * (size // 10), b"\n\n"]),
    "many data lines, byte by byte": lambda size: (SseDecoder(), [bytes([byte]) for byte in b"data:\n" * (size // 6)]),
    "many lines in one read": lambda size: (SseDecoder(), [b"data:1\n" * size]),
    "CR-only lines": lambda size: (SseDecoder(), [b"\r" * size * 4]),
    "CR-only lines, byte by byte": lambda size: (SseDecoder(), [b"\r"] * size),
    "many data lines near the limit": lambda size: (SseDecoder(5 * size), [b"data:\n"] * (size - 1)),
    "events near the limit": lambda size: (SseDecoder(5 * size), [b"data:\n"] * (size // 2) + [b"data:\n\n"] * size),
    "NDJSON byte by byte": lambda size: (NdjsonDecoder(), [b"{", *[b" "] * size, b"}\n"]),
    "blanks before the choice": lambda size: (AutoDecoder(SseDecoder()), [b" "] * size),
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE.keys())
def test_cost_is_linear(hostile: Callable[[int], tuple[Decoder, list[bytes]]]) -> None:
    def work(size: int) -> Callable[[], object]:
        def decode() -> None:
            decoder, reads = hostile(size)
            for read in reads:
                decoder.feed(read)
            decoder.close()

        return decode

    assert_linear(work, 3_000)
