"""Failures in `PublicSSEResponse`, the middleware and the hook."""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any, Final

import pytest
from openai.types.responses import ResponseTextDeltaEvent
from starlette.background import BackgroundTask
from structlog.testing import capture_logs

from projector import UsageError
from projector.contracts import codec
from projector.core.faults import FAULTS
from projector.core.sse import encode_sse
from projector.server import (
    HostEvent,
    ProjectingMiddleware,
    Projection,
    PublicSSEResponse,
    Settings,
    ToolLoop,
    Turn,
    UpstreamError,
    create_app,
    public_stream,
)
from projector.server.streaming.memory import LARGE_EVENT_BYTES
from projector.server.telemetry import reports
from projector.server.telemetry.stream_stats import StreamStats, Terminal
from projector.server.upstream import protocol
from tests.asgi.in_process import Client
from tests.waiting import wait_until

TEXT = {"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "content_index": 0, "delta": "a"}
DONE = {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}}
SDK = ResponseTextDeltaEvent.model_validate({**TEXT, "sequence_number": 1, "logprobs": []})


async def gives(*items: object) -> AsyncGenerator[object, None]:
    for item in items:
        await asyncio.sleep(0)
        if isinstance(item, BaseException):
            raise item
        if isinstance(item, float):
            await asyncio.sleep(item)
            continue
        yield item


@pytest.mark.parametrize(
    "text", [TEXT, b'data: {"type":"response.output_text.delta","item_id":"m","delta":"a"}\n\n', SDK, SDK.to_json()]
)
async def test_every_type_of_source_item(text: object) -> None:
    client = await Client().call(PublicSSEResponse(gives(text, DONE)))
    assert b'"kind":"message.delta"' in client.body
    assert b'"response_text":"a"' in client.body
    assert client.sent[-1]["more_body"] is False


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"provider": "openai"}, "unknown provider `openai`"),
        ({"dialect": "sse"}, "unknown dialect `sse`"),
        ({"policy": {"text": "off"}}, "`policy`: expected a `Policy`"),
        ({"profile": {"odd": 1}}, "profile of `openai_responses`: `odd` is unknown"),
        ({"profile": 3}, "`profile`: expected a mapping"),
        ({"provider": None}, "provider: expected one of `openai_responses`, "),
        ({"dialect": ["ag_ui"]}, "dialect: expected one of `public_sse_v1`, "),
        ({"context": {"agent": "a"}}, "`context`: expected a `StreamContext`"),
        ({"context": None}, "`context`: expected a `StreamContext`"),
        ({"on_terminal": 3}, "`on_terminal`: expected a function or None"),
    ],
)
def test_a_projection_is_checked_when_it_is_made(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=f"^{message}"):
        Projection(**settings)


NO_PROJECTION: Final = "`projection`: expected an instance of `Projection`, or None"
NO_NUMBER: Final = "`heartbeat_s`: expected a number greater than 0"
NO_SETTINGS: Final = "`settings`: expected `Settings`; `load_settings` and `Settings.model_validate` make one"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PublicSSEResponse(gives(), Projection), NO_PROJECTION),
        (lambda: PublicSSEResponse(gives(), {}), NO_PROJECTION),
        (lambda: PublicSSEResponse(gives(), timeouts={"idle_s": 3}), "`timeouts`: expected `Timeouts` or None"),
        (lambda: PublicSSEResponse(gives(), heartbeat_s=-1), NO_NUMBER),
        (lambda: PublicSSEResponse(gives(), heartbeat_s=0), NO_NUMBER),
        (lambda: PublicSSEResponse(gives(), heartbeat_s=math.nan), NO_NUMBER),
        (lambda: PublicSSEResponse(gives(), heartbeat_s="15"), NO_NUMBER),
        (lambda: public_stream(gives(), Projection), NO_PROJECTION),
        (lambda: public_stream([]), "`source`: expected an async iterable"),
        (
            lambda: public_stream(ToolLoop(gives, {}, input="Hello"), Projection(provider="openai_chat")),
            "`projection`: expected a projection without a provider, or with that of the loop, `openai_responses`",
        ),
        (lambda: ProjectingMiddleware(inner(), projection="strict"), NO_PROJECTION),
        (lambda: create_app({}), NO_SETTINGS),
        (lambda: create_app(Settings(), on_terminal=3), "`on_terminal`: expected a function or None"),
        (lambda: UpstreamError("upstream_reset"), '`fault`: expected a `Fault`, for example `FAULTS["upstream_re'),
    ],
)
def test_an_argument_of_another_type_is_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(message)}"):
        make()


HALVES = [ResponseTextDeltaEvent.model_construct(**{**TEXT, "delta": half}) for half in ("\ud83d", "\ude00")]


@pytest.mark.parametrize("as_given", [lambda event: event, lambda event: event.model_dump()])
async def test_d31_a_character_in_two_halves(as_given: Callable[[Any], object]) -> None:
    client = await Client().call(PublicSSEResponse(gives(*map(as_given, HALVES), DONE)))
    assert '"response_text":"\U0001f600"'.encode() in client.body


async def test_d31_half_a_character_ends_no_stream() -> None:
    text = '{"type":"response.output_text.delta","item_id":"m","delta":"a\ud83d"}'
    client = await Client().call(PublicSSEResponse(gives(text, DONE)))
    assert '"response_text":"a\ufffd'.encode() in client.body


@pytest.mark.parametrize(
    ("items", "status", "code"),
    [
        ([RuntimeError("payload")], 500, b'"code":"internal_error"'),
        ([UpstreamError(FAULTS["upstream_timeout_connect"])], 504, b'"code":"upstream_timeout_connect"'),
        ([], 200, b'"code":"upstream_empty"'),
        ([TEXT, RuntimeError("payload")], 200, b'"code":"internal_error"'),
        ([TEXT, UpstreamError(FAULTS["upstream_reset"])], 200, b'"code":"upstream_reset"'),
        ([TEXT, object()], 200, b'"code":"internal_error"'),
        ([TEXT], 200, b'"code":"upstream_truncated"'),
        ([asyncio.CancelledError()], 500, b'"code":"internal_error"'),  # of a task that the source awaits
        ([TEXT, asyncio.CancelledError()], 200, b'"code":"internal_error"'),
    ],
)
async def test_a_source_that_fails(items: list[object], status: int, code: bytes) -> None:
    client = await Client().call(PublicSSEResponse(gives(*items)))
    assert client.sent[0]["status"] == status
    assert client.body.count(code) == 1
    assert client.body.count(b'"kind":"error"') == (status == 200)
    assert b"payload" not in client.body


async def cancelled_call(*_: object) -> Any:
    over = asyncio.get_running_loop().create_future()
    over.cancel()
    await over


@pytest.mark.parametrize(
    ("make", "status"),
    [
        (lambda: gives(TEXT, asyncio.CancelledError()), 200),
        (cancelled_call, 500),
        (lambda: ToolLoop(lambda _turn: gives(TEXT, asyncio.CancelledError()), {}, input="Hello"), 200),
        (lambda: ToolLoop(cancelled_call, {}, input="Hello"), 500),
    ],
)
async def test_a_source_that_awaits_what_was_cancelled(make: Callable[[], Any], status: int) -> None:
    told: list[str | None] = []
    projection = Projection(on_terminal=lambda terminal: told.append(terminal.code))
    with capture_logs() as lines:
        client = await Client().call(PublicSSEResponse(make(), projection))
        stream = b"".join([data async for data in public_stream(make(), projection)])
    assert client.sent[0]["status"] == status
    assert client.body.count(b'"code":"internal_error"') == stream.count(b'"kind":"error"') == 1
    assert told == ["internal_error"] * 2
    assert [line["error_type"] for line in lines if line["event"] == "stream_crashed"] == ["CancelledError"] * 2


async def test_a_task_that_went_on_after_it_was_cancelled_gets_the_end() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
    stream = b"".join([data async for data in public_stream(gives(TEXT, asyncio.CancelledError()))])
    task.uncancel()
    assert stream.count(b'"code":"internal_error"') == stream.count(b'"kind":"error"') == 1


async def test_a_response_that_is_no_stream_is_named_in_the_log() -> None:
    async def create() -> Any:
        return {"id": "resp_1"}  # as the SDK returns without `stream=True`

    with capture_logs() as lines:
        client = await Client().call(PublicSSEResponse(create()))
    assert client.sent[0]["status"] == 500
    crash = next(line for line in lines if line["event"] == "stream_crashed")
    assert "a request needs `stream=True`" in crash["detail"]


@pytest.mark.parametrize("items", [[3], [TEXT, 3]])  # as an event of a run of the Agents SDK is none
async def test_an_item_that_is_no_event_is_named_in_the_log(items: list[object]) -> None:
    with capture_logs() as lines:
        client = await Client().call(PublicSSEResponse(gives(*items)))
    assert b'"code":"internal_error"' in client.body
    crash = next(line for line in lines if line["event"] == "stream_crashed")
    assert "expected items that are bytes, JSON texts" in crash["detail"]
    assert "the result of `run_streamed`" in crash["detail"]


async def test_an_exception_in_a_group_is_named_in_the_log() -> None:
    async def fails() -> None:
        raise KeyError("payload")

    async def source() -> AsyncGenerator[object, None]:
        yield TEXT
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fails())

    with capture_logs() as lines:
        client = await Client().call(PublicSSEResponse(source()))
    assert b'"code":"internal_error"' in client.body
    crash = next(line for line in lines if line["event"] == "stream_crashed")
    assert crash["error_type"] == "KeyError"
    assert crash["place"] == f"{__file__}:{fails.__code__.co_firstlineno + 1}"

    with capture_logs() as lines:
        await Client().call(PublicSSEResponse(gives(TEXT, ExceptionGroup("payload", [KeyError("payload")]))))
    assert [line["error_type"] for line in lines if line["event"] == "stream_crashed"] == ["KeyError"]


@pytest.mark.parametrize("start", ["data: {}", "event: response.created", ": comment", "id: 1"])
async def test_the_text_of_an_event_stream_is_named_in_the_log(start: str) -> None:
    with capture_logs() as lines:
        client = await Client().call(PublicSSEResponse(gives(start)))
    assert b'"code":"internal_error"' in client.body
    crash = next(line for line in lines if line["event"] == "stream_crashed")
    assert crash["detail"].endswith("not the text of an event stream: `aiter_bytes()`")


USED: Final = "`source`: expected one that is not used yet"


async def test_a_response_and_its_source_are_used_once() -> None:
    source = gives(TEXT, DONE)
    response = PublicSSEResponse(source)
    await Client().call(response)
    with pytest.raises(UsageError, match=USED):
        await Client().call(response)
    for make in (PublicSSEResponse, public_stream):
        with pytest.raises(UsageError, match=USED):
            make(source)


async def test_a_failure_of_the_pipeline_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_stats: StreamStats, _frame: object) -> None:
        raise KeyError("payload")

    monkeypatch.setattr(StreamStats, "on_frame", fail)
    with capture_logs() as lines:
        client = await Client().call(PublicSSEResponse(gives(TEXT, DONE)))
    assert b'"code":"internal_error"' in client.body
    crash = next(line for line in lines if line["event"] == "stream_crashed")
    assert crash["error_type"] == "KeyError"
    assert "payload" not in repr(lines)


CALL: Final = {"type": "function_call", "id": "fc", "call_id": "call_1", "name": "tide", "arguments": "{}"}
CALLED: Final = {"type": "response.output_item.done", "output_index": 0, "item": CALL}
FILE: Final = {"object_id": "obj_1", "filename": "tide.csv"}


@pytest.mark.parametrize("is_bytes", [False, True])
async def test_events_of_the_host_are_items_of_a_source(is_bytes: bool) -> None:  # noqa: FBT001 - a row of the table
    forged = {"type": "projector.attachment", "attachment": {"object_id": "of_the_model"}}
    source = gives(
        HostEvent(type="projector.context", agent="tides"),
        *(encode_sse(codec.dumps(one)) if is_bytes else one for one in (CALLED, forged)),
        HostEvent(type="projector.tool_output", call_id="call_1", output={"high": "06:12", "token": "t-8"}),
        HostEvent(type="projector.attachment", attachment=FILE),
        encode_sse(codec.dumps(DONE)) if is_bytes else DONE,
    )
    client = await Client().call(PublicSSEResponse(source))
    frames = [codec.loads(line[6:]) for line in client.body.splitlines() if line.startswith(b"data: {")]
    assert {frame["agent"] for frame in frames} == {"tides"}
    [output] = [frame["output"] for frame in frames if frame["kind"] == "tool.output"]
    assert output == {"high": "06:12", "token": "<redacted>"}
    assert frames[-1]["final"]["attachments"] == [FILE]


async def test_events_of_the_host_are_items_of_a_turn() -> None:
    def ask(_turn: Turn) -> Any:
        return gives(HostEvent(type="projector.attachment", attachment=FILE), TEXT, DONE)

    client = await Client().call(PublicSSEResponse(ToolLoop(ask, {}, input="Hello")))
    assert b'"attachments":[{"object_id":"obj_1"' in client.body


@pytest.mark.parametrize("members", [{}, {"type": "projector.attachments"}, {"type": "response.created"}])
def test_a_host_event_of_another_type(members: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"^unknown type `"):
        HostEvent(**members)


async def test_an_event_of_the_host_that_is_dropped_is_logged() -> None:
    lost = HostEvent(type="projector.tool_output", call_id="unknown", output=1)
    with capture_logs() as lines:
        client = await Client().call(PublicSSEResponse(gives(TEXT, lost, lost, DONE)))
    assert b'"kind":"final"' in client.body
    [line] = [line for line in lines if line["event"] == "host_event_dropped"]
    assert (line["type"], line["count"]) == ("projector.tool_output", 2)


async def going_on(ends: list[str], *rest: object) -> AsyncGenerator[object, None]:
    """Yield an answer, and what comes after it: the end of the connection, or work of the host."""
    try:
        async for item in gives(TEXT, DONE, *rest):
            yield item
        ends.append("read out")
    finally:
        ends.append("closed")


@pytest.mark.parametrize("rest", [(), (TEXT,), (DONE, 0.001)])
async def test_a_source_is_read_to_its_end_after_the_terminal(
    rest: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client uses a connection again only then, and what the host does after its loop is done."""
    monkeypatch.setattr(protocol, "CLOSE_S", 60.0)  # the end is not late, whatever the machine does
    ends: list[str] = []
    client = await Client().call(PublicSSEResponse(going_on(ends, *rest)))
    assert (ends, client.body.count(b'"kind":"final"')) == (["read out", "closed"], 1)


@pytest.mark.parametrize(
    "rest", [math.inf, {"type": "odd", "text": "a" * 65_536}, UpstreamError(FAULTS["upstream_reset"])]
)
async def test_a_source_that_does_not_end_is_closed(rest: object) -> None:
    ends: list[str] = []
    with capture_logs() as lines:
        client = await Client().call(PublicSSEResponse(going_on(ends, rest)))
    assert (ends, client.body.count(b'"kind":"final"')) == (["closed"], 1)
    assert [line["outcome"] for line in lines] == ["completed"]


@pytest.mark.parametrize("pause_s", [0, 60])
async def test_a_source_that_does_not_let_go_is_closed(pause_s: int) -> None:
    """It yields without a pause, or goes on when it is cancelled."""
    ends: list[str] = []
    ends_at = time.monotonic() + 10

    async def source() -> AsyncGenerator[object, None]:
        try:
            yield DONE
            while time.monotonic() < ends_at:
                if pause_s:
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.sleep(pause_s)
                yield b""
            ends.append("read out")
        finally:
            ends.append("closed")

    await Client().call(PublicSSEResponse(source()))
    assert ends == ["closed"]


async def test_a_failure_of_the_host_after_the_terminal_is_logged() -> None:
    with capture_logs() as lines:
        client = await Client().call(PublicSSEResponse(going_on([], KeyError("a"))))
    assert b'"kind":"final"' in client.body
    assert [(line["event"], line.get("outcome")) for line in lines] == [
        ("stream_crashed", None),
        ("stream_end", "completed"),
    ]


async def test_headers_and_background_of_the_route_are_kept() -> None:
    ran: list[int] = []
    response = PublicSSEResponse(gives(DONE), background=BackgroundTask(ran.append, 1))
    response.set_cookie("seen", "1")
    client = await Client().call(response)
    assert client.headers[b"set-cookie"].startswith(b"seen=1")
    assert client.headers[b"x-accel-buffering"] == b"no"
    assert client.headers[b"incremental"] == b"?1"
    assert ran == [1]


async def test_a_response_is_cancelled() -> None:
    response = PublicSSEResponse(gives(TEXT, 60.0))
    client = Client()
    task = asyncio.create_task(client.call(response))
    await wait_until(lambda: len(client.sent) > 1)
    response.cancel()
    await task
    assert b'"status":"cancelled"' in client.body


async def test_a_response_is_cancelled_before_it_begins() -> None:
    told: list[Terminal] = []
    response = PublicSSEResponse(gives(TEXT, 60.0), Projection(on_terminal=told.append))
    response.cancel()
    client = await Client().call(response)
    assert client.body.count(b"data: ") == 1
    assert b'"final":{"status":"cancelled"}' in client.body
    assert [terminal.outcome for terminal in told] == ["cancelled"]


@pytest.mark.parametrize("is_async", [True, False])
async def test_the_hook_is_called_after_a_disconnect(is_async: bool) -> None:  # noqa: FBT001 - a row of the table
    told: list[Terminal] = []

    async def hook(terminal: Terminal) -> None:
        await asyncio.sleep(0)
        told.append(terminal)

    on_terminal: Callable[[Terminal], Any] = hook if is_async else told.append
    client = Client()
    task = asyncio.create_task(client.call(PublicSSEResponse(gives(TEXT, 60.0), Projection(on_terminal=on_terminal))))
    await wait_until(lambda: len(client.sent) > 1)
    client.left.set()
    await task
    [terminal] = told
    assert (terminal.outcome, terminal.final["response_text"]) == ("client_left", "a")


async def test_the_hook_of_a_source_that_fails_at_once_has_no_final() -> None:
    told: list[Terminal] = []

    async def fails() -> AsyncIterator[bytes]:
        raise UpstreamError(FAULTS["upstream_unreachable"])
        yield b""

    await Client().call(PublicSSEResponse(fails(), Projection(on_terminal=told.append)))
    [terminal] = told
    assert (terminal.outcome, terminal.code, terminal.final) == ("no_stream", "upstream_unreachable", {})


def raises(_terminal: Terminal) -> None:
    raise RuntimeError("payload")


def takes_too_long(_terminal: Terminal) -> None:
    time.sleep(0.5)


async def hangs(_terminal: Terminal) -> None:
    await asyncio.sleep(60)


async def awaits_what_was_cancelled(_terminal: Terminal) -> None:
    over = asyncio.get_running_loop().create_future()
    over.cancel()
    await over


@pytest.mark.parametrize("hook", [raises, takes_too_long, hangs, awaits_what_was_cancelled])
async def test_a_hook_that_fails_breaks_nothing(hook: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "HOOK_S", 0.1)
    with capture_logs() as lines:
        client = await Client().call(PublicSSEResponse(gives(TEXT, DONE), Projection(on_terminal=hook)))
    assert b'"status":"completed"' in client.body
    events = [line["event"] for line in lines if line["event"] in {"stream_end", "hook_failed"}]  # of this stream
    assert events == ["stream_end", "hook_failed"]
    assert "payload" not in repr(lines)


async def test_a_hook_does_not_delay_a_cancelled_task() -> None:
    runs = asyncio.Event()

    async def hook(_terminal: Terminal) -> None:
        runs.set()
        await asyncio.sleep(60)

    task = asyncio.create_task(Client().call(PublicSSEResponse(gives(DONE), Projection(on_terminal=hook))))
    await runs.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_blocking_hooks_do_not_delay_large_events() -> None:
    """Hooks that block all threads do not block large events, which are parsed in other threads."""
    may_end, running = threading.Event(), threading.Semaphore(0)

    def waits(_terminal: Terminal) -> None:
        running.release()
        may_end.wait(10)

    told = [
        asyncio.create_task(Client().call(PublicSSEResponse(gives(DONE), Projection(on_terminal=waits))))
        for _ in range(50)
    ]
    for _ in range(40):
        await wait_until(lambda: running.acquire(blocking=False))
    large = SSE_TEXT.replace(b'"a"', b'"%b"' % (b"a" * LARGE_EVENT_BYTES))
    client = await asyncio.wait_for(Client().call(PublicSSEResponse(gives(large, DONE))), 60)
    assert b'"status":"completed"' in client.body
    may_end.set()
    await asyncio.gather(*told)


def inner(
    *bodies: bytes, status: int = 200, fails: BaseException | None = None, ends: bool = True, **headers: str
) -> Any:
    fields = {"content_type": "text/event-stream", "content_length": "999", **headers}

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in fields.items()]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        for body in bodies:
            await send({"type": "http.response.body", "body": body, "more_body": True})
        if fails is not None:
            raise fails
        if ends:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    return app


SSE_TEXT = b'data: {"type":"response.output_text.delta","item_id":"m","output_index":0,"delta":"a"}\n\n'
SSE_DONE = b'data: {"type":"response.completed","response":{"id":"r","status":"completed"}}\n\n'


@pytest.mark.parametrize(
    ("app", "said"),
    [
        (inner(SSE_TEXT, SSE_DONE), b'"status":"completed"'),
        (inner(SSE_TEXT, SSE_DONE, SSE_TEXT), b'"status":"completed"'),
        (inner(SSE_TEXT[:9], SSE_TEXT[9:], SSE_DONE), b'"response_text":"a"'),
        (inner(SSE_TEXT), b'"code":"upstream_truncated"'),
        (inner(SSE_TEXT, ends=False), b'"code":"upstream_truncated"'),
        (inner(SSE_TEXT, SSE_DONE, ends=False), b'"status":"completed"'),
        (inner(SSE_TEXT, content_encoding="gzip"), b'"code":"internal_error"'),
        (inner(SSE_TEXT, SSE_DONE, content_encoding="Identity"), b'"status":"completed"'),
        (inner(SSE_TEXT, SSE_DONE, content_type="Text/Event-Stream; charset=utf-8"), b'"status":"completed"'),
    ],
)
async def test_the_middleware_projects(app: Any, said: bytes) -> None:
    told: list[Terminal] = []
    client = await Client().call(ProjectingMiddleware(app, Projection(on_terminal=told.append)))
    assert said in client.body
    assert client.body.count(b'"kind":"final"') + client.body.count(b'"kind":"error"') == 1
    assert [message["more_body"] for message in client.sent[1:]][-1] is False
    assert b"content-length" not in client.headers
    assert len(told) == 1


@pytest.mark.parametrize("error", [KeyError("payload"), asyncio.CancelledError()])
async def test_the_middleware_ends_a_stream_that_fails(error: BaseException) -> None:
    client = Client()
    with pytest.raises(type(error)):
        await client.call(ProjectingMiddleware(inner(SSE_TEXT, fails=error)))
    assert b'"code":"internal_error"' in client.body


class GoneClient(Client):
    """`send` of a server that raises after a disconnect, as ASGI allows."""

    async def send(self, message: dict[str, Any]) -> None:
        if len(self.sent) > 1:
            raise OSError("gone")
        await super().send(message)


async def test_a_send_that_raises_in_the_middleware_is_a_disconnect() -> None:
    told: list[Terminal] = []
    app = ProjectingMiddleware(inner(SSE_TEXT, SSE_DONE), Projection(on_terminal=told.append))
    with pytest.raises(OSError, match="gone"):  # the inner app must see the disconnect
        await GoneClient().call(app)
    assert [(one.outcome, one.final["response_text"]) for one in told] == [("client_left", "a")]


@pytest.mark.parametrize("app", [inner(b"a", status=404), inner(b"a", content_type="text/plain")])
async def test_the_middleware_passes_other_responses(app: Any) -> None:
    client = await Client().call(ProjectingMiddleware(app))
    assert client.body == b"a"
    assert client.headers[b"content-length"] == b"999"


async def test_the_middleware_passes_a_response_without_headers() -> None:
    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})  # allowed by ASGI
        await send({"type": "http.response.body", "body": b"a"})

    assert (await Client().call(ProjectingMiddleware(app))).body == b"a"


async def test_the_middleware_passes_other_protocols() -> None:
    seen: list[str] = []

    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        seen.append(scope["type"])

    client = Client()
    client.scope["type"] = "lifespan"
    await client.call(ProjectingMiddleware(app))
    assert seen == ["lifespan"]
