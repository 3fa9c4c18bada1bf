"""Tables of a dialect: how it is sent, and the kinds of frames that it has no event for, from its descriptor."""

from __future__ import annotations

from projector.dialects import DIALECTS


def descriptor_table(name: str) -> list[str]:
    """Return how the streams of a dialect are sent, without what it does not use."""
    dialect = DIALECTS[name]
    assembler = dialect.assembler
    rows = {
        "field `event`": "the type of the event" if dialect.has_event_names else "",
        "field `id`": "number of the event, if the stream is stored" if dialect.has_event_ids else "",
        "mark after the last event": f"`data: {dialect.end_mark.decode()}`" if dialect.end_mark else "",
        "further headers": ", ".join(f"`{key.decode()}: {value.decode()}`" for key, value in dialect.headers),
        "JSON answer": f"`{assembler.body}`, if `stream` is not true" if assembler else "none: always a stream",
    }
    return ["| | |", "|---|---|", *(f"| {about} | {value} |" for about, value in rows.items() if value)]


def dropped_table(name: str) -> list[str]:
    """Return the kinds of frames that a dialect does not write, and why."""
    rows = [f"| `{kind}` | {why} |" for kind, why in DIALECTS[name].tables().dropped.items()]
    return ["| kind | why |", "|---|---|", *rows]
