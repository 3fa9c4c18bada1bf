"""The provider SDK's event objects: its own stream class over the same reads, without a network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from openai import OpenAI, Stream
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent

CLIENT: Final = OpenAI(api_key="none", base_url="http://localhost")

EVENT_TYPES: Final[Mapping[str, Any]] = {
    "openai_responses": ResponseStreamEvent,
    "openai_chat": ChatCompletionChunk,
}
"""Provider -> event type of the SDK's stream."""


class _Reads:
    """The part of an HTTP response that the stream class reads from."""

    request = None
    """Read by the SDK for its errors."""

    def __init__(self, reads: Sequence[bytes]) -> None:
        self._reads = reads

    def iter_bytes(self) -> Iterator[bytes]:
        return iter(self._reads)

    def close(self) -> None:
        """Do nothing; no connection is open."""


def objects(provider: str, reads: Sequence[bytes]) -> Stream[Any]:
    """Return the event objects of a stream, as the SDK's client returns them with `stream=True`."""
    return Stream(cast_to=EVENT_TYPES[provider], response=cast("Any", _Reads(reads)), client=CLIENT)
