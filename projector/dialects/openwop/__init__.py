"""OpenWOP v1: each stream is one run, written as its log of events (RFC 0002, 0023, 0024, 0026; docs/openwop.md).

Written from clean frames. `SPOKEN` and `DROPPED` are the whole mapping; one module writes one part of the protocol.
"""

from __future__ import annotations

from projector.dialects.openwop.writer import DROPPED, SPOKEN, OpenWop

__all__ = ["DROPPED", "SPOKEN", "OpenWop"]
