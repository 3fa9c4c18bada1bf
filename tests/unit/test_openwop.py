"""The OpenWOP dialect: reasoning, calls, agents, nodes, text and the end of a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import pytest

from projector.contracts.kinds import TOOL_TYPES, Kind, PrivateKind
from projector.dialects.descriptor import DialectOptions
from projector.openwop import writer
from projector.openwop.content import BLOCK_MAX_CHARS, WAITING_MAX_CHARS
from projector.openwop.event_log import shortened
from projector.openwop.writer import OpenWopWriter
from tests.openwop_reader import check_log
from tests.unit.response_events import Event, added, delta, done

Run: TypeAlias = Callable[..., list[Event]]

CREATED: Final = {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "model": "m-1"}}
COMPLETED: Final = {"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}}
NEXT: Final = {"type": "next"}
FULL: Final = {"reasoning": "full"}
AGENT: Final = "host:model:model"


def thought(index: int, text: str, part: int = 0) -> Event:
    return delta("reasoning_text", index, text, content_index=part)


def summary(index: int, text: str, part: int = 0) -> Event:
    return delta("reasoning_summary_text", index, text, summary_index=part)


def text(index: int, words: str) -> Event:
    return delta("output_text", index, words, content_index=0)


def context(**members: object) -> Event:
    return {"type": "projector.context", **members}


def ended(status: str, **members: object) -> Event:
    kind = status if status in {"completed", "failed", "incomplete"} else "incomplete"
    return {"type": f"response.{kind}", "response": {"id": "resp_1", "status": status, **members}}


@pytest.fixture
def run(open_stream: Callable[..., Any]) -> Run:
    """Return a function that writes events as the log of one run and checks it."""

    def play(
        *events: Event, options: DialectOptions | None = None, ends: str = "close", **settings: Any
    ) -> list[Event]:
        stream = open_stream(**settings)
        for event in events:
            stream.next_response() if event == NEXT else stream.feed(event)
        getattr(stream, ends)() if not ends.startswith("upstream") else stream.fail(ends)
        policy: Mapping[str, Any] = settings.get("policy") or {}
        dialect = OpenWopWriter(policy.get("reasoning", "summary"), options or DialectOptions())
        wire = [event for frame in stream.sealed for event in dialect.feed(frame)]
        assert [name for name, _ in wire] == [json.loads(data)["type"] for _, data in wire]
        assert check_log([data for _, data in wire]) == []
        return [json.loads(data) for _, data in wire]

    return play


def of(said: list[Event], *types: str) -> list[Event]:
    """Return the payloads of some types."""
    return [event["payload"] for event in said if event["type"] in types]


def types(said: list[Event]) -> list[str]:
    """Return the types between start and end of the node."""
    return [event["type"] for event in said[2:-2]]


# the envelope


def test_event_ids_come_from_the_run(run: Run) -> None:
    said = run(CREATED, text(0, "a"), COMPLETED, options=DialectOptions(run_id="run_1"))
    assert [event["sequence"] for event in said] == list(range(len(said)))
    assert [event["eventId"] for event in said] == [f"run_1:{number}" for number in range(len(said))]
    assert {event["runId"] for event in said} == {"run_1"}
    assert {event["timestamp"] for event in said} == {"2025-12-15T12:00:00.000Z"}


def test_ids_of_the_options_are_used(run: Run) -> None:
    options = DialectOptions(run_id="run_1", workflow_id="w", node_id="n", type_id="vendor.acme.llm", provider="acme")
    used = ended("completed", usage={"input_tokens": 3, "output_tokens": 5})
    said = run(CREATED, used, options=options)
    assert of(said, "run.started")[0]["workflowId"] == "w"
    assert of(said, "node.started") == [{"nodeId": "n", "typeId": "vendor.acme.llm"}]
    usage = {"provider": "acme", "model": "m-1", "inputTokens": 3, "outputTokens": 5, "nodeId": "n"}
    assert of(said, "provider.usage") == [usage]


def test_default_ids_come_from_the_stream(run: Run) -> None:
    said = run(CREATED, COMPLETED, context={"conversation_id": "talk"})
    about = {"public-sse.stream_id": "stream_1", "public-sse.conversation_id": "talk"}
    assert of(said, "run.started") == [{"workflowId": "public-sse.stream", "metadata": about}]
    assert of(said, "node.started") == [{"nodeId": "model", "typeId": "vendor.public-sse.model"}]


def test_long_ids_are_shortened_and_stay_unique(run: Run) -> None:
    ids = ["r" * 200 + "1", "r" * 200 + "2"]
    first, second = (run(CREATED, COMPLETED, options=DialectOptions(run_id=run_id)) for run_id in ids)
    assert {len(event["runId"]) for event in first + second} == {128}
    assert max(len(event["eventId"]) for event in first + second) <= 128
    assert not {event["eventId"] for event in first} & {event["eventId"] for event in second}
    assert shortened("short") == "short"


def test_no_member_is_null(run: Run) -> None:
    def nulls(value: object) -> bool:
        members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
        return any(member is None or nulls(member) for member in members)

    assert not nulls(run(CREATED, text(0, "a"), done(1, "mcp_call", **MCP), done(2, "reasoning"), COMPLETED))


# reasoning: RFC 0024


def test_r1_r2_a_block_is_closed_with_its_full_text(run: Run) -> None:
    said = run(CREATED, thought(0, "Let me "), thought(0, "think."), done(0, "reasoning"), COMPLETED, policy=FULL)
    common = {"agentId": AGENT, "verbosity": "full"}
    assert of(said, "agent.reasoning.delta", "agent.reasoned") == [
        {**common, "delta": "Let me ", "sequence": 0},
        {**common, "delta": "think.", "sequence": 1},
        {**common, "reasoning": "Let me think."},
    ]


def test_r3_the_agent_of_a_block_does_not_change(run: Run) -> None:
    said = run(
        CREATED,
        thought(0, "a"),
        context(agent="second"),
        thought(0, "b"),
        done(0, "reasoning"),
        COMPLETED,
        policy=FULL,
        context={"agent": "first"},
    )
    blocks = of(said, "agent.reasoning.delta", "agent.reasoned")
    assert {block["agentId"] for block in blocks} == {"first"}
    assert blocks[-1]["reasoning"] == "ab"


def test_r4_each_block_counts_from_0(run: Run) -> None:
    blocks = (thought(0, "a"), thought(0, "b"), done(0, "reasoning"), thought(1, "c"), thought(1, "d"))
    said = run(CREATED, *blocks, COMPLETED, policy=FULL)
    assert [delta["sequence"] for delta in of(said, "agent.reasoning.delta")] == [0, 1, 0, 1]
    assert [block["reasoning"] for block in of(said, "agent.reasoned")] == ["ab", "cd"]


def test_r5_r6_deltas_are_emitted_at_once(open_stream: Callable[..., Any]) -> None:
    stream = open_stream(policy=FULL)
    dialect = OpenWopWriter("full", DialectOptions())
    stream.feed(CREATED)
    for frame in stream.sealed:
        dialect.feed(frame)
    for word in ("one ", "two ", "three"):
        before = len(stream.sealed)
        stream.feed(thought(0, word))
        said = [json.loads(data) for frame in stream.sealed[before:] for _, data in dialect.feed(frame)]
        assert [event["payload"]["delta"] for event in said] == [word]


def test_r7_empty_deltas_are_skipped(run: Run) -> None:
    said = run(CREATED, thought(0, ""), thought(0, "a"), thought(0, ""), COMPLETED, policy=FULL)
    assert [delta["delta"] for delta in of(said, "agent.reasoning.delta")] == ["a"]


def test_r9_the_closing_event_follows_the_last_delta(run: Run) -> None:
    said = run(CREATED, thought(0, "a"), done(0, "reasoning"), text(1, "b"), COMPLETED, policy=FULL)
    assert types(said)[:3] == ["agent.reasoning.delta", "agent.reasoned", "output.chunk"]


def test_r10_without_streaming_only_the_closing_event_is_emitted(run: Run) -> None:
    options = DialectOptions(streams_reasoning=False)
    said = run(CREATED, thought(0, "a"), thought(0, "b"), COMPLETED, policy=FULL, options=options)
    assert of(said, "agent.reasoning.delta") == []
    assert of(said, "agent.reasoned") == [{"agentId": AGENT, "reasoning": "ab", "verbosity": "full"}]


@pytest.mark.parametrize("ends", ["close", "cancel", "upstream_reset"])
def test_an_unclosed_block_is_closed_with_its_text(run: Run, ends: str) -> None:
    said = run(CREATED, thought(0, "never "), thought(0, "closed"), policy=FULL, ends=ends)
    assert of(said, "agent.reasoned") == [{"agentId": AGENT, "reasoning": "never closed", "verbosity": "full"}]
    assert said[-1]["type"] == ("run.cancelled" if ends == "cancel" else "run.failed")


@pytest.mark.parametrize(
    ("verbosity", "events", "expected"),
    [
        ("full", [done(0, "reasoning")], [("", "full")]),
        ("summary", [done(0, "reasoning")], [("", "summary")]),
        ("off", [done(0, "reasoning")], []),
        ("summary", [thought(0, "secret"), done(0, "reasoning")], [("", "summary")]),
        ("off", [thought(0, "secret"), summary(0, "short"), done(0, "reasoning")], []),
        ("summary", [summary(0, "short"), done(0, "reasoning")], [("short", "summary")]),
        ("full", [summary(0, "short"), done(0, "reasoning")], [("short", "summary")]),
        ("summary", [thought(0, "secret"), summary(0, "short"), done(0, "reasoning")], [("short", "summary")]),
        (
            "full",
            [summary(0, "short"), thought(0, "all"), done(0, "reasoning")],
            [("short", "summary"), ("all", "full")],
        ),
        ("full", [thought(0, "a"), thought(0, "b", part=1), done(0, "reasoning")], [("a\n\nb", "full")]),
        ("summary", [summary(0, "a"), summary(0, "b", part=1), done(0, "reasoning")], [("a\n\nb", "summary")]),
        ("full", [done(0, "reasoning", content=[{"type": "reasoning_text", "text": "late"}])], [("late", "full")]),
        ("full", [done(0, "reasoning"), thought(1, "b"), done(1, "reasoning")], [("", "full"), ("b", "full")]),
    ],
)
def test_d36_blocks_follow_the_verbosity(
    run: Run, verbosity: str, events: list[Event], expected: list[tuple[str, str]]
) -> None:
    said = run(CREATED, *events, COMPLETED, policy={"reasoning": verbosity})
    assert [(block["reasoning"], block["verbosity"]) for block in of(said, "agent.reasoned")] == expected
    deltas = "".join(delta["delta"] for delta in of(said, "agent.reasoning.delta"))
    assert deltas == "".join(reasoning for reasoning, _ in expected)
    assert verbosity == "full" or "secret" not in json.dumps(said)


@pytest.mark.parametrize(
    ("turns", "deltas", "closings"),
    [
        (
            (thought(0, "a"), thought(1, "b"), thought(0, "c"), done(0, "reasoning"), done(1, "reasoning")),
            ["a", "c", "b"],
            ["ac", "b"],
        ),
        (
            (thought(0, "a"), thought(1, "b"), thought(1, "c"), done(1, "reasoning"), thought(0, "d")),
            ["a", "d", "bc"],
            ["ad", "bc"],
        ),
        (
            (thought(0, "a"), summary(0, "b"), thought(0, "c"), summary(0, "d"), done(0, "reasoning")),
            ["a", "c", "bd"],
            ["ac", "bd"],
        ),
        (
            (thought(0, "a"), thought(1, "b"), done(0, "reasoning"), thought(1, "c"), done(1, "reasoning")),
            ["a", "b", "c"],
            ["a", "bc"],
        ),
        (
            (added(0, "reasoning"), thought(1, "b"), done(0, "reasoning"), thought(1, "c"), done(1, "reasoning")),
            ["b", "c"],
            ["bc", ""],
        ),
        ((thought(0, "a"), done(1, "reasoning"), thought(0, "b")), ["a", "b"], ["ab", ""]),
        ((thought(0, "a"), thought(1, "b"), thought(2, "c"), thought(0, "d")), ["a", "d", "b", "c"], ["ad", "b", "c"]),
    ],
)
def test_interleaved_items_of_one_agent_have_one_block_each(
    run: Run, turns: tuple[Event, ...], deltas: list[str], closings: list[str]
) -> None:
    """Readers identify a block by agent and node, so output of another item waits until the block is closed."""
    said = run(CREATED, *turns, COMPLETED, policy=FULL)
    assert [delta["delta"] for delta in of(said, "agent.reasoning.delta")] == deltas
    assert [block["reasoning"] for block in of(said, "agent.reasoned")] == closings


def test_reasoning_that_waits_is_bounded(run: Run) -> None:
    pieces = [thought(number, "x" * (WAITING_MAX_CHARS // 2)) for number in (1, 2, 3, 1)]
    said = run(CREATED, thought(0, "a"), *pieces, COMPLETED, policy=FULL)
    waited = [block["reasoning"] for block in of(said, "agent.reasoned")[1:]]
    assert [len(text) for text in waited] == [WAITING_MAX_CHARS // 2, WAITING_MAX_CHARS // 2, 0]
    assert [event["public-sse.notices"][0]["type"] for event in said if "public-sse.notices" in event][
        -1
    ] == "truncated"


@pytest.mark.parametrize(("verbosity", "say"), [("summary", summary), ("full", thought)])
def test_deltas_obey_the_limit_of_their_block(run: Run, verbosity: str, say: Callable[[int, str], Event]) -> None:
    most = BLOCK_MAX_CHARS[verbosity]
    piece = "x" * (most // 2 + 1)
    said = run(CREATED, say(0, piece), say(0, piece), say(0, "more"), done(0, "reasoning"), COMPLETED, policy=FULL)
    block = of(said, "agent.reasoned")[0]["reasoning"]
    assert block == "x" * most
    assert "".join(delta["delta"] for delta in of(said, "agent.reasoning.delta")) == block
    closing = next(event for event in said if event["type"] == "agent.reasoned")
    assert [notice["type"] for notice in closing["public-sse.notices"]] == ["truncated"]


def test_a_block_at_the_limit_is_not_truncated(run: Run) -> None:
    said = run(CREATED, summary(0, "x" * BLOCK_MAX_CHARS["summary"]), done(0, "reasoning"), COMPLETED)
    assert not any("public-sse.notices" in event for event in said)


def test_deltas_and_closing_event_are_redacted(run: Run) -> None:
    policy = {**FULL, "registered": [{"id": "key", "value": "tide-gate-4411"}]}
    said = run(CREATED, thought(0, "use tide-g"), thought(0, "ate-4411 now"), COMPLETED, policy=policy)
    assert of(said, "agent.reasoned")[0]["reasoning"] == "use [REDACTED:key] now"
    assert "".join(delta["delta"] for delta in of(said, "agent.reasoning.delta")) == "use [REDACTED:key] now"
    assert "tide" not in json.dumps(said)


@pytest.mark.parametrize("say", [summary, thought])
def test_what_a_part_held_back_comes_before_the_next_part(run: Run, say: Callable[..., Event]) -> None:
    policy = {**FULL, "registered": [{"id": "key", "value": "tide-gate-4411"}]}
    parts = (say(0, "at the tide-g"), say(0, "next", part=1), say(0, "ate-4411"), say(0, "last tide", part=2))
    said = run(CREATED, *parts, done(0, "reasoning"), COMPLETED, policy=policy)
    assert of(said, "agent.reasoned")[0]["reasoning"] == "at the <redacted>\n\nnext\n\nlast <redacted>"
    assert (
        "".join(delta["delta"] for delta in of(said, "agent.reasoning.delta"))
        == "at the <redacted>\n\nnext\n\nlast <redacted>"
    )


def test_encrypted_reasoning_is_dropped(run: Run) -> None:
    policy = {**FULL, "encrypted_reasoning": True}
    said = run(CREATED, done(0, "reasoning", encrypted_content="gAAAA"), COMPLETED, policy=policy)
    assert "gAAAA" not in json.dumps(said)


# calls


FUNCTION: Final = {"name": "find", "call_id": "call_1", "arguments": '{"q": 1}'}
MCP: Final = {"name": "look", "server_label": "srv", "arguments": "{}", "output": "found"}


def output(**members: object) -> Event:
    return {"type": "projector.tool_output", "call_id": "call_1", **members}


def test_a_result_names_its_call(run: Run) -> None:
    said = run(CREATED, done(0, "function_call", **FUNCTION), output(output={"a": [1]}), COMPLETED)
    called, returned = (event for event in said if event["type"].startswith("agent.tool"))
    common = {"agentId": AGENT, "toolName": "find", "callId": "call_1"}
    assert called["payload"] == {**common, "inputs": {"q": 1}}
    assert returned["payload"] == {**common, "outcome": {"a": [1]}}
    assert returned["causationId"] == called["eventId"]
    assert "causationId" not in returned["payload"]


@pytest.mark.parametrize(
    ("item_type", "item", "expected"),
    [
        ("function_call", {"name": "f", "arguments": '{"q": 1}'}, [{"inputs": {"q": 1}}]),
        ("function_call", {"name": "f", "arguments": "[1, 2]"}, [{"inputs": "[1, 2]"}]),
        ("function_call", {"name": "f", "arguments": ""}, [{}]),
        ("function_call", {"arguments": "{}"}, [{"toolName": "unknown", "inputs": {}}]),
        ("custom_tool_call", {"name": "f", "input": "run it"}, [{"inputs": "run it"}]),
        (
            "mcp_call",
            MCP,
            [{"inputs": {}, "transport": "mcp", "serverLabel": "srv"}, {"outcome": "found"}],
        ),
        (
            "mcp_call",
            {**MCP, "output": None, "error": {"message": "down"}, "status": "failed"},
            [{}, {"error": {"code": "tool_failed", "details": {"output": {"error": {"message": "down"}}}}}],
        ),
        (
            "web_search_call",
            {"action": {"query": "tides", "sources": [{"url": "https://a.example/"}]}},
            [{"toolName": "web_search"}, {"outcome": {"query": "tides", "sources": ["https://a.example/"]}}],
        ),
        ("web_search_call", {"status": "failed"}, [{}, {"error": {"code": "tool_failed"}}]),
        (
            "code_interpreter_call",
            {"code": "1 + 1", "outputs": [{"type": "logs", "logs": "2"}]},
            [{"inputs": {"code": "1 + 1"}}, {"outcome": {"output": [{"type": "logs", "logs": "2"}]}}],
        ),
        ("shell_call", {}, [{"toolName": "shell_call"}, {}]),
        ("mcp_list_tools", {}, []),
        ("compaction", {}, []),
    ],
)
def test_each_tool_has_a_call_and_a_result(
    run: Run, item_type: str, item: dict[str, Any], expected: list[dict[str, Any]]
) -> None:
    said = of(run(CREATED, done(0, item_type, **item), COMPLETED), "agent.toolCalled", "agent.toolReturned")
    assert len(said) == len(expected)
    for payload, members in zip(said, expected, strict=True):
        assert holds(payload, members), payload


def holds(value: Any, expected: Any) -> bool:
    if not isinstance(expected, dict):
        return bool(value == expected)
    return all(name in value and holds(value[name], member) for name, member in expected.items())


def test_a_search_is_emitted_while_it_runs(run: Run) -> None:
    said = run(CREATED, added(0, "web_search_call"), text(1, "so"), done(0, "web_search_call"), COMPLETED)
    assert types(said)[:3] == ["agent.toolCalled", "output.chunk", "agent.toolReturned"]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([added(0, "function_call", name="f"), delta("function_call_arguments", 0, '{"a"')], []),
        ([added(0, "code_interpreter_call"), delta("code_interpreter_call_code", 0, "x =")], []),
        ([added(0, "web_search_call")], ["agent.toolCalled", "agent.toolReturned"]),
        ([added(0, "shell_call")], ["agent.toolCalled", "agent.toolReturned"]),
    ],
)
def test_an_incomplete_call_is_not_emitted(run: Run, events: list[Event], expected: list[str]) -> None:
    said = [event for event in run(CREATED, *events) if event["type"].startswith("agent.tool")]
    assert [event["type"] for event in said] == expected
    assert not expected or said[-1]["payload"]["error"]["code"] == "incomplete"


def test_a_failed_output_is_an_error(run: Run) -> None:
    said = run(CREATED, done(0, "function_call", **FUNCTION), output(output="no", status="failed"), COMPLETED)
    returned = of(said, "agent.toolReturned")[0]
    assert returned["error"] == {"code": "tool_failed", "message": "The tool failed.", "details": {"output": "no"}}
    assert "outcome" not in returned


def test_an_output_of_null_is_an_outcome(run: Run) -> None:
    said = run(CREATED, done(0, "function_call", **FUNCTION), output(output=None), COMPLETED)
    assert of(said, "agent.toolReturned")[0]["outcome"] is None


def test_notices_are_on_their_event(run: Run) -> None:
    call = {**FUNCTION, "arguments": '{"api_key": "k"}'}
    said = run(CREATED, done(0, "function_call", **call), output(output={"token": "t"}), COMPLETED)
    called, returned = (event for event in said if event["type"].startswith("agent.tool"))
    assert [notice["path"] for notice in called["public-sse.notices"]] == ["arguments_json.api_key"]
    assert [notice["path"] for notice in returned["public-sse.notices"]] == ["output.token"]


# approvals


APPROVAL: Final = {"name": "book", "server_label": "srv", "arguments": '{"seats": 2}'}


def test_an_approval_suspends_the_node_and_ends_the_log(run: Run) -> None:
    said = run(CREATED, done(0, "mcp_approval_request", **APPROVAL), COMPLETED)
    *_, suspended, requested = said
    assert [event["type"] for event in said[:2]] == ["run.started", "node.started"]
    assert (suspended["type"], requested["type"]) == ("node.suspended", "interrupt.requested")
    payload = suspended["payload"]
    assert payload["nodeId"] == suspended["nodeId"] == requested["nodeId"] == "model"
    assert requested["causationId"] == suspended["eventId"]
    assert requested["payload"] == {name: payload[name] for name in ("kind", "key", "resumeSchema", "data")}
    assert payload["interruptId"] == "int-item_0"
    assert (payload["kind"], payload["reason"], payload["key"]) == ("approval", "approval", "stream_1:model:0")
    about = {"toolName": "book", "serverLabel": "srv", "inputs": {"seats": 2}}
    assert payload["data"]["artifactData"] == about
    assert payload["data"]["actions"] == ["accept", "reject", "refine", "edit-accept"]


def test_an_approval_is_requested_once_with_the_final_inputs(run: Run) -> None:
    asked = added(0, "mcp_approval_request", name="book", server_label="srv")
    whole = {"type": "response.mcp_call_arguments.done", "output_index": 0, "arguments": '{"seats": 2}'}
    said = run(CREATED, asked, whole, done(0, "mcp_approval_request", **APPROVAL), COMPLETED)
    assert [event["type"] for event in said[2:]] == ["node.suspended", "interrupt.requested"]
    assert said[-1]["payload"]["data"]["artifactData"]["inputs"] == {"seats": 2}


def test_a_resumed_run_has_no_pending_interrupt(run: Run) -> None:
    requests = (done(0, "mcp_approval_request", **APPROVAL), done(1, "mcp_approval_request", **APPROVAL))
    answer = done(0, "mcp_call", **{**MCP, "id": "mcp_1"})
    said = run(CREATED, *requests, COMPLETED, NEXT, CREATED, answer, COMPLETED, run=True)
    suspended = [event for event in said if event["type"] == "node.suspended"]
    resumed = [event for event in said if event["type"] == "node.resumed"]
    assert [event["causationId"] for event in resumed] == [event["eventId"] for event in suspended]
    assert [event["payload"]["key"] for event in suspended] == ["stream_1:model:0", "stream_1:model:1"]
    assert said[-1]["type"] == "run.completed"


@pytest.mark.parametrize(
    ("events", "ends", "expected"),
    [
        ((), "cancel", ["node.cancelled", "run.cancelled"]),
        ((NEXT,), "close", ["node.failed", "run.failed"]),
        ((NEXT, CREATED, ended("failed")), "close", ["node.failed", "run.failed"]),
    ],
)
def test_a_suspended_run_may_still_end(run: Run, events: tuple[Event, ...], ends: str, expected: list[str]) -> None:
    request = done(0, "mcp_approval_request", **APPROVAL)
    said = run(CREATED, request, COMPLETED, *events, ends=ends, run=True)
    assert [event["type"] for event in said[-2:]] == expected


@pytest.mark.parametrize(
    ("item", "end"),
    [
        (added(0, "mcp_approval_request", **APPROVAL), ended("failed")),
        (done(0, "mcp_approval_request", **APPROVAL), ended("failed")),
        (done(0, "mcp_approval_request", **APPROVAL, status="incomplete"), COMPLETED),
    ],
)
def test_an_approval_of_a_failed_response_suspends_nothing(run: Run, item: Event, end: Event) -> None:
    assert of(run(CREATED, item, end), "node.suspended") == []


# agents and nodes


def handoffs(said: list[Event]) -> list[tuple[str, str]]:
    return [(event["fromAgentId"], event["toAgentId"]) for event in of(said, "agent.handoff")]


@pytest.mark.parametrize(
    ("agents", "expected"),
    [
        (("one",), []),
        (("one", "one"), []),
        (("one", "two"), [("one", "two")]),
        (("one", None, "one"), []),
        (("one", None, "two"), [("one", "two")]),
        ((None, "one"), []),
        (("one", "two", "one"), [("one", "two"), ("two", "one")]),
        (("a", "b"), [("agent:a", "agent:b")]),
    ],
)
def test_an_agent_hands_over_to_another(
    run: Run, agents: tuple[str | None, ...], expected: list[tuple[str, str]]
) -> None:
    turns = [step for number, agent in enumerate(agents) for step in (context(agent=agent), text(number, "x"))]
    assert handoffs(run(CREATED, *turns, COMPLETED)) == expected


def workflow(**members: object) -> Event:
    return context(workflow={"workflow_key": "report", **members})


def spoken(run: Run, *steps: Event) -> list[Event]:
    """Emit a word in each step of a workflow."""
    return run(CREATED, *(turn for number, step in enumerate(steps) for turn in (step, text(number, "x"))), COMPLETED)


def nodes(said: list[Event]) -> list[tuple[str, str]]:
    return [
        (event["type"].removeprefix("node."), event["nodeId"]) for event in said if event["type"].startswith("node.")
    ]


def test_steps_of_a_workflow_are_nodes(run: Run) -> None:
    first, second = workflow(stage_name="s1", step_name="read"), workflow(stage_name="s2", step_name="write")
    said = spoken(run, first, second, first)
    assert nodes(said) == [
        ("started", "model"),
        ("completed", "model"),
        ("started", "s1/read"),
        ("completed", "s1/read"),
        ("started", "s2/write"),
        ("completed", "s2/write"),
        ("started", "s1/read"),
        ("completed", "s1/read"),
    ]
    assert [event.get("attempt") for event in of(said, "node.started")] == [None, None, None, 1]
    assert of(said, "run.started")[0]["workflowId"] == "public-sse.stream"


def test_the_workflow_id_comes_from_the_context(run: Run) -> None:
    said = run(CREATED, COMPLETED, context={"workflow": {"workflow_key": "report", "step_name": "read"}})
    assert of(said, "run.started")[0]["workflowId"] == "report"
    assert nodes(said) == [("started", "read"), ("completed", "read")]


def test_branches_are_parallel_nodes(run: Run) -> None:
    branches = [workflow(stage_name="s", step_name="go", parallel_group="g", branch_index=number) for number in (0, 1)]
    said = spoken(run, branches[0], branches[1], branches[0], workflow(stage_name="t"))
    opened = [name for how, name in nodes(said) if how == "started"]
    assert opened == ["model", "s/go#0", "s/go#1", "t"]
    words = [(event["nodeId"], event["payload"]["isLast"]) for event in said if event["type"] == "output.chunk"]
    assert words == [
        ("s/go#0", False),
        ("s/go#1", False),
        ("s/go#0", False),
        ("s/go#0", True),
        ("s/go#1", True),
        ("t", False),
        ("t", True),
    ]


def test_unnamed_branches_are_separate_nodes(run: Run) -> None:
    said = spoken(run, *(workflow(parallel_group="g", branch_index=number) for number in (0, 1)))
    assert [name for how, name in nodes(said) if how == "started"] == ["model", "model", "model~2"]


def test_branches_take_over_from_the_previous_agent(run: Run) -> None:
    def branch(number: int, agent: str) -> Event:
        place = {"stage_name": "s", "parallel_group": "g", "branch_index": number}
        return context(agent=agent, workflow=place)

    lead, last = (
        context(agent="lead", workflow={"stage_name": "r"}),
        context(agent="last", workflow={"stage_name": "t"}),
    )
    said = spoken(run, lead, branch(0, "one"), branch(1, "two"), branch(0, "one"), last)
    assert handoffs(said) == [("lead", "one"), ("lead", "two"), ("one", "last")]


def test_the_agent_of_a_step_comes_from_the_context(run: Run) -> None:
    said = run(CREATED, done(0, "reasoning"), COMPLETED, context={"workflow": {"step_agent": "writer"}})
    assert of(said, "agent.reasoned")[0]["agentId"] == "writer"


# text, images


def test_each_message_is_a_channel_and_each_model_call_has_one_last_chunk(run: Run) -> None:
    said = run(CREATED, text(0, "a"), text(1, "b"), text(0, "c"), delta("refusal", 2, "no"), COMPLETED)
    chunks = of(said, "output.chunk")
    spoken = [(chunk["chunk"], chunk.get("channel"), chunk["isLast"]) for chunk in chunks]
    assert spoken == [
        ("a", "item_0", False),
        ("b", "item_1", False),
        ("c", "item_0", False),
        ("no", "item_2:refusal", False),
        ("", None, True),
    ]
    assert {(chunk["nodeId"], chunk["runId"]) for chunk in chunks} == {("model", "stream_1")}


@pytest.mark.parametrize(
    ("events", "end", "expected"),
    [
        ((text(0, "a"),), COMPLETED, {"finishReason": "stop", "model": "m-1"}),
        (
            (text(0, "a"), done(1, "function_call", **FUNCTION)),
            COMPLETED,
            {"finishReason": "tool_calls", "model": "m-1"},
        ),
        (
            (text(0, "a"), done(1, "function_call", **FUNCTION), output(output="x")),
            COMPLETED,
            {"finishReason": "stop", "model": "m-1"},
        ),
        (
            (text(0, "a"),),
            ended("incomplete", incomplete_details={"reason": "max_output_tokens"}),
            {"finishReason": "length", "model": "m-1"},
        ),
        (
            (text(0, "a"),),
            ended("incomplete", incomplete_details={"reason": "content_filter"}),
            {"finishReason": "content_filter", "model": "m-1"},
        ),
        ((text(0, "a"),), ended("incomplete"), {"model": "m-1"}),
        ((text(0, "a"),), ended("failed"), {"model": "m-1"}),
    ],
)
def test_the_last_chunk_has_a_finish_reason(
    run: Run, events: tuple[Event, ...], end: Event, expected: dict[str, str]
) -> None:
    assert of(run(CREATED, *events, end), "output.chunk")[-1]["meta"] == expected


def test_text_of_the_terminal_only_is_emitted_once(run: Run) -> None:
    late = {"type": "message", "id": "item_0", "content": [{"type": "output_text", "text": "late"}]}
    events = (CREATED, added(0, "message"), done(0, "message"), ended("completed", output=[late]))
    said = run(*events)
    assert [chunk["chunk"] for chunk in of(said, "output.chunk")] == ["late", ""]
    assert of(said, "run.completed") == [{"outputs": {"text": "late"}}]


def test_citations_and_images_have_event_types_of_ours(run: Run) -> None:
    citation = {"type": "url_citation", "url": "https://a.example/", "title": "A"}
    note = {"type": "response.output_text.annotation.added", "output_index": 0, "content_index": 0}
    image = done(1, "image_generation_call", result="AAAA")
    said = run(CREATED, text(0, "a"), {**note, "annotation": citation}, image, COMPLETED)
    cited = of(said, "public-sse.message.citation")
    assert cited == [{"nodeId": "model", "channel": "item_0", "contentIndex": 0, "citation": citation}]
    pieces = of(said, "public-sse.chunk.delta", "public-sse.chunk.done")
    assert [piece.get("data") for piece in pieces] == ["AAAA", None]
    assert pieces[0]["callId"] == of(said, "agent.toolReturned")[0]["callId"]


# usage and the end


def test_each_call_of_a_model_has_its_own_usage(run: Run) -> None:
    def used(tokens: int) -> Event:
        details = {"cached_tokens": 1}
        usage = {
            "input_tokens": tokens,
            "output_tokens": 2,
            "total_tokens": tokens + 2,
            "input_tokens_details": details,
        }
        return ended("completed", usage=usage)

    said = run(CREATED, used(3), NEXT, CREATED, used(5), run=True)
    assert [(usage["inputTokens"], usage["totalTokens"]) for usage in of(said, "provider.usage")] == [(3, 5), (5, 7)]
    assert {usage["cacheReadTokens"] for usage in of(said, "provider.usage")} == {1}


def test_incomplete_usage_is_not_emitted(run: Run) -> None:
    assert of(run(CREATED, ended("completed", usage={"input_tokens": 3})), "provider.usage") == []


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ((text(0, "a"), COMPLETED), {"text": "a"}),
        ((delta("refusal", 0, "no"), COMPLETED), {"refusal": "no", "status": "refused"}),
        (
            (text(0, "a"), ended("incomplete", incomplete_details={"reason": "max_output_tokens"})),
            {"text": "a", "status": "incomplete", "reason": "max_output_tokens"},
        ),
        ((summary(0, "thought"), COMPLETED), {}),
    ],
)
def test_outputs_of_a_run(run: Run, events: tuple[Event, ...], expected: dict[str, str]) -> None:
    assert of(run(CREATED, *events), "run.completed") == [{"outputs": expected}]


def test_attachments_and_structured_output_are_outputs(run: Run) -> None:
    attachment = {"type": "projector.attachment", "attachment": {"object_id": "o"}}
    wants = {"type": "response.created", "response": {"id": "resp_1", "text": {"format": {"type": "json_object"}}}}
    said = run(wants, text(0, '{"a": 1}'), attachment, COMPLETED)
    given = of(said, "run.completed")[0]["outputs"]
    assert given == {"text": '{"a": 1}', "structuredOutput": {"a": 1}, "attachments": [{"object_id": "o"}]}


@pytest.mark.parametrize(
    ("ends", "error"),
    [
        ("upstream_reset", {"code": "upstream_reset", "message": "The connection to the provider broke."}),
        ("close", {"code": "upstream_truncated", "message": "The provider's stream ended before it was complete."}),
    ],
)
def test_a_truncated_stream_fails_the_run(run: Run, ends: str, error: dict[str, str]) -> None:
    said = run(CREATED, text(0, "a"), ends=ends)
    told = {**error, "retryable": True, "details": {"public-sse.source": "provider"}}
    assert of(said, "node.failed") == [{"nodeId": "model", "error": told}]
    assert of(said, "run.failed") == [{"error": told, "failedNodeId": "model"}]


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (ended("failed", error={"code": "server_error", "message": "s3cret"}), "server_error"),
        (ended("failed"), "failed"),
    ],
)
def test_a_failed_response_has_its_code_without_the_provider_message(run: Run, end: Event, code: str) -> None:
    said = run(CREATED, end)
    assert of(said, "run.failed")[0]["error"] == {"code": code, "message": writer.FAILED_MESSAGE}
    assert "s3cret" not in json.dumps(said)


def test_an_empty_stream_is_a_run(run: Run) -> None:
    assert [event["type"] for event in run()] == ["run.started", "node.started", "node.failed", "run.failed"]


def test_a_cancelled_stream_cancels_the_run(run: Run) -> None:
    said = run(CREATED, text(0, "a"), ends="cancel")
    assert [event["type"] for event in said[-3:]] == ["output.chunk", "node.cancelled", "run.cancelled"]


# the tables


def test_every_type_of_tool_is_handled() -> None:
    assert TOOL_TYPES.keys() <= writer.ITEMS.keys()


def test_dropped_kinds_are_covered_by_other_frames() -> None:
    dropped = {Kind.REFUSAL_DONE, Kind.TOOL_ARGUMENTS_DELTA, Kind.TOOL_CODE_DELTA}
    assert set(writer.DROPPED) == dropped | {
        PrivateKind.RESPONSE_ERROR,
        PrivateKind.ITEM_DETAILS,
        PrivateKind.ITEM_MEMBERS,
        PrivateKind.FILE_PATH,
        PrivateKind.REASONING_DONE,
        PrivateKind.REASONING_ENCRYPTED,
        PrivateKind.CALL_SEALED,
        PrivateKind.LATE_TEXTS,
    }


def test_after_an_encoding_error_only_the_failure_is_emitted() -> None:
    envelope = {"server_timestamp": "2025-12-15T12:00:00.000Z", "stream_id": "s", "output_index": 0, "item_id": "i"}
    item = {**envelope, "item_type": "reasoning", "status": "completed"}
    error = {"code": "internal_error", "message": "m", "source": "server", "is_retryable": False}
    dialect = OpenWopWriter("full", DialectOptions())
    dialect.feed({**item, "kind": "output_item.added"})
    with pytest.raises(KeyError):
        dialect.feed({**envelope, "kind": "reasoning.delta"})
    assert dialect.feed({**item, "kind": "output_item.done"}) == []
    said = [json.loads(data) for _, data in dialect.feed({**envelope, "kind": "error", "error": error})]
    assert [event["type"] for event in said] == ["run.failed"]
    assert said[0]["payload"]["error"]["code"] == "internal_error"
    assert said[0]["sequence"] == 2
