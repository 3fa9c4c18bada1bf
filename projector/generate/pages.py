"""Pages whose tables and samples are generated: each block between two markers is written anew.

    <!-- generated: NAME ARGUMENT ... -->
    <!-- end -->

`WRITERS` has the names. All other text of a page is written by hand. Samples are events of the golden outputs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from projector._resources import resource
from projector.contracts import codec, limits
from projector.contracts.stream_rules import RULES
from projector.core.faults import FAULTS
from projector.dialects import DIALECTS
from projector.generate.member_tables import ENVELOPE_MEMBERS, members_table
from projector.generate.operations import metrics_list, settings_list
from projector.redaction.policy import Limits

SAMPLES: Final[Mapping[str, str]] = {
    "lifecycle": "chat-incomplete",
    "output_item.added": "chat-web-search",
    "output_item.done": "chat-web-search",
    "message.delta": "chat-web-search",
    "message.citation": "chat-web-search",
    "reasoning_summary.delta": "chat-reasoning-summary",
    "refusal.delta": "chat-refusal",
    "refusal.done": "chat-refusal",
    "tool.status": "chat-web-search",
    "tool.arguments.delta": "chat-function-tool",
    "tool.arguments.done": "chat-function-tool",
    "tool.code.delta": "chat-code-interpreter",
    "tool.code.done": "chat-code-interpreter",
    "tool.output": "chat-weather-run",
    "chunk.delta": "chat-hosted-tools-in-detail",
    "chunk.done": "chat-hosted-tools-in-detail",
    "error": "chat-timeout",
    "final": "chat-web-search",
}
"""Kind -> the golden with its sample, which is the first event of the kind."""


def golden(case: str) -> list[dict[str, Any]]:
    """Return the events of a golden."""
    path = resource("examples_ndjson") / "public_sse_v1" / f"{case}.ndjson"
    return [codec.loads_exact(line) for line in path.read_text(encoding="utf-8").splitlines()]


def sample(kind: str, case: str | None = None) -> dict[str, Any]:
    """Return the first event of a kind, of a golden or of that of `SAMPLES`."""
    return next(event for event in golden(case or SAMPLES[kind]) if event["kind"] == kind)


def sample_block(kind: str, case: str | None = None) -> list[str]:
    """Return a sample as a code block, without the envelope except `notices`."""
    event = sample(kind, case)
    kept = {name: value for name, value in event.items() if name not in ENVELOPE_MEMBERS or name == "notices"}
    return ["```json", codec.dumps(kept).decode(), "```"]


def stream_block(case: str) -> list[str]:
    """Return a whole golden as it is sent."""
    return ["```", "\n\n".join(f"data: {codec.dumps(event).decode()}" for event in golden(case)), "```"]


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


LIMITS: Final = {
    "ARGUMENTS_JSON_STRING_MAX_CHARS": "a string in `arguments_json`",
    "ARGUMENTS_TEXT_MAX_CHARS": "`arguments_text`, and the deltas of a call together",
    "OUTPUT_STRING_MAX_CHARS": "a string in an output",
    "FILE_SEARCH_RESULTS_MAX_ITEMS": "results of a file search",
    "FILE_SEARCH_TEXT_MAX_CHARS": "the text of a result",
    "IMAGE_CHUNK_MAX_CHARS": "a chunk",
    "ERROR_MESSAGE_MAX_CHARS": "`error.message`",
    "NOTICES_MAX_ITEMS": "notices of an event; then one for their parent",
    "FRAME_MAX_BYTES": "the JSON of an event, `final` included",
    "CONTAINER_MAX_ENTRIES": "an object or array in a tree of tool data",
    "CONTAINER_MAX_DEPTH": "levels of a tree of tool data",
    "ID_MAX_CHARS": "an ID",
    "NAME_MAX_CHARS": "a name, a status, a reason",
    "KEY_MAX_CHARS": "a key in a tree of tool data",
    "TITLE_MAX_CHARS": "a title",
    "URL_MAX_CHARS": "a URL",
    "DELTA_MAX_CHARS": "a delta of a text; longer ones are split",
    "QUERY_MAX_CHARS": "a search query, a revised prompt",
}
"""Constant of `projector.contracts.limits` -> what it limits: those of the contract and `SPLIT_LIMITS`."""
SPLIT_LIMITS: Final = frozenset({"DELTA_MAX_CHARS", "QUERY_MAX_CHARS"})
"""Limits of this project that a client sees."""
_UNITS: Final = {"CHARS": "characters", "BYTES": "bytes", "ITEMS": "entries", "ENTRIES": "entries", "DEPTH": "levels"}


def limits_table() -> list[str]:
    """Return the limits, their values, and the names of those that a policy may change."""
    return ["| of | at most | in a policy |", "|---|---|---|", *_limit_rows()]


def _limit_rows() -> Iterator[str]:
    for constant, about in LIMITS.items():
        name, unit = constant.lower(), _UNITS[constant.rpartition("_")[2]]
        changed = f"`limits.{name}`" if name in Limits.model_fields else "fixed"
        yield f"| {about} | {getattr(limits, constant):,} {unit} | {changed} |"


def rules_line() -> list[str]:
    """Return the names of the rules of the specification; others are with their decisions."""
    return [", ".join(f"`{rule.name}`" for rule in RULES.values() if rule.level == "spec") + "."]


def codes_table() -> list[str]:
    """Return the codes of failures that the projector itself writes."""
    rows = [
        f"| `{fault.code}` | {fault.source} | {'yes' if fault.is_retryable else 'no'} | {fault.message} |"
        for fault in FAULTS.values()
    ]
    return ["| code | source | retryable | message |", "|---|---|---|---|", *rows]


PAGES: Final = ("contracts/*/README.md", "docs/operations.md")
_BLOCK: Final = re.compile(r"(?<=^<!-- generated: )([^\n]+)( -->\n).*?(?=^<!-- end -->$)", re.MULTILINE | re.DOTALL)


def event_block(model: str, kind: str) -> list[str]:
    """Return the table of the members of a kind, and its sample."""
    return [*members_table(model), "", *sample_block(kind)]


WRITERS: Final[Mapping[str, Callable[..., list[str]]]] = {
    "members": members_table,
    "rules": rules_line,
    "limits": limits_table,
    "codes": codes_table,
    "event": event_block,
    "sample": sample_block,
    "stream": stream_block,
    "descriptor": descriptor_table,
    "dropped": dropped_table,
    "settings": settings_list,
    "metrics": metrics_list,
}
"""Name of a block -> function that returns its lines; it is called with the words after the name."""


def pages(root: Path) -> dict[Path, bytes]:
    """Return each page below `root` with its blocks up to date, by its path from there."""
    found = sorted(path for pattern in PAGES for path in root.glob(pattern))
    return {path.relative_to(root): page(path.read_text(encoding="utf-8")).encode() for path in found}


def page(text: str) -> str:
    """Return a page with its blocks up to date. Raises `KeyError` for an unknown name."""
    return _BLOCK.sub(_block, text)


def _block(found: re.Match[str]) -> str:
    name, *arguments = found[1].split()
    return "\n".join([f"{found[1]}{found[2]}", *WRITERS[name](*arguments), "", ""])
