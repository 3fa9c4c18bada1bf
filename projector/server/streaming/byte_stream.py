"""A stream session without HTTP, as an async iterator of bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack

import anyio

from projector.server.streaming.session import StreamSession


async def byte_stream(session: StreamSession) -> AsyncGenerator[bytes, None]:
    """Run a session, and yield its stream. The next chunk is produced on demand; closing ends the session."""
    async with AsyncExitStack() as stack:
        sender, receiver = anyio.create_memory_object_stream[bytes](0)

        async def produce() -> None:
            async with sender:
                await session.run_without_http(sender.send)

        producer = asyncio.create_task(produce())
        stack.push_async_callback(asyncio.wait, [producer])
        stack.callback(producer.cancel)  # runs before the callback above
        async with receiver:
            async for data in receiver:
                yield data
        await producer
