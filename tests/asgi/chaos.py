"""Requests to a server whose provider is faulty: the routes, the plans, and what is wrong with an answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from projector.contracts.kinds import TERMINAL_KINDS
from projector.openwop.event_log import RUN_TERMINALS
from tests.asgi.conftest import Answer, request_bytes
from tests.asgi.faulty_provider import BROKEN, CANARY, FAULTS, WHOLE, FaultyProvider, Plan
from tests.asgi.process import Process
from tests.dialect_checks import violations_of
from tests.openwop_reader import check_log
from tests.property.soundness import EFFORT

EXAMPLES: Final = Path(__file__).parents[2] / "examples_ndjson"
AT_A_TIME: Final = 48
SAMPLE: Final = 2
"""Events of the golden before which each fault of a sample occurs."""
QUIET_S: Final = 60.0
"""Limit for a busy machine."""
GAUGES: Final = ("projector_streams_active", "projector_upstream_open", "projector_memory_held_bytes")

RUN_INPUT: Final = {
    "threadId": "t-PLAN",
    "runId": "r",
    "state": {},
    "messages": [{"role": "user", "id": "m1", "content": "PLAN"}],
    "tools": [],
    "context": [],
    "forwardedProps": {},
}
IN_RESPONSES: Final = {"model": "m", "input": "PLAN"}
IN_CHAT: Final = {"model": "m", "messages": [{"role": "user", "content": "PLAN"}]}


class Case(NamedTuple):
    """A route in one of its dialects, and what the provider sends there."""

    path: str
    body: dict[str, Any]
    dialect: str
    golden: str


R_ONE: Final = "openai_responses/chat-text-citations"
R_TOOLS: Final = "openai_responses/chat-parallel-tools"
C_ONE: Final = "openai_chat/chat-completions-text"
C_TOOLS: Final = "openai_chat/chat-completions-parallel-tools"
STREAM: Final = {"stream": True}
RUNS: Final = "/v1/runs"
"""The route that starts a run of OpenWOP; its events are another response."""
CASES: Final = {
    "chat-stream": Case("/api/v1/chat/stream", {"message": "PLAN", "agent": "helper"}, "public_sse_v1", R_ONE),
    "chat-stream-chat": Case("/api/v1/chat/stream", {"message": "PLAN", "agent": "chatty"}, "public_sse_v1", C_TOOLS),
    "workflow": Case("/api/v1/workflows/both/run-stream", {"message": "PLAN"}, "public_sse_v1", R_ONE),
    "ag-ui": Case("/api/v1/ag-ui/helper", RUN_INPUT, "ag_ui", R_TOOLS),
    "ag-ui-chat": Case("/api/v1/ag-ui/chatty", RUN_INPUT, "ag_ui", C_ONE),
    "openwop": Case(RUNS, {"workflowId": "helper", "inputs": {"message": "PLAN"}}, "openwop", R_TOOLS),
    "responses": Case("/v1/responses", IN_RESPONSES | STREAM, "responses", R_TOOLS),
    "responses-public": Case("/v1/responses", IN_RESPONSES | STREAM, "public_sse_v1", R_ONE),
    "responses-open": Case("/v1/responses", IN_RESPONSES | STREAM, "openresponses", R_ONE),
    "responses-json": Case("/v1/responses", IN_RESPONSES, "responses", R_ONE),
    "responses-open-json": Case("/v1/responses", IN_RESPONSES | {"stream": False}, "openresponses", R_TOOLS),
    "chat-completions": Case("/v1/chat/completions", IN_CHAT | STREAM, "chat_completions", C_TOOLS),
    "chat-completions-usage": Case(
        "/v1/chat/completions",
        IN_CHAT | STREAM | {"stream_options": {"include_usage": True}},
        "chat_completions",
        C_ONE,
    ),
    "chat-completions-json": Case("/v1/chat/completions", IN_CHAT, "chat_completions", C_TOOLS),
}


def events_of(golden: str) -> list[bytes]:
    lines = (EXAMPLES / f"{golden}.ndjson").read_bytes().splitlines()
    return [b"data: " + line + b"\n\n" for line in lines if line and not line.startswith(b'{"type":"projector.')]


def last_of(events: Sequence[bytes]) -> int:
    """Return the index of the event that completes the answer."""
    marks = (b'"type":"response.completed"', b'"finish_reason":"')
    return next(i for i, event in enumerate(events) if any(mark in event for mark in marks))


def plans_of(name: str, *, is_sample: bool = False) -> list[Plan]:
    """Return the plans of a case: each fault, before each event, or before a sample of them, chosen by the names."""
    events = events_of(CASES[name].golden)
    every, last = range(len(events) + 1), last_of(events)
    found = [Plan(events)]
    for fault, row in FAULTS.items():
        chance = random.Random(f"{name} {fault}")
        sample = sorted({*chance.sample(range(last + 1), SAMPLE), *chance.sample(every, 1)})
        indexes = sample if is_sample and EFFORT == 1 else every
        found += [Plan(events, fault, index) for index in (indexes if row.is_in_stream else (0,))]
    return found


class Outcome(NamedTuple):
    """What a client received."""

    status: int | None
    """HTTP status of the response; None for a run."""
    is_complete: bool
    problems: list[str]
    data: bytes = b""
    """What the server sent, of a whole response."""


def is_completed(dialect: str, line: bytes) -> bool:
    """Return whether the last event reports a complete answer."""
    event = json.loads(line)
    if dialect == "public_sse_v1":
        return event["kind"] == "final" and event["final"]["status"] == "completed"
    if dialect == "ag_ui":
        return event["type"] == "RUN_FINISHED"
    if dialect == "anthropic_messages":
        return event["type"] == "message_stop"
    return "error" not in event if dialect == "chat_completions" else event["type"] == "response.completed"


def terminals(dialect: str, lines: Sequence[bytes]) -> list[int]:
    """Return the positions of the terminal events, independently of the dialect's checker."""
    events = [{} if line == b"[DONE]" else json.loads(line) for line in lines]
    if dialect == "public_sse_v1":
        return [i for i, event in enumerate(events) if event["kind"] in TERMINAL_KINDS]
    if dialect == "ag_ui":
        return [i for i, event in enumerate(events) if event["type"] in {"RUN_FINISHED", "RUN_ERROR"}]
    if dialect == "chat_completions":
        return [i for i, line in enumerate(lines) if line == b"[DONE]"]
    if dialect == "anthropic_messages":
        return [i for i, event in enumerate(events) if event["type"] in {"message_stop", "error"}]
    ends = {"response.completed", "response.failed", "response.incomplete"}
    return [i for i, event in enumerate(events) if event.get("type") in ends]


def read_stream(dialect: str, data: bytes) -> tuple[bool, list[str]]:
    """Return whether a stream is complete, and what is wrong with it."""
    if not data.endswith(b"\n\n"):
        return False, ["the last event is incomplete"]
    messages = [one for one in data.split(b"\n\n") if one and not one.startswith(b":")]
    lines = [one.partition(b"data: ")[2] for one in messages]
    found = violations_of(dialect, lines)
    own = [line for line in lines if line != b"[DONE]"]
    ends = terminals(dialect, lines)
    has_end_mark = dialect in {"chat_completions", "openresponses"}
    expected = [len(lines) - 1 - (dialect == "openresponses")]
    if ends != expected or has_end_mark != (lines[-1:] == [b"[DONE]"]):
        found.append(f"terminal events at {ends} of {len(lines)}")
    if dialect == "chat_completions":
        errors = sum(b'"error":' in line[:12] for line in own)
        finished = [line for line in own if not line.startswith(b'{"error"') and _finish(line)]
        if errors + len(finished) != 1:
            found.append(f"{errors} errors and {len(finished)} finish reasons")
        return not errors, found
    return is_completed(dialect, own[-1]), found


def _finish(line: bytes) -> bool:
    return any(choice["finish_reason"] for choice in json.loads(line)["choices"])


def read_error(path: str, status: int, headers: dict[str, str], data: bytes) -> list[str]:
    """Return what is wrong with an error document."""
    document = json.loads(data)
    if path.startswith("/v1/"):
        members = set(document.get("error", {})) if set(document) == {"error"} else set()
        found = [] if members == {"message", "type", "param", "code"} else [f"an error of the form {document}"]
    else:
        found = [] if document.get("status") == status and "code" in document else [f"a problem of the form {document}"]
    if b"internal_error" in data:
        found.append("an internal error")
    wait = headers.get("retry-after", "0")
    return found + ([] if wait.isdigit() and int(wait) <= 3600 else [f"retry-after: {wait}"])


async def ask(server: Process, case: Case, key: str) -> Outcome:
    """Send a request and read everything that the server sends."""
    body = json.dumps(case.body).replace("PLAN", key).encode()
    if case.path == RUNS:
        return await ask_run(server, body)
    path = f"{case.path}?dialect={case.dialect}" if case.path.startswith("/v1/") else case.path
    return await exchange(server, case, request_bytes(path, body, connection="close"))


async def ask_run(server: Process, body: bytes) -> Outcome:
    """Start a run of OpenWOP, and read its events to the end."""
    created = await (await server.connect(request_bytes(RUNS, body, connection="close").decode())).read()
    run_id = re.search(rb'"runId": ?"([\w-]+)"', created)
    if run_id is None:
        return Outcome(int(created[9:12] or 0), False, [f"no run: {created[:200]!r}"])
    path = f"{RUNS}/{run_id[1].decode()}/events"
    streamed = await get(server, path, "text/event-stream")  # until the run has ended
    events = json.loads((await get(server, path, "application/json")).partition(b"\r\n\r\n")[2])["events"]
    found = [str(one) for one in check_log([json.dumps(event) for event in events])]
    types = [event["type"] for event in events]
    if [at for at, name in enumerate(types) if name in RUN_TERMINALS] != [len(types) - 1]:
        found.append(f"terminal events in {types}")
    if sum(streamed.count(b'"type":"%b"' % name.encode()) for name in RUN_TERMINALS) != 1:
        found.append("the stream of the run has not one terminal event")
    data = json.dumps(events).encode()
    found += [f"a run with {name!r}" for name in (b"internal_error", CANARY) if name in data]
    return Outcome(None, types[-1:] == ["run.completed"], found, data)


async def get(server: Process, path: str, accept: str) -> bytes:
    """Return a whole response, without its frames of chunks."""
    head = f"GET {path} HTTP/1.1\r\nhost: a\r\naccept: {accept}\r\nconnection: close\r\n\r\n"
    said, _, body = (await (await server.connect(head)).read()).partition(b"\r\n\r\n")
    return said + b"\r\n\r\n" + (re.sub(rb"(?:\A|\r\n)[0-9a-f]+\r\n", b"", body) if b"chunked" in said else body)


async def exchange(server: Process, case: Case, request: bytes) -> Outcome:
    """Send a request, and check the whole response."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=2**24)
    try:
        writer.write(request)
        answer = Answer(reader, writer)
        await answer.read_head()
        data = await answer.rest()
        after = await reader.read()
    except (asyncio.IncompleteReadError, ValueError) as error:
        return Outcome(0, False, [f"the response is cut off: {error!r}"])
    finally:
        writer.transport.abort()
    found = ["bytes after the response"] if after else []
    if CANARY in data:
        found.append("the answer of another user")
    if answer.status != 200:
        return Outcome(answer.status, False, found + read_error(case.path, answer.status, answer.headers, data))
    if answer.headers["content-type"] == "application/json":
        return Outcome(200, json.loads(data).get("status", "completed") == "completed", found, data)
    is_complete, violations = read_stream(case.dialect, data)
    internal = ["an internal error"] if b"internal_error" in data else []
    return Outcome(200, is_complete, found + violations + internal, data)


def mistakes(plan: Plan, outcome: Outcome) -> list[str]:
    """Return what is wrong with an outcome."""
    found = list(outcome.problems)
    if plan.fault is None:
        return found + ([] if outcome.is_complete else ["no answer without a fault"])
    row = FAULTS[plan.fault]
    if row.outcome == WHOLE and not outcome.is_complete:
        found.append("the answer is not complete")
    if row.outcome == BROKEN and outcome.is_complete and plan.index <= last_of(plan.events):
        found.append("the answer seems complete")
    if None not in {row.status, outcome.status} and outcome.status != row.status:
        found.append(f"status {outcome.status}")
    return found


async def settled(server: Process, provider: FaultyProvider, tasks: int, files: int) -> dict[str, float]:
    """Wait until nothing is open but idle connections; return what is left."""
    deadline = time.monotonic() + QUIET_S
    while True:
        gauges = await server.gauges()
        left = {
            **{name: gauges[name] for name in GAUGES},
            "busy connections": provider.busy,
            "tasks": await server.tasks() - tasks,
            "files": server.open_files() - files - len(provider.wires),
        }
        left = {name: count for name, count in left.items() if count > 0}
        if not left or time.monotonic() > deadline:
            return left
        await asyncio.sleep(0.05)


async def run_all(server: Process, case: Case, plans: dict[str, Plan]) -> list[tuple[Plan, Outcome]]:
    """Run plans, some of them at a time, in a random order that is always the same."""
    slots = asyncio.Semaphore(AT_A_TIME)

    async def one(key: str) -> tuple[Plan, Outcome]:
        async with contextlib.nullcontext() if is_silent(key) else slots:
            return plans[key], await ask(server, case, key)

    def is_silent(key: str) -> bool:
        """Return whether the server waits for its time limit, and does nothing."""
        return (plans[key].fault or "").endswith("silence")

    keys = random.Random(1).sample(sorted(plans), len(plans))
    return await asyncio.gather(*map(one, sorted(keys, key=is_silent, reverse=True)))
