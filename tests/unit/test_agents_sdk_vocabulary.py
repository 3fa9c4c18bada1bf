"""The tables of the Agents SDK's stream are complete, against the SDK's own types."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import pytest

from projector.providers.agents_sdk import failures, run_stage
from projector.providers.agents_sdk.run_stage import RUN_ITEMS, STREAM_EVENTS

agents = pytest.importorskip("agents", reason="the Agents SDK is not installed (extra agents_sdk)")
chatcmpl_stream_handler = importlib.import_module("agents.models.chatcmpl_stream_handler")
fake_id = importlib.import_module("agents.models.fake_id")
items = importlib.import_module("agents.items")
run_items = importlib.import_module("agents.run_internal.items")
streaming = importlib.import_module("agents.run_internal.streaming")
tool_actions = importlib.import_module("agents.run_internal.tool_actions")

PAGE: Final = (Path(__file__).parents[2] / "docs" / "agents_sdk.md").read_text(encoding="utf-8")
ROWS: Final = {
    name: line
    for line in PAGE.splitlines()
    if line.startswith("- `")
    for name in re.findall(r"`(\w+)`", re.split(r" \(|: ", line)[0])
}


DROPPED: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            *("handoff_call_item", "tool_call_item", "tool_search_call_item", "tool_search_output_item"),
            *("reasoning_item", "mcp_list_tools_item", "mcp_approval_request_item"),
        ),
        "already in the raw events of its response",
    ),
    "mcp_approval_response_item": "the page itself sent the answer",
    "input_item": "input of the user; the SDK does not stream it",
    "compaction_item": "bookkeeping of the SDK's session; the SDK does not stream it",
}
"""Run item that is dropped -> why."""

DROPPED_OUTPUTS: Final[Mapping[str, str]] = {
    "computer_call_output": "no public tool type (D22); screenshots may show anything",
    **dict.fromkeys(
        ("local_shell_call_output", "shell_call_output", "apply_patch_call_output", "program_output"),
        "its call has no public tool type (D22)",
    ),
}
"""Type of a tool output's raw item that is dropped -> why."""

AT_THE_END: Final = frozenset({"tool_approval_item"})
"""Run items that the SDK does not stream; they are arguments of `RunStage.close`."""

HOST_FAULTS: Final[Mapping[str, str]] = {
    "AgentsException": "nothing more specific is known",
    "UserError": "a tool or a setting of the host failed",
    "ToolTimeoutError": "a tool of the host took too long",
    "MCPToolCancellationError": "a tool of the host was cancelled",
}
"""Exceptions of the runner that are `internal_error`, as all unlisted ones are -> why."""


def literals(kind: Any, member: str = "type") -> set[str]:
    """Return the values of a literal member of a class."""
    hint = kind.model_fields[member].annotation if hasattr(kind, "model_fields") else get_type_hints(kind)[member]
    assert get_origin(hint) is Literal, kind
    return set(get_args(hint))


def types_of(kinds: Iterable[Any]) -> set[str]:
    """Return the discriminators of the classes of a union."""
    return set().union(*map(literals, kinds))


def type_of(kind: Any) -> str:
    """Return the type of a run item's class: one class of the SDK inherits its annotation."""
    return next(field.default for field in dataclasses.fields(kind) if field.name == "type")


def test_every_stream_event_is_handled() -> None:
    assert types_of(get_args(agents.StreamEvent)) == STREAM_EVENTS.keys()


def test_every_name_of_a_run_item_is_listed() -> None:
    assert literals(agents.RunItemStreamEvent, "name") == run_stage.RUN_ITEM_EVENTS.keys()


def test_every_run_item_is_handled_or_dropped() -> None:
    kinds = set(map(type_of, get_args(agents.RunItem)))
    tables = [RUN_ITEMS.keys(), DROPPED.keys(), AT_THE_END]
    assert kinds == set().union(*tables)
    assert sum(map(len, tables)) == len(kinds), "each is in one table"


def test_the_sdk_streams_each_item_by_its_name() -> None:
    """The names of events are tied to classes of items in one function of the SDK only."""
    source = inspect.getsource(streaming.stream_step_items_to_queue)
    streamed = re.findall(r"isinstance\(item, (\w+)\):\s+event = RunItemStreamEvent\(item=item, name=\"(\w+)\"", source)
    assert {name: type_of(getattr(items, kind)) for kind, name in streamed} == run_stage.RUN_ITEM_EVENTS


def test_every_tool_output_is_handled_or_dropped() -> None:
    kinds = [kind for kind in get_args(items.ToolCallOutputTypes) if get_origin(kind) is not dict]
    listed = {*run_stage.OUTPUTS, *DROPPED_OUTPUTS}
    assert types_of(kinds) <= listed
    assert run_stage.OUTPUTS & DROPPED_OUTPUTS.keys() == set()
    written = "".join(map(inspect.getsource, (items, run_items, tool_actions)))  # what it builds as plain dictionaries
    assert set(re.findall(r'"(\w+_call_output)"', written)) <= listed


def subclasses(kind: type) -> set[type]:
    return {kind}.union(*map(subclasses, kind.__subclasses__()))


def test_every_exception_of_the_runner_is_listed() -> None:
    raised = {kind.__name__ for kind in subclasses(agents.AgentsException) if kind.__module__ == "agents.exceptions"}
    assert raised == (failures.JUDGES.keys() - {"JSONDecodeError"}) | HOST_FAULTS.keys()
    assert failures.JUDGES.keys() & HOST_FAULTS.keys() == set()


def test_the_placeholder_is_that_of_the_sdk() -> None:
    assert fake_id.FAKE_RESPONSES_ID == run_stage.PLACEHOLDER


def test_every_event_that_carries_a_placeholder_has_its_item() -> None:
    kinds = [kind for kind in vars(chatcmpl_stream_handler).values() if "item_id" in getattr(kind, "model_fields", {})]
    assert len(kinds) >= 9
    assert types_of(kinds) <= run_stage.ITEM_OF_EVENT.keys()


@pytest.mark.parametrize(("name", "reason"), [*DROPPED.items(), *DROPPED_OUTPUTS.items(), *HOST_FAULTS.items()])
def test_every_dropped_row_has_a_reason(name: str, reason: str) -> None:
    assert len(reason.split()) >= 3, name
    assert reason in ROWS[name]


def test_every_code_of_a_run_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
    assert all(re.search(rf"^- (?:`\w+`, )*`{code}`", page, re.MULTILINE) for code in failures.RUN_FAULTS)


def test_the_page_lists_every_row() -> None:
    for name in [*STREAM_EVENTS, *RUN_ITEMS, *AT_THE_END, *run_stage.OUTPUTS, *failures.JUDGES]:
        assert name in ROWS
    for name, item_type in run_stage.RUN_ITEM_EVENTS.items():
        assert f"`{name}`" in ROWS[item_type]
