"""Chat Completions: the whole stream is one completion with one choice, written from clean frames only (CONTRACT D38).

Members that the API does not define are written only if the caller accepts them (`DialectOptions.extensions`).
"""

from __future__ import annotations

from typing import Final

from projector._registry import lazy
from projector.dialects.descriptor import Assembler, Dialect, tables_of
from projector.dialects.openai_errors import CODE_STATUSES, STATUS_TYPES

DIALECT: Final = Dialect(
    writer=lazy("projector.dialects.chat_completions.writer:ChatCompletions"),
    tables=tables_of("projector.dialects.chat_completions.writer"),
    end_mark=b"[DONE]",
    carries=frozenset({"calls"}),
    assembler=Assembler(
        start=lazy("projector.dialects.chat_completions.completion:CompletionAssembly"),
        body="ChatCompletion",
        error="ErrorPayload",
        error_statuses=tuple(sorted({*STATUS_TYPES, *CODE_STATUSES.values(), 500})),
        schema="chat_completion.schema.json",
    ),
)
