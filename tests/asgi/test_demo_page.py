"""The demo page: its files and headers, who serves it, and the provider's side."""

from __future__ import annotations

import json
import re
from typing import Any, Final
from urllib.parse import quote

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from projector.server.app import create_app
from projector.server.config.demo_settings import demo_flags
from projector.server.config.loading import load
from projector.server.config.settings import Settings
from projector.server.http.demo_page import FILES, INPUT_MAX_CHARS, TYPES
from projector.server.upstream.demo import DemoUpstream

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


def test_the_page_needs_nothing_but_its_files() -> None:
    page = (FILES / "index.html").read_text(encoding="utf-8")
    assert set(re.findall(r'(?:src|href)="([^"]*)"', page)) == {"data:,", "demo/style.css", "demo/app.js"}
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
    assert shown.get("/demo/provider").status_code == 404, "a real provider's stream is for nobody"


def test_a_mounted_application_names_its_prefix() -> None:
    app = Starlette(routes=[Mount("/ai", create_app(Settings(api_key="sk-example")))])
    detail = TestClient(app).get("/ai/").json()["detail"]
    assert "POST /ai/api/v1/chat/stream, /ai/api/v1/ai-sdk/{agent}" in detail
    assert "GET /ai/openapi.json" in detail


def test_a_server_with_an_admin_listener_names_no_document_at_its_root() -> None:
    settings = Settings.model_validate({"api_key": "sk-example", "admin": {"port": 0}})
    assert "openapi" not in client(settings, is_demo=False).get("/").json()["detail"]


def provider_types(given: object) -> list[str]:
    answer = client().get(f"/demo/provider?input={quote(json.dumps(given))}")
    assert answer.headers["content-type"].startswith("text/event-stream")
    events: list[dict[str, Any]] = [json.loads(line[6:]) for line in answer.text.splitlines() if line]
    return [event["type"] for event in events]


def test_the_provider_sends_what_the_server_reads() -> None:
    assert "response.web_search_call.searching" in provider_types("Search the news")
    asked, approved = provider_types("approve"), provider_types([{"type": "mcp_approval_response"}])
    assert (asked[-1], approved[-1]) == ("response.completed", "response.completed")
    assert "response.mcp_call.completed" in set(approved) - set(asked)


@pytest.mark.parametrize("query", ["input=7", "input={", "input=null", f"input={'1' * (INPUT_MAX_CHARS + 1)}"])
def test_an_invalid_input_is_refused(query: str) -> None:
    answer = client().get(f"/demo/provider?{query}")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


def test_the_secret_of_the_demo_is_withheld() -> None:
    answer = client().post("/api/v1/chat/stream", json={"message": "secret"})
    assert "harbour-master-7781" not in answer.text
    assert "The dock opens with <redacted>, or with harbour pilots." in answer.text
