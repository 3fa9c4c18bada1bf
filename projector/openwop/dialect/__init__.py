"""OpenWOP v1: each stream is one run, written as its log of events (RFC 0002, 0023, 0024, 0026; docs/openwop.md)."""

from __future__ import annotations

from typing import Final

from projector._registry import lazy, resolve
from projector.dialects.descriptor import Dialect, tables_of

DIALECT: Final = Dialect(
    writer=lambda policy, options: resolve("projector.openwop.dialect.writer:OpenWopWriter")(policy.reasoning, options),
    tables=tables_of("projector.openwop.dialect.writer"),
    events=lambda: resolve("projector.openwop.contract.events:EVENT_ADAPTER"),
    checker=lazy("projector.openwop.contract.checker:LogChecker"),
    has_event_names=True,
)
