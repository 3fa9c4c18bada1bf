"""Anthropic Messages: the whole stream is one message, written from clean frames only.

`writer` has the content blocks, a function for each kind of frame and the JSON answer, `errors` the API's errors.
"""

from __future__ import annotations

from typing import Final

from projector._registry import lazy, resolve
from projector.dialects.anthropic_messages.errors import TYPE_STATUSES
from projector.dialects.descriptor import Assembler, Dialect, tables_of

DIALECT: Final = Dialect(
    writer=lambda _policy, options: resolve("projector.dialects.anthropic_messages.writer:AnthropicMessages")(options),
    tables=tables_of("projector.dialects.anthropic_messages.writer"),
    heartbeat=b'event: ping\ndata: {"type":"ping"}\n\n',
    has_event_names=True,
    carries=frozenset({"reasoning", "tools"}),
    names_requests=True,
    assembler=Assembler(
        start=lazy("projector.dialects.anthropic_messages.writer:MessageAssembly"),
        body="MessageAnswer",
        error="ErrorPayload",
        error_statuses=tuple(sorted(TYPE_STATUSES.values())),
        schema="message.schema.json",
        has_should_retry=True,
        refusal=lazy("projector.dialects.anthropic_messages.errors:refusal"),
    ),
)
