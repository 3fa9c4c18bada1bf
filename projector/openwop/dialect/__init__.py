"""OpenWOP v1: each stream is one run, written as its log of events (RFC 0002, 0023, 0024, 0026; docs/openwop.md).

Written from clean frames. `HANDLED` and `DROPPED` are the whole mapping; one module writes one part of the protocol.
"""

from __future__ import annotations

from projector.openwop.dialect.writer import DROPPED, HANDLED, OpenWop

__all__ = ["DROPPED", "HANDLED", "OpenWop"]
