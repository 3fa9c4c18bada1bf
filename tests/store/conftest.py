"""The stores that are tested."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.store.rigs import LOCAL, SMALL, Rig


@pytest.fixture(params=[*LOCAL])
async def rig(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    """Each store, with small limits."""
    async with LOCAL[request.param](SMALL) as made:
        yield made
