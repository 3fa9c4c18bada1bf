"""Goldens of the public stream as they may arrive at a client: in pieces, over connections that break."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from projector.core.sse import encode_sse

FOLDER: Final = Path(__file__).parents[2] / "examples_ndjson" / "public_sse_v1"
GOLDENS: Final = sorted(path.stem for path in FOLDER.glob("*.ndjson"))


def lines_of(name: str) -> list[bytes]:
    """Return the events of a golden as bytes."""
    return (FOLDER / f"{name}.ndjson").read_bytes().splitlines()


def events_of(name: str) -> list[dict[str, Any]]:
    """Return the events of a golden, with numbers as JavaScript reads them."""
    return [json.loads(line, parse_int=lambda digits: int(float(digits))) for line in lines_of(name)]


def arrivals(names: Sequence[str], ways: int) -> list[dict[str, Any]]:
    """Return each golden in several ways: cut at bytes, interrupted behind events, with places to look at the state."""
    random, found = Random(18), []
    for name in names:
        lines = lines_of(name)
        body = b"".join(map(encode_sse, lines))
        for way in range(ways):
            places = sorted({random.randrange(1, len(lines) + 1) for _ in range(3)})
            arrival = {
                "name": name,
                "body": base64.b64encode(body).decode(),
                "cuts": [random.randrange(len(body) + 1) for _ in range(way * 40)],
                "drops": places if way else [],
                "after": places,
            }
            found.append(arrival)
    return found
