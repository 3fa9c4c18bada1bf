"""AG-UI 1.0: each stream is one run. Written from clean frames only (our choices: docs/dialects.md)."""

from __future__ import annotations

from typing import Final

from projector._registry import resolve
from projector.dialects.descriptor import Dialect, tables_of

DIALECT: Final = Dialect(
    writer=lambda _policy, options: resolve("projector.dialects.ag_ui.writer:AgUi")(options),
    tables=tables_of("projector.dialects.ag_ui.writer"),
    has_event_ids=True,
    carries=frozenset({"reasoning", "calls"}),
)
