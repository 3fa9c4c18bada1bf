"""Rules of the values in one event: limits, forms, notices (seed 8 and 8.1, CONTRACT D3, D14, D26 to D28, D31).

Paths are patterns of `projector.contracts.paths`, where `*` is every entry or member; a path that an event does not
have is skipped. The numbers are those of `projector.contracts.limits`; a host that raises a limit skips its rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from projector.contracts import limits
from projector.contracts.limits import NOTICES_MAX_ITEMS
from projector.contracts.paths import ABSENT, find, resolve
from projector.contracts.public_sse_v1 import PublicEvent
from projector.contracts.stream_rules.table import Finding

URLS: Final = ("citation.url", "tool.sources.*", "final.attachments.*.url")
TEXTS: Final[Mapping[str, tuple[int, tuple[str, ...]]]] = {
    "arguments_text_chars": (limits.ARGUMENTS_TEXT_MAX_CHARS, ("arguments_text", "tool.arguments_text")),
    "results_chars": (limits.FILE_SEARCH_TEXT_MAX_CHARS, ("tool.results.*.text",)),
    "error_chars": (limits.ERROR_MESSAGE_MAX_CHARS, ("error.message",)),
    "title_chars": (limits.TITLE_MAX_CHARS, ("citation.title",)),
    "url_chars": (limits.URL_MAX_CHARS, URLS),
    "id_chars": (
        limits.ID_MAX_CHARS,
        (
            *("stream_id", "conversation_id", "response_id", "agent", "workflow.*", "reason", "error.code"),
            *("item_id", "item_type", "role", "status", "tool_call_id", "tool_name", "target.entity_id"),
            *("tool.tool_call_id", "tool.name", "tool.tool_name", "tool.server_label", "tool.container_id"),
            *("tool.format", "tool.size", "tool.quality", "tool.background"),
            *("citation.file_id", "citation.container_id", "citation.filename"),
            *("tool.results.*.file_id", "tool.results.*.filename"),
            *("final.attachments.*.object_id", "final.attachments.*.filename", "final.attachments.*.mime_type"),
        ),
    ),
}
"""Rule -> longest text, and where it is."""
PAYLOADS: Final[Mapping[str, tuple[str, int] | None]] = {
    "arguments_json": ("arguments_json_chars", limits.ARGUMENTS_JSON_STRING_MAX_CHARS),
    "tool.arguments_json": ("arguments_json_chars", limits.ARGUMENTS_JSON_STRING_MAX_CHARS),
    "output": ("output_chars", limits.OUTPUT_STRING_MAX_CHARS),
    "tool.output": ("output_chars", limits.OUTPUT_STRING_MAX_CHARS),
    "tool.results.*.attributes": None,
    "final.structured_output": None,
}
"""Where a tree of tool data is -> rule of its strings, and the longest one; None: no rule."""
NULLABLE: Final = ("conversation_id", "response_id", "agent", "workflow", "workflow.*", "final.structured_output")
"""Paths where the models accept null, because the seed shows it there."""
_HOSTED_OUTPUT: Final = frozenset({"web_search", "file_search", "code_interpreter", "image_generation"})
_INT64: Final = range(-(2**63), 2**64)  # what our codec writes as a number


def check_bounds(members: Mapping[str, object]) -> list[Finding]:
    """Check the values of one event that matches its model."""
    nullable = [entry for pattern in NULLABLE for entry in find(members, pattern)]
    found = [Finding("null", f"`{path}`: expected no null") for path, value in nullable if value is None]
    found += _check_texts(members) + _check_urls(members)
    for path, results in find(members, "tool.results"):
        if isinstance(results, list) and len(results) > (most := limits.FILE_SEARCH_RESULTS_MAX_ITEMS):
            found.append(Finding("results_items", f"`{path}`: expected at most {most}, found {len(results)}"))
    for pattern, strings in PAYLOADS.items():
        is_hosted = pattern == "output" and members.get("tool_type") in _HOSTED_OUTPUT
        for path, tree in find(members, pattern):
            found += _check_tree(path, tree, None if is_hosted else strings)
    return found


def _check_texts(members: Mapping[str, object]) -> list[Finding]:
    return [
        Finding(rule, f"`{path}`: expected at most {max_chars} characters, found {len(value)}")
        for rule, (max_chars, patterns) in TEXTS.items()
        for pattern in patterns
        for path, value in find(members, pattern)
        if isinstance(value, str) and len(value) > max_chars
    ]


def _check_urls(members: Mapping[str, object]) -> list[Finding]:
    withheld = any(kind == "redacted" for _, kind in find(members, "notices.*.type"))
    return [
        Finding("url_scheme", f"`{path}`: expected http or https, or a notice that it was withheld")
        for pattern in URLS
        for path, url in find(members, pattern)
        if isinstance(url, str) and not url[:8].lower().startswith(("http://", "https://")) and not withheld
    ]


def _check_tree(path: str, tree: object, strings: tuple[str, int] | None) -> list[Finding]:
    """Walk a tree by levels; report each violated rule once, because a hostile tree violates it everywhere."""
    found: dict[str, Finding] = {}
    level, depth = [tree], 0
    while level:
        for value in level:
            for rule in _broken(value, strings):
                found.setdefault(rule, Finding(rule, f"`{path}`: a value at level {depth} is over the limit"))
        depth += 1
        level = [child for value in level for child in _children(value)]
        if depth > limits.CONTAINER_MAX_DEPTH and level:
            found["container_levels"] = Finding("container_levels", f"`{path}`: expected at most {depth - 1} levels")
            break
    return [*found.values()]


def _broken(value: object, strings: tuple[str, int] | None) -> list[str]:
    """Return the rules that a single value violates."""
    if isinstance(value, str):
        rule, max_chars = strings or ("", len(value))
        return [rule] if len(value) > max_chars else []
    if isinstance(value, dict | list):
        too_many = ["container_entries"] if len(value) > limits.CONTAINER_MAX_ENTRIES else []
        too_long = isinstance(value, dict) and any(len(key) > limits.KEY_MAX_CHARS for key in value)
        return [*too_many, "key_chars"] if too_long else too_many
    return ["integer_bits"] if isinstance(value, int) and value not in _INT64 else []


def _children(value: object) -> list[object]:
    if isinstance(value, dict):
        return [*value.values()]
    return value if isinstance(value, list) else []


def check_notices(event: PublicEvent, members: Mapping[str, object]) -> list[Finding]:
    """Check the notices of one event against the event as it was sent."""
    notices = event.notices or []
    found = []
    if len(notices) > NOTICES_MAX_ITEMS + 1:
        expected = f"expected at most {NOTICES_MAX_ITEMS} and a parent"
        found.append(Finding("notice_items", f"{expected}, found {len(notices)}"))
    seen = set()
    for index, notice in enumerate(notices):
        if resolve(members, notice.path) is ABSENT:
            found.append(Finding("notice_path", f"`notices[{index}].path`: expected a path that exists in the event"))
        if (notice.type, notice.path) in seen:
            found.append(Finding("notice_once", f"`notices[{index}]`: expected another path or type"))
        seen.add((notice.type, notice.path))
    return found


def is_truncated(event: PublicEvent, path: str | None = None) -> bool:
    """Return whether a notice marks a truncation: of the member at `path`, of its parent, or of anything if None."""
    paths = [notice.path for notice in event.notices or () if notice.type == "truncated"]
    return bool(paths) if path is None else any(path == each or path.startswith(f"{each}.") for each in paths)
