"""Open Responses: the whole stream is one response object, written from clean frames only (CONTRACT D36, D37).

What the protocol has no event for is written under our own name (`public-sse:...`), which its clients skip.
"""

from __future__ import annotations

from typing import Final

from projector._registry import resolve
from projector.dialects.descriptor import Assembler, Dialect, tables_of

DIALECT: Final = Dialect(
    writer=lambda _policy, _options: resolve("projector.dialects.openresponses.writer:OpenResponses")(),
    tables=tables_of("projector.dialects.openresponses.writer"),
    end_mark=b"[DONE]",
    has_event_names=True,
    assembler=Assembler(
        start=lambda: resolve("projector.dialects.response_writer.response_stream:ResponseAssembly")(
            resolve("projector.dialects.openresponses.writer:status_of")
        ),
        body="Response",
        error="ErrorPayload",
        error_statuses=(400, 404, 429, 500),
    ),
)
