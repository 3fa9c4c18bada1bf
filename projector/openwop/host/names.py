"""What runs of this host are called on the wire."""

from __future__ import annotations

from typing import Final

from projector.openwop.event_log import VENDOR

DIALECT: Final = "openwop"
AGENT_TYPE_ID: Final = f"vendor.{VENDOR}.agent"
"""The type of nodes that ask an agent; `vendor.*` types may emit events of agents (RFC 0023 section A)."""
AGENT_NODE_ID: Final = "agent"
"""The one node of an agent's run."""
