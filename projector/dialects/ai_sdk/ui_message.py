"""One UI message: its state, how its chunks are built, the parts with a text, and citations as sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from projector.contracts.kinds import VENDOR
from projector.core.canonical import Frame
from projector.dialects import page_run as page
from projector.dialects.descriptor import DialectOptions

Chunk: TypeAlias = page.Event
"""One chunk of the stream."""


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
class Call(page.PageCall):
    """One call of a tool."""

    is_open: bool = False
    """Whether the input has begun as a JSON string or object around a text, and needs its end."""
    has_input: bool = False
    """Whether the complete input, or its error, was written."""
    is_shortened: bool = False
    """Whether its input was cut, so that no client must run it."""
    shortened: object = field(default_factory=dict)
    """What is left of it."""
    result: dict[str, object] = field(default_factory=dict)
    """Members of the result of a provider tool."""
    outputs: list[object] = field(default_factory=list)
    """Outputs, kept until the status of the call is known."""
    sources: set[str] = field(default_factory=set)
    """Addresses of the sources that were written."""

    @property
    def is_held(self) -> bool:
        """Whether its input waits for the host's answer, because it was cut."""
        return self.is_shortened and not self.has_input


@dataclass(slots=True, eq=False)
class Image:
    """Chunks of an image in base64, in order."""

    parts: list[str] = field(default_factory=list)
    chars: int = 0


class UiMessage(page.PageRun):
    """State of one UI message."""

    def __init__(self, options: DialectOptions) -> None:
        super().__init__(options)
        self.calls: dict[str, Call] = {}
        self.level = options.level
        """Major version of the AI SDK that reads the stream."""
        self.responding: set[int] = set()
        """Branches with a response that has not ended."""
        self.is_in_step = False
        self.has_answer = False
        """Whether the host has answered a function of the step."""
        self.open_items: set[str] = set()
        """Items that are not done, or of which the input is held."""
        self.texts: dict[str, TextItem] = {}
        """Messages and reasoning items that are not done."""
        self.text_delta: Chunk = {}
        """The chunk of the last delta of a text or refusal."""
        self.silent: str | None = None
        """The last message that ended without a text."""
        self.images: dict[str, Image] = {}


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
    if about := page.present(members):
        chunk["providerMetadata"] = {VENDOR: about}
    return chunk


def members_of(frame: Frame, *names: str) -> dict[str, object]:
    """Return the members of a frame that are present."""
    return {name: frame[name] for name in names if name in frame}


REASONING: Final = "reasoning"

CITATIONS_MAX_ITEMS: Final = 1_000
"""Citations of one message. A page keeps each as two parts of its message."""

UNKNOWN_MEDIA_TYPE: Final = "application/octet-stream"
"""The contract has no media type of a cited file (RFC 2046, section 4.5.1)."""

_WEB: Final = ("http://", "https://")


def on_item_added(ui: UiMessage, frame: Frame) -> list[Chunk]:
    """Add a message or a reasoning item. Its first text starts a part."""
    ui.texts[frame["item_id"]] = TextItem(frame["item_id"])
    return []


def on_message_delta(kind: str, ui: UiMessage, frame: Frame) -> list[Chunk]:
    """Write a delta of a text, or of a refusal: a text that its metadata marks as one."""
    delta = frame["delta"]
    if not delta:
        return []
    item, index = ui.texts[frame["item_id"]], frame["content_index"]
    part_id = f"{item.item_id}:{index}" if kind == page.TEXT else f"{item.item_id}:{kind}:{index}"
    chunk = ui.text_delta = {"type": "text-delta", "id": part_id, "delta": delta}
    if part_id in item.open:
        return [chunk]
    ui.written.add(page.FINAL_TEXTS[kind])
    return [_start_text(item, kind, part_id, frame.get("agent")), chunk]


def on_refusal_done(_ui: UiMessage, frame: Frame) -> list[Chunk]:
    """Write that a part of a message is a refusal, for pages that show one in their own way."""
    data = members_of(frame, "item_id", "content_index")
    return [data_part("refusal", data, f"{frame['item_id']}:{frame['content_index']}")]


def on_message_done(ui: UiMessage, frame: Frame) -> list[Chunk]:
    """Write the end of the texts of a message."""
    item = ui.texts.pop(frame["item_id"])
    if item.is_silent:
        ui.silent = item.item_id
    return _end_parts(item, frame["status"])


def on_citation(ui: UiMessage, frame: Frame) -> list[Chunk]:
    """Write a citation: its source, and its place in the text."""
    item, citation = ui.texts[frame["item_id"]], frame["citation"]
    item.citations += 1
    if item.citations > CITATIONS_MAX_ITEMS:
        return _left_out(frame, "citation") if item.citations == CITATIONS_MAX_ITEMS + 1 else []
    source_id = f"{item.item_id}:source:{item.citations}"
    source = _source(source_id, citation)
    data = members_of(frame, "item_id", "content_index")
    data["source_id"] = source_id if source else None
    return [*source, data_part("citation", data | citation, source_id)]


def write_missing_texts(ui: UiMessage, final: Mapping[str, str]) -> list[Chunk]:
    """Write the texts of `final` that no event contains, as the last message without a text (D13)."""
    if ui.silent is None:
        return []
    item = TextItem(ui.silent)
    chunks: list[Chunk] = []
    for kind, deltas in ui.missing_texts(final).items():
        part_id = f"{item.item_id}:{kind}"
        chunks.append(_start_text(item, kind, part_id, None))
        chunks += [{"type": "text-delta", "id": part_id, "delta": delta} for delta in deltas]
    return chunks + _end_parts(item, page.COMPLETED)


def on_reasoning_delta(kind: str, ui: UiMessage, frame: Frame) -> list[Chunk]:
    """Write a delta of a summary, or of the full text: only the policy `full` produces such frames."""
    if not frame["delta"]:
        return []
    item, index = ui.texts[frame["item_id"]], frame[page.PART_INDEXES[kind]]
    part_id = f"{item.item_id}:{index}" if kind == page.SUMMARY else f"{item.item_id}:{kind}:{index}"
    chunk: Chunk = {"type": "reasoning-delta", "id": part_id, "delta": frame["delta"]}
    return [chunk] if part_id in item.open else [*_start_reasoning(item, kind, part_id), chunk]


def on_encrypted(ui: UiMessage, frame: Frame) -> list[Chunk]:
    """Keep the encrypted value for the end of the item's last part; a client returns it with that part."""
    item, value = ui.texts[frame["item_id"]], frame["encrypted_content"]
    if len(value) > page.ENCRYPTED_MAX_CHARS:
        return _left_out(frame, "encrypted_content")
    item.encrypted = value
    return [] if item.open else _start_reasoning(item, page.SUMMARY, f"{item.item_id}:encrypted")


def on_reasoning_done(ui: UiMessage, frame: Frame) -> list[Chunk]:
    """Write the end of the parts of a reasoning item."""
    return _end_parts(ui.texts.pop(frame["item_id"]), frame["status"])


def _left_out(frame: Frame, path: str) -> list[Chunk]:
    """Return the notice of a member that is left out because of a limit: one for each item."""
    data = {**members_of(frame, "kind", "item_id"), "notices": page.left_out(path)}
    return [data_part("notice", data, f"notice:{frame['item_id']}:{path}")]


def _start_text(item: TextItem, kind: str, part_id: str, agent: object) -> Chunk:
    item.open[part_id] = "text"
    item.is_silent = False
    about = {"kind": page.REFUSAL if kind == page.REFUSAL else None, "agent": agent}
    return with_metadata({"type": "text-start", "id": part_id}, **about)


def _start_reasoning(item: TextItem, kind: str, part_id: str) -> list[Chunk]:
    """Start a part, after the end of the one before: a page shows one summary after the other."""
    ended: list[Chunk] = [{"type": "reasoning-end", "id": open_id} for open_id in item.open]
    item.open = {part_id: REASONING}
    about = {"kind": page.FULL if kind == page.FULL else None, "item_id": item.item_id}
    return [*ended, with_metadata({"type": "reasoning-start", "id": part_id}, **about)]


def _end_parts(item: TextItem, status: str) -> list[Chunk]:
    """Return the end of each open part. The last one has the encrypted reasoning, and a status unless completed."""
    chunks: list[Chunk] = [{"type": f"{kind}-end", "id": part_id} for part_id, kind in item.open.items()]
    item.open = {}
    if chunks:
        about = {"status": page.unless_completed(status), "encrypted_content": item.encrypted}
        if item.encrypted is not None:
            about["item_id"] = item.item_id  # clients replace the metadata of the start
        with_metadata(chunks[-1], **about)
    return chunks


def _source(source_id: str, citation: Mapping[str, object]) -> list[Chunk]:
    """Return the source that a citation names; none for an address that was withheld."""
    if citation["type"] == "url_citation":
        address = str(citation.get("url", ""))
        return [source_url(source_id, address, citation.get("title"))] if address.startswith(_WEB) else []
    name = citation.get("filename", citation.get("file_id", "file"))
    chunk: Chunk = {"type": "source-document", "sourceId": source_id, "mediaType": UNKNOWN_MEDIA_TYPE, "title": name}
    if "filename" in citation:
        chunk["filename"] = citation["filename"]
    return [chunk]


def source_url(source_id: str, address: str, title: object = None) -> Chunk:
    """Return a source on the web."""
    chunk: Chunk = {"type": "source-url", "sourceId": source_id, "url": address}
    if title is not None:
        chunk["title"] = title
    return chunk
