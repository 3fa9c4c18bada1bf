"""AG-UI 1.0: each stream is one run (facts of the protocol: its specification; our choices: docs/dialects.md).

Written from clean frames. `HANDLED` and `DROPPED` are the whole mapping; one module writes one part of the protocol.
"""

from __future__ import annotations

from projector.dialects.ag_ui.writer import DROPPED, HANDLED, AgUi

__all__ = ["DROPPED", "HANDLED", "AgUi"]
