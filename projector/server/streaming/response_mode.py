"""How a request is answered: with a stream, or with one JSON document (docs/decisions/0010)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from anyio import to_thread
from starlette.types import Send

from projector.contracts import codec
from projector.core.pipeline import OutputFormat
from projector.dialects import DIALECTS
from projector.dialects.descriptor import Dialect
from projector.server.catalog import AgentBinding, chosen_dialect
from projector.server.http.problems import problem
from projector.server.streaming.memory import LARGE_EVENT_BYTES, Account
from projector.server.streaming.response_writer import ResponseWriter

JSON_HEADERS: Final = (
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)
"""Headers of every JSON response."""


class JsonResponseWriter(ResponseWriter):
    """Writer of one JSON document, sent at the end of an NDJSON stream with the status of its outcome.

    Nothing is committed before that, so any earlier failure is a problem document.
    """

    def __init__(
        self,
        send: Send,
        dialect: Dialect,
        headers: Sequence[tuple[bytes, bytes]],
        account: Account,
        on_gone: Callable[[], None],
    ) -> None:
        super().__init__(send, dialect, headers, account, on_gone)
        if dialect.assembler is None:
            raise ValueError("expected a dialect with an assembler")
        self._headers = [*JSON_HEADERS, *headers]
        self._end_mark = dialect.end_mark
        self._assembly = dialect.assembler.start()

    async def write(self, data: bytes, *, is_last: bool = False) -> None:
        """Collect whole lines; after the last of them, send the document."""
        held_bytes = self._assembly.held_bytes
        for line in data.splitlines():
            if line != self._end_mark:
                self._assembly.feed(line)
        self._account.hold(self._assembly.held_bytes - held_bytes)
        if is_last:
            is_large = self._assembly.held_bytes > LARGE_EVENT_BYTES
            body = await to_thread.run_sync(self._document) if is_large else self._document()
            self._headers.append((b"content-length", b"%d" % len(body)))
            await super().write(body, is_last=True)

    def _document(self) -> bytes:
        self._status, body = self._assembly.close()
        return codec.dumps(body)


@dataclass(frozen=True, slots=True)
class ResponseMode:
    """One way to answer."""

    writer_type: type[ResponseWriter]
    output_format: OutputFormat
    """Format of the pipeline's output, as the writer expects it."""
    has_heartbeats: bool


STREAM: Final = ResponseMode(ResponseWriter, "sse", has_heartbeats=True)
JSON: Final = ResponseMode(JsonResponseWriter, "ndjson", has_heartbeats=False)


def response_mode(binding: AgentBinding, dialect: str | None, *, is_stream: bool | None) -> tuple[ResponseMode, str]:
    """Return the mode and the dialect of a response.

    Args:
        binding: the agent or upstream that answers.
        dialect: named by the request.
        is_stream: the request's `stream`. Without one, a dialect that can answer with JSON does.

    Raises:
        Problem: the dialect is not allowed here, or has no JSON response and `stream` is false.
    """
    if is_stream is False and dialect is None:
        dialect = next((name for name in binding.settings.dialects if DIALECTS[name].assembler is not None), None)
    name = chosen_dialect(dialect, binding.settings.dialects)
    has_json = DIALECTS[name].assembler is not None
    if is_stream is False and not has_json:
        known = ", ".join(f"`{one}`" for one in binding.settings.dialects if DIALECTS[one].assembler is not None)
        detail = f"`stream` must not be false: the dialect `{name}` has no JSON response."
        raise problem("invalid_request", f"{detail} Dialects that have one: {known}." if known else detail)
    return (JSON if has_json and not is_stream else STREAM), name
