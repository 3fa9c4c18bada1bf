"""What a stream remembers of a tool call, and how its status may move (seed section 9.7, CONTRACT D15 to D18)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from projector.contracts.kinds import STATUS_RANKS, CallType, ToolType
from projector.core.arguments import CallArguments
from projector.core.frames import Lossy
from projector.core.parts import TextPart
from projector.redaction.clean import Cleaned, CleanText

CALL_TYPES: Final[Mapping[ToolType, CallType]] = {"function": "function", "mcp": "mcp"}
"""Tool types with arguments."""

NAME_FIELDS: Final[Mapping[ToolType, str]] = {"function": "name", "mcp": "tool_name"}


class ToolCall:
    """One tool call, from its item's first event to its last status."""

    __slots__ = (
        "arguments",
        "call_id",
        "cites_said",
        "code",
        "images",
        "last_said",
        "lossy",
        "name",
        "outcome",
        "output_said",
        "plain",
        "sources",
        "status",
        "tool_type",
    )

    def __init__(self, tool_type: ToolType, call_id: CleanText, name: CleanText, arguments: CallArguments) -> None:
        self.tool_type = tool_type
        self.call_id = call_id
        self.name = name
        self.arguments = arguments
        self.status: str | None = None
        self.outcome: str | None = None
        """What the provider reported of the end, held until the outputs have been said (D15)."""
        self.plain: dict[str, object] = {}
        """Fields of the `tool` payload that lose nothing."""
        self.lossy: dict[str, Lossy] = {}
        """Fields of the `tool` payload that may carry notices."""
        self.sources: list[Cleaned[CleanText]] = []
        """Addresses of a web search, its own and cited ones (D19)."""
        self.cites_said = False
        self.code: TextPart | None = None
        self.images: set[tuple[str, int]] = set()
        """Chunk targets that are closed: a closed one does not reopen (D21)."""
        self.output_said = False
        self.last_said: object = None

    def advance(self, status: str | None) -> bool:
        """Move to a status if it is known and further on; say whether there is something new to say (D15)."""
        ranks = STATUS_RANKS[self.tool_type]
        if status is not None and status in ranks and (self.status is None or ranks[status] > ranks[self.status]):
            self.status = status
        if self.status is None:
            return False
        now = (self.status, dict(self.plain), {key: value and value.value for key, value in self.lossy.items()})
        if now == self.last_said:
            return False
        self.last_said = now
        return True

    @property
    def payload(self) -> dict[str, object]:
        """The plain members of section 9.7's `tool`."""
        name = {NAME_FIELDS[self.tool_type]: self.name} if self.tool_type in NAME_FIELDS else {}
        return {"tool_type": self.tool_type, "tool_call_id": self.call_id, "status": self.status, **name, **self.plain}
