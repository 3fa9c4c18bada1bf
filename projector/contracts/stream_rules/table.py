"""The rules by name, their violations, and what the checkers of all dialects share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from projector.contracts.public_sse_v1 import PublicEvent

Level: TypeAlias = Literal["spec", "project"]
"""`spec`: the specification; a violation may break any client. `project`: a decision of this project (CONTRACT)."""


class Rule(NamedTuple):
    """A rule; `source` is a section of the seed contract or a decision (Dn)."""

    name: str
    level: Level
    text: str
    source: str


class Finding(NamedTuple):
    """A violated rule. The message may name ids, kinds, statuses, paths and numbers; never text of the stream."""

    rule: str
    message: str


class Violation(NamedTuple):
    """A finding and its position: the line number from 1, and the event's ID where it could be read."""

    line: int
    event_id: int | None
    rule: str
    level: Level
    message: str


class RuleGroup(Protocol):
    """A group of rules, checked over one stream."""

    def check(self, event: PublicEvent, /) -> list[Finding]:
        """Check the next event."""


_ROWS: Final = (
    # one line
    Rule("json", "spec", "each line is one JSON object in UTF-8", "4.1"),
    Rule("frame_bytes", "project", "an event takes at most 262,144 bytes", "D27"),
    Rule("surrogate", "project", "text holds no lone surrogates", "D31"),
    Rule("kind", "spec", "`kind` is one of the eighteen", "9"),
    Rule("schema", "spec", "`schema` is `public_sse_v1`", "5"),
    Rule("extra_member", "spec", "no members other than those of the contract", "7.2"),
    Rule("shape", "spec", "required members are present, with the right types and values", "9"),
    Rule("null", "project", "a member without a value is absent, not null", "D3"),
    # the envelope
    Rule("event_id_rises", "spec", "`event_id` increases", "6.3"),
    Rule("event_id_gapless", "project", "`event_id` starts at 1 and increases by 1", "D1"),
    Rule("one_stream", "spec", "all events have the same `stream_id`", "6.1"),
    Rule("timestamp_form", "project", "`server_timestamp` is UTC with milliseconds and `Z`", "D2"),
    Rule("timestamp_order", "project", "`server_timestamp` never goes back", "D2"),
    Rule("one_conversation", "project", "`conversation_id`, once set, does not change", "D9"),
    # the end
    Rule("terminal_missing", "spec", "the stream ends with `final` or `error`", "7.1"),
    Rule("one_terminal", "spec", "there is one terminal event", "7.1"),
    Rule("after_terminal", "spec", "nothing follows the terminal event", "7.1"),
    # the lifecycle
    Rule("lifecycle_repeats", "project", "`lifecycle` is sent only when the status of a response changes", "D10"),
    Rule("lifecycle_order", "project", "a response does not change from one end status to another", "D10"),
    Rule("lifecycle_last", "project", "items are done before the `lifecycle` that ends their response", "D11"),
    Rule("final_status", "project", "`final.status` is no better than the status of any required response", "D12"),
    # items
    Rule("slot", "project", "`output_index` and `item_id` belong together, one to one", "D6"),
    Rule("item_announced", "project", "`output_item.added` is the first event of an item", "D7"),
    Rule("item_added_once", "project", "an item is added once", "D6"),
    Rule("item_done_once", "project", "an item is done once", "D7"),
    Rule("item_after_done", "project", "no event of an item follows its `output_item.done`, except D17 and D19", "D15"),
    Rule("item_response", "project", "an item has one `response_id`, except results of functions", "D4"),
    Rule("item_kind", "project", "an item has only the events of its type", "D22"),
    Rule("item_closed", "project", "every item is done before the terminal", "D7"),
    # tool calls
    Rule("call_id", "project", "`tool_call_id` is the same on every event of a call", "D8"),
    Rule("call_id_unique", "project", "`tool_call_id` belongs to one item", "D8"),
    Rule("status_order", "project", "a tool's status never goes back, nor from one end state to another", "D15"),
    Rule("status_repeats", "project", "a tool's status is repeated only when one of its members changed", "D15"),
    Rule(
        "call_order", "project", "a call begins with a status; then hosted and MCP calls have input, output, end", "D15"
    ),
    Rule("function_end", "project", "a function ends after its output, or after its item is done", "D17"),
    Rule("arguments_closed", "project", "`tool.arguments.done` is sent once, and no delta follows it", "D23"),
    Rule("arguments_joined", "project", "`arguments_text` equals its joined deltas", "D23"),
    Rule("arguments_parsed", "project", "`arguments_json` is the parse of `arguments_text`", "D23"),
    Rule("code_closed", "project", "`tool.code.done` is sent once, and no delta follows it", "D30"),
    Rule("code_joined", "project", "`code` equals its joined deltas, or was truncated with a notice", "D27"),
    # chunks
    Rule("chunk_item", "project", "a chunk target belongs to one item", "D21"),
    Rule("chunk_index", "project", "`chunk_index` counts 0, 1, 2, ... for each target", "D21"),
    Rule("chunk_closed", "project", "a closed chunk target does not reopen", "D21"),
    Rule("chunk_unfinished", "project", "every chunk target is closed before the terminal", "D7"),
    Rule("chunk_chars", "spec", "a chunk holds at most 131,072 characters", "8.1"),
    Rule("chunk_base64", "project", "each chunk decodes alone", "D21"),
    # texts
    Rule("refusal_closed", "project", "`refusal.done` is sent once for a part, and no delta follows it", "D30"),
    Rule("refusal_joined", "project", "`refusal_text` equals its joined deltas, or was truncated with a notice", "D30"),
    Rule(
        "final_text",
        "project",
        "texts of `final` hold the streamed texts in order of the items, or were truncated with a notice; "
        "whole messages (commentary) may be left out of `response_text`",
        "D13, D43",
    ),
    # bounds
    Rule("arguments_text_chars", "spec", "`arguments_text` has at most 8,000 characters", "8.1"),
    Rule("arguments_json_chars", "spec", "strings of `arguments_json` have at most 4,000 characters", "8.1"),
    Rule("output_chars", "spec", "strings of function and MCP outputs have at most 8,000 characters", "8.1"),
    Rule("results_items", "spec", "a file search shows at most 10 results", "8.1"),
    Rule("results_chars", "spec", "the text of a result has at most 2,000 characters", "8.1"),
    Rule("error_chars", "project", "`error.message` has at most 500 characters", "D14"),
    Rule("id_chars", "project", "ids and names have at most 256 characters", "D27"),
    Rule("title_chars", "project", "titles have at most 500 characters", "D27"),
    Rule("url_chars", "project", "URLs have at most 4,096 characters", "D27"),
    Rule("url_scheme", "project", "a URL is http or https, or withheld with a notice", "D28"),
    Rule("container_entries", "project", "objects and arrays of tool data have at most 1,000 entries", "D27"),
    Rule("container_levels", "project", "tool data is nested at most 64 levels deep", "D27"),
    Rule("key_chars", "project", "keys of tool data have at most 256 characters", "D27"),
    Rule("integer_bits", "project", "integers over 64 bits are written as strings", "D31"),
    # notices
    Rule("notice_items", "project", "an event has at most 32 notices, and one for their parent", "D26"),
    Rule("notice_once", "project", "at most one notice for each path and type", "D26"),
    Rule("notice_path", "project", "the path of a notice exists in its event", "D26"),
)
RULES: Final[Mapping[str, Rule]] = {row.name: row for row in _ROWS}


class Checker(Protocol):
    """Checks one stream, line by line."""

    def feed(self, line_no: int, line: bytes | str, /) -> list[Violation]:
        """Check one line; return its violations."""

    def close(self) -> list[Violation]:
        """Check the end of the stream; return what is missing."""


def violations(rules: Mapping[str, Rule], line: int, event_id: int | None, found: Iterable[Finding]) -> list[Violation]:
    """Return findings with their line and the level of their rule."""
    return [
        Violation(line, event_id, violation.rule, rules[violation.rule].level, violation.message) for violation in found
    ]


def check_lines(checker: Checker, lines: Iterable[bytes | str]) -> list[Violation]:
    """Check a whole stream and return its violations in order; lines are numbered from 1."""
    found = []
    for number, line in enumerate(lines, 1):
        found += checker.feed(number, line)
    return found + checker.close()
