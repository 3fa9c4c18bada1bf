"""Tasks beside a stream: the watcher for a disconnect of its client, and heartbeats.

They end with the stream, without being awaited: each waits for nothing but its connection. With a task group of anyio,
three scopes and a task more, a short stream took a tenth longer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self, TypeVarTuple, Unpack

from starlette.types import Receive

_Ts = TypeVarTuple("_Ts")


class SideTasks:
    """Tasks that are cancelled when the block is left; `on_failure` is called with an exception that one raises."""

    def __init__(self, on_failure: Callable[[Exception], None]) -> None:
        self._on_failure = on_failure
        self._tasks: list[asyncio.Task[None]] = []

    def __enter__(self) -> Self:
        """Return the tasks."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Cancel all tasks."""
        for task in self._tasks:
            task.cancel()

    def watch(self, receive: Receive, on_disconnect: Callable[[], None]) -> None:
        """Call `on_disconnect` when the client disconnects."""
        self.start(_watch, receive, on_disconnect)

    def start(self, work: Callable[[Unpack[_Ts]], Awaitable[object]], *arguments: *_Ts) -> None:
        """Start a task."""
        self._tasks = [task for task in self._tasks if not task.done()]
        self._tasks.append(asyncio.get_running_loop().create_task(self._run(work, *arguments)))

    async def _run(self, work: Callable[[Unpack[_Ts]], Awaitable[object]], *arguments: *_Ts) -> None:
        try:
            await work(*arguments)
        except asyncio.CancelledError:
            pass  # a task that ends as cancelled would leave a cycle of objects, which holds the stream
        except Exception as error:  # noqa: BLE001 - the owner decides
            self._on_failure(error)


async def _watch(receive: Receive, on_disconnect: Callable[[], None]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    on_disconnect()
