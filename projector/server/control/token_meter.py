"""Counting the tokens of a stream: as its providers report them, estimated where they do not."""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from projector.contracts.kinds import PrivateKind
from projector.core.canonical import Frame
from projector.core.delta_frames import DeltaFrames

REPORTED_MAX: Final = 10_000_000
"""Tokens of one response. No model reads or writes more, so a larger number is an error of the provider."""
INPUT_MAX: Final = 32_000
OUTPUT_MAX: Final = 4_000
"""Most tokens that are reserved for one response. More would keep other requests of the caller waiting for nothing:
large requests are rare, and few answers are as long as they may be."""
OUTPUT_DEFAULT: Final = 1_000

_VALUE_BYTES: Final = 4
"""Quotes, and the mark before or after a value."""
_BYTES_PER_TOKEN: Final = 4
"""Of English text and of JSON; other texts have fewer."""
IMAGE_TOKENS: Final = 1_600
"""Models read a large image as about as many."""
_CONVERSATIONS: Final = frozenset({"input", "messages", "contents"})
"""Members of a request that may have files."""
_TO_FILES: Final = frozenset(
    {"content", "file", "functionResponse", "image_url", "inlineData", "input_audio", "output", "parts", "source"}
)
"""Members on the way from a conversation to a file. Arguments, schemas and results of functions are none: models read
them as text."""
_FILE_DATA: Final = frozenset({"data", "file_data", "image_url", "result", "url"})
_MEDIA_TYPES: Final = ("media_type", "mime_type", "mimeType")
_COUNTED_LESS: Final = ("audio/", "video/", "application/pdf")
_DATA_URL: Final = re.compile(r"data:([^,]{0,200});base64,")
_OUTPUT_LIMITS: Final = ("max_output_tokens", "max_completion_tokens", "max_tokens", "maxOutputTokens")
_LIMITS_OF_GEMINI: Final = ("generationConfig", "generation_config")
"""Tables that have the limit in requests of Gemini's APIs."""
_NOT_PROCESSED: Final = ("upstream_http_", "upstream_unavailable", "upstream_unreachable", "upstream_timeout_connect")
"""Codes of requests that a provider did not process."""


class TokenMeter:
    """Counts the tokens of one stream. `on_frame` and `on_deltas` receive its frames, private ones included."""

    def __init__(self, agents: Sequence[str], body: Mapping[str, object], context: int = 0) -> None:
        """Create the meter of a stream.

        Args:
            agents: names of the agents of the stream.
            body: the first request, of a provider or of the caller.
            context: tokens of the response that it continues, which the provider reads again.
        """
        self.agents = agents
        self._body = body
        self._context = context
        self._input = 0
        self._requests = 0
        self._reported: list[tuple[str, int]] = []
        """Agent and tokens of each response that reported them."""
        self._chars: dict[tuple[str, str | None], int] = defaultdict(int)
        """Agent and ID of a response -> characters of its output, until its tokens are reported."""
        self._read: dict[tuple[str, str | None], int] = {}
        """Agent and ID of a response -> tokens of its input, reported at its start, until it ends."""

    def estimate(self) -> int:
        """Return the tokens to reserve for the first response; to be called once."""
        body, self._body = self._body, {}  # the stream may last longer than it is needed
        tables = [body, *(table for name in _LIMITS_OF_GEMINI if isinstance(table := body.get(name), Mapping))]
        names = ((table, name) for table in tables for name in _OUTPUT_LIMITS)
        limits = (value for table, name in names if type(value := table.get(name)) is int and value > 0)
        return input_tokens(body, INPUT_MAX) + min(next(limits, OUTPUT_DEFAULT), OUTPUT_MAX)

    def on_request(self, body: Mapping[str, object]) -> None:
        """Count a request to a provider."""
        self._requests += 1
        self._input += input_tokens(body)
        if body.get("previous_response_id") is not None:
            self._input += self._context

    def on_frame(self, frame: Frame) -> None:
        """Count the output of a frame, or the tokens of a response."""
        if isinstance(delta := frame.get("delta"), str):
            self._chars[_response(frame)] += len(delta)
        elif frame["kind"] == PrivateKind.RESPONSE_META and 0 < frame.get("input_tokens", 0) <= REPORTED_MAX:
            self._read[frame.get("agent", ""), frame.get("id")] = frame["input_tokens"]
        elif frame["kind"] == PrivateKind.RESPONSE_USAGE:
            agent, usage = frame.get("agent", ""), frame["usage"]
            keys = dict.fromkeys([(agent, frame.get("response_id")), (agent, None)])  # output may come before the ID
            if frame.get("is_cut"):  # some providers count the output at the end, so more may have come
                written = sum(_tokens_of(self._chars.get(key, 0)) for key in keys)
                usage = {**usage, "output_tokens": max(written, usage.get("output_tokens", 0))}
                if not (usage.get("input_tokens") or usage.get("total_tokens")):  # some send zeros until the end
                    self._chars[next(iter(keys))] += (usage["output_tokens"] - written) * _BYTES_PER_TOKEN
                    return
            if self.on_usage(usage, agent):
                for key in keys:
                    self._chars.pop(key, None)
                    self._read.pop(key, None)

    def on_usage(self, usage: Mapping[str, object], agent: str = "") -> bool:
        """Count the tokens that a provider reports with an answer; return whether it reports any."""
        if tokens := reported_tokens(usage):
            self._reported.append((agent, tokens))
            self._context = tokens
        return tokens > 0

    def on_deltas(self, deltas: DeltaFrames) -> None:
        """Count the output of a run of deltas."""
        self._chars[_response(deltas.frame)] += sum(map(len, deltas.texts))

    def used(self, code: str | None = None) -> tuple[int, Mapping[str, int]]:
        """Return the tokens that were used in total, and by agent; `code` is the error that the stream ended with.

        Of a response that was cut off: what was reported, and at least its output; its input is estimated if need be.
        """
        by_agent: Counter[str] = Counter()
        for agent, tokens in self._reported:
            by_agent[agent] += tokens
        for (agent, _), chars in self._chars.items():
            by_agent[agent] += _tokens_of(chars)
        for (agent, _), tokens in self._read.items():
            by_agent[agent] += tokens
        unreported = max(0, self._requests - len(self._reported) - len(self._read))
        if unreported and (by_agent.total() or code is None or not code.startswith(_NOT_PROCESSED)):
            by_agent[""] += self._input * unreported // self._requests
        total = by_agent.total()
        return total, {agent: total if len(self.agents) == 1 else by_agent[agent] for agent in self.agents}


def reported_tokens(usage: Mapping[str, object]) -> int:
    """Return the tokens of a response that a provider reports; 0 if it reports none."""
    total, read, written = (
        value if type(value := usage.get(name)) is int else 0
        for name in ("total_tokens", "input_tokens", "output_tokens")
    )
    tokens = max(total, read + written)
    return tokens if 0 < tokens <= REPORTED_MAX else 0


def _tokens_of(chars: int) -> int:
    return -(-chars // _BYTES_PER_TOKEN)


def _response(frame: Frame) -> tuple[str, str | None]:
    return frame.get("agent", ""), frame.get("response_id")


def input_tokens(body: Mapping[str, object], most: int = sys.maxsize, *, file_max: int = INPUT_MAX) -> int:
    """Return the tokens of a body by its size. An image counts the same whatever its size.

    Args:
        body: a request.
        most: the highest result; nothing is read beyond it.
        file_max: most tokens of another file that is no text.
    """
    max_bytes = most * _BYTES_PER_TOKEN
    texts: list[object] = [*body]
    parts: list[object] = []
    for name, value in body.items():
        (parts if name in _CONVERSATIONS else texts).append(value)
    n_bytes = _VALUE_BYTES + _conversation_bytes(parts, texts, max_bytes, file_max * _BYTES_PER_TOKEN)
    while texts and n_bytes < max_bytes:
        value = texts.pop()
        n_bytes += _VALUE_BYTES
        if isinstance(value, str):
            n_bytes += len(value) if value.isascii() else len(value.encode(errors="surrogatepass"))
        elif isinstance(value, dict):
            texts += (*value, *value.values())
        elif isinstance(value, list):
            texts += value
    return min(n_bytes // _BYTES_PER_TOKEN, most)


def _conversation_bytes(parts: list[object], texts: list[object], max_bytes: int, file_max: int) -> int:
    """Return the bytes that the files in parts count as, with the objects and lists around them; add the rest to texts.

    Nothing is read beyond `max_bytes`; `file_max` are the most bytes of a file that is no image.
    """
    n_bytes = 0
    while parts and n_bytes < max_bytes:
        part = parts.pop()
        if isinstance(part, list):
            n_bytes += _VALUE_BYTES
            parts += part
        elif isinstance(part, dict):
            n_bytes += _VALUE_BYTES
            texts += part
            for name, value in part.items():
                media_type = _media_type(part, name, value) if name in _FILE_DATA and isinstance(value, str) else ""
                if media_type.startswith("image/"):
                    n_bytes += _VALUE_BYTES + IMAGE_TOKENS * _BYTES_PER_TOKEN
                elif media_type.startswith(_COUNTED_LESS):
                    n_bytes += _VALUE_BYTES + min(len(value), file_max)
                else:
                    (parts if name in _TO_FILES else texts).append(value)
        else:
            texts.append(part)
    return n_bytes


def _media_type(part: Mapping[str, object], name: str, data: str) -> str:
    """Return the media type of a file in base64, empty if a member of a part is none.

    A provider that expects a file refuses any other text there.
    """
    if (data_url := _DATA_URL.match(data)) is not None:
        return data_url[1].lower()
    if name == "result":
        return "image/" if part.get("type") == "image_generation_call" else ""
    if name != "data" or part.get("type") == "text":
        return ""
    if part.keys() == {"data", "format"}:
        return "audio/"
    return next((found.lower() for one in _MEDIA_TYPES if isinstance(found := part.get(one), str)), "")
