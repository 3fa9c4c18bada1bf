"""Characters of text that are held back at the end of each delta, over recorded answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from projector.redaction.redactor import Redactor

CORPUS: Final = Path(__file__).resolve().parents[2] / "shared" / "corpus"
ANSWERS: Final = 200
_MIN_DELTAS: Final = 5


class Held(NamedTuple):
    """Percentiles of the held characters, and of the deltas that a character waits for."""

    chars_p50: int
    chars_p99: int
    deltas_p99: int
    deltas: int


def answers(most: int = ANSWERS) -> list[list[str]]:
    """Return the text deltas of recorded answers, in the order of their files; none if there are no recordings."""
    found = (deltas for path in sorted(CORPUS.glob("*/*.ndjson")) if len(deltas := [*_deltas(path)]) >= _MIN_DELTAS)
    return list(islice(found, most))


def measure(redactor: Redactor, recorded: list[list[str]]) -> Held:
    """Return what a policy holds back."""
    chars: list[int] = []
    waits: list[int] = []
    for deltas in recorded:
        stream = redactor.message_stream()
        waited = 0
        for delta in deltas:
            stream.feed(delta)
            held = len(stream.held)
            waited = waited + 1 if held > len(delta) else int(held > 0)
            chars.append(held)
            waits.append(waited)
    chars.sort()
    waits.sort()
    last = len(chars) * 99 // 100
    return Held(chars[len(chars) // 2], chars[last], waits[last], len(chars))


def _deltas(path: Path) -> Iterator[str]:
    """Yield the text deltas of a recording in one of the two APIs of OpenAI."""
    for line in path.read_bytes().splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if not isinstance(event, dict):
            continue
        if event.get("type") == "response.output_text.delta" and isinstance(event.get("delta"), str):
            yield event["delta"]
        for choice in event.get("choices") or ():
            content = (choice.get("delta") or {}).get("content") if isinstance(choice, dict) else None
            if isinstance(content, str) and content:
                yield content
