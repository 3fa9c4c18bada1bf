"""Each cell of the npm clients in docs/clients.md is what a test observes."""

from __future__ import annotations

import pytest

from tests.clients.clients_table import BEHAVIOURS
from tests.clients.node_observations import OBSERVATIONS, Observed
from tests.clients.node_readings import NodeReadings
from tests.clients.rows_node import NODE_ROWS, NodeRow


@pytest.mark.node
@pytest.mark.parametrize("behaviour", BEHAVIOURS)
@pytest.mark.parametrize("row", NODE_ROWS, ids=lambda it: f"{it.package}-{it.api}")
def test_every_cell_is_observed(node_readings: NodeReadings, row: NodeRow, behaviour: str) -> None:
    observed = OBSERVATIONS[behaviour](Observed(node_readings, row.client, row.api))
    assert observed == row.cells[behaviour]
