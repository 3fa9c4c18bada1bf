"""Responses of the examples, as a scripted provider sends them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

EXAMPLES: Final = Path(__file__).parents[2] / "examples_ndjson"


def example(name: str, vocabulary: str = "openai_responses") -> list[list[bytes]]:
    """Return the responses of an example, each as the data of its events."""
    responses: list[list[bytes]] = [[]]
    for line in (EXAMPLES / vocabulary / f"{name}.ndjson").read_bytes().splitlines():
        if line.startswith(b'{"type":"projector.'):
            responses += [[]] if b"next_response" in line else []
        else:
            responses[-1].append(line)
    return responses


def plays(*responses: list[bytes], ends: bool = True) -> Any:
    """Return a script that answers one request after another; the last answer repeats."""
    waiting = list(responses)

    async def script(peer: Any) -> None:
        await peer.start()
        for data in waiting.pop(0) if len(waiting) > 1 else waiting[0]:
            await peer.chunk(b"data: " + data + b"\n\n")
        if ends:
            await peer.end()
        else:
            await peer.gone.wait()

    return script
