"""Every table is complete: against the provider SDK's own unions, the contract's vocabulary, and each other.

`make check-latest` runs this file with the newest SDK.
"""

from __future__ import annotations

import itertools
import types
import typing
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import pytest
from openai.types.beta import BetaResponseOutputItem, BetaResponseStreamEvent
from openai.types.responses import ResponseOutputItem, ResponseStreamEvent
from pydantic import BaseModel

from projector.contracts import kinds, parts, public_sse_v1
from projector.contracts.kinds import TOOL_TYPES, Kind, PrivateKind
from projector.core import frames, projector
from projector.core.context import StreamContext
from projector.core.faults import FAULTS
from projector.core.handlers import (
    DROPPED,
    EMITS,
    HANDLERS,
    HOST_HANDLERS,
    SIGNALS,
    items,
    messages,
    responses,
    tool_calls,
    tool_outputs,
)
from projector.core.handlers.endings import BRANCH_ENDS
from projector.core.lifecycle import (
    BRANCH_TRANSITIONS,
    OPTIONAL_BRANCH_TRANSITIONS,
    RUN_STATUS_ORDER,
    TRANSITIONS,
    Phase,
    Signal,
    Transitions,
    Verdict,
)
from projector.core.projector import BEGINNINGS, TERMINALS
from projector.core.transcript import CALL_TYPES, NAME_FIELDS
from projector.dialects import DIALECTS
from projector.dialects.responses.writer import DROPPED_ITEMS
from projector.providers.openai_responses.stage import MEMBERS
from projector.recording import replay
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor

EXAMPLES: Final = Path(__file__).parents[2] / "examples_ndjson"


def discriminators(union: Any, member: str = "type") -> set[str]:
    """Return the discriminator values of the models of a union."""
    if get_origin(union) is Annotated:
        return discriminators(get_args(union)[0], member)
    if get_origin(union) in {typing.Union, types.UnionType}:
        return set().union(*(discriminators(one, member) for one in get_args(union)))
    assert issubclass(union, BaseModel)
    annotation = union.model_fields[member].annotation
    assert get_origin(annotation) is Literal, union
    return set(get_args(annotation))


def unlisted(names: Iterable[str], *tables: Iterable[str]) -> set[str]:
    """Return the names that are in no table."""
    return set(names).difference(*tables)


STREAM_EVENTS: Final = discriminators(ResponseStreamEvent)
ITEM_TYPES: Final = discriminators(ResponseOutputItem)

NOT_IN_THE_SDK: Final = {
    "keepalive",
    "response.apply_patch_call_operation_diff.delta",
    "response.apply_patch_call_operation_diff.done",
    "response.cancelled",
    "response.reasoning_part.added",
    "response.reasoning_part.done",
}
"""Event types recorded from real upstreams that the SDK has no model for."""


# the provider's vocabulary


def test_the_unions_are_read_as_a_whole() -> None:
    assert len(STREAM_EVENTS) >= 59
    assert len(ITEM_TYPES) >= 28
    assert {"response.output_text.delta", "error"} <= STREAM_EVENTS
    assert {"message", "compaction"} <= ITEM_TYPES


def test_every_stream_event_is_handled_or_dropped() -> None:
    assert unlisted(STREAM_EVENTS, HANDLERS, DROPPED) == set()
    assert unlisted([*HANDLERS, *DROPPED], STREAM_EVENTS) == NOT_IN_THE_SDK
    assert HANDLERS.keys() & DROPPED.keys() == set()


def members_of(annotation: Any, kind: str, found: defaultdict[str, set[str]], seen: set[Any]) -> None:
    """Add the members of the models of an event, and of the objects in it, by kind of object."""
    for inner in get_args(annotation):
        members_of(inner, kind, found, seen)
    if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)) or (annotation, kind) in seen:
        return
    seen.add((annotation, kind))
    for name, field in annotation.model_fields.items():
        found[kind].add(field.alias or name)
        if kind == "event" and name in MEMBERS:
            members_of(field.annotation, name, found, seen)
    assert kind in MEMBERS


def test_every_member_of_a_stream_event_is_known() -> None:
    found: defaultdict[str, set[str]] = defaultdict(set)
    members_of(ResponseStreamEvent, "event", found, set())
    assert found.keys() == MEMBERS.keys()
    assert {kind: names - MEMBERS[kind] for kind, names in found.items()} == {kind: set() for kind in MEMBERS}


def test_every_item_type_has_a_finisher_or_a_reason() -> None:
    assert unlisted(ITEM_TYPES, items.FINISHERS, items.ITEMS_ONLY) == set()
    assert items.FINISHERS.keys() & items.ITEMS_ONLY.keys() == set()


def test_the_items_of_the_beta_api_have_rows() -> None:
    beta = discriminators(BetaResponseOutputItem) - ITEM_TYPES
    assert beta == {"agent_message", "multi_agent_call", "multi_agent_call_output"}
    assert beta <= items.ITEMS_ONLY.keys() & DROPPED_ITEMS.keys()
    assert discriminators(BetaResponseStreamEvent) == STREAM_EVENTS


def test_d35_host_events_are_no_provider_events() -> None:
    assert all(name.startswith("projector.") for name in HOST_HANDLERS)
    assert not any(name.startswith("projector.") for name in [*HANDLERS, *DROPPED])


@pytest.mark.parametrize(("name", "reason"), [*DROPPED.items(), *items.ITEMS_ONLY.items()])
def test_every_dropped_row_has_a_reason(name: str, reason: str) -> None:
    assert len(reason.split()) >= 3, name


def test_tool_calls_have_rows_everywhere() -> None:
    assert tool_outputs.STEPS.keys() == TOOL_TYPES.keys() <= items.FINISHERS.keys()
    assert set(TOOL_TYPES.values()) == set(get_args(kinds.ToolType)) == kinds.STATUS_RANKS.keys()
    assert set(CALL_TYPES) == set(NAME_FIELDS) == set(get_args(kinds.CallType))
    assert set(tool_calls.ARGUMENTS_DELTAS.values()) == {
        item_type for item_type, _ in tool_calls.ARGUMENTS_DONES.values()
    }
    assert {TOOL_TYPES[item_type] for item_type in tool_calls.ARGUMENTS_DELTAS.values()} == set(CALL_TYPES)


@pytest.mark.parametrize(("name", "row"), tool_calls.STATUSES.items())
def test_statuses_are_of_their_tool(name: str, row: tuple[str, str]) -> None:
    item_type, said = row
    assert said in kinds.STATUS_RANKS[TOOL_TYPES[item_type]]
    assert name == f"response.{item_type}.{said}"


def test_citations_have_rows_everywhere() -> None:
    cited = discriminators(parts.Citation)
    assert set(messages.CITATIONS) == cited | {"file_path"}
    private = {kind for kind, row in messages.CITATIONS.items() if row.build is not frames.message_citation}
    assert private == {"file_path"}


# the contract's vocabulary


SECTION_9: Final = (
    *("lifecycle", "output_item.added", "output_item.done", "message.delta", "message.citation"),
    *("reasoning_summary.delta", "refusal.delta", "refusal.done", "tool.status", "tool.arguments.delta"),
    *("tool.arguments.done", "tool.code.delta", "tool.code.done", "tool.output", "chunk.delta", "chunk.done"),
    *("error", "final"),
)


def test_the_kinds_are_those_of_section_9() -> None:
    assert tuple(Kind) == SECTION_9, "the contract is locked"
    assert discriminators(public_sse_v1.PublicEvent, "kind") == set(SECTION_9)
    assert set(PrivateKind).isdisjoint(Kind)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_kind_is_spoken_or_dropped(dialect: str) -> None:
    handled, dropped = DIALECTS[dialect].tables()
    assert unlisted([*Kind, *PrivateKind], handled, dropped) == set()
    assert unlisted([*handled, *dropped], Kind, PrivateKind) == set()
    assert handled.keys() & dropped.keys() == set()
    assert all(len(reason.split()) >= 3 for reason in dropped.values())
    assert unlisted([*Kind, *PrivateKind, "new.kind"], handled, dropped) == {"new.kind"}


def test_the_public_dialect_says_what_is_public() -> None:
    assert set(DIALECTS["public_sse_v1"].tables().handled) == set(Kind)
    assert set(DIALECTS["public_sse_v1"].tables().dropped) == set(PrivateKind)


def test_statuses_are_those_of_the_contract() -> None:
    assert set(RUN_STATUS_ORDER) == set(get_args(kinds.FinalStatus))
    ends = {name for name, handler in HANDLERS.items() if SIGNALS.get(handler) is Signal.RESPONSE_END}
    assert responses.END_STATUS.keys() == ends
    assert set(responses.END_STATUS.values()) <= set(get_args(kinds.LifecycleStatus))
    assert SIGNALS.keys() <= {*HANDLERS.values()}


@pytest.mark.parametrize("tool_type", get_args(kinds.ToolType))
def test_status_ranks_are_those_of_section_9_7(tool_type: kinds.ToolType) -> None:
    models = {get_args(model.model_fields["tool_type"].annotation)[0]: model for model in tool_models()}
    assert set(kinds.STATUS_RANKS[tool_type]) == set(get_args(models[tool_type].model_fields["status"].annotation))


def tool_models() -> list[type[BaseModel]]:
    union = get_args(parts.AnyTool)[0]
    return [model for model in get_args(union) if issubclass(model, BaseModel)]


# the lifecycle


ALL_ROWS: Final = (TRANSITIONS, BRANCH_TRANSITIONS, OPTIONAL_BRANCH_TRANSITIONS)


@pytest.mark.parametrize("rows", ALL_ROWS)
def test_transitions_are_total(rows: Transitions) -> None:
    assert rows.keys() == set(Phase)
    assert all(row.keys() == set(Signal) for row in rows.values())


@pytest.mark.parametrize("rows", ALL_ROWS)
@pytest.mark.parametrize("signal", Signal)
def test_d11_after_the_end_everything_is_ignored(signal: Signal, rows: Transitions) -> None:
    assert rows[Phase.ENDED][signal] == (Phase.ENDED, Verdict.IGNORE)


def test_every_verdict_is_given_and_handled() -> None:
    given = {verdict for rows in ALL_ROWS for row in rows.values() for _, verdict in row.values()}
    assert given == set(Verdict)
    handled = TERMINALS.keys() | BRANCH_ENDS.keys() | BEGINNINGS
    assert handled | {Verdict.IGNORE, Verdict.EMIT, Verdict.SETTLE} == set(Verdict)
    assert TERMINALS.keys() & (BEGINNINGS | BRANCH_ENDS.keys()) == set()


# faults


RETRYABLE: Final = {
    *("upstream_truncated", "upstream_empty", "upstream_unreachable", "upstream_reset", "upstream_timeout_connect"),
    *("upstream_timeout_first_byte", "upstream_timeout_idle", "upstream_timeout_total", "server_shutdown"),
    "upstream_unavailable",
    "stream_interrupted",
}
FINAL: Final = {
    *(
        "upstream_malformed",
        "upstream_event_too_large",
        "upstream_response_too_large",
        "provider_error",
        "internal_error",
        "redaction_failed",
        "content_blocked",
    ),
}


def test_d14_faults() -> None:
    assert {code for code, fault in FAULTS.items() if fault.is_retryable} == RETRYABLE
    assert {code for code, fault in FAULTS.items() if not fault.is_retryable} == FINAL
    assert all(code == fault.code for code, fault in FAULTS.items())
    assert {fault.source for fault in FAULTS.values()} == set(get_args(kinds.ErrorSource))
    assert max(Counter(fault.message for fault in FAULTS.values()).values()) == 1


# output of handlers


def test_says_covers_every_handler() -> None:
    assert EMITS.keys() == {*HANDLERS.values(), *HOST_HANDLERS.values()}
    assert set(itertools.chain(*EMITS.values())) - set(PrivateKind) == set(Kind)


CLOSERS: Final = {*EMITS[items.on_done]}
ANNOUNCED: Final = {"output_item.added", "tool.status"}
ALSO: Final[Mapping[Callable[..., object], set[str]]] = {
    responses.on_end: CLOSERS,
    items.on_added: CLOSERS,  # a slot that is used twice
}
"""Kinds that a handler may emit in addition to its row, because it closes items."""


def on(name: str, index: int, **members: object) -> dict[str, object]:
    return {"type": f"response.{name}", "output_index": index, "item_id": f"it{index}", **members}


def done(index: int, item_type: str, **members: object) -> dict[str, object]:
    return on("output_item.done", index, item={"type": item_type, "id": f"it{index}", **members})


RARE: Final = (
    on("reasoning_summary_text.done", 0, text="Hm"),
    on("reasoning_text.done", 7, text="Hm"),
    on("refusal.done", 1, refusal="No"),
    on("web_search_call.completed", 2),
    done(3, "reasoning", summary=[{"text": "Hm"}]),
    done(4, "message", content=[{"type": "refusal", "refusal": "No"}]),
    done(5, "code_interpreter_call", code="x = 1\n" * 10_000),
    on("function_call_arguments.delta", 6, delta='{"a"'),
    done(6, "function_call", arguments='{"a": 1}'),
)
"""Rare streams that no golden contains: complete texts without deltas."""


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Mapping[Callable[..., object], set[str]]:
    """Kinds that each handler emitted for all golden inputs and rare streams."""
    found: dict[Callable[..., object], set[str]] = defaultdict(set)

    def listened(handler: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        def listen(*arguments_of_it: object) -> list[Any]:
            said = handler(*arguments_of_it)
            found[handler] |= {frame["kind"] for frame in said}
            return said

        return listen

    for table in ("HANDLERS", "HOST_HANDLERS"):
        rows = getattr(projector, table)
        monkeypatch.setattr(projector, table, {name: listened(handler) for name, handler in rows.items()})
    for case in replay.load_cases(EXAMPLES):
        replay.play(case, "public_sse_v1")
    policy = Policy.load({"reasoning": "full"})
    stream = projector.PublicStreamProjector(Redactor(policy), StreamContext(stream_id="stream_1"))
    for event in RARE:
        stream.feed(event)
    return found


def test_says_is_what_handlers_say(heard: Mapping[Callable[..., object], set[str]]) -> None:
    unnamed = {
        handler.__qualname__: more
        for handler, said in heard.items()
        if (more := said - set(EMITS[handler]) - set(PrivateKind) - ANNOUNCED - ALSO.get(handler, set()))  # type: ignore[index]  # a handler
    }
    assert unnamed == {}
    unheard = {
        f"{handler.__module__}.{handler.__qualname__}": less
        for handler, said in EMITS.items()
        if (less := set(said) - heard[handler] - kinds.TERMINAL_KINDS)
    }
    assert unheard == {}
