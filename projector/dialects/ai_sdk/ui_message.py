"""State of one UI message, and how its chunks are built: shared by the writers of the dialect."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from projector.contracts.kinds import VENDOR
from projector.core.canonical import Frame
from projector.dialects.descriptor import DialectOptions
from projector.dialects.frame_writer import BranchState, IdAllocator

Chunk: TypeAlias = dict[str, Any]
"""One chunk of the stream."""

COMPLETED: Final = "completed"

_EMPTY: Final[tuple[object, ...]] = (None, [], "")


@dataclass(slots=True, eq=False)
class TextItem:
    """A message or reasoning item, whose texts are parts of the UI message."""

    item_id: str
    open: dict[str, str] = field(default_factory=dict)
    """ID of an open part -> type of the part, `text` or `reasoning`."""
    is_silent: bool = True
    """Whether no text of the item was written."""
    citations: int = 0
    """Number of citations so far."""
    encrypted: str | None = None
    """Encrypted reasoning, which the end of a part contains."""


@dataclass(slots=True, eq=False)
class Call:
    """One call of a tool."""

    item_id: str
    item_type: str
    branch: int
    response: int
    """Number of the response that made the call."""
    id: str = ""
    name: str = ""
    server_label: str | None = None
    held: list[str] = field(default_factory=list)
    """Deltas of the input that came before the name of the call."""
    is_open: bool = False
    """Whether the input has begun as a JSON string or object around a text, and needs its end."""
    has_started: bool = False
    has_input: bool = False
    """Whether the complete input, or its error, was written."""
    is_awaiting: bool = False
    """Whether the call waits for an approval."""
    is_answered: bool = False
    is_failed: bool = False
    result: dict[str, object] = field(default_factory=dict)
    """Members of the result of a provider tool."""
    outputs: list[object] = field(default_factory=list)
    """Outputs, kept until the status of the call is known."""
    sources: set[str] = field(default_factory=set)
    """Addresses of the sources that were written."""


@dataclass(slots=True, eq=False)
class Image:
    """Chunks of an image in base64, in order."""

    parts: list[str] = field(default_factory=list)
    chars: int = 0


class UiMessage:
    """State of one UI message."""

    def __init__(self, options: DialectOptions) -> None:
        self.level = options.level
        """Major version of the AI SDK that reads the stream."""
        self.message_id = options.message_id
        self.call_ids = IdAllocator(options.taken_ids)
        self.branch = 0
        """Number of the current branch, 0 in a run without branches."""
        self.branch_states = {0: BranchState()}
        self.responding: set[int] = set()
        """Branches with a response that has not ended."""
        self.is_in_step = False
        self.reason: str | None = None
        """Reason for the end of the last response."""
        self.models: set[str] = set()
        self.texts: dict[str, TextItem] = {}
        self.text_delta: Chunk = {}
        """The chunk of the last delta of a text or refusal."""
        self.silent: str | None = None
        """The last message that ended without a text."""
        self.calls: dict[str, Call] = {}
        self.images: dict[str, Image] = {}

    @property
    def branch_state(self) -> BranchState:
        """State of the current branch."""
        return self.branch_states[self.branch]

    def enter(self, branch: int) -> None:
        """Switch to another branch."""
        self.branch = branch
        self.branch_states.setdefault(branch, BranchState())


def data_part(name: str, data: dict[str, object], part_id: str | None = None, *, is_transient: bool = False) -> Chunk:
    """Return a chunk of our own data. A later one with the same ID replaces it; a transient one is not kept."""
    chunk: Chunk = {"type": f"data-{name}"}
    if part_id is not None:
        chunk["id"] = part_id
    chunk["data"] = {member: value for member, value in data.items() if value is not None}
    if is_transient:
        chunk["transient"] = True
    return chunk


def with_metadata(chunk: Chunk, **members: object) -> Chunk:
    """Return a chunk with metadata under the vendor prefix, without empty members."""
    present = {name: value for name, value in members.items() if value not in _EMPTY}
    if present:
        chunk["providerMetadata"] = {VENDOR: present}
    return chunk


def members_of(frame: Frame, *names: str) -> dict[str, object]:
    """Return the members of a frame that are present."""
    return {name: frame[name] for name in names if name in frame}
