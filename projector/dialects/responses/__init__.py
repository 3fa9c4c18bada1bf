"""The Responses API of OpenAI: its own events, items and annotations, from any provider (CONTRACT D39).

Written from clean frames only. Events of our own (`public-sse:...`) are opt-in: the SDKs reject an unknown event.
"""

from __future__ import annotations

from typing import Final

from projector._registry import resolve
from projector.dialects.descriptor import Assembler, Dialect, tables_of

DIALECT: Final = Dialect(
    writer=lambda _policy, options: resolve("projector.dialects.responses.writer:Responses")(
        has_extensions=options.extensions
    ),
    tables=tables_of("projector.dialects.responses.writer"),
    has_event_names=True,
    carries=frozenset({"reasoning"}),
    assembler=Assembler(
        start=lambda: resolve("projector.dialects.response_writer.response_stream:ResponseAssembly")(
            resolve("projector.dialects.openai_errors:status_of_error")
        ),
        body="Response",
        error="ErrorPayload",
        error_statuses=(400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 504),
    ),
)
