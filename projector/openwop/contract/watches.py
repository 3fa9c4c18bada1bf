"""What each rule over a log has to remember: one small class a subject. They see events that obey their models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol, TypeAlias

from projector.contracts.stream_rules.table import Breach
from projector.openwop.contract.events import RUN_TERMINALS

Event: TypeAlias = Mapping[str, Any]

NODE_ENDS: Final = frozenset({"node.completed", "node.failed", "node.cancelled"})


class Watch(Protocol):
    """Some of the rules, over one log."""

    def see(self, event: Event, /) -> list[Breach]:
        """Take the next event; return what it breaks."""
        ...


class EnvelopeWatch:
    """Numbers, ids and causes."""

    def __init__(self) -> None:
        self._next = 0
        self._run_id: str | None = None
        self._ids: set[str] = set()

    def see(self, event: Event) -> list[Breach]:
        """Take the next event; return what it breaks."""
        found = []
        if event["sequence"] != self._next:
            found.append(Breach("sequence", f"expected {self._next}, found {event['sequence']}"))
        self._next = event["sequence"] + 1
        self._run_id = self._run_id or event["runId"]
        if {event["runId"], event["payload"].get("runId", self._run_id)} != {self._run_id}:
            found.append(Breach("one_run", "expected the run of the first event"))
        if event["eventId"] in self._ids:
            found.append(Breach("event_id_unique", "expected an id that no other event has"))
        if "causationId" in event and event["causationId"] not in self._ids:
            found.append(Breach("causation_known", "expected the id of an event before this one"))
        self._ids.add(event["eventId"])
        return found


class RunWatch:
    """How the run begins, waits and ends."""

    def __init__(self) -> None:
        self.has_ended = False
        self._has_begun = False
        self._nodes: dict[str, set[str]] = {}
        """Open nodes, and the interrupts that each waits for."""
        self._decided: tuple[str, object] = ("", None)

    @property
    def is_waiting(self) -> bool:
        """Whether a node waits for an interrupt."""
        return any(self._nodes.values())

    def see(self, event: Event) -> list[Breach]:
        """Take the next event; return what it breaks."""
        name = event["type"]
        if self.has_ended:
            return [Breach("one_terminal", "expected nothing behind the end of the run")]
        found = []
        if (name == "run.started") == self._has_begun:
            found.append(Breach("run_started", "expected `run.started` first, and only there"))
        self._has_begun = True
        if name in RUN_TERMINALS:
            self.has_ended = True
            found += self._end(name)
        elif "nodeId" in event:
            found += self._node(name, event)
        if name == "agent.decided":
            self._decided = (event["payload"]["agentId"], event["payload"].get("confidence"))
        return found

    def _end(self, name: str) -> list[Breach]:
        if self.is_waiting and name == "run.completed":
            return [Breach("node_waits", "expected `node.resumed` before the end")]
        return [Breach("node_closed", "expected every node to have ended")] if self._nodes else []

    def _node(self, name: str, event: Event) -> list[Breach]:
        node_id, payload = event["nodeId"], event["payload"]
        is_known = node_id in self._nodes
        if (name == "node.started") == is_known or payload.get("nodeId", node_id) != node_id:
            return [Breach("node_open", "expected a node that has begun and not ended, the same in the payload")]
        waiting = self._nodes.setdefault(node_id, set())
        if name in NODE_ENDS:
            del self._nodes[node_id]
            if waiting and name == "node.completed":
                return [Breach("node_waits", "expected `node.resumed` before the end")]
        if name == "node.suspended":
            waiting.add(payload["interruptId"])
            return self._confidence(payload)
        if name == "node.resumed":
            if payload.get("interruptId") not in waiting:
                return [Breach("node_waits", "expected an interrupt that the node waits for")]
            waiting.remove(payload["interruptId"])
        return []

    def _confidence(self, payload: Mapping[str, Any]) -> list[Breach]:
        if payload["kind"] != "low-confidence":
            return []
        is_right = payload["observed"] < payload["threshold"]
        if is_right and self._decided == (payload["agentId"], payload["observed"]):
            return []
        return [Breach("low_confidence", "expected a decision of this agent, below the threshold")]


class ReasoningWatch:
    """Blocks: an agent has one open at most."""

    def __init__(self) -> None:
        self._open: dict[str, list[Mapping[str, Any]]] = {}

    def see(self, event: Event) -> list[Breach]:
        """Take the next event; return what it breaks."""
        name, payload = event["type"], event["payload"]
        if name == "agent.reasoning.delta":
            deltas = self._open.setdefault(payload["agentId"], [])
            deltas.append(payload)
            if payload["sequence"] != len(deltas) - 1:
                return [Breach("block_sequence", f"expected {len(deltas) - 1}, found {payload['sequence']}")]
        elif name == "agent.reasoned":
            return self._close(payload, self._open.pop(payload["agentId"], []))
        elif name in RUN_TERMINALS and self._open:
            return [Breach("block_closed", "expected `agent.reasoned` for each block before the end")]
        return []

    def _close(self, payload: Mapping[str, Any], deltas: list[Mapping[str, Any]]) -> list[Breach]:
        found = []
        if deltas and "".join(delta["delta"] for delta in deltas) != payload["reasoning"]:
            found.append(Breach("block_text", "expected the deltas joined"))
        if {delta.get("verbosity") for delta in deltas} - {payload.get("verbosity")}:
            found.append(Breach("block_verbosity", "expected the verbosity of the deltas"))
        return found


class CallWatch:
    """Calls and what answers them, and who hands over to whom."""

    def __init__(self) -> None:
        self._called: dict[str, Event] = {}
        self._returned: set[str] = set()

    def see(self, event: Event) -> list[Breach]:
        """Take the next event; return what it breaks."""
        name, payload = event["type"], event["payload"]
        if name == "agent.handoff" and payload["fromAgentId"] == payload["toAgentId"]:
            return [Breach("handoff", "expected another agent")]
        if name == "agent.toolCalled":
            if payload["callId"] in self._called:
                return [Breach("call_id_unique", "expected an id that no other call has")]
            self._called[payload["callId"]] = event
        return self._return(event) if name == "agent.toolReturned" else []

    def _return(self, event: Event) -> list[Breach]:
        payload = event["payload"]
        call_id = payload["callId"]
        if call_id in self._returned:
            return [Breach("call_id_unique", "expected one return of a call")]
        self._returned.add(call_id)
        call = self._called.get(call_id)
        same = ("agentId", "toolName")
        is_right = call is not None and call["eventId"] == event["causationId"]
        if call is None or not is_right or any(call["payload"][name] != payload[name] for name in same):
            return [Breach("call_cause", "expected the event that made this call")]
        is_torn = "error" in payload and "outcome" in payload
        return [Breach("call_end", "expected an outcome or an error")] if is_torn else []


class ChunkWatch:
    """Text of nodes: what has begun is ended before its node."""

    def __init__(self) -> None:
        self._open: set[str] = set()

    def see(self, event: Event) -> list[Breach]:
        """Take the next event; return what it breaks."""
        name, payload = event["type"], event["payload"]
        if name == "output.chunk":
            (self._open.discard if payload["isLast"] else self._open.add)(payload["nodeId"])
        elif name in NODE_ENDS and payload["nodeId"] in self._open:
            return [Breach("chunk_last", "expected the last chunk before the end of its node")]
        return []
