"""A short form of `tests.asgi.killed_servers`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tests.asgi.killed_servers import STORES, run_cases, summary

CASES: Final = 24

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("store", STORES)
async def test_a_killed_server_ends_no_stream_twice(store: str, program: Any, tmp_path: Path) -> None:
    needed = program("redis-server") if store == "redis" else ""
    found = summary(await run_cases(store, CASES, tmp_path, needed))
    assert found["cases"] == CASES
    assert found["with a head"]
    assert not found["wrong"], found
