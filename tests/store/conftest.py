"""The stores that are tested."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from projector.store import redis_connection, redis_servers, redis_store
from tests.store.redis_rig import cluster, redis
from tests.store.rigs import LOCAL, SMALL, Rig


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no server of Redis be too slow, as `redis_server` does for the tests that use it."""
    monkeypatch.setattr(redis_connection, "COMMAND_S", 60.0)
    monkeypatch.setattr(redis_servers, "ASIDE_S", 60.0)
    monkeypatch.setattr(redis_store, "PRESENT_S", 0.0)


@pytest.fixture(params=[*LOCAL, "redis", pytest.param("cluster", marks=pytest.mark.rest)])
async def rig(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    """Each store, with small limits."""
    if request.param in LOCAL:
        async with LOCAL[request.param](SMALL) as made:
            yield made
    elif request.param == "cluster":
        async with cluster(request.getfixturevalue("redis_cluster"), SMALL) as made:
            yield made
    else:
        async with redis(request.getfixturevalue("redis_server"), SMALL) as made:
            yield made
