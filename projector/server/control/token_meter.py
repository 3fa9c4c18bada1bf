"""Counting the tokens of a stream: as its providers report them, estimated where they do not."""

from __future__ import annotations

import re
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
a body may have megabytes of images, and few answers are as long as they may be."""
OUTPUT_DEFAULT: Final = 1_000

_VALUE_BYTES: Final = 4
"""Quotes, and the mark before or after a value."""
_BYTES_PER_TOKEN: Final = 4
"""Of English text and of JSON; other texts have fewer."""
_BASE64: Final = re.compile(r"(?:data:[^,]{0,200},)?[A-Za-z0-9+/_-]{2000}")
"""Start of an image or document, which may be a data URL. Other texts of this length have blanks or punctuation."""
_FILE_BYTES: Final = 1_600 * _BYTES_PER_TOKEN
"""In place of the bytes of a file: models read a large image as about 1,600 tokens."""
_OUTPUT_LIMITS: Final = ("max_output_tokens", "max_completion_tokens", "max_tokens", "maxOutputTokens")
_LIMITS_OF_GEMINI: Final = ("generationConfig", "generation_config")
"""Tables that have the limit in requests of Gemini's APIs."""
_NOT_PROCESSED: Final = ("upstream_http_", "upstream_unavailable", "upstream_unreachable", "upstream_timeout_connect")
"""Codes of requests that a provider did not process."""


class TokenMeter:
    """Counts the tokens of one stream. `on_frame` and `on_deltas` receive its frames, private ones included."""

    def __init__(self, agents: Sequence[str], body: Mapping[str, object]) -> None:
        """Create the meter of a stream of these agents; `body` is the first request, of a provider or of the caller."""
        self.agents = agents
        self._body = body
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
        return input_tokens(body) + min(next(limits, OUTPUT_DEFAULT), OUTPUT_MAX)

    def on_request(self, body: Mapping[str, object]) -> None:
        """Count a request to a provider."""
        self._requests += 1
        self._input += input_tokens(body)

    def on_frame(self, frame: Frame) -> None:
        """Count the output of a frame, or the tokens of a response."""
        if isinstance(delta := frame.get("delta"), str):
            self._chars[_response(frame)] += len(delta)
        elif frame["kind"] == PrivateKind.RESPONSE_META and 0 < frame.get("input_tokens", 0) <= REPORTED_MAX:
            self._read[frame.get("agent", ""), frame.get("id")] = frame["input_tokens"]
        elif frame["kind"] == PrivateKind.RESPONSE_USAGE and self.on_usage(frame["usage"], frame.get("agent", "")):
            for response_id in (frame.get("response_id"), None):  # output may come before the ID
                self._chars.pop((frame.get("agent", ""), response_id), None)
                self._read.pop((frame.get("agent", ""), response_id), None)

    def on_usage(self, usage: Mapping[str, object], agent: str = "") -> bool:
        """Count the tokens that a provider reports with an answer; return whether it reports any."""
        total, read, written = (
            value if type(value := usage.get(name)) is int else 0
            for name in ("total_tokens", "input_tokens", "output_tokens")
        )
        is_reported = 0 < (tokens := max(total, read + written)) <= REPORTED_MAX
        if is_reported:
            self._reported.append((agent, tokens))
        return is_reported

    def on_deltas(self, deltas: DeltaFrames) -> None:
        """Count the output of a run of deltas."""
        self._chars[_response(deltas.frame)] += sum(map(len, deltas.texts))

    def used(self, code: str | None = None) -> tuple[int, Mapping[str, int]]:
        """Return the tokens that were used in total, and by agent; `code` is the error that the stream ended with."""
        by_agent: Counter[str] = Counter()
        for agent, tokens in self._reported:
            by_agent[agent] += tokens
        for (agent, _), chars in self._chars.items():
            by_agent[agent] += -(-chars // _BYTES_PER_TOKEN)
        for (agent, _), tokens in self._read.items():
            by_agent[agent] += tokens
        unreported = max(0, self._requests - len(self._reported) - len(self._read))
        if unreported and (by_agent.total() or code is None or not code.startswith(_NOT_PROCESSED)):
            by_agent[""] += self._input * unreported // self._requests
        total = by_agent.total()
        return total, {agent: total if len(self.agents) == 1 else by_agent[agent] for agent in self.agents}


def _response(frame: Frame) -> tuple[str, str | None]:
    return frame.get("agent", ""), frame.get("response_id")


def input_tokens(body: Mapping[str, object], most: int = INPUT_MAX, *, has_flat_files: bool = False) -> int:
    """Return the tokens of a body by its size.

    Args:
        body: a request.
        most: the highest result; nothing is read beyond it.
        has_flat_files: whether an image or a document counts the same whatever its size. A caller that is limited could
            have its text taken for one.
    """
    n_bytes = 0
    values: list[object] = [body]
    while values and n_bytes < most * _BYTES_PER_TOKEN:
        value = values.pop()
        n_bytes += _VALUE_BYTES
        if has_flat_files and isinstance(value, str) and _BASE64.match(value):
            n_bytes += _FILE_BYTES
        elif isinstance(value, str):
            n_bytes += len(value) if value.isascii() else len(value.encode(errors="surrogatepass"))
        elif isinstance(value, Mapping):
            values += (*value, *value.values())
        elif isinstance(value, list):
            values += value
    return min(n_bytes // _BYTES_PER_TOKEN, most)
