"""Tables of the limits and the codes of failures, and the names of the stream rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from projector.contracts import limits
from projector.contracts.stream_rules import RULES
from projector.core.faults import FAULTS
from projector.redaction.policy import Limits

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
