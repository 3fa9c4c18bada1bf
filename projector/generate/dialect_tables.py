"""Tables of a dialect: how it is sent, and the kinds of frames that it has no event for, from its descriptor."""

from __future__ import annotations

from projector.dialects import DIALECTS


def descriptor_table(name: str) -> list[str]:
    """Return how the streams of a dialect are sent."""
    dialect = DIALECTS[name]
    headers = [f"`{key.decode()}: {value.decode()}`" for key, value in dialect.headers]
    mark = f"`data: {dialect.end_mark.decode()}`" if dialect.end_mark else "none"
    assembler = dialect.assembler
    return [
        "| | |",
        "|---|---|",
        f"| field `event` | {'the type of the event' if dialect.has_event_names else 'not used'} |",
        f"| field `id` | {'number of the event, if the stream is stored' if dialect.has_event_ids else 'not used'} |",
        f"| mark after the last event | {mark} |",
        f"| further headers | {', '.join(headers) or 'none'} |",
        f"| JSON answer | {f'`{assembler.body}`, if `stream` is not true' if assembler else 'none: always a stream'} |",
    ]


def dropped_table(name: str) -> list[str]:
    """Return the kinds of frames that a dialect does not write, and why."""
    rows = [f"| `{kind}` | {why} |" for kind, why in DIALECTS[name].tables().dropped.items()]
    return ["| kind | why |", "|---|---|", *rows]
