"""Recording of an agent's streams: the content of the recordings, and that no stream is delayed."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from structlog.testing import capture_logs

from projector.core.faults import FAULTS
from projector.recording import replay
from projector.redaction.policy import Policy, RegisteredValue
from projector.server.config.agent_settings import RecordSettings
from projector.server.config.settings import Settings
from projector.server.upstream import recorder
from projector.server.upstream.protocol import ProviderRequest, UpstreamError
from projector.server.upstream.recorder import RecordedUpstream, Recorder, secrets_of
from tests.asgi.conftest import Peer, plays
from tests.asgi.process import SERVE, running
from tests.rule_samples import MIXED
from tests.waiting import wait_until

CREATED = {
    "type": "response.created",
    "response": {"id": "resp_1", "status": "in_progress", "instructions": "Be kind."},
}
KEY = "sk-" + MIXED[:48]
Logged: TypeAlias = Callable[[], list[Any]]


def text(delta: str) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "delta": delta}


COMPLETED = {"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}}


def settings_with(folder: Path, **record: object) -> dict[str, Any]:
    agent = {"upstream": "one", "model": "m", "record": {"folder": str(folder), **record}}
    return {"agents": {"helper": agent}}


def cases_in(folder: Path) -> list[replay.Case]:
    return replay.load_cases(folder) if list(folder.glob("*/*.ndjson")) else []


# a real server


@pytest.fixture
def site(serve: Any, upstream_port: int, tmp_path: Path) -> Any:
    upstream = {"base_url": f"http://localhost:{upstream_port}/v1", "api_key": "key-of-the-house"}
    return serve(api_key=None, base_url=None, upstreams={"one": upstream}, **settings_with(tmp_path / "kept"))


async def test_a_stream_is_recorded_without_secrets(site: Any, upstream: Any, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    await upstream(
        plays((CREATED, text(f"It is {KEY[:9]}"), text(f"{KEY[9:]} and key-of-"), text("the-house."), COMPLETED))
    )
    answer = await site.ask()
    said = await answer.frames()
    assert said[-1]["final"]["response_text"] == "It is <redacted> and <redacted>."
    await wait_until(lambda: bool(cases_in(folder)))
    (case,) = cases_in(folder)
    kept = [json.loads(line) for line in case.source.read_bytes().splitlines()]
    assert case.name == "helper." + answer.headers["x-stream-id"].removeprefix("stream_")
    assert [event["type"] for event in kept] == [
        CREATED["type"],
        *["response.output_text.delta"] * 3,
        COMPLETED["type"],
    ]
    assert [event["delta"] for event in kept[1:4]] == ["It is <redacted>", " and <redacted>", "."]
    assert kept[0]["response"]["instructions"] == ""
    played = [json.loads(line) for line in replay.play(case, "public_sse_v1").splitlines()]
    assert [event["kind"] for event in played] == [event["kind"] for event in said]
    assert case.source.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("named", [{}, {"smart": {"targets": [{"upstream": "one", "model": "m"}]}}])
async def test_a_passthrough_route_is_recorded(
    serve: Any, upstream: Any, upstream_port: int, tmp_path: Path, named: dict[str, Any]
) -> None:
    async def script(peer: Peer) -> None:
        if not peer.body:
            body = b'{"data": [{"id": "m-1"}]}'
            await peer.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n")
            await peer.send(b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
            return
        await peer.start()
        for event in (CREATED, text(f"It is {KEY}"), COMPLETED):
            await peer.event(event)
        await peer.end()

    await upstream(script)
    one = {"base_url": f"http://localhost:{upstream_port}/v1", "api_key": KEY}
    route = {"responses": "one", "record": {"folder": str(tmp_path)}}
    site = serve(api_key=None, base_url=None, upstreams={"one": one}, models=named, passthrough=route)
    answer = await site.ask("/v1/responses", {"model": next(iter(named), "m"), "input": "Hi", "stream": True})
    await answer.rest()
    await wait_until(lambda: bool(cases_in(tmp_path)))
    (case,) = cases_in(tmp_path)
    assert case.name == "responses." + answer.headers["x-stream-id"].removeprefix("stream_")
    assert KEY not in case.source.read_text()
    assert "m-1" in (await (await site.get("/v1/models")).rest()).decode(), "lists are asked for, and not recorded"


async def test_a_broken_stream_is_recorded_with_its_fault(site: Any, upstream: Any, tmp_path: Path) -> None:
    async def script(peer: Peer) -> None:
        await peer.start()
        await peer.event(CREATED)
        await peer.event(text("Hi"))
        peer.reset()

    await upstream(script)
    said = await (await site.ask()).frames()
    assert said[-1]["error"]["code"] == "upstream_reset"
    folder = tmp_path / "kept"
    await wait_until(lambda: any(case.settings.close for case in cases_in(folder)))  # written after its input
    (case,) = cases_in(folder)
    assert case.settings.close == "upstream_reset"
    last = replay.play(case, "public_sse_v1").splitlines()[-1]
    assert json.loads(last)["error"] == said[-1]["error"]


async def test_a_disconnected_stream_is_not_recorded(site: Any, upstream: Any, tmp_path: Path) -> None:
    await upstream(plays([CREATED], ends=False))
    answer = await site.ask()
    await answer.chunk()
    answer.leave()
    assert await site.is_quiet()
    assert cases_in(tmp_path / "kept") == []


async def test_a_process_writes_its_queue_before_it_exits(upstream: Any, upstream_port: int, tmp_path: Path) -> None:
    """Every stream is recorded even if the server, configured by variables only, is stopped immediately."""

    await upstream(plays((CREATED, text("Hello"), COMPLETED)))
    agent = {"UPSTREAM": "one", "MODEL": "m", "RECORD__FOLDER": str(tmp_path / "kept"), "RECORD__MAX_STREAMS": "5"}
    environ = {f"PROJECTOR_AGENTS__HELPER__{name}": value for name, value in agent.items()}
    environ["PROJECTOR_UPSTREAMS__ONE__BASE_URL"] = f"http://127.0.0.1:{upstream_port}/v1"
    async with running(SERVE, 1, **environ) as server:
        said = [await (await server.stream()).read() for _ in range(8)]
        server.stop()
        assert await server.exit_code() == 0
    assert all(b'"kind":"final"' in one for one in said)
    assert len(cases_in(tmp_path / "kept")) == 5


# the recorder itself


class Provider:
    """Answers with these chunks, then optionally fails."""

    providers = frozenset({"openai_responses"})
    is_recording = False

    def __init__(self, *chunks: bytes, fault: str | None = None) -> None:
        self._chunks = chunks
        self._fault = fault

    def open(self, _request: ProviderRequest, /) -> Provider:
        return self

    async def __aenter__(self) -> Any:
        return self._play()

    async def __aexit__(self, *_: object) -> None:
        return None

    async def _play(self) -> Any:
        for chunk in self._chunks:
            yield chunk
        if self._fault:
            raise UpstreamError(FAULTS[self._fault])

    async def aclose(self) -> None:
        return None


async def test_a_value_that_the_policy_blocks_is_not_recorded(tmp_path: Path) -> None:
    keeper = Recorder()
    policy = Policy.load({"text": {"payment_card": "block"}})
    settings = RecordSettings.model_validate({"folder": tmp_path})
    events = (CREATED, text("My card is 4111 11"), text("11 1111 1111."))
    provider = Provider(*(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events))
    await drain(keeper.copies("helper", settings, policy).upstream(provider, {}))
    await keeper.aclose()
    [case] = cases_in(tmp_path)
    kept = case.source.read_text(encoding="utf-8")
    assert "My card is <redacted:payment_card>" in kept
    assert "4111" not in kept
    assert "11 1" not in kept


@pytest.fixture
def logged() -> Iterator[Logged]:
    """Return a function that returns the lines of recorders: servers of other tests may write others."""
    with capture_logs() as logs:
        yield lambda: [line for line in logs if line["event"].startswith("record")]


HELLO = b'data: {"type":"response.output_text.delta","delta":"Hello"}\n\n'


def recorded_by(
    keeper: Recorder, folder: Path, *chunks: bytes, fault: str | None = None, **more: Any
) -> RecordedUpstream:
    settings = RecordSettings.model_validate({"folder": folder, **more})
    return keeper.copies("helper", settings, Policy()).upstream(Provider(*chunks, fault=fault), {})


async def drain(upstream: RecordedUpstream) -> bytes:
    async with upstream.open(ProviderRequest("openai_responses", {})) as chunks:
        return b"".join([chunk async for chunk in chunks])


async def test_the_queue_is_written_at_shutdown(tmp_path: Path) -> None:
    keeper = Recorder()
    upstream = recorded_by(keeper, tmp_path, HELLO)
    for _ in range(5):
        assert await drain(upstream) == HELLO
    await keeper.aclose()
    assert len(cases_in(tmp_path)) == 5
    assert keeper.running_bytes == 0


async def test_max_streams_holds_across_restarts(tmp_path: Path, logged: Logged) -> None:
    for _ in range(2):
        keeper = Recorder()
        upstream = recorded_by(keeper, tmp_path, HELLO, max_streams=3)
        for _ in range(5):
            assert await drain(upstream) == HELLO
        await keeper.aclose()
        assert len(cases_in(tmp_path)) == 3
    assert [entry["max_streams"] for entry in logged() if entry["event"] == "recording_full"] == [3, 3]


async def test_a_large_stream_is_not_recorded(tmp_path: Path, logged: Logged) -> None:
    keeper = Recorder()
    upstream = recorded_by(keeper, tmp_path, HELLO, HELLO, max_stream_bytes=len(HELLO))
    assert await drain(upstream) == HELLO * 2
    await keeper.aclose()
    assert cases_in(tmp_path) == []
    assert [entry["reason"] for entry in logged()] == ["too large"]


async def test_a_recording_made_too_large_by_marks_is_not_written(tmp_path: Path, logged: Logged) -> None:
    keeper = Recorder([RegisteredValue.model_validate({"id": "x" * 64, "value": "Hell"})])
    upstream = recorded_by(keeper, tmp_path, HELLO, max_stream_bytes=len(HELLO))
    assert await drain(upstream) == HELLO
    await keeper.aclose()
    assert (cases_in(tmp_path), [entry["reason"] for entry in logged()]) == ([], ["too large"])


async def test_running_streams_share_a_limit(tmp_path: Path, logged: Logged, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "_RUNNING_MAX_BYTES", 3 * len(HELLO))
    keeper = Recorder()
    upstream = recorded_by(keeper, tmp_path, HELLO, HELLO)
    request = ProviderRequest("openai_responses", {})
    async with upstream.open(request) as first, upstream.open(request) as second:
        said = [await anext(one) for one in (first, second, first, second)]
        assert keeper.running_bytes == 2 * len(HELLO)
    await keeper.aclose()
    assert (said, keeper.running_bytes, len(cases_in(tmp_path))) == ([HELLO] * 4, 0, 1)
    assert [entry["event"] for entry in logged()] == ["recording_skipped", "recorded"]


async def test_a_failing_disk_is_logged_and_nothing_else(tmp_path: Path, logged: Logged) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_bytes(b"a file where the folder should be")
    keeper = Recorder()
    upstream = recorded_by(keeper, blocked, HELLO)
    assert await drain(upstream) == HELLO
    await keeper.aclose()
    (entry,) = logged()
    assert (entry["event"], entry["agent"], entry["error_type"]) == ("recording_failed", "helper", "NotADirectoryError")


async def test_a_slow_disk_delays_no_stream(tmp_path: Path, logged: Logged, monkeypatch: pytest.MonkeyPatch) -> None:
    may_write = threading.Event()
    monkeypatch.setattr(recorder.AgentCopies, "write", lambda *_: may_write.wait())
    monkeypatch.setattr(recorder, "_WAITING_MAX", 2)
    keeper = Recorder()
    upstream = recorded_by(keeper, tmp_path, HELLO)
    for _ in range(6):
        assert await drain(upstream) == HELLO
    may_write.set()
    await keeper.aclose()
    assert {entry["reason"] for entry in logged()} == {"too many wait"}


async def test_an_empty_response_is_not_recorded(tmp_path: Path) -> None:
    keeper = Recorder()
    with pytest.raises(UpstreamError):
        await drain(recorded_by(keeper, tmp_path, fault="upstream_reset"))
    await keeper.aclose()
    assert cases_in(tmp_path) == []


async def test_a_failure_after_bytes_is_recorded_and_raised(tmp_path: Path) -> None:
    keeper = Recorder()
    with pytest.raises(UpstreamError, match="upstream_reset"):
        await drain(recorded_by(keeper, tmp_path, HELLO, fault="upstream_reset"))
    await keeper.aclose()
    (case,) = cases_in(tmp_path)
    assert case.settings.close == "upstream_reset"


@pytest.mark.parametrize("stream_id", ["../../etc/passwd", "stream_" + "g" * 32, "", "stream_" + "0" * 33])
async def test_a_foreign_stream_id_is_no_file_name(tmp_path: Path, stream_id: str) -> None:
    keeper = Recorder()
    upstream = recorded_by(keeper, tmp_path, HELLO)
    async with upstream.open(ProviderRequest("openai_responses", {}, {}, stream_id)) as chunks:
        assert [chunk async for chunk in chunks] == [HELLO]
    await keeper.aclose()
    (case,) = cases_in(tmp_path)
    name, _, rest = case.name.partition(".")
    assert (name, len(rest), rest.isalnum()) == ("helper", 32, True)


async def test_two_requests_of_one_stream_are_two_cases(tmp_path: Path) -> None:
    keeper = Recorder()
    upstream = recorded_by(keeper, tmp_path, HELLO)
    for _ in range(2):
        async with upstream.open(ProviderRequest("openai_responses", {}, {}, "stream_" + "0" * 32)) as chunks:
            assert [chunk async for chunk in chunks] == [HELLO]
    await keeper.aclose()
    assert [case.name for case in cases_in(tmp_path)] == ["helper." + "0" * 32 + end for end in ("-2", "")]


def test_the_keys_of_the_configuration_are_secrets() -> None:
    upstreams = {"a": {"api_key": "key-of-the-house"}, "b": {}, "c": {"api_key": "k"}}
    agents = {"helper": {"upstream": "a", "model": "m"}}
    secrets = secrets_of(Settings.model_validate({"upstreams": upstreams, "agents": agents}))
    assert [secret.value.get_secret_value() for secret in secrets] == ["key-of-the-house"]
