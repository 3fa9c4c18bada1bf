"""A client behind a proxy in front of the projector; it reads messages as they arrive, however they are cut."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any, Final

from tests.asgi.conftest import Answer, request_bytes

CREATED: Final = {"type": "response.created", "response": {"id": "r", "status": "in_progress"}}
ENDED: Final = {"type": "response.completed", "response": {"id": "r", "status": "completed"}}


def delta(text: str) -> dict[str, Any]:
    """Return a text delta of the provider."""
    return {"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "content_index": 0, "delta": text}


class Browser:
    """One response, and the messages of its stream that have arrived."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self._came = b""

    async def message(self) -> bytes:
        """Return the next message or comment, without its blank line."""
        while b"\n\n" not in self._came:
            chunk = await self.answer.chunk()
            assert chunk, "the stream ended"
            self._came += chunk
        message, _, self._came = self._came.partition(b"\n\n")
        return message

    async def frame(self) -> dict[str, Any]:
        """Return the next frame; comments are skipped."""
        while (message := await self.message()).startswith(b":"):
            pass
        frame = json.loads(message.removeprefix(b"data: "))
        assert isinstance(frame, dict)
        return frame

    async def until(self, kind: str) -> dict[str, Any]:
        """Return the next frame of a kind."""
        while (frame := await self.frame())["kind"] != kind:
            pass
        return frame


class Dictation:
    """A provider that sends an event once the client has received the last one: any buffering blocks the stream."""

    def __init__(self) -> None:
        self._texts = [f"{number}," for number in range(20)]
        self._may_send = asyncio.Semaphore(0)

    async def script(self, peer: Any) -> None:
        """Send the stream."""
        await peer.start()
        await peer.event(CREATED)
        for text in self._texts:
            await self._may_send.acquire()
            await peer.event(delta(text))
        await self._may_send.acquire()
        await peer.event(ENDED)
        await peer.end()

    async def is_received_by(self, browser: Browser) -> None:
        """Request each event when the last one has arrived."""
        for text in self._texts:
            self._may_send.release()
            assert (await browser.until("message.delta"))["delta"] == text
        self._may_send.release()
        assert (await browser.until("final"))["final"]["response_text"] == "".join(self._texts)
        assert await browser.answer.rest() == b""


@contextlib.asynccontextmanager
async def asking(
    port: int, path: str = "/api/v1/chat/stream", body: object = None, **headers: str
) -> AsyncGenerator[Browser, None]:
    """Send a request on its own connection, which is closed at the end, and read the head of the response."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**24)
    answer = Answer(reader, writer)
    try:
        writer.write(request_bytes(path, {"message": "hello"} if body is None else body, **headers))
        await answer.read_head()
        yield Browser(answer)
    finally:
        await answer.closed()


async def listening(port: int, is_over: Callable[[], bool], limit_s: float = 240) -> None:
    """Wait until a port has a listener; fail if the program that should listen has ended."""
    deadline = time.monotonic() + limit_s
    while True:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        assert not is_over(), "the program ended"
        assert time.monotonic() < deadline, "no listener"
        await asyncio.sleep(0.02)


def pictures(otherwise: Path) -> Path:
    """Return the folder for screenshots: that of `PROJECTOR_TESTS_PICTURES`, which CI keeps, or else another one."""
    folder = Path(os.environ.get("PROJECTOR_TESTS_PICTURES", otherwise)).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return folder
