"""`/.well-known/openwop`: what this host can do, with each family at the root of the document (RFC 0073)."""

from __future__ import annotations

from collections.abc import Collection
from importlib import metadata
from typing import Any, Final

from projector.contracts import codec
from projector.openwop.conformance.definitions import FIXTURES
from projector.openwop.conformance.mock_nodes import TOKEN_LIMIT
from projector.openwop.contract.documents import Discovery
from projector.openwop.event_log import VENDOR, Verbosity
from projector.openwop.host.offers.offer import VERBOSITIES

NAME: Final = "public-stream-projector"

CACHE_CONTROL: Final = "public, max-age=300"
"""What the protocol recommends; what a host can do changes with its configuration only."""


def document(verbosities: Collection[Verbosity], *, conformance: bool, max_body_bytes: int) -> bytes:
    """Give the document.

    Args:
        verbosities: the most that each workflow tells of its reasoning.
        conformance: whether the conformance suite may run here.
        max_body_bytes: of a request.
    """
    verbosity = max(verbosities, key=VERBOSITIES.index, default="off")
    families: dict[str, Any] = {
        "agents": {
            "supported": True,
            "reasoning": {"verbosity": verbosity, "tokenLimit": TOKEN_LIMIT, "streaming": verbosity != "off"},
        },
        "providerUsage": {"supported": True},
    }
    if conformance:
        families["conformance"] = {"mockAgent": True}
        families["fixtures"] = sorted(FIXTURES)
    said = {
        "protocolVersion": "1.0",
        "supportedEnvelopes": [],
        "schemaVersions": {},
        "limits": {
            "clarificationRounds": 0,
            "schemaRounds": 0,
            "envelopesPerTurn": 0,
            "maxRequestBodyBytes": max_body_bytes,
        },
        "implementation": {"name": NAME, "version": metadata.version(NAME), "vendor": VENDOR},
        "supportedTransports": ["rest"],
        **families,
        "capabilities": families,  # readers of before RFC 0073 look there
    }
    Discovery.model_validate(said)
    return codec.dumps(said)
