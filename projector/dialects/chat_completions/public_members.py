"""The member `public_sse` of a chunk: what the API has no member for, as members of the public event.

It is written only for clients that accept it (`DialectOptions.extensions`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from projector.contracts.kinds import Kind, PrivateKind
from projector.core.canonical import Frame

ENVELOPE: Final = frozenset(
    {
        *("schema", "event_id", "stream_id", "server_timestamp", "conversation_id", "response_id", "agent", "workflow"),
        "provider_sequence_number",
    }
)
"""Members of the public envelope, without notices. `public_sse` does not repeat them."""

POSITION: Final = ("kind", "output_index", "item_id", "content_index", "summary_index", "tool_call_id")
"""Members of a public event that accompany its notices."""

FINAL_MEMBERS: Final = ("status", "structured_output", "attachments")
"""Members of `final` that no chunk has."""


def extension_of(frame: Frame, *, has_chunk: bool = True) -> Frame | None:
    """Return what a public event has beyond its chunk; None if it has nothing.

    Args:
        frame: the event.
        has_chunk: whether events of its kind have a chunk in this case, as a delta of commentary has not.
    """
    return EXTENSIONS.get(frame["kind"], _nothing)(frame) if has_chunk else _whole(frame)


def _notices(frame: Frame) -> Frame | None:
    if "notices" not in frame:
        return None
    return {name: frame[name] for name in (*POSITION, "notices") if name in frame}


def _whole(frame: Frame) -> Frame | None:
    return {name: value for name, value in frame.items() if name not in ENVELOPE}


def _arguments(frame: Frame) -> Frame | None:
    return _notices(frame) if frame["tool_type"] == "function" else _whole(frame)


def _citation(frame: Frame) -> Frame | None:
    return _notices(frame) if frame["citation"]["type"] == "url_citation" else _whole(frame)


def _final(frame: Frame) -> Frame | None:
    final = frame["final"]
    notices = {"notices": frame["notices"]} if "notices" in frame else {}
    return {"kind": frame["kind"], "final": {name: final[name] for name in FINAL_MEMBERS if name in final}, **notices}


def _nothing(_frame: Frame) -> Frame | None:
    return None


EXTENSIONS: Final[Mapping[str, Callable[[Frame], Frame | None]]] = {
    **dict.fromkeys((*Kind, PrivateKind.REASONING_DELTA), _notices),
    Kind.TOOL_STATUS: _whole,
    Kind.TOOL_ARGUMENTS_DELTA: _arguments,
    Kind.TOOL_ARGUMENTS_DONE: _arguments,
    Kind.TOOL_CODE_DELTA: _whole,
    Kind.TOOL_CODE_DONE: _whole,
    Kind.TOOL_OUTPUT: _whole,
    Kind.CHUNK_DELTA: _whole,
    Kind.CHUNK_DONE: _whole,
    Kind.MESSAGE_CITATION: _citation,
    Kind.FINAL: _final,
    Kind.ERROR: _nothing,  # the chunk of an error has no other members
}
"""Kind -> what is written of its events."""
