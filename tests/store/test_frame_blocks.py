"""The frames of a log in memory are a list, whatever of them is compressed."""

from __future__ import annotations

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from projector.store.packing import BLOCK_FRAMES, BLOCK_MAX_BYTES, FrameBlocks, size_of
from tests.property.soundness import examples

FRAME: Final = (
    b'{"schema":"public_sse_v1","event_id":%d,"stream_id":"stream_0123456789abcdef0123456789abcdef",'
    b'"server_timestamp":"2025-12-15T12:00:00.000Z","response_id":"resp_0123456789","kind":"message.delta",'
    b'"output_index":0,"item_id":"msg_0123456789","content_index":0,"delta":" word \xff\n"}'
)
SIZES: Final = st.lists(st.sampled_from([0, 1, 80, BLOCK_MAX_BYTES // BLOCK_FRAMES, BLOCK_MAX_BYTES]), max_size=4)
STEPS: Final = st.one_of(
    st.tuples(st.just("extend"), st.integers(0, 3 * BLOCK_FRAMES), SIZES),
    st.tuples(st.just("extend"), st.integers(0, BLOCK_FRAMES - 5), SIZES),
    st.tuples(st.just("drop"), st.integers(0, 3 * BLOCK_FRAMES), st.integers(0, 20_000)),
)


@examples(60)
@given(steps=st.lists(STEPS, max_size=12))
def test_frames_are_a_list(steps: list[tuple[str, int, object]]) -> None:
    blocks, frames, number = FrameBlocks(), list[bytes](), 0
    for name, count, more in steps:
        if name == "extend":
            assert isinstance(more, list)
            added = [FRAME % (number + at) for at in range(count)] + [b"x" * size for size in more]
            number += len(added)
            blocks.extend(added)
            frames += added
        else:
            assert isinstance(more, int)
            wanted = min(
                (at for at in range(len(frames) + 1) if at >= count and size_of(frames[:at]) >= more),
                default=len(frames),
            )
            assert blocks.drop(count, more) == (wanted, size_of(frames[:wanted]))
            del frames[:wanted]
        assert blocks.count == len(frames)
        for start in {0, 1, BLOCK_FRAMES - 1, BLOCK_FRAMES, len(frames) // 2, len(frames)}:
            assert [*blocks.read(start)] == frames[start:]


def test_frames_of_a_text_take_a_tenth_of_their_size() -> None:
    frames = [FRAME % number for number in range(10 * BLOCK_FRAMES)]
    blocks = FrameBlocks()
    for frame in frames:
        blocks.extend([frame])
    assert blocks._last == []
    assert 10 * sum(map(len, blocks._blocks)) < sum(map(len, frames))
