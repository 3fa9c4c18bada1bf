"""docs/clients.md has the rows that the tests of the clients verify."""

from __future__ import annotations

import re

import pytest

from tests.clients import rows_chats
from tests.clients.clients_table import BEHAVIOURS, PAGE, Row, printed
from tests.clients.rows import ROWS


def test_the_table_has_every_row() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert printed(page, ROWS, rows_chats.table()) == page, "run `make docs`"
    for row in (*ROWS, *rows_chats.ROWS):
        assert re.search(rf"^\| `{re.escape(row.client)}` [\d., ]*\b{re.escape(row.version)}[, ]", page, re.MULTILINE)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.client}-{row.version}-{row.api}")
def test_a_row_has_a_cell_for_each_behaviour(row: Row) -> None:
    assert list(row.cells) == list(BEHAVIOURS)
