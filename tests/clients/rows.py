"""All rows of docs/clients.md."""

from __future__ import annotations

from typing import Final

from tests.clients.clients_table import Row
from tests.clients.rows_node import ROWS as NODE
from tests.clients.rows_python import CROSSED
from tests.clients.rows_python import ROWS as PYTHON

ROWS: Final[tuple[Row, ...]] = (*PYTHON, *NODE, *CROSSED)
