"""The reducer of the TypeScript client has the states of the oracle, however a stream arrives, and never throws."""

from __future__ import annotations

import json
from itertools import count
from random import Random
from typing import Final

import pytest

from tests.clients.arrivals import GOLDENS, arrivals, events_of, lines_of
from tests.clients.stream_states import state_of
from tests.clients.typescript_client import InstalledClient
from tests.property.mutations import MUTATIONS

pytestmark = pytest.mark.node

PROTOTYPES: Final = ("__proto__", "constructor", "prototype", "toString", "valueOf", "hasOwnProperty", "toJSON", "then")


def test_every_golden_has_the_states_of_the_oracle(client: InstalledClient) -> None:
    given = arrivals(GOLDENS, ways=4)
    for asked, read in zip(given, client.run("states.mjs", lines=list(given)), strict=True):
        events = events_of(asked["name"])
        assert "error" not in read, read
        assert read["last"] == state_of(events), asked["name"]
        assert read["states"] == [state_of(events[:place]) for place in asked["after"]], asked["name"]


def hostile(random: Random, lines: list[bytes]) -> list[object]:
    """Return the events of mutated lines: those that are JSON, with members of prototypes added to some."""
    for mutate in random.choices(MUTATIONS, k=3):
        lines = mutate(random, lines)
    events: list[object] = []
    for line in lines[:200]:
        try:
            event = json.loads(line)
            json.dumps(event, allow_nan=False)
        except (ValueError, RecursionError):
            continue
        places = (
            [event, *(value for value in event.values() if isinstance(value, dict))] if isinstance(event, dict) else []
        )
        if places and random.random() < 0.2:
            random.choice(places)[random.choice(PROTOTYPES)] = random.choice([1, None, "x", [], {"then": 1}])
        if isinstance(event, dict) and random.random() < 0.1:
            event["event_id"] = random.choice([0, -1, 2**31, 2**53, 2**64, 10**400, 1.5, "7", None])
        events.append(event)
    return events


def test_no_stream_throws(client: InstalledClient) -> None:
    random, ids = Random(18), count(1)
    streams = [hostile(random, lines_of(name)) for name in GOLDENS for _ in range(6)]
    for stream in streams[::2]:  # a stream whose order is wrong has events that are not applied: number them again
        for event in stream:
            if isinstance(event, dict) and isinstance(event.get("event_id"), int):
                event["event_id"] = next(ids)
    (read,) = client.run("reduce-hostile.mjs", lines=list(streams))
    assert read["events"] == sum(map(len, streams))
