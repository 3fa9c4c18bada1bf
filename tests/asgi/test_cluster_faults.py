"""A short form of `tests.asgi.cluster_faults`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from bench.redis_cluster import RedisCluster
from tests.asgi.cluster_faults import FAULTS, run_rounds

STREAMS: Final = 24

pytestmark = pytest.mark.timeout(600)


async def test_faults_of_a_cluster(program: Any, tmp_path: Path) -> None:
    with RedisCluster(program("redis-server"), program("redis-cli"), tmp_path) as cluster:
        found = await run_rounds(cluster, tmp_path, STREAMS)
    assert [one["fault"] for one in found] == [*FAULTS]
    for one in found:
        assert not one["wrong"], one
        assert 0 < one["of other primaries"] < STREAMS
