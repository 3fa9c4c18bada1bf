"""Events of the stage for Agents SDK runs, from objects shaped like those of the SDK (CONTRACT D6, D12, D17, D35)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any, Final

import httpx2
import pytest
from ag_ui_validate.pytest_plugin import validate_agui
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from projector import Pipeline, StreamContext, build_pipeline
from projector.contracts.stream_rules import check_stream
from projector.core.faults import FAULTS
from projector.core.intake import HOST_PREFIX
from projector.dialects import DIALECTS
from projector.providers.agents_sdk import RunStage, encode, run_stage
from projector.providers.agents_sdk.failures import RUN_FAULTS, Phase, judge
from tests.dialect_checks import violations_of
from tests.property.soundness import examples

Event = dict[str, Any]

FAKE: Final = "__fake_id__"
NEXT: Final = {"type": "projector.next_response"}
CREATED: Final = {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": []}}
COMPLETED: Final = {"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": []}}


def raw(event: object) -> SimpleNamespace:
    return SimpleNamespace(type="raw_response_event", data=event)


def run_item(name: str, item_type: str, raw_item: object, **members: object) -> SimpleNamespace:
    item = SimpleNamespace(type=item_type, raw_item=raw_item, **members)
    return SimpleNamespace(type="run_item_stream_event", name=name, item=item)


def tool_output(output: object, call_id: str | None = "call_1", **members: object) -> SimpleNamespace:
    answer = {"type": "function_call_output", "call_id": call_id, "output": "as text", **members}
    return run_item("tool_output", "tool_call_output_item", answer, output=output)


def agent(name: str) -> SimpleNamespace:
    return SimpleNamespace(type="agent_updated_stream_event", new_agent=SimpleNamespace(name=name))


def call(item_id: str = "fc_1", call_id: str = "call_1", name: str = "f", **members: object) -> Event:
    return {"type": "function_call", "id": item_id, "call_id": call_id, "name": name, "arguments": "{}", **members}


def message(text: str = "Hello.", item_id: str = "msg_1") -> Event:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": item_id, "role": "assistant", "status": "completed", "content": content}


def done(item: Event, index: int = 0) -> Event:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def added(item: Event, index: int = 0) -> Event:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def feed(taker: RunStage, *events: object) -> list[Event]:
    return [dict(said) for event in events for said in taker.feed(event)]


def pipeline(dialect: str = "public_sse_v1") -> Pipeline:
    context = StreamContext(stream_id="stream_1")
    return build_pipeline(
        provider="openai_responses",
        dialect=dialect,
        context=context,
        run=True,
        takes_host_events=True,
        output_format="ndjson",
        clock=lambda: 0.0,
    )


def frames(said: Iterable[Any]) -> list[Event]:
    """Return the public stream."""
    one = pipeline()
    lines = (one.feed(encode(said, Counter())) + one.close()).splitlines()
    assert check_stream(lines) == []
    return [json.loads(line) for line in lines]


def test_the_sdk_is_installed(agents_sdk: ModuleType) -> None:
    assert agents_sdk.Runner


def test_nothing_imports_the_sdk() -> None:
    program = "import sys, projector.server.response; sys.exit('agents' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_host_prefix_is_that_of_the_pipeline() -> None:
    assert run_stage.HOST_PREFIX == HOST_PREFIX


@pytest.mark.parametrize(
    ("event", "counted"),
    [
        pytest.param(raw({"type": "projector.tool_output", "call_id": "c"}), "projector.tool_output", id="D35-forged"),
        pytest.param(raw({"type": "projector.cancel"}), "projector.cancel", id="D35-forged-end"),
        pytest.param(raw({}), "(no type)", id="no-type"),
        pytest.param(raw(7), "(no type)", id="no-members"),
        pytest.param(SimpleNamespace(type="new_event"), "new_event", id="D30-a-new-event"),
        pytest.param(object(), "None", id="D30-no-event"),
        pytest.param(run_item("new_name", "new_item", {}), "new_name", id="D30-a-new-run-item"),
        pytest.param(run_item("tool_called", "tool_call_item", {}), "tool_called", id="said-by-the-raw-events"),
        pytest.param(
            run_item("tool_output", "tool_call_output_item", {"type": "computer_call_output"}),
            "computer_call_output",
            id="D22-no-public-tool",
        ),
        pytest.param(tool_output(1, call_id=None), "function_call_output", id="an-output-of-nothing"),
    ],
)
def test_dropped_events_are_counted(event: object, counted: str) -> None:
    taker = RunStage()
    assert feed(taker, event) == []
    assert taker.dropped == {counted: 1}


def test_the_boundary_comes_with_the_next_response() -> None:
    taker = RunStage()
    keepalive = {"type": "keepalive"}
    said = feed(taker, *map(raw, [CREATED, keepalive, COMPLETED, keepalive, CREATED, COMPLETED]))
    assert said == [CREATED, keepalive, COMPLETED, NEXT, CREATED, COMPLETED]
    assert taker.dropped == {"keepalive": 1}


def test_a_new_agent_is_emitted_with_the_next_event() -> None:
    taker = RunStage()
    assert feed(taker, agent("a"), agent("b")) == []
    assert feed(taker, raw(CREATED)) == [{"type": "projector.context", "agent": "b"}, CREATED]
    assert feed(taker, agent("c"), raw(COMPLETED))[0] == {"type": "projector.context", "agent": "c"}
    assert feed(taker, agent("d")) == []
    assert taker.close() == [{"type": "projector.context", "agent": "d"}]


class Model(BaseModel):
    city: str


@dataclass
class Record:
    city: str


DEEP: Final[list[Any]] = []
DEEP.append(DEEP)


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("text", "text"),
        ({"a": [1, 2.5, None, True]}, {"a": [1, 2.5, None, True]}),
        (Model(city="Oslo"), {"city": "Oslo"}),
        (Record("Oslo"), {"city": "Oslo"}),
        ({1: "a number as a key"}, {"1": "a number as a key"}),
        (2**70, str(2**70)),
        (float("nan"), None),
        (object(), "as text"),
        ({"a": {1, 2}}, "as text"),
        (DEEP, "as text"),
        (None, "as text"),
    ],
)
def test_outputs_of_every_kind(output: object, said: object) -> None:
    taker = RunStage()
    events = feed(taker, raw(CREATED), raw(done(call())), raw(COMPLETED), tool_output(output))
    shown = frames([*events, *taker.close()])
    assert [frame.get("output") for frame in shown if frame["kind"] == "tool.output"] == [said]
    assert [frame["tool"]["status"] for frame in shown if frame["kind"] == "tool.status"] == [
        "in_progress",
        "completed",
    ]


def test_an_output_can_be_a_failure() -> None:
    taker = RunStage()
    events = feed(taker, raw(done(call())), raw(COMPLETED), tool_output("no", status="failed"))
    assert [frame["tool"]["status"] for frame in frames(events) if frame["kind"] == "tool.status"][-1] == "failed"


def nested(depth: int) -> Event:
    value: Event = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def test_d31_events_nested_too_deeply_are_counted() -> None:
    dropped: Counter[str] = Counter()
    assert encode([CREATED, nested(100_000)], dropped) == encode([CREATED], dropped)
    assert dropped == {"(too deep)": 1}


def test_d31_a_character_in_two_halves() -> None:
    halves = [raw({**delta("output_text"), "delta": half}) for half in ("\ud83d", "\ude00")]
    shown = frames(feed(RunStage(), raw(CREATED), *halves, raw(COMPLETED)))
    assert shown[-1]["final"]["response_text"] == "\U0001f600"


def placed(events: Iterable[Event]) -> list[tuple[object, object]]:
    """Return index and ID of the item of each event."""
    return [(event.get("output_index"), event.get("item_id") or event["item"]["id"]) for event in events]


def fake(item_type: str, **members: object) -> Event:
    return {"type": item_type, "id": FAKE, **members}


def delta(kind: str, index: int | None = 0) -> Event:
    at = {} if index is None else {"output_index": index}
    return {"type": f"response.{kind}.delta", "item_id": FAKE, **at, "delta": "x"}


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param(
            [added(fake("message")), delta("output_text"), delta("refusal"), done(fake("message"))],
            [(0, "msg_0")] * 4,
            id="D6-one-item",
        ),
        pytest.param(
            [added(fake("message")), added(fake("reasoning")), delta("output_text"), delta("reasoning_summary_text")],
            [(0, "msg_0"), (None, "rs_1"), (0, "msg_0"), (None, "rs_1")],
            id="D6-two-types-at-one-index",
        ),
        pytest.param(
            [
                added(fake("function_call", call_id="a")),
                delta("function_call_arguments"),
                added(fake("function_call", call_id="b")),
                delta("function_call_arguments"),
                done(fake("function_call", call_id="a")),
                done(fake("function_call", call_id="b")),
            ],
            [(0, "fc_0"), (0, "fc_0"), (None, "fc_1"), (None, "fc_1"), (0, "fc_0"), (None, "fc_1")],
            id="D34-two-calls-at-one-index",
        ),
        pytest.param(
            [delta("function_call_arguments", 3), done(fake("function_call", call_id="a"), 3)],
            [(3, "fc_0"), (3, "fc_0")],
            id="a-call-whose-id-comes-late",
        ),
        pytest.param(
            [done(fake("function_call", call_id="")), done(fake("function_call", call_id=""), 1)],
            [(0, "fc_0"), (1, "fc_1")],
            id="calls-without-ids",
        ),
        pytest.param([delta("output_text", None), delta("output_text", None)], [(None, "msg_0")] * 2, id="no-index"),
        pytest.param([added(fake("new_type"))], [(0, "item_0")], id="D30-a-new-type"),
        pytest.param([added(call()), added(message(), 1)], [(0, "fc_1"), (1, "msg_1")], id="ids-that-are-true"),
    ],
)
def test_placeholders_become_ids(events: list[Event], expected: list[tuple[object, object]]) -> None:
    assert placed(feed(RunStage(), *map(raw, events))) == expected


def test_d4_a_response_gets_its_id_from_its_items() -> None:
    told = {"provider_data": {"model": "m", "response_id": "chat_7"}}
    begun = {"type": "response.created", "response": {"id": FAKE, "status": None}}
    ended = {"type": "response.completed", "response": {"id": FAKE, "output": [fake("message"), call()]}}
    said = feed(RunStage(), *map(raw, [begun, added(fake("message", **told)), done(fake("message", **told)), ended]))
    assert said == [
        {"type": "response.created", "response": {"status": "in_progress", "output": []}},
        {"type": "response.in_progress", "response": {"id": "chat_7", "status": "in_progress"}},
        added({"type": "message", "id": "msg_chat_7_0", **told}),
        done({"type": "message", "id": "msg_chat_7_0", **told}),
        {"type": "response.completed", "response": {"output": [{"type": "message"}, call()]}},
    ]


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([CREATED, done(message()), COMPLETED], id="streamed"),
        pytest.param([CREATED, {**COMPLETED, "response": {"output": [message()]}}], id="only-in-the-end"),
    ],
)
def test_a_message_is_emitted_once(events: list[Event]) -> None:
    taker = RunStage()
    repeated = run_item("message_output_created", "message_output_item", message())
    made = run_item("message_output_created", "message_output_item", message("Made by the host.", FAKE))
    shown = frames(feed(taker, *map(raw, events), repeated, made))
    said = [frame["delta"] for frame in shown if frame["kind"] == "message.delta"]
    assert said == ["Hello.", "Made by the host."]
    assert shown[-1]["final"]["response_text"] == "Made by the host."
    assert FAKE not in json.dumps(shown)


def approval(raw_item: object, **members: object) -> SimpleNamespace:
    return SimpleNamespace(type="tool_approval_item", raw_item=raw_item, **members)


def test_d18_calls_wait_for_approval() -> None:
    taker = RunStage()
    begun = feed(taker, raw(CREATED), raw(done(call())), raw(COMPLETED))
    asked = approval(call(), call_id="call_1", name="f", arguments='{"token":"t","x":1}')
    theirs = approval({"type": "mcp_approval_request"}, call_id="mcpr_1", name="g", arguments=None)
    shown = frames([*begun, *taker.close([asked, theirs])])
    waiting = [frame["tool"] for frame in shown if frame["kind"] == "tool.status"][1:]
    assert waiting == [
        {
            "tool_type": "mcp",
            "tool_call_id": "approval_call_1",
            "status": "awaiting_approval",
            "tool_name": "f",
            "arguments_text": '{"token":"<redacted>","x":1}',
            "arguments_json": {"token": "<redacted>", "x": 1},
        }
    ]
    assert (shown[-1]["kind"], shown[-1]["final"]["status"]) == ("final", "completed")


@pytest.mark.parametrize(
    ("kind", "member", "asked"),
    [
        ("shell_call", "action", {"commands": ["rm -r /a"], "timeout_ms": None}),
        ("apply_patch_call", "operation", {"type": "delete_file", "path": "a.py"}),
        ("function_call", "arguments", {}),
    ],
)
def test_d18_an_approval_shows_what_is_asked_for(kind: str, member: str, asked: Event) -> None:
    raw_item = {"type": kind, "call_id": "call_1", member: asked or ""}
    request = approval(raw_item, call_id="call_1", name="f", arguments=None if asked else "")
    shown = frames([*feed(taker := RunStage(), raw(CREATED), raw(COMPLETED)), *taker.close([request])])
    assert [frame["tool"]["arguments_json"] for frame in shown if frame["kind"] == "tool.status"] == [asked]


@pytest.mark.parametrize("item_type", ["tool_call_item", "handoff_call_item"])
def test_an_answer_to_a_call_of_an_earlier_stream(item_type: str) -> None:
    earlier = SimpleNamespace(type=item_type, raw_item=call(name="delete"))
    other = SimpleNamespace(type="message_output_item", raw_item=message())
    taker = RunStage([other, earlier])
    shown = frames([*feed(taker, tool_output("gone"), tool_output("unknown", "call_9")), *taker.close()])
    said = [(frame["kind"], frame.get("tool", {}).get("status")) for frame in shown]
    assert [one for one in said if one[0].startswith("tool.")] == [
        ("tool.status", "in_progress"),
        ("tool.arguments.done", None),
        ("tool.output", None),
        ("tool.status", "completed"),
    ]
    assert shown[-1]["final"]["status"] == "completed"


def test_a_cancelled_run() -> None:
    taker = RunStage()
    begun = feed(taker, raw(CREATED), raw(done(message())))
    shown = frames([*begun, *taker.close(is_cancelled=True)])
    assert (shown[-1]["final"]["status"], shown[-1]["final"]["response_text"]) == ("cancelled", "Hello.")


def exception(name: str, base: type = Exception, **members: object) -> Exception:
    """Return an exception of a class with this name, and of the package that has one."""
    package = "openai" if name.startswith("API") else "httpx" if name in dir(httpx2) else "agents"
    error: Exception = type(name, (base,), {"__module__": package, **members})("the words of an exception")
    return error


CONNECTION: Final = type(exception("APIConnectionError", type(exception("APIError"))))


def made_of(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


def caused_by(cause: BaseException) -> Exception:
    return made_of(CONNECTION("Connection error."), cause)


@pytest.mark.parametrize(
    ("error", "phase", "code"),
    [
        (exception("MaxTurnsExceeded"), "awaited", "run_max_turns"),
        (exception("InputGuardrailTripwireTriggered"), "idle", "run_guardrail"),
        (exception("OutputGuardrailTripwireTriggered"), "completed", "run_guardrail"),
        (exception("ToolInputGuardrailTripwireTriggered"), "completed", "run_guardrail"),
        (exception("ToolOutputGuardrailTripwireTriggered"), "completed", "run_guardrail"),
        (exception("ModelBehaviorError"), "idle", None),
        (exception("ModelBehaviorError"), "open", None),
        (exception("ModelBehaviorError"), "completed", "run_model_behavior"),
        (exception("ModelBehaviorError"), "incomplete", None),
        (exception("ModelBehaviorError"), "failed", None),
        (exception("ModelBehaviorError"), "awaited", "upstream_truncated"),
        (exception("ModelRefusalError"), "completed", None),
        (exception("ModelTimeoutError"), "open", "upstream_timeout_total"),
        (exception("UserError"), "completed", "internal_error"),
        (exception("ToolTimeoutError"), "completed", "internal_error"),
        (
            exception("RateLimitError", type(exception("APIStatusError")), status_code=429),
            "idle",
            "upstream_http_429",
        ),
        (exception("APIStatusError"), "idle", "provider_error"),
        (caused_by(exception("ConnectError")), "idle", "upstream_unreachable"),
        (caused_by(exception("ConnectTimeout")), "idle", "upstream_timeout_connect"),
        (caused_by(exception("ReadTimeout", type(exception("TimeoutException")))), "open", "upstream_timeout_idle"),
        (
            caused_by(exception("ReadTimeout", type(exception("TimeoutException")))),
            "idle",
            "upstream_timeout_first_byte",
        ),
        (caused_by(made_of(exception("ConnectTimeout"), ConnectionRefusedError())), "idle", "upstream_unreachable"),
        (caused_by(made_of(exception("ReadError"), OSError())), "open", "upstream_reset"),
        (caused_by(exception("RemoteProtocolError")), "open", "upstream_reset"),
        (caused_by(ConnectionResetError()), "open", "upstream_reset"),
        (caused_by(ConnectionRefusedError()), "idle", "upstream_unreachable"),
        (CONNECTION("Connection error."), "idle", "upstream_unreachable"),
        (json.JSONDecodeError("words", "words", 0), "open", "upstream_malformed"),
        (json.JSONDecodeError("words", "words", 0), "completed", "internal_error"),
        (KeyError("words"), "open", "internal_error"),
    ],
)
def test_exceptions_become_faults(error: Exception, phase: Phase, code: str | None) -> None:
    verdict = judge(error, phase)
    assert (None if verdict is None else verdict.code) == code  # type: ignore[union-attr]  # a fault, or nothing


def test_a_providers_error_is_emitted_as_its_error() -> None:
    taker = RunStage()
    begun = feed(taker, raw(CREATED))
    said, fault = taker.fail(
        exception("APIError", code="overloaded", message="Busy, key sk-0123456789abcdef0123456789.")
    )
    assert fault is None
    last = frames([*begun, *said])[-1]["error"]
    assert (last["code"], last["source"]) == ("overloaded", "provider")
    assert "sk-0123456789" not in last["message"]


def test_faults_of_runs_have_their_own_codes() -> None:
    assert RUN_FAULTS.keys() & FAULTS.keys() == set()
    assert all(code == fault.code and code.startswith("run_") for code, fault in RUN_FAULTS.items())


def a_whole_run() -> list[Event]:
    """Return a run with a handoff, an answered call, and a waiting call."""
    taker = RunStage()
    transfer = {"type": "function_call_output", "call_id": "call_1", "output": "{}"}
    said = feed(
        taker,
        agent("a"),
        *map(raw, [CREATED, done(call()), COMPLETED]),
        run_item("handoff_occured", "handoff_output_item", transfer),
        agent("b"),
        *map(raw, [CREATED, done(message()), done(call("fc_2", "call_2"), 1), COMPLETED]),
        tool_output({"sky": "blue"}, "call_2"),
    )
    asked = approval(call("fc_3", "call_3"), call_id="call_3", name="f", arguments="{}")
    return said + [dict(event) for event in taker.close([asked])]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_run_keeps_the_rules_of_each_dialect(dialect: str) -> None:
    one = pipeline(dialect)
    events = (one.feed(encode(a_whole_run(), Counter())) + one.close()).splitlines()
    assert len(events) >= 4  # `chat_completions` has no events for calls that the run answered itself
    assert violations_of(dialect, events) == []
    if dialect == "ag_ui":
        report = validate_agui([event.decode() for event in events])
        assert [found for found in report.diagnostics if found.severity == "error"] == []


POOL: Final = [
    raw(CREATED),
    raw({"type": "response.created", "response": {"id": FAKE}}),
    raw(COMPLETED),
    raw({"type": "response.completed", "response": {"id": FAKE, "output": [fake("message", content=[]), call()]}}),
    raw({"type": "response.incomplete", "response": {"status": "incomplete"}}),
    raw(added(fake("message"))),
    raw(added(fake("reasoning", summary=[]))),
    raw(added(fake("function_call", call_id="call_1", name="f"))),
    raw(added(fake("function_call", call_id="call_2", name="g"))),
    raw(delta("output_text")),
    raw(delta("reasoning_summary_text")),
    raw(delta("function_call_arguments")),
    raw(done(fake("message", content=[]))),
    raw(done(fake("function_call", call_id="call_1", name="f", arguments="{}"))),
    raw(added(call(), 1)),
    raw(done(call(), 1)),
    raw({"type": "keepalive"}),
    run_item("message_output_created", "message_output_item", message()),
    run_item(
        "handoff_occured", "handoff_output_item", {"type": "function_call_output", "call_id": "call_2", "output": "{}"}
    ),
    tool_output("done"),
    agent("a"),
    agent("b"),
]


@examples(150)
@given(events=st.lists(st.sampled_from(POOL), max_size=25), is_waiting=st.booleans())
def test_any_run_keeps_the_rules_of_the_stream(events: list[object], is_waiting: bool) -> None:  # noqa: FBT001 - drawn
    taker = RunStage()
    said = feed(taker, *events)
    asked = [approval(call(), call_id="call_1", name="f", arguments="{}")] if is_waiting else []
    shown = frames([*said, *taker.close(asked)])
    assert [frame["kind"] in {"final", "error"} for frame in shown].count(True) == 1
    assert FAKE not in json.dumps(shown)
