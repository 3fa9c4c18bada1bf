"""A provider is one row in `PROVIDERS`: nothing else must be touched for the CLI, the server, replay and recording."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from projector import UsageError, build_pipeline, cli
from projector.providers import PROVIDERS, profile_of
from projector.recording import record, replay, write
from projector.redaction.policy import Policy
from projector.redaction.whole_values import Finder
from projector.server.app import create_app
from projector.server.config.settings import Settings
from projector.server.telemetry import spans
from projector.server.tools.turns import Turn
from tests.asgi.in_process import post

DESCRIPTOR: Final = """
from projector._registry import lazy
from projector.providers.descriptor import InputTables, PassthroughRoute, Provider


def write_request(request, profile):
    from projector.conversation.request_members import same_names, write_parameters

    said = request.input if isinstance(request.input, str) else request.input[-1].content
    body = {"toy_model": request.model, "ask": said}
    write_parameters(body, request.parameters, same_names("temperature", "mood"), request.parameter_paths)
    return body


def recording():
    from projector.providers.recording_shape import RecordingShape

    return RecordingShape(name_event=lambda event, name: {**event, "name": name} if name else event)


PROVIDER = Provider(
    title="Toy",
    stage=lazy("toy_provider.reading:ToyStage"),
    profile="toy_provider.reading:ToyProfile",
    request_writer=write_request,
    telemetry_name="toymaker",
    upstream="toy_provider.connecting:ToyUpstream",
    passthrough=PassthroughRoute("toys", "/v1/toys", "ask", "Ask a toy.", "public_sse_v1"),
    recording=recording,
    tables=lambda: InputTables(read={"line": {"say": "a text"}}, dropped={"line": {"mood": "not for pages"}}),
)
"""
READING: Final = """
from collections import Counter

from pydantic import BaseModel

from projector.contracts import codec
from projector.providers.stage_parts import Message


class ToyProfile(BaseModel):
    member: str = "say"


class ToyStage:
    def __init__(self, profile):
        self.dropped = Counter()
        self._member = profile.member
        self._message = Message("msg_0", 0)
        self._has_begun = False
        self._number = 0

    def feed(self, message):
        line = codec.loads(message.data)
        events = []
        if not self._has_begun:
            self._has_begun = True
            response = {"id": "toy_1", "status": "in_progress", "output": []}
            events = [{"type": "response.created", "response": response}, self._message.added()]
        if self._member in line:
            self._number += 1
            return [*events, {**self._message.text(line[self._member]), "sequence_number": self._number}]
        self.dropped["line"] += 1
        return events

    def close(self):
        response = {"id": "toy_1", "status": "completed", "output": []}
        return [*self._message.done("completed"), {"type": "response.completed", "response": response}]
"""
CONNECTING: Final = """
import json
from contextlib import asynccontextmanager


class ToyUpstream:
    providers = frozenset({"toy"})
    is_recording = False
    requests = []

    def __init__(self, settings, timeouts):
        self.base_url = settings.base_url

    @asynccontextmanager
    async def open(self, request, /):
        self.requests.append(request)

        async def chunks():
            for text in ("You asked: ", request.body["ask"]):
                yield b"event: part\\ndata: " + json.dumps({"say": text, "mood": "calm"}).encode() + b"\\n\\n"

        yield chunks()

    async def aclose(self):
        pass
"""
ROOT: Final = Path(__file__).parents[2]
STREAM: Final = b'{"say":"The vault holds a quiet ","mood":"calm"}\n{"say":"heron."}\n'


@pytest.fixture(autouse=True)
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "toy_provider"
    folder.mkdir()
    for name, source in (("__init__", DESCRIPTOR), ("reading", READING), ("connecting", CONNECTING)):
        (folder / f"{name}.py").write_text(source)
        monkeypatch.delitem(sys.modules, f"toy_provider.{name}".removesuffix(".__init__"), raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(PROVIDERS, "_rows", dict(PROVIDERS._rows))
    PROVIDERS.register("toy", "toy_provider:PROVIDER")
    stream = tmp_path / "stream.ndjson"
    stream.write_bytes(STREAM)
    return stream


def texts(data: str) -> str:
    """Return the text that the deltas of a public stream have."""
    frames = [json.loads(line.removeprefix("data: ")) for line in data.splitlines() if "{" in line]
    return "".join(frame["delta"] for frame in frames if frame["kind"] == "message.delta")


def test_the_command_line_projects_it(toy: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert cli.main(["project", "--provider", "toy", str(toy)]) == 0
    written = capfdbinary.readouterr().out.decode()
    assert texts(written) == "The vault holds a quiet heron."
    assert json.loads(written.splitlines()[-1])["final"]["status"] == "completed"


@pytest.mark.parametrize("is_live", [True, False])
def test_many_deltas_have_their_numbers(is_live: bool) -> None:  # noqa: FBT001 - a row
    data = b"".join(b'data: {"say": "word %d, "}\n\n' % at for at in range(40))
    pipeline = build_pipeline(provider="toy", dialect="public_sse_v1", output_format="ndjson")
    size = 7 if is_live else len(data)
    said = b"".join(pipeline.feed(data[at : at + size]) for at in range(0, len(data), size)) + pipeline.close()
    assert texts(said.decode()) == "".join(f"word {at}, " for at in range(40))
    deltas = [frame for line in said.splitlines() if (frame := json.loads(line))["kind"] == "message.delta"]
    assert [frame["provider_sequence_number"] for frame in deltas] == [*range(1, 41)]


def test_its_turns_are_written_by_its_request_writer() -> None:
    items = [{"role": "user", "content": "Who?"}, {"role": "user", "content": "Why?"}]
    turn = Turn(1, items, items, None, "toy", profile_of("toy", {}))
    assert turn.request("bear", parameters={"mood": 1}) == {"toy_model": "bear", "ask": "Why?", "mood": 1}
    with pytest.raises(UsageError, match="the API `toy` has no `messages`"):
        _ = turn.messages


def test_it_is_sent_as_its_descriptor_says() -> None:
    sent = PROVIDERS["toy"].request({"ask": "Who?"}, None)
    assert sent == ("", {"ask": "Who?", "stream": True}, {})
    assert PROVIDERS["toy"].headers("k", None) == {"Authorization": "Bearer k"}


def test_the_command_line_explains_it(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert cli.main(["explain", "line.mood"]) == 0
    assert capfdbinary.readouterr().out == b"line.mood: not read\n  not for pages\n"


def test_its_profile_is_checked() -> None:
    pipeline = build_pipeline(provider="toy", dialect="public_sse_v1", profile={"member": "tell"})
    assert texts(pipeline.feed(b'data: {"tell": "Hi"}\n\n').decode()) == "Hi"
    with pytest.raises(UsageError, match="profile of `toy`: `member` must be a string"):
        profile_of("toy", {"member": 1})


@pytest.fixture
def app() -> Any:
    settings = {
        "upstreams": {"shop": {"api": "toy", "base_url": "http://toys.example/v9"}},
        "agents": {
            "helper": {
                "upstream": "shop",
                "model": "bear",
                "allowed_params": ["temperature"],
                "dialects": ["public_sse_v1", "ag_ui"],
            }
        },
        "passthrough": dict.fromkeys(("responses", "chat_completions", "messages"), "shop"),
    }
    return create_app(Settings.model_validate(settings))


async def test_an_agent_answers_with_it(app: Any) -> None:
    answer = await post(app, "/api/v1/chat/stream", message="Who?", parameters={"temperature": 1})
    assert answer.status == 200
    assert texts(answer.text) == "You asked: Who?"
    [request] = sys.modules["toy_provider.connecting"].ToyUpstream.requests
    assert (request.provider, request.body) == ("toy", {"toy_model": "bear", "ask": "Who?", "temperature": 1})


async def test_a_client_of_ag_ui_runs_it(app: Any) -> None:
    messages = [{"role": "user", "id": "m", "content": "Why?"}]
    answer = await post(app, "/api/v1/ag-ui/helper", threadId="t", runId="r", messages=messages)
    assert answer.status == 200
    assert "Why?" in "".join(re.findall(r'"delta":"([^"]*)"', answer.text))
    assert '"type":"RUN_FINISHED"' in answer.text


ASKED: Final = [{"role": "user", "content": "Why?"}]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/responses", {"input": ASKED, "store": False}),
        ("/v1/chat/completions", {"messages": ASKED}),
        ("/v1/messages", {"messages": ASKED, "max_tokens": 50}),
    ],
)
async def test_clients_of_other_apis_ask_it(app: Any, path: str, body: dict[str, Any]) -> None:
    answer = await post(app, path, model="bear", stream=True, **body)
    refused = "max_tokens" in body
    assert answer.status == (400 if refused else 200), answer.text
    assert ("`max_tokens` is not supported" if refused else "Why") in answer.text


async def test_traces_have_its_name(app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    exporter, provider, metrics = InMemorySpanExporter(), TracerProvider(), list[Any]()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(spans, "_TRACER", provider.get_tracer("projector"))
    monkeypatch.setattr(spans, "_DURATION", SimpleNamespace(record=lambda _value, about: metrics.append(about)))
    await post(app, "/api/v1/chat/stream", message="Who?")
    [span] = exporter.get_finished_spans()
    assert span.attributes is not None
    assert span.attributes["gen_ai.provider.name"] == "toymaker"
    assert [about["gen_ai.provider.name"] for about in metrics] == ["toymaker"]


def test_its_streams_are_recorded_and_replayed(tmp_path: Path) -> None:
    finder = Finder(Policy.load({"registered": [{"id": "vault", "value": "quiet heron"}]}))
    stream = b"event: part\n" + b"".join(b"data: " + line + b"\n\n" for line in STREAM.splitlines())
    recording = record("toy", stream, finder)
    lines = [json.loads(line) for line in recording.data.splitlines()]
    assert lines == [
        {"say": "The vault holds a <redacted>", "mood": "calm", "name": "part"},
        {"say": "."},
    ]
    folder = tmp_path / "cases"
    assert write(folder, "one", recording) == folder / "toy" / "one.ndjson"
    [case] = replay.load_cases(folder)
    assert (case.name, case.provider) == ("one", "toy")
    assert texts(replay.play(case, "public_sse_v1").decode()) == "The vault holds a <redacted>."
    assert replay.compare(folder, case, "ag_ui", update=True) is not None
    assert replay.compare(folder, case, "ag_ui", update=False) is None


def test_an_upstream_of_it_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "projector.toml").write_text('[upstreams.shop]\napi = "toy"\n')
    (tmp_path / "request.json").write_text('{"ask": "Who?"}')
    monkeypatch.chdir(tmp_path)
    arguments = ["--config", "projector.toml", "--upstream", "shop", "--dir", "cases", "--name", "one", "request.json"]
    assert cli.main(["record", *arguments]) == 0
    lines = (tmp_path / "cases" / "toy" / "one.ndjson").read_bytes().splitlines()
    assert [json.loads(line)["say"] for line in lines] == ["You asked: ", "Who?"]


PASSES: Final = """
import asyncio
import json

from projector.providers import PROVIDERS

PROVIDERS.register("toy", "toy_provider:PROVIDER")

from projector.generate.openapi import openapi
from projector.server.app import create_app
from projector.server.config.loading import load_settings
from tests.asgi.in_process import post

settings = load_settings(environ={"PROJECTOR_UPSTREAMS__SHOP__API": "toy", "PROJECTOR_PASSTHROUGH__TOYS": "shop"})
app = create_app(settings)
answer = asyncio.run(post(app, "/v1/toys", model="bear", ask="Who?"))
assert answer.status == 200, answer
assert "/v1/toys" in json.loads(openapi())["paths"]
print(answer.text)
"""


def test_its_own_api_is_a_route(tmp_path: Path) -> None:
    """The row is registered before the server is imported: the settings have a field for each such route."""
    path = ":".join([str(tmp_path), str(ROOT), *sys.path])
    command = [sys.executable, "-c", PASSES]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env={"PYTHONPATH": path})
    assert texts(done.stdout) == "You asked: Who?"


READS: Final = """
import sys
from projector import build_pipeline
pipeline = build_pipeline(provider=sys.argv[1], dialect="public_sse_v1", input_format="ndjson")
pipeline.feed(b'{"id":"x","choices":[{"delta":{"content":"Hi"}}]}\\n')
pipeline.close()
print(*sorted(name for name in sys.modules if name.startswith("projector.")))
"""


@pytest.mark.parametrize("provider", ["openai_responses", "openai_chat"])
def test_reading_a_stream_loads_no_other_provider_and_no_request_writer(provider: str) -> None:
    command = [sys.executable, "-c", READS, provider]
    loaded = set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    others = [name for name in ("openai_responses", "openai_chat", "agents_sdk") if name != provider]
    assert not loaded & {f"projector.providers.{name}" for name in others}
    unused = (".request", ".messages", ".recording")
    assert not [name for name in loaded if name.startswith("projector.providers.") and name.endswith(unused)]
    assert "projector.conversation.model_request" not in loaded
