"""OpenWOP v1 (https://openwop.dev): the dialect `openwop`, and a host of runs in the memory of one server.

Self-contained: nothing outside imports this package, and nothing of it is loaded unless it is configured. The dialect
writes each stream as the log of one run (RFC 0002, 0023, 0024, 0026; docs/openwop.md); the table `[openwop]`
(`projector.openwop.settings`) enables the host.
"""

from __future__ import annotations

from typing import Final

from projector._registry import lazy, resolve
from projector.dialects.descriptor import Dialect, tables_of

DIALECT: Final = Dialect(
    writer=lambda policy, options: resolve("projector.openwop.writer:OpenWopWriter")(policy.reasoning, options),
    tables=tables_of("projector.openwop.writer"),
    events=lambda: resolve("projector.openwop.events:EVENT_ADAPTER"),
    checker=lazy("projector.openwop.checker:LogChecker"),
    has_event_names=True,
)
