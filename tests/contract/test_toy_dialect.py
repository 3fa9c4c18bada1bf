"""A dialect is one row in `DIALECTS`: nothing else must be touched for the CLI, the server and the documents."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from projector import UsageError, cli, generate
from projector.dialects import DIALECTS
from projector.server.app import create_app
from projector.server.config.settings import Settings
from projector.server.http import internal_routes
from projector.server.upstream.demo import DemoUpstream
from tests.asgi.in_process import post

EXAMPLE: Final = Path(__file__).parents[2] / "examples_ndjson" / "openai_responses" / "chat-text-citations.ndjson"

TOY: Final = """
import json
from typing import Annotated, Literal, Union

from pydantic import BaseModel, Field, TypeAdapter

from projector.contracts.kinds import Kind, PrivateKind
from projector.contracts.stream_rules.table import Violation
from projector.dialects.descriptor import Assembler, Dialect, JsonAnswer, Tables


class Summary(BaseModel):
    count: int


class Failure(BaseModel):
    message: str


class Note(BaseModel):
    type: Literal["note"]
    about: str


class End(BaseModel):
    type: Literal["end"]
    summary: Summary
    failure: Failure | None = None


EVENTS = TypeAdapter(Annotated[Union[Note, End], Field(discriminator="type")])


class Writer:
    def __init__(self):
        self.count = 0

    def feed(self, frame):
        self.count += 1
        is_end = frame["kind"] in ("final", "error")
        end = {"type": "end", "summary": {"count": self.count}}
        event = end if is_end else {"type": "note", "about": frame["kind"]}
        return [(event["type"], json.dumps(event).encode())]


class Checker:
    last = None

    def feed(self, line_no, line):
        if line in (b"[OVER]", "[OVER]"):
            return []
        EVENTS.validate_json(line)
        self.last = json.loads(line)["type"]
        return []

    def close(self):
        return [] if self.last == "end" else [Violation(1, None, "toy_end", "spec", "expected an end")]


class Assembly:
    held_bytes = 0
    count = 0

    def feed(self, event):
        self.count += 1

    def close(self):
        return JsonAnswer(200, {"count": self.count})


DIALECT = Dialect(
    writer=lambda policy, options: Writer(),
    tables=lambda: Tables(dict.fromkeys([*Kind, *PrivateKind], True), {}),
    events=lambda: EVENTS,
    checker=Checker,
    headers=((b"x-toy", b"yes"),),
    end_mark=b"[OVER]",
    has_event_names=True,
    assembler=Assembler(start=Assembly, body="Summary", error="Failure", error_statuses=(418,)),
)
"""


@pytest.fixture(autouse=True)
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "toy_dialect").mkdir()
    (tmp_path / "toy_dialect" / "__init__.py").write_text(TOY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(DIALECTS, "_rows", dict(DIALECTS._rows))
    monkeypatch.delitem(sys.modules, "toy_dialect", raising=False)
    DIALECTS.register("toy", "toy_dialect:DIALECT")


def app() -> Any:
    """Return a server whose only agent allows only the toy dialect, and whose passthrough routes allow all dialects."""
    settings = {
        "upstreams": {"one": {}},
        "agents": {"helper": {"upstream": "one", "model": "m", "dialects": ["toy"]}},
        "passthrough": {"responses": "one"},
    }
    return create_app(Settings.model_validate(settings), lambda *_: DemoUpstream(pace_s=0))


def test_a_row_is_imported_when_it_is_used() -> None:
    assert list(DIALECTS)[-1] == "toy"
    assert "toy" in DIALECTS
    assert "toy_dialect" not in sys.modules
    assert DIALECTS["toy"] is DIALECTS["toy"]
    assert "toy_dialect" in sys.modules


def test_the_command_line_writes_and_checks_it(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert cli.main(["project", "--dialect", "toy", "--out", "sse", str(EXAMPLE)]) == 0
    written = capfdbinary.readouterr().out
    assert written.startswith(b"event: note\n")
    assert written.endswith(b"data: [OVER]\n\n")

    assert cli.main(["project", "--dialect", "toy", str(EXAMPLE)]) == 0
    stream = tmp_path / "stream.ndjson"
    stream.write_bytes(capfdbinary.readouterr().out)
    assert stream.read_bytes().splitlines()[-1] == b"[OVER]"
    assert cli.main(["validate", "--dialect", "toy", str(stream)]) == 0

    stream.write_bytes(stream.read_bytes().splitlines(keepends=True)[0])
    assert cli.main(["validate", "--dialect", "toy", str(stream)]) == 1
    assert b"toy_end (spec): expected an end" in capfdbinary.readouterr().out


async def test_an_agent_streams_it() -> None:
    answer = await post(app(), "/api/v1/chat/stream", message="hello")
    assert (answer.status, answer.headers["x-toy"]) == (200, "yes")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.startswith("event: note\n")
    assert answer.text.endswith("data: [OVER]\n\n")


async def test_a_request_that_does_not_stream_gets_json() -> None:
    server = app()
    streamed = await post(server, "/v1/responses?dialect=toy", input="hello", model="m", stream=True)
    events = [line for line in streamed.text.splitlines() if line.startswith("data: {")]
    for said in ({}, {"stream": False}):
        answer = await post(server, "/v1/responses?dialect=toy", input="hello", model="m", **said)
        assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
        assert "x-toy" not in answer.headers
        assert json.loads(answer.text) == {"count": len(events)}


def test_the_documents_describe_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [made] = [data for path, data in generate.files().items() if path.name == "openapi.json"]
    (tmp_path / "openapi.json").write_bytes(made)
    monkeypatch.setattr(internal_routes, "_FILE", tmp_path / "openapi.json")
    document = json.loads(app().state.openapi())
    schemas = document["components"]["schemas"]
    assert {"toy", "toy.Note", "toy.End", "toy.Summary", "toy.Failure"} <= schemas.keys()
    chat = document["paths"]["/api/v1/chat/stream"]["post"]
    message = chat["responses"]["200"]["content"]["text/event-stream"]["schema"]["properties"]
    assert message["data"]["anyOf"][1:] == [{"const": "[OVER]", "description": "End mark of `toy`."}]
    assert (message.keys(), chat["parameters"][-1]["schema"]["enum"]) == ({"data", "event"}, ["toy"])
    responses = document["paths"]["/v1/responses"]["post"]["responses"]
    answer = responses["200"]["content"]["application/json"]["schema"]
    assert {"$ref": "#/components/schemas/toy.Summary"} in answer["anyOf"]
    assert "toy.Failure" in json.dumps(responses["4XX"])
    [schema] = [data for path, data in generate.files().items() if path.name == "toy.schema.json"]
    assert json.loads(schema)["title"] == "toy"


def test_a_dialect_without_models_is_named() -> None:
    DIALECTS.register("odd", replace(DIALECTS["toy"], events=None))
    with pytest.raises(UsageError, match=r"^`odd`: expected `events` in its descriptor, or a row in tests/protocols/"):
        generate.files()


WRITES: Final = """
import sys
from projector import build_pipeline
pipeline = build_pipeline(provider="openai_responses", dialect=sys.argv[1], input_format="ndjson")
pipeline.feed(open(sys.argv[2], "rb").read())
pipeline.close()
print(*sorted(name for name in sys.modules if name.startswith("projector.")))
"""


PACKAGES: Final = {
    "public_sse_v1": "projector.dialects.public_sse_v1",
    "ag_ui": "projector.dialects.ag_ui",
    "responses": "projector.dialects.responses",
    "openresponses": "projector.dialects.openresponses",
    "chat_completions": "projector.dialects.chat_completions",
    "openwop": "projector.openwop",
}
MODELS: Final = ("contract", "conversation", "host")


@pytest.mark.parametrize("dialect", PACKAGES)
def test_writing_a_stream_loads_no_other_dialect_and_no_models(dialect: str) -> None:
    command = [sys.executable, "-c", WRITES, dialect, str(EXAMPLE)]
    loaded = set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    assert PACKAGES[dialect] in loaded
    assert not loaded & {package for name, package in PACKAGES.items() if name != dialect}
    shared = "projector.dialects.response_writer"
    assert not loaded & {f"{PACKAGES[dialect]}.{name}" for name in MODELS}
    assert (shared in loaded) == (dialect in {"responses", "openresponses"})
    models = ("public_sse_v1", "stream_rules", "schema_export")
    assert not loaded & {"projector.server", *(f"projector.contracts.{name}" for name in models)}
