"""The reducer of the TypeScript client, from its source. tests/clients tests the packed client in every way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.clients.arrivals import GOLDENS, arrivals, events_of
from tests.clients.stream_states import state_of
from tests.clients.typescript_client import ran

pytestmark = pytest.mark.node


def test_goldens_have_the_states_of_the_oracle(typescript_client: Path) -> None:
    names = [*GOLDENS[::4], "workflow-parallel"]
    lines = "".join(json.dumps(arrival) + "\n" for arrival in arrivals(names, ways=1))
    read = ran(["node", "run-source.mjs", "states.mjs"], typescript_client / "tests", lines)
    for name, line in zip(names, read.split("\n"), strict=False):
        assert json.loads(line)["last"] == state_of(events_of(name)), name
