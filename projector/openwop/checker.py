"""Checker of a run log: the table of rules, and the groups of rules with their state.

Rule level `spec` is the protocol: its schemas and RFC 0002, 0023 and 0024. `project` is what this project adds to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from pydantic import ValidationError

from projector._validation import sentences
from projector.contracts import codec
from projector.contracts.stream_rules.table import Finding, Rule, Violation, violations
from projector.openwop.event_log import NODE_TERMINALS, RUN_TERMINALS
from projector.openwop.events import EVENT_ADAPTER

Event: TypeAlias = Mapping[str, Any]
RuleGroup: TypeAlias = Callable[[Event], list[Finding]]
"""Related rules: returns the violations of the next event, which matches its model."""

_Place: TypeAlias = tuple[str, str | None]
"""An agent and a node."""

_ROWS: Final = (
    # one event
    Rule("json", "spec", "each line is one JSON object in UTF-8", "run-event"),
    Rule("shape", "spec", "each event is of a type that we emit, with the members of its model", "run-event-payloads"),
    # the envelope
    Rule("sequence", "spec", "`sequence` starts at 0 and rises by 1", "run-event"),
    Rule("one_run", "spec", "all events have the same `runId`, in the payload as well", "run-event"),
    Rule("event_id_unique", "spec", "each `eventId` occurs once", "run-event"),
    Rule("causation_known", "spec", "`causationId` is the id of an earlier event", "run-event"),
    # the run
    Rule("run_started", "project", "`run.started` is first and occurs once", "docs/openwop.md"),
    Rule("one_terminal", "spec", "one of `run.completed`, `run.failed`, `run.cancelled` is last", "RFC 0002"),
    Rule("terminal_missing", "spec", "a log ends with a terminal event or a pending interrupt", "interrupt.md"),
    # nodes
    Rule("node_open", "spec", "events of a node are between its start and its end", "run-event-payloads"),
    Rule("node_closed", "project", "every node ends before the run", "docs/openwop.md"),
    Rule("node_waits", "spec", "only a suspended node resumes; a suspended run does not complete", "interrupt.md"),
    Rule("low_confidence", "spec", "a suspension follows the decision below the threshold", "RFC 0023 B.4"),
    # reasoning
    Rule("block_sequence", "spec", "deltas of a block count 0, 1, 2 ...", "RFC 0024 no. 4"),
    Rule("block_closed", "spec", "one `agent.reasoned` of its agent and node closes every block", "RFC 0024 no. 2, 3"),
    Rule("block_streamed", "project", "an agent has deltas for all its text in a node, or for none", "RFC 0024 no. 2"),
    Rule("block_text", "project", "`reasoning` is the concatenation of the deltas", "RFC 0024 no. 2"),
    Rule("block_verbosity", "project", "deltas have the verbosity of their closing event", "RFC 0024 question 2"),
    # calls, agents, text
    Rule("call_id_unique", "spec", "a `callId` is called once and returned once", "RFC 0002 B"),
    Rule("call_cause", "spec", "`agent.toolReturned` has the event of its call as `causationId`", "RFC 0002 B"),
    Rule("call_end", "spec", "a returned call has an outcome or an error, not both", "run-event-payloads"),
    Rule("handoff", "project", "an agent hands over to another agent", "RFC 0002 B"),
    Rule("chunk_last", "spec", "the text of a model call ends with `isLast`", "stream-modes.md"),
)
RULES: Final[Mapping[str, Rule]] = {row.name: row for row in _ROWS}
"""Rule name -> what it requires, its source and its level."""


class _EnvelopeRules:
    """Sequence numbers, ids and causes."""

    def __init__(self) -> None:
        self._next = 0
        self._run_id: str | None = None
        self._ids: set[str] = set()

    def __call__(self, event: Event) -> list[Finding]:
        found = []
        if event["sequence"] != self._next:
            found.append(Finding("sequence", f"expected {self._next}, found {event['sequence']}"))
        self._next = event["sequence"] + 1
        self._run_id = self._run_id or event["runId"]
        if {event["runId"], event["payload"].get("runId", self._run_id)} != {self._run_id}:
            found.append(Finding("one_run", "expected the `runId` of the first event"))
        if event["eventId"] in self._ids:
            found.append(Finding("event_id_unique", "expected a unique `eventId`"))
        if "causationId" in event and event["causationId"] not in self._ids:
            found.append(Finding("causation_known", "expected the `eventId` of an earlier event"))
        self._ids.add(event["eventId"])
        return found


class _RunRules:
    """Start, suspension and end of the run and its nodes."""

    def __init__(self) -> None:
        self.has_ended = False
        self._has_started = False
        self._nodes: dict[str, set[str]] = {}
        """Open nodes and their pending interrupts."""
        self._decided: tuple[str, object] = ("", None)

    @property
    def is_waiting(self) -> bool:
        """Whether an interrupt is pending."""
        return any(self._nodes.values())

    def __call__(self, event: Event) -> list[Finding]:
        name = event["type"]
        if self.has_ended:
            return [Finding("one_terminal", "expected no event after the end of the run")]
        found = []
        if (name == "run.started") == self._has_started:
            found.append(Finding("run_started", "expected `run.started` first, and only there"))
        self._has_started = True
        if name in RUN_TERMINALS:
            self.has_ended = True
            found += self._end(name)
        elif "nodeId" in event:
            found += self._node(name, event)
        if name == "agent.decided":
            self._decided = (event["payload"]["agentId"], event["payload"].get("confidence"))
        return found

    def _end(self, name: str) -> list[Finding]:
        if self.is_waiting and name == "run.completed":
            return [Finding("node_waits", "expected `node.resumed` before the end")]
        return [Finding("node_closed", "expected every node to have ended")] if self._nodes else []

    def _node(self, name: str, event: Event) -> list[Finding]:
        node_id, payload = event["nodeId"], event["payload"]
        if (name == "node.started") == (node_id in self._nodes) or payload.get("nodeId", node_id) != node_id:
            return [Finding("node_open", "expected a started node that has not ended, the same in the payload")]
        waiting = self._nodes.setdefault(node_id, set())
        if name in NODE_TERMINALS:
            del self._nodes[node_id]
            if waiting and name == "node.completed":
                return [Finding("node_waits", "expected `node.resumed` before the end")]
        if name == "node.suspended":
            waiting.add(payload["interruptId"])
            if payload["kind"] == "low-confidence":
                is_low = payload["observed"] < payload["threshold"]
                if not is_low or self._decided != (payload["agentId"], payload["observed"]):
                    return [Finding("low_confidence", "expected a decision of this agent, below the threshold")]
        if name == "node.resumed":
            if payload.get("interruptId") not in waiting:
                return [Finding("node_waits", "expected a pending interrupt of the node")]
            waiting.remove(payload["interruptId"])
        return []


class _ReasoningRules:
    """Reasoning blocks; an agent has at most one open in a node."""

    def __init__(self) -> None:
        self._open: dict[_Place, list[Mapping[str, Any]]] = {}
        self._has_deltas: dict[_Place, bool] = {}
        """Whether the first text of an agent in a node had deltas."""

    def __call__(self, event: Event) -> list[Finding]:
        name, payload = event["type"], event["payload"]
        if name == "agent.reasoning.delta":
            return self._extend((payload["agentId"], event.get("nodeId")), payload)
        if name == "agent.reasoned":
            return self._close((payload["agentId"], event.get("nodeId")), payload)
        if name in NODE_TERMINALS:
            left = [place for place in self._open if place[1] == event["nodeId"]]
        else:
            left = [*self._open] if name in RUN_TERMINALS else []
        for place in left:
            del self._open[place]
        return [Finding("block_closed", "expected `agent.reasoned` for each block before the end")] if left else []

    def _extend(self, place: _Place, payload: Mapping[str, Any]) -> list[Finding]:
        deltas = self._open.setdefault(place, [])
        deltas.append(payload)
        found = []
        if payload["sequence"] != len(deltas) - 1:
            found.append(Finding("block_sequence", f"expected {len(deltas) - 1}, found {payload['sequence']}"))
        if not self._has_deltas.setdefault(place, True):
            found.append(Finding("block_streamed", "expected deltas for all text of the agent in this node"))
        return found

    def _close(self, place: _Place, payload: Mapping[str, Any]) -> list[Finding]:
        found, deltas = [], self._open.pop(place, [])
        if deltas and "".join(delta["delta"] for delta in deltas) != payload["reasoning"]:
            found.append(Finding("block_text", "expected the concatenated deltas"))
        if {delta.get("verbosity") for delta in deltas} - {payload.get("verbosity")}:
            found.append(Finding("block_verbosity", "expected the verbosity of the deltas"))
        if payload["reasoning"] and self._has_deltas.setdefault(place, bool(deltas)) != bool(deltas):
            found.append(Finding("block_streamed", "expected deltas for all text of the agent in this node"))
        return found


class _CallRules:
    """Tool calls, their results, and handoffs."""

    def __init__(self) -> None:
        self._called: dict[str, Event] = {}
        self._returned: set[str] = set()

    def __call__(self, event: Event) -> list[Finding]:
        name, payload = event["type"], event["payload"]
        if name == "agent.handoff" and payload["fromAgentId"] == payload["toAgentId"]:
            return [Finding("handoff", "expected another agent")]
        if name == "agent.toolCalled":
            if payload["callId"] in self._called:
                return [Finding("call_id_unique", "expected a unique `callId`")]
            self._called[payload["callId"]] = event
        return self._return(event) if name == "agent.toolReturned" else []

    def _return(self, event: Event) -> list[Finding]:
        payload, call_id = event["payload"], event["payload"]["callId"]
        if call_id in self._returned:
            return [Finding("call_id_unique", "expected one return of a call")]
        self._returned.add(call_id)
        call = self._called.get(call_id)
        expected = call and (call["eventId"], call["payload"]["agentId"], call["payload"]["toolName"])
        if expected != (event["causationId"], payload["agentId"], payload["toolName"]):
            return [Finding("call_cause", "expected the event of this call")]
        has_both = "error" in payload and "outcome" in payload
        return [Finding("call_end", "expected an outcome or an error")] if has_both else []


class _ChunkRules:
    """Output text, which ends before its node does."""

    def __init__(self) -> None:
        self._open: set[str] = set()

    def __call__(self, event: Event) -> list[Finding]:
        name, payload = event["type"], event["payload"]
        if name == "output.chunk":
            (self._open.discard if payload["isLast"] else self._open.add)(payload["nodeId"])
        elif name in NODE_TERMINALS and payload["nodeId"] in self._open:
            return [Finding("chunk_last", "expected the last chunk before the end of its node")]
        return []


class LogChecker:
    """Checker of one log, given as lines of JSON. Invalid input is a violation, never an exception."""

    def __init__(self) -> None:
        self._run = _RunRules()
        self._groups: list[RuleGroup] = [_EnvelopeRules(), self._run, _ReasoningRules(), _CallRules(), _ChunkRules()]
        self._line = 0
        self._sequence: int | None = None

    def feed(self, line_no: int, line: bytes | str, /) -> list[Violation]:
        """Check one line and return its violations; blank lines are skipped."""
        line = line.strip()
        if not line:
            return []
        self._line, self._sequence = line_no, None
        try:
            event = codec.loads(line)
        except codec.CodecError:
            event = None
        if not isinstance(event, dict):
            return self._violations([Finding("json", "expected a JSON object in UTF-8")])
        if type(event.get("sequence")) is int:
            self._sequence = event["sequence"]
        try:
            EVENT_ADAPTER.validate_python(event)
        except ValidationError as error:
            return self._violations([Finding("shape", text) for text in sentences(error, event, root="event")])
        return self._violations([finding for group in self._groups for finding in group(event)])

    def close(self) -> list[Violation]:
        """Return what is missing at the end of the log."""
        if self._run.has_ended or self._run.is_waiting:
            return []
        return self._violations([Finding("terminal_missing", "expected a terminal event or a pending interrupt")])

    def _violations(self, findings: list[Finding]) -> list[Violation]:
        return violations(RULES, self._line, self._sequence, findings)
