"""Chat Completions: the whole stream is one completion with one choice, written from clean frames only (CONTRACT D38).

Members that the API does not define are written only if the caller accepts them (`DialectOptions.extensions`).
"""

from __future__ import annotations

from typing import Final

from projector._registry import lazy, resolve
from projector.dialects.descriptor import Assembler, Dialect, tables_of
from projector.dialects.openai_errors import CODE_STATUSES, STATUS_TYPES

DIALECT: Final = Dialect(
    writer=lazy("projector.dialects.chat_completions.writer:ChatCompletions"),
    tables=tables_of("projector.dialects.chat_completions.writer"),
    events=lambda: resolve("projector.dialects.chat_completions.events:EVENT_ADAPTER"),
    checker=lazy("projector.dialects.chat_completions.checker:ChatCompletionsChecker"),
    end_mark=b"[DONE]",
    assembler=Assembler(
        start=lazy("projector.dialects.chat_completions.completion_object:CompletionAssembly"),
        body="ChatCompletion",
        error="ErrorPayload",
        error_statuses=tuple(sorted({*STATUS_TYPES, *CODE_STATUSES.values(), 500})),
        models=lambda: resolve("projector.dialects.chat_completions.events:COMPLETION_ADAPTER"),
    ),
    files=lambda: {
        "chat_completion.schema.json": resolve("projector.dialects.chat_completions.events:completion_schema")()
    },
)
