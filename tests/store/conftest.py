"""The stores that are tested."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from bench.redis_server import RedisServer
from tests.store.redis_rig import redis
from tests.store.rigs import LOCAL, SMALL, Rig


@pytest.fixture(scope="session")
def redis_server(program: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A server with an empty database."""
    with RedisServer(program("redis-server"), tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(params=[*LOCAL, "redis"])
async def rig(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    """Each store, with small limits."""
    if request.param in LOCAL:
        async with LOCAL[request.param](SMALL) as made:
            yield made
    else:
        async with redis(request.getfixturevalue("redis_server"), SMALL) as made:
            yield made
