"""One table per wire vocabulary: what it says of each frame kind, and why not. `DIALECTS` is the list."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from projector.core.canonical import Frame, WireEvent
from projector.dialects.ag_ui import AgUi
from projector.dialects.openresponses import OpenResponses
from projector.dialects.options import DialectOptions
from projector.dialects.public_sse_v1 import PublicSseV1
from projector.openwop.dialect import OpenWop
from projector.redaction.policy import Policy


class DialectWriter(Protocol):
    """Writes the frames of one stream."""

    def feed(self, frame: Frame, /) -> list[WireEvent]:
        """Take a frame; give what the dialect says of it."""
        ...

    def close(self) -> list[WireEvent]:
        """Take the end, after the terminal; give what the dialect says then."""
        ...


DIALECTS: Final[Mapping[str, Callable[[Policy, DialectOptions], DialectWriter]]] = {
    "public_sse_v1": lambda policy, _caller: PublicSseV1(policy.limits.frame_max_bytes),
    "ag_ui": lambda _policy, options: AgUi(options),
    "openresponses": lambda _policy, _caller: OpenResponses(),
    "openwop": lambda policy, options: OpenWop(policy.reasoning, options),
}
