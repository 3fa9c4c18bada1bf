"""What a caller asked of a dialect for one stream."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DialectOptions:
    """Options of one stream. Each dialect reads those named after it.

    Args:
        thread_id: the caller's ID of the conversation (`ag_ui`).
        run_id: the caller's ID of the run (`ag_ui`, `openwop`).
        is_before_1_0: whether the client is older than AG-UI 1.0: it sends no protocol version (`ag_ui`).
        taken_ids: IDs of messages and calls that the client already has; they are not used again (`ag_ui`).
        workflow_id: ID of the workflow, if the context has none (`openwop`).
        node_id: ID of the node, if the context has no step (`openwop`).
        type_id: type of the nodes (`openwop`).
        provider: name of the model provider (`openwop`).
        streams_reasoning: whether reasoning is written as deltas or once at its end (`openwop`).
    """

    thread_id: str | None = None
    run_id: str | None = None
    is_before_1_0: bool = False
    taken_ids: frozenset[str] = frozenset()
    workflow_id: str | None = None
    node_id: str | None = None
    type_id: str | None = None
    provider: str | None = None
    streams_reasoning: bool = True
