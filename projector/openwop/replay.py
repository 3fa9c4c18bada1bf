"""A recorded run once more: from its log alone, so that no provider is asked twice (RFC 0024, `replay.md`).

What was recorded keeps its ids and times. Only the numbers of the log are made anew, because a collapsed log has fewer
events; from one recording they are always the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

from projector.contracts import codec
from projector.openwop.agents import reasoned
from projector.openwop.contract.events import RUN_TERMINALS
from projector.openwop.contract.watches import NODE_ENDS
from projector.openwop.log import Event, present, shortened

DELTA: Final = "agent.reasoning.delta"
CLOSING: Final = "agent.reasoned"

ENDS: Final = RUN_TERMINALS | NODE_ENDS
"""What the record of an attempt ends with, where it is whole."""


def replayed(recorded: Sequence[Event], *, with_deltas: bool) -> list[Event]:
    """Give a recorded log once more, its reasoning as it grew, or collapsed to the closing events.

    A block that the recording left open is closed with its text, before the end of the run or at the end of the log.
    """
    said: list[Event] = []
    blocks: dict[str, list[Event]] = {}
    for event in recorded:
        if event["type"] == DELTA:
            blocks.setdefault(event["payload"]["agentId"], []).append(event)
            if not with_deltas:
                continue
        elif event["type"] == CLOSING:
            blocks.pop(event["payload"]["agentId"], None)
        elif event["type"] in RUN_TERMINALS:
            said += _closed(blocks)
        said.append(event)
    said += _closed(blocks)
    first = recorded[0]["sequence"] if recorded else 0
    return [{**event, "sequence": sequence} for sequence, event in enumerate(said, first)]


def divergence(recorded: Sequence[Event], now: Sequence[Event]) -> dict[str, Any] | None:
    """Give the payload of `replay.diverged` for the first difference of two logs, None where there is none.

    Deltas may be cut differently, and ids, times and numbers may differ: what was said is compared.
    """
    pairs = zip_longest(replayed(recorded, with_deltas=False), replayed(now, with_deltas=False))
    for before, after in pairs:
        kind = _difference(before, after)
        if kind is not None:
            event = before or after
            return {
                "sourceRunId": recorded[0]["runId"] if recorded else event["runId"],
                "atSequence": event["sequence"],
                **present(originalEventId=before and before["eventId"]),
                "divergenceKind": kind,
                "divergencePoint": event["type"],
            }
    return None


def attempt_key(run_id: str, node_id: str, attempt: int, request: Mapping[str, object]) -> str:
    """Give the name under which what an attempt of a node has said is kept: the same attempt, the same name."""
    asked = codec.dumps([run_id, node_id, attempt, sorted(request.items())])
    return hashlib.sha256(asked).hexdigest()


class InvocationLog:
    """What attempts of nodes have said. A whole one is told again from here, and its provider is not asked.

    Args:
        max_attempts: how many are kept; the oldest goes first.
    """

    def __init__(self, max_attempts: int) -> None:
        self._max_attempts = max_attempts
        self._attempts: dict[str, list[Event]] = {}

    def record(self, key: str, event: Event) -> None:
        """Take one more event of an attempt."""
        self._attempts.setdefault(key, []).append(event)
        while len(self._attempts) > self._max_attempts:
            del self._attempts[next(iter(self._attempts))]

    def recorded(self, key: str, *, with_deltas: bool = True) -> list[Event] | None:
        """Give what an attempt has said; None where it is unknown or has not ended: then it has to be made."""
        events = self._attempts.get(key)
        if not events or events[-1]["type"] not in ENDS:
            return None
        return replayed(events, with_deltas=with_deltas)

    def forget(self, key: str) -> None:
        """Drop an attempt: one that broke off is made again from its beginning."""
        self._attempts.pop(key, None)


def _closed(blocks: dict[str, list[Event]]) -> list[Event]:
    """Give the closing events of open blocks, and close them."""
    closed = [_closing(deltas) for deltas in blocks.values()]
    blocks.clear()
    return closed


def _closing(deltas: list[Event]) -> Event:
    last = deltas[-1]
    text = "".join(delta["payload"]["delta"] for delta in deltas)
    payload = reasoned(last["payload"]["agentId"], text, last["payload"].get("verbosity"))
    return {**last, "eventId": shortened(f"{last['eventId']}:closed"), "type": CLOSING, "payload": payload}


def _difference(before: Event | None, after: Event | None) -> str | None:
    if before is None or after is None:
        return "missing" if after is None else "extra"
    if before["type"] != after["type"]:
        return "type-mismatch"
    return "output" if _said(before) != _said(after) else None


def _said(event: Event) -> dict[str, Any]:
    """Give what an event says, without the run that it says it in."""
    return {name: value for name, value in event["payload"].items() if name != "runId"}
