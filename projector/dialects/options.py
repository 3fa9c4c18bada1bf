"""What the caller of one stream has asked, as far as a dialect repeats or obeys it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DialectOptions:
    """Each dialect reads what it knows; the defaults are those of a caller that asks nothing.

    Args:
        thread_id: the caller's own id of the conversation (`ag_ui`).
        run_id: the caller's own id of this run (`ag_ui`, `openwop`).
        is_before_1_0: whether the caller's client is older than AG-UI 1.0; it declares no version (`ag_ui`).
        taken_ids: ids of messages and calls that the caller has already, and that nothing new may have (`ag_ui`).
        workflow_id: what the run is of, where the context names no workflow (`openwop`).
        node_id: the node that speaks, where the context names no step (`openwop`).
        type_id: the type of the nodes (`openwop`).
        provider: who is asked for the model's answers (`openwop`).
        streams_reasoning: whether reasoning is said while it grows, or only when a block is closed (`openwop`).
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
