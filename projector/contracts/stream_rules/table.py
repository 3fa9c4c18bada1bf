"""The rules by name, their violations, and what the checkers of all dialects share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from projector.contracts.public_sse_v1 import PublicEvent

Level: TypeAlias = Literal["seed", "house"]
"""`seed`: the contract itself; a violation may break any client. `house`: a decision of this project (CONTRACT)."""


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
        ...


_ROWS: Final = (
    # one line
    Rule("json", "seed", "each line is one JSON object in UTF-8", "4.1"),
    Rule("frame_bytes", "house", "an event takes at most 262,144 bytes", "D27"),
    Rule("surrogate", "house", "text holds no lone surrogates", "D31"),
    Rule("kind", "seed", "`kind` is one of section 9", "9"),
    Rule("schema", "seed", "`schema` is `public_sse_v1`", "5"),
    Rule("extra_member", "seed", "no members other than those of the contract", "7.2"),
    Rule("shape", "seed", "required members are present, with the right types and values", "9"),
    Rule("null", "house", "a member without a value is absent, not null", "D3"),
    # the envelope
    Rule("event_id_rises", "seed", "`event_id` increases", "6.3"),
    Rule("event_id_gapless", "house", "`event_id` starts at 1 and increases by 1", "D1"),
    Rule("one_stream", "seed", "all events have the same `stream_id`", "6.1"),
    Rule("timestamp_form", "house", "`server_timestamp` is UTC with milliseconds and `Z`", "D2"),
    Rule("timestamp_order", "house", "`server_timestamp` never goes back", "D2"),
    Rule("one_conversation", "house", "`conversation_id`, once set, does not change", "D9"),
    # the end
    Rule("terminal_missing", "seed", "the stream ends with `final` or `error`", "7.1"),
    Rule("one_terminal", "seed", "there is one terminal event", "7.1"),
    Rule("after_terminal", "seed", "nothing follows the terminal event", "7.1"),
    # the lifecycle
    Rule("lifecycle_repeats", "house", "`lifecycle` is sent only when the status of a response changes", "D10"),
    Rule("lifecycle_order", "house", "a response does not change from one end status to another", "D10"),
    Rule("lifecycle_last", "house", "items are done before the `lifecycle` that ends their response", "D11"),
    Rule("final_status", "house", "`final.status` is no better than the status of any required response", "D12"),
    # items
    Rule("slot", "house", "`output_index` and `item_id` belong together, one to one", "D6"),
    Rule("item_announced", "house", "`output_item.added` is the first event of an item", "D7"),
    Rule("item_added_once", "house", "an item is added once", "D6"),
    Rule("item_done_once", "house", "an item is done once", "D7"),
    Rule("item_after_done", "house", "no event of an item follows its `output_item.done`, except D17 and D19", "D15"),
    Rule("item_response", "house", "an item has one `response_id`, except results of functions", "D4"),
    Rule("item_kind", "house", "an item has only the events of its type", "D22"),
    Rule("item_closed", "house", "every item is done before the terminal", "D7"),
    # tool calls
    Rule("call_id", "house", "`tool_call_id` is the same on every event of a call", "D8"),
    Rule("call_id_unique", "house", "`tool_call_id` belongs to one item", "D8"),
    Rule("status_order", "house", "a tool's status never goes back, nor from one end state to another", "D15"),
    Rule("status_repeats", "house", "a tool's status is repeated only when one of its members changed", "D15"),
    Rule("call_order", "house", "a call begins with a status; then hosted and MCP calls have input, output, end", "D15"),
    Rule("function_end", "house", "a function ends after its output, or after its item is done", "D17"),
    Rule("arguments_closed", "house", "`tool.arguments.done` is sent once, and no delta follows it", "D23"),
    Rule("arguments_joined", "house", "`arguments_text` equals its joined deltas", "D23"),
    Rule("arguments_parsed", "house", "`arguments_json` is the parse of `arguments_text`", "D23"),
    Rule("code_closed", "house", "`tool.code.done` is sent once, and no delta follows it", "D30"),
    Rule("code_joined", "house", "`code` equals its joined deltas, or was truncated with a notice", "D27"),
    # chunks
    Rule("chunk_item", "house", "a chunk target belongs to one item", "D21"),
    Rule("chunk_index", "house", "`chunk_index` counts 0, 1, 2, ... for each target", "D21"),
    Rule("chunk_closed", "house", "a closed chunk target does not reopen", "D21"),
    Rule("chunk_unfinished", "house", "every chunk target is closed before the terminal", "D7"),
    Rule("chunk_chars", "seed", "a chunk holds at most 131,072 characters", "8.1"),
    Rule("chunk_base64", "house", "each chunk decodes alone", "D21"),
    # texts
    Rule("refusal_closed", "house", "`refusal.done` is sent once for a part, and no delta follows it", "D30"),
    Rule("refusal_joined", "house", "`refusal_text` equals its joined deltas, or was truncated with a notice", "D30"),
    Rule("final_text", "house", "texts of `final` contain the streamed texts, or were truncated with a notice", "D13"),
    # bounds
    Rule("arguments_text_chars", "seed", "`arguments_text` has at most 8,000 characters", "8.1"),
    Rule("arguments_json_chars", "seed", "strings of `arguments_json` have at most 4,000 characters", "8.1"),
    Rule("output_chars", "seed", "strings of function and MCP outputs have at most 8,000 characters", "8.1"),
    Rule("results_items", "seed", "a file search shows at most 10 results", "8.1"),
    Rule("results_chars", "seed", "the text of a result has at most 2,000 characters", "8.1"),
    Rule("error_chars", "house", "`error.message` has at most 500 characters", "D14"),
    Rule("id_chars", "house", "ids and names have at most 256 characters", "D27"),
    Rule("title_chars", "house", "titles have at most 500 characters", "D27"),
    Rule("url_chars", "house", "URLs have at most 4,096 characters", "D27"),
    Rule("url_scheme", "house", "a URL is http or https, or withheld with a notice", "D28"),
    Rule("container_entries", "house", "objects and arrays of tool data have at most 1,000 entries", "D27"),
    Rule("container_levels", "house", "tool data is nested at most 64 levels deep", "D27"),
    Rule("key_chars", "house", "keys of tool data have at most 256 characters", "D27"),
    Rule("integer_bits", "house", "integers over 64 bits are written as strings", "D31"),
    # notices
    Rule("notice_items", "house", "an event has at most 32 notices, and one for their parent", "D26"),
    Rule("notice_once", "house", "at most one notice for each path and type", "D26"),
    Rule("notice_path", "house", "the path of a notice exists in its event", "D26"),
)
RULES: Final[Mapping[str, Rule]] = {row.name: row for row in _ROWS}


class Checker(Protocol):
    """Checks one stream, line by line."""

    def feed(self, line_no: int, line: bytes | str, /) -> list[Violation]:
        """Check one line; return its violations."""
        ...

    def close(self) -> list[Violation]:
        """Check the end of the stream; return what is missing."""
        ...


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
