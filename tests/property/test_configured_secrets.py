"""A configured key leaves in no dialect, from no place, at no cut; nothing else is withheld (CONTRACT D41)."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projector import StreamContext, build_pipeline
from projector.dialects import DIALECTS
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from tests.property.canaries import DELTAS, Event, broken_off_everywhere, cut_everywhere, errors_with, everywhere
from tests.property.soundness import examples

KEYS: Final = ("mopane-Zq8RtB1nVt5K0aWe", "mopane-7781-quiet-heron", "quartz/lamp+Tq8RzV1nYt5K")
"""Keys of no known format, two of which begin alike."""
WINDOW_CHARS: Final = 12
"""Consecutive characters of a key that no output may contain: a text may end with half of a key of this length."""
POLICY: Final = Policy(reasoning="full", error_messages="provider")
KNOWING: Final = Redactor(POLICY, KEYS)
PLAIN: Final = Redactor(POLICY)


def written(events: list[Event], dialect: str, redactor: Redactor = KNOWING, cut: int = 0) -> bytes:
    """Return all output for some events, which are read in pieces of `cut` bytes."""
    pipeline = build_pipeline(
        provider="openai_responses",
        dialect=dialect,
        context=StreamContext(stream_id="stream_1"),
        redactor=redactor,
        takes_host_events=True,
        input_format="ndjson",
        clock=lambda: 1_765_800_000.0,
    )
    data = b"".join(json.dumps(event).encode() + b"\n" for event in events)
    reads = [data[at : at + cut] for at in range(0, len(data), cut)] if cut else [data]
    return b"".join([*map(pipeline.feed, reads), pipeline.close()])


def leaked(output: bytes, key: str) -> bool:
    """Return whether part of a key is in the output, or in the joined deltas of an item."""
    raw = output.decode()
    texts = [raw.replace("\\", "")]
    for member in ("delta", "content", "arguments"):
        found = "".join(_members(raw, member))
        texts.append(found)
    pieces = [key[at : at + WINDOW_CHARS] for at in range(len(key) - WINDOW_CHARS + 1)]
    return any(piece in text for piece in pieces for text in texts)


def _members(raw: str, name: str) -> list[str]:
    found: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> None:
        found.extend(value for key, value in pairs if key == name and isinstance(value, str))

    for line in raw.splitlines():
        data = line.removeprefix("data: ")
        if data.startswith("{"):
            json.loads(data, object_pairs_hook=collect)
    return found


def lifecycle(key: str) -> list[Event]:
    """Return events with a key in ids, in the model, and in the reason of the end."""
    response = {"id": f"resp_{key}", "model": f"m-{key}", "status": "incomplete"}
    item = {"type": "message", "id": f"msg_{key}", "content": [{"type": "output_text", "text": f"is {key}"}]}
    return [
        {"type": "response.created", "response": response},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.incomplete", "response": {**response, "incomplete_details": {"reason": f"was_{key}"}}},
    ]


each_dialect: Final = pytest.mark.parametrize("dialect", sorted(DIALECTS))
each_key: Final = pytest.mark.parametrize("key", KEYS)


@each_dialect
@each_key
def test_no_key_leaves_from_any_place(dialect: str, key: str) -> None:
    assert not leaked(written(everywhere(key), dialect), key)
    assert not leaked(written(lifecycle(key), dialect), key)
    for error in errors_with(key):
        assert not leaked(written([error], dialect), key)


@each_dialect
@pytest.mark.parametrize("kind", DELTAS)
def test_no_key_leaves_at_any_cut(dialect: str, kind: str) -> None:
    for events in (cut_everywhere(f"is {KEYS[0]} here", kind), broken_off_everywhere(f"is {KEYS[0]}", kind)):
        assert not leaked(written(events, dialect), KEYS[0])


@each_dialect
def test_no_key_leaves_in_reads_of_any_size(dialect: str) -> None:
    for cut in (1, 7, 64):
        assert not leaked(written(everywhere(KEYS[1]), dialect, cut=cut), KEYS[1])


def test_the_search_for_leaks_finds_them() -> None:
    assert leaked(written(lifecycle(KEYS[0]), "public_sse_v1", PLAIN), KEYS[0])
    assert leaked(written(cut_everywhere(KEYS[0], "output_text"), "public_sse_v1", PLAIN), KEYS[0])


@each_dialect
def test_nothing_else_is_withheld(dialect: str) -> None:
    """Texts with the words of the keys, and with their beginnings at each end."""
    for text in ("mopane", "the quartz lamp of the quiet heron", "mopane-", "quartz/la", "m q mo qu"):
        events = everywhere(text)
        assert written(events, dialect) == written(events, dialect, PLAIN)


@examples(60)
@given(cuts=st.lists(st.integers(0, 120), max_size=6))
def test_a_key_at_random_cuts(cuts: list[int]) -> None:
    text = " ".join(("one", *KEYS, "mopane quartz", KEYS[0] + KEYS[2], "end"))
    stream = KNOWING.message_stream()
    ends = sorted({0, *cuts, len(text)})
    shown = "".join(stream.feed(text[start:end]).value for start, end in pairwise(ends))
    expected = text
    for key in KEYS:
        expected = expected.replace(key, "<redacted>")
    assert shown + stream.close().value == expected
