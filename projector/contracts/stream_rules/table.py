"""The rules by name: what each says, where it comes from, and how much it weighs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from projector.contracts.public_sse_v1 import PublicEvent

Level: TypeAlias = Literal["seed", "house"]
"""`seed`: the contract itself, so any client may break. `house`: our decisions (CONTRACT), stricter or wider."""


class Rule(NamedTuple):
    """One rule; `source` is a section of the seed contract or a decision."""

    name: str
    level: Level
    says: str
    source: str


class Breach(NamedTuple):
    """A rule that an event breaks. The message may name ids, kinds, statuses, paths and numbers; never text."""

    rule: str
    message: str


class Violation(NamedTuple):
    """A breach, and where: the line from 1, and the event's own id where it could be read."""

    line: int
    event_id: int | None
    rule: str
    level: Level
    message: str


class Watch(Protocol):
    """Some of the rules, over one stream."""

    def see(self, event: PublicEvent, /) -> list[Breach]:
        """Take the next event; return what it breaks."""
        ...


_ROWS: Final = (
    # one line
    Rule("json", "seed", "each line is one JSON object in UTF-8", "4.1"),
    Rule("frame_bytes", "house", "an event takes at most 262,144 bytes", "D27"),
    Rule("surrogate", "house", "text holds no lone surrogates", "D31"),
    Rule("kind", "seed", "`kind` is one of section 9", "9"),
    Rule("schema", "seed", "`schema` is `public_sse_v1`", "5"),
    Rule("extra_member", "seed", "no members but those of the contract", "7.2"),
    Rule("shape", "seed", "required members are there, and members have their types and values", "9"),
    Rule("null", "house", "a member without a value is absent, not null", "D3"),
    # the envelope
    Rule("event_id_rises", "seed", "`event_id` rises", "6.3"),
    Rule("event_id_gapless", "house", "`event_id` starts at 1 and rises by 1", "D1"),
    Rule("one_stream", "seed", "all events have the same `stream_id`", "6.1"),
    Rule("timestamp_form", "house", "`server_timestamp` is UTC with milliseconds and `Z`", "D2"),
    Rule("timestamp_order", "house", "`server_timestamp` never goes back", "D2"),
    Rule("one_conversation", "house", "`conversation_id`, once said, is not another one", "D9"),
    # the end
    Rule("terminal_missing", "seed", "the stream ends with `final` or `error`", "7.1"),
    Rule("one_terminal", "seed", "there is one terminal event", "7.1"),
    Rule("after_terminal", "seed", "nothing follows the terminal event", "7.1"),
    # the lifecycle
    Rule("lifecycle_repeats", "house", "`lifecycle` is said when the status of a response changes", "D10"),
    Rule("lifecycle_order", "house", "a response does not go from one end to another", "D10"),
    Rule("lifecycle_last", "house", "items are done before the `lifecycle` that ends their response", "D11"),
    Rule("final_status", "house", "`final.status` is no better than what `lifecycle` said of what had to be", "D12"),
    # items
    Rule("slot", "house", "`output_index` and `item_id` belong together, one to one", "D6"),
    Rule("item_announced", "house", "`output_item.added` comes before everything else of an item", "D7"),
    Rule("item_added_once", "house", "an item is added once", "D6"),
    Rule("item_done_once", "house", "an item is done once", "D7"),
    Rule("item_after_done", "house", "after `output_item.done` nothing of the item, but for D17 and D19", "D15"),
    Rule("item_response", "house", "an item has one `response_id`, but for what a function gives later", "D4"),
    Rule("item_kind", "house", "an item has events of its type only: texts, reasoning, those of one tool type", "D22"),
    Rule("item_closed", "house", "every item is done before the terminal", "D7"),
    # tool calls
    Rule("call_id", "house", "`tool_call_id` is the same on every event of a call", "D8"),
    Rule("call_id_unique", "house", "`tool_call_id` belongs to one item", "D8"),
    Rule("status_order", "house", "a tool's status never goes back, nor from one end to another", "D15"),
    Rule("status_repeats", "house", "a tool's status is said again only when a member of it changed", "D15"),
    Rule("call_order", "house", "a call says a status first; a hosted or MCP one then input, output, end", "D15"),
    Rule("function_end", "house", "a function ends after its output, or after its item is done", "D17"),
    Rule("arguments_closed", "house", "`tool.arguments.done` is said once, and no delta follows it", "D23"),
    Rule("arguments_joined", "house", "`arguments_text` is what its deltas make", "D23"),
    Rule("arguments_parsed", "house", "`arguments_json` is the parse of `arguments_text`", "D23"),
    Rule("code_closed", "house", "`tool.code.done` is said once, and no delta follows it", "D30"),
    Rule("code_joined", "house", "`code` is what its deltas make, or was cut with a notice", "D27"),
    # chunks
    Rule("chunk_item", "house", "a chunk target belongs to one item", "D21"),
    Rule("chunk_index", "house", "`chunk_index` counts 0, 1, 2 ... for each target", "D21"),
    Rule("chunk_closed", "house", "a closed chunk target does not reopen", "D21"),
    Rule("chunk_unfinished", "house", "every chunk target is closed before the terminal", "D7"),
    Rule("chunk_chars", "seed", "a chunk holds at most 131,072 characters", "8.1"),
    Rule("chunk_base64", "house", "each chunk decodes alone", "D21"),
    # texts
    Rule("refusal_closed", "house", "`refusal.done` is said once for a part, and no delta follows it", "D30"),
    Rule("refusal_joined", "house", "`refusal_text` is what its deltas make, or was cut with a notice", "D30"),
    Rule("final_text", "house", "the texts of `final` hold what was said, or were cut with a notice", "D13"),
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
    Rule("notice_once", "house", "one notice for a path and type", "D26"),
    Rule("notice_path", "house", "the path of a notice names a place in its event", "D26"),
)
RULES: Final[Mapping[str, Rule]] = {row.name: row for row in _ROWS}
