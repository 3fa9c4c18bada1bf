"""The rules over the whole log of a run, by name: what each says, where it comes from, and how much it weighs.

`seed` is the protocol: its schemas and RFC 0002, 0023 and 0024. `house` is what we hold ourselves to beyond it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from projector.contracts.stream_rules.table import Rule

_ROWS: Final = (
    # one event
    Rule("json", "seed", "each line is one JSON object in UTF-8", "run-event"),
    Rule("shape", "seed", "each event is one that we emit, with its members", "run-event-payloads"),
    # the envelope
    Rule("sequence", "seed", "`sequence` starts at 0 and rises by 1", "run-event"),
    Rule("one_run", "seed", "all events have the same `runId`, in the payload as well", "run-event"),
    Rule("event_id_unique", "seed", "an `eventId` is given once", "run-event"),
    Rule("causation_known", "seed", "`causationId` names an event before it", "run-event"),
    # the run
    Rule("run_started", "house", "`run.started` is first, and once", "docs/openwop.md"),
    Rule("one_terminal", "seed", "one of `run.completed`, `run.failed`, `run.cancelled` is last", "RFC 0002"),
    Rule("terminal_missing", "seed", "a log ends with its run, or waits for an interrupt", "interrupt.md"),
    # nodes
    Rule("node_open", "seed", "what names a node stands between its beginning and its end", "run-event-payloads"),
    Rule("node_closed", "house", "every node has ended before the run", "docs/openwop.md"),
    Rule("node_waits", "seed", "what is resumed was suspended, and a run that waits is not completed", "interrupt.md"),
    Rule("low_confidence", "seed", "a suspension follows the decision that was below the threshold", "RFC 0023 B.4"),
    # reasoning
    Rule("block_sequence", "seed", "deltas of a block count 0, 1, 2 ...", "RFC 0024 no. 4"),
    Rule("block_closed", "seed", "every block is closed by one `agent.reasoned` of its agent", "RFC 0024 no. 2, 3"),
    Rule("block_text", "house", "`reasoning` is what its deltas make", "RFC 0024 no. 2"),
    Rule("block_verbosity", "house", "deltas have the verbosity of their closing event", "RFC 0024 question 2"),
    # calls, agents, text
    Rule("call_id_unique", "seed", "a `callId` is called once, and returned once", "RFC 0002 B"),
    Rule("call_cause", "seed", "what a call returned names the event of the call as its cause", "RFC 0002 B"),
    Rule("call_end", "seed", "a call returned has an outcome or an error, not both", "run-event-payloads"),
    Rule("handoff", "house", "an agent hands over to another one", "RFC 0002 B"),
    Rule("chunk_last", "seed", "the text of a model's call ends with `isLast`", "stream-modes.md"),
)
RULES: Final[Mapping[str, Rule]] = {row.name: row for row in _ROWS}
