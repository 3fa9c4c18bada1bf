"""The demo page: its files and headers, who serves it, and the provider's side."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import anyio
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from projector.server.app import create_app
from projector.server.config.loading import load
from projector.server.config.settings import Settings
from projector.server.http.pages import FILES, TYPES
from projector.server.process import demo_flags
from projector.server.upstream.demo import KEPT_MAX, DemoUpstream
from projector.server.upstream.protocol import ProviderRequest

DEMO: Final = load({}, demo_flags(0), None)


def client(settings: Settings = DEMO, *, is_demo: bool = True) -> TestClient:
    return TestClient(create_app(settings, lambda *_: DemoUpstream(pace_s=0)) if is_demo else create_app(settings))


@pytest.mark.parametrize(("path", "file"), [("/", "index.html"), *((f"/demo/{name}", name) for name in TYPES)])
def test_a_file_has_its_type_and_a_strict_policy(path: str, file: str) -> None:
    answer = client().get(path)
    assert (answer.status_code, answer.content) == (200, (FILES / file).read_bytes())
    assert answer.headers["content-type"] == TYPES[file]
    assert answer.headers["x-content-type-options"] == "nosniff"
    policy = dict(rule.split(" ", 1) for rule in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == "'self'"
    assert "unsafe" not in answer.headers["content-security-policy"]


@pytest.mark.parametrize(("name", "links"), [("index", {"streams"}), ("streams", {".", "#"})])
def test_a_page_needs_nothing_but_its_files(name: str, links: set[str]) -> None:
    page = (FILES / f"{name}.html").read_text(encoding="utf-8")
    script = {"index": "app.js"}.get(name, f"{name}.js")
    found = set(re.findall(r'(?:src|href)="([^"]*)"', page))
    assert found == {"data:,", "demo/style.css", f"demo/{script}", *links}
    assert re.findall(r"<script[^>]*>[^<]|<style|\son\w+=|\sstyle=", page) == []
    assert {path.name for path in FILES.iterdir()} == TYPES.keys()


@pytest.mark.parametrize("path", ["/demo/", "/demo/x.js", "/demo/..%2fapp.py", "/demo/app.js/x", "/demo/__init__.py"])
def test_other_files_do_not_exist(path: str) -> None:
    assert client().get(path).status_code == 404


def test_it_is_off_by_default() -> None:
    settings = Settings(api_key="sk-example")
    refused = client(settings, is_demo=False).get("/")
    assert (refused.status_code, refused.json()["code"]) == (404, "not_found")
    assert "POST /api/v1/chat/stream" in refused.json()["detail"]
    assert "GET /openapi.json" in refused.json()["detail"]
    shown = client(settings.model_copy(update={"demo_page": True}), is_demo=False)
    assert shown.get("/").status_code == 200
    assert shown.get("/demo/about").json() == {"has_provider": False, "needs_key": False, "topics": {}}
    assert shown.get("/demo/provider/stream_1").status_code == 404, "a real provider's stream is for nobody"


def test_a_mounted_application_names_its_prefix() -> None:
    app = Starlette(routes=[Mount("/ai", create_app(Settings(api_key="sk-example")))])
    detail = TestClient(app).get("/ai/").json()["detail"]
    assert "POST /ai/api/v1/chat/stream, /ai/api/v1/ai-sdk/{agent}" in detail
    assert "GET /ai/openapi.json" in detail
    with TestClient(app) as one:
        document = one.get("/ai/openapi.json").json()
        assert document["servers"] == [{"url": "/ai"}]
        assert "/api/v1/chat/stream" in document["paths"]
        error = one.post("/ai/v1/embeddings").json()["error"]
    assert error["message"].startswith("`/ai/v1/embeddings` is not served here; available: `POST /ai/v1/responses`, ")
    assert "servers" not in TestClient(create_app(Settings())).get("/openapi.json").json()


def test_a_server_with_an_admin_listener_names_no_document_at_its_root() -> None:
    settings = Settings.model_validate({"api_key": "sk-example", "admin": {"port": 0}})
    assert "openapi" not in client(settings, is_demo=False).get("/").json()["detail"]


def asked(site: TestClient, message: str) -> tuple[str, list[dict[str, Any]]]:
    """Ask, and return the ID of the stream and what the provider's side has of it."""
    stream_id = site.post("/api/v1/chat/stream", json={"message": message}).headers["x-stream-id"]
    return stream_id, sent(site, f"{stream_id}?after=0")


def sent(site: TestClient, path: str) -> list[dict[str, Any]]:
    answer = site.get(f"/demo/provider/{path}")
    assert answer.headers["content-type"].startswith("text/event-stream")
    return [json.loads(line[6:]) for line in answer.text.splitlines() if line]


@pytest.mark.parametrize(
    ("message", "events", "last"),
    [
        ("Search the news", 21, "response.completed"),
        ("Call a tool", 10, "response.completed"),  # the second response of the example was not requested
        ("Let it fail", 6, "error"),
    ],
)
def test_the_providers_side_is_what_the_stream_was_sent(message: str, events: int, last: str) -> None:
    site = client()
    stream_id, first = asked(site, message)
    assert (len(first), first[-1]["type"]) == (events, last)
    assert sent(site, f"{stream_id}?after=4") == first[4:]
    assert sent(site, stream_id) == first


def test_a_stream_that_is_stopped_was_sent_no_more() -> None:
    upstream = DemoUpstream(pace_s=0)

    async def first_three() -> None:
        async with upstream.open(ProviderRequest("openai_responses", {"input": "search"}, stream_id="a")) as chunks:
            for _ in range(3):
                await anext(aiter(chunks))

    anyio.run(first_three)
    assert len(upstream.sent["a"]) == 3


async def test_few_streams_are_kept() -> None:
    upstream = DemoUpstream(pace_s=0)
    for name in ("", *map(str, range(KEPT_MAX + 5))):
        async with upstream.open(ProviderRequest("openai_responses", {"input": ""}, stream_id=name)) as chunks:
            await anext(aiter(chunks))
    assert [*upstream.sent] == [*map(str, range(5, KEPT_MAX + 5))]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("stream_00000000000000000000000000000000", 404, "unknown_stream"),
        ("{}?after=x", 400, "invalid_position"),
    ],
)
def test_the_providers_side_of_no_stream(path: str, status: int, code: str) -> None:
    site = client()
    stream_id, _ = asked(site, "hello")
    answer = site.get(f"/demo/provider/{path.format(stream_id)}")
    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_the_page_knows_the_topics_of_each_agent() -> None:
    topics = client().get("/demo/about").json()["topics"]
    assert "approval" in topics["default"]
    assert "approval" not in topics["gemini"]


def test_the_route_of_messages_plays_recordings_of_its_api() -> None:
    body = {"model": "any", "max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": "Call a tool"}]}
    answer = client().post("/v1/messages", json=body)
    assert '"name":"get_tide"' in answer.text
    assert answer.text.count("event: message_stop") == 1


def test_the_secret_of_the_demo_is_withheld() -> None:
    answer = client().post("/api/v1/chat/stream", json={"message": "secret"})
    assert "harbour-master-7781" not in answer.text
    assert "The dock opens with <redacted>, or with harbour pilots." in answer.text
