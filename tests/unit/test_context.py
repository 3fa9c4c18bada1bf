"""The context of a stream in its envelope (seed section 6, CONTRACT D3, D9)."""

from __future__ import annotations

import copy
import json
import pickle
import re
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any, Final, TypeAlias

import pytest

from projector import UsageError
from projector.core.context import BranchContext, StreamContext

Event: TypeAlias = dict[str, Any]

QUEUED: Final[Event] = {"type": "response.created", "response": {"id": "resp_1", "status": "queued"}}
WORKFLOW: Final = {
    "workflow_key": "analysis",
    "workflow_run_id": "run_1",
    "stage_name": "stage-1",
    "step_name": "two",
    "step_agent": "researcher",
    "parallel_group": "group-0",
    "branch_index": 0,
}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param({}, {}, id="D3-absent"),
        pytest.param(
            {"conversation_id": "c1", "agent": "triage"}, {"conversation_id": "c1", "agent": "triage"}, id="set"
        ),
        pytest.param({"agent": "", "conversation_id": None}, {}, id="D3-empty-is-absent"),
        pytest.param({"agent": "a" * 300}, {"agent": "a" * 256}, id="D27-names"),
        pytest.param({"workflow": WORKFLOW}, {"workflow": WORKFLOW}, id="6.2-workflow"),
        pytest.param(
            {"workflow": {"workflow_key": "k", "step_name": None, "stage_name": 7, "branch_index": -1, "prompt": "p"}},
            {"workflow": {"workflow_key": "k"}},
            id="6.2-only-its-members",
        ),
        pytest.param({"workflow": {"branch_index": True}}, {}, id="D3-an-empty-workflow-is-absent"),
    ],
)
def test_the_host_sets_the_context(open_stream: Callable[..., Any], given: Event, said: Event) -> None:
    stream = open_stream(context=given)
    stream.feed(QUEUED)
    names = ("conversation_id", "agent", "workflow")
    assert {name: stream.sealed[-1][name] for name in names if name in stream.sealed[-1]} == said


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"stream_id": 7}, "`stream_id`: expected a string or None"),
        ({"conversation_id": 3}, "`conversation_id`: expected a string or None"),
        ({"agent": b"triage"}, "`agent`: expected a string or None"),
        ({"workflow": ["k"]}, "`workflow`: expected a mapping"),
    ],
)
def test_a_member_of_another_type_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=f"^{message}$"):
        StreamContext(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"agent": b"triage"}, "`agent`: expected a string or None"),
        ({"workflow": ["k"]}, "`workflow`: expected a mapping"),
        ({"workflow": {"branch_idx": 0}}, "unknown member of `workflow` `branch_idx`; known: `branch_index`, "),
        ({"workflow": {"branch_index": "a"}}, "`workflow.branch_index`: expected a whole number or None"),
        ({"workflow": {"stage_name": 5}}, "`workflow.stage_name`: expected a string or None"),
        ({"stage": "a"}, "`stage`: expected a whole number or None"),
    ],
)
def test_a_member_of_a_branch_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(message)}"):
        BranchContext(**given)


def test_registered_values_do_not_leave_in_the_context(open_stream: Callable[..., Any]) -> None:
    stream = open_stream(
        policy={"registered": [{"id": "pier", "value": "quay-7781"}]},
        context={"stream_id": "s-quay-7781", "agent": "quay-7781", "workflow": {"step_name": "quay-7781"}},
    )
    stream.feed({**QUEUED, "response": {"id": "quay-7781", "status": "queued"}})
    assert b"quay-7781" not in stream.lines[-1]


def test_6_the_envelope_is_in_the_order_of_the_contract(open_stream: Callable[..., Any]) -> None:
    stream = open_stream(context={"workflow": WORKFLOW, "agent": "a", "conversation_id": "c1"})
    stream.feed(QUEUED)
    assert list(json.loads(stream.lines[0]).items()) == [
        ("schema", "public_sse_v1"),
        ("event_id", 1),
        ("stream_id", "stream_1"),
        ("server_timestamp", "2025-12-15T12:00:00.000Z"),
        ("conversation_id", "c1"),
        ("response_id", "resp_1"),
        ("agent", "a"),
        ("workflow", WORKFLOW),
        ("kind", "lifecycle"),
        ("status", "queued"),
    ]


def test_a_context_is_a_plain_value() -> None:
    assert StreamContext() == StreamContext(stream_id=None, conversation_id=None, agent=None)
    assert dict(StreamContext().workflow) == {}


@pytest.mark.parametrize("context", [StreamContext(agent="a"), StreamContext(workflow=WORKFLOW), BranchContext()])
def test_a_context_can_be_copied_and_sent_to_another_process(context: StreamContext | BranchContext) -> None:
    assert pickle.loads(pickle.dumps(context)) == copy.deepcopy(context) == context  # noqa: S301 - our own bytes
    assert hash(context) == hash(replace(context))
    assert asdict(context)["workflow"] == context.workflow
