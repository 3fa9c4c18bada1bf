"""Errors of the OpenWOP host: authorisation, invalid requests, invalid settings."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from projector.openwop.requests import HOST_ERRORS
from projector.openwop.runs import INTERRUPT_TIMEOUT, LOG_FULL, REJECTED
from projector.openwop.settings import OpenWopSettings
from projector.server.catalog import Catalog
from projector.server.config.settings import Settings
from tests.asgi.openwop_peer import OpenWopPeer, document, error

REASONING = "conformance-agent-reasoning"
LOW_CONFIDENCE = "conformance-agent-low-confidence"
MINE = {"nodes": [{"id": "n", "typeId": "core.conformance.mock-agent", "config": {"mockConfidence": 0.9}}]}

Serve = Callable[..., Any]


def digest(key: str) -> str:
    return "sha256:" + hashlib.sha256(key.encode()).hexdigest()


KEYS = {"suite": digest("key-of-suite"), "other": digest("key-of-other")}


def peer(site: Any, key: str) -> OpenWopPeer:
    return OpenWopPeer(site, authorization=f"Bearer {key}")


@pytest.fixture
def host(serve: Serve) -> OpenWopPeer:
    return OpenWopPeer(serve(openwop={"conformance": True}))


async def test_there_is_no_host_without_the_table(serve: Serve) -> None:
    site = serve()
    for path in ("/.well-known/openwop", "/v1/runs/x", "/v1/openapi.json"):
        answer = await site.get(path)
        assert answer.status == 404
        await (answer.openai_error() if path.startswith("/v1/") else answer.problem())


async def test_there_is_no_conformance_workflow_without_the_setting(serve: Serve) -> None:
    host = OpenWopPeer(serve(openwop={}))
    said = await document(await host.get("/.well-known/openwop"))
    assert "fixtures" not in said
    assert "conformance" not in said
    assert said["agents"]["supported"] is True
    answer = await host.post("/v1/runs", {"workflowId": REASONING})
    assert (await error(answer, 404))["error"] == "workflow_not_found"


BODIES: list[tuple[str, object, int, str]] = [
    ("no JSON", b"{", 400, "validation_error"),
    ("no object", [], 400, "validation_error"),
    ("no workflow", {}, 400, "validation_error"),
    ("a workflow that is no text", {"workflowId": 1}, 400, "validation_error"),
    ("an unknown workflow", {"workflowId": "nothing"}, 404, "workflow_not_found"),
    ("inputs that are none", {"workflowId": REASONING, "inputs": []}, 400, "validation_error"),
    (
        "a threshold above one",
        {"workflowId": REASONING, "configurable": {"escalationThreshold": 1.5}},
        400,
        "validation_error",
    ),
    (
        "a threshold that is no number",
        b'{"workflowId": "conformance-agent-low-confidence", "configurable": {"escalationThreshold": NaN}}',
        400,
        "validation_error",
    ),
    (
        "a verbosity that is none",
        {"workflowId": REASONING, "configurable": {"reasoningVerbosity": "loud"}},
        400,
        "validation_error",
    ),
    ("a model", {"workflowId": REASONING, "configurable": {"model": "example.com"}}, 400, "validation_error"),
    (
        "a callback",
        {"workflowId": REASONING, "callbackUrl": "https://example.com/hook"},
        400,
        "capability_not_provided",
    ),
    (
        "a mock provider",
        {"workflowId": REASONING, "configurable": {"mockProvider": {"id": "m"}}},
        403,
        "mock_provider_forbidden",
    ),
]


@pytest.mark.parametrize(("name", "body", "status", "code"), BODIES, ids=[row[0] for row in BODIES])
async def test_invalid_run_requests(host: OpenWopPeer, name: str, body: object, status: int, code: str) -> None:
    del name
    said = await error(await host.post("/v1/runs", body), status)
    assert said["error"] == code
    assert "example.com" not in said["message"]


async def test_unknown_members_of_a_run_request_are_ignored(host: OpenWopPeer) -> None:
    members = {
        "tenantId": "t",
        "scopeId": "s",
        "tags": ["a"],
        "metadata": {"k": 1},
        "inputs": {},
        "configurable": {"recursionLimit": 5, "x": 1},
        "unknown": 1,
    }
    await host.until(await host.create(REASONING, **members), "completed")


REPLAY = "openwop-idempotent-replay"


async def test_a_repeated_request_gets_the_first_response(host: OpenWopPeer) -> None:
    body = {"workflowId": REASONING, "inputs": {}}
    first = await host.post("/v1/runs", body, idempotency_key="k")
    said = await first.rest()
    run_id = json.loads(said)["runId"]
    await host.until(run_id, "completed")
    again = await host.post("/v1/runs", body, idempotency_key="k")
    assert (again.status, await again.rest()) == (201, said)  # not the status that the run has now
    assert (first.headers.get(REPLAY), again.headers[REPLAY]) == (None, "true")
    assert again.headers["location"] == first.headers["location"]
    other = await host.post("/v1/runs", body | {"tags": ["t"]}, idempotency_key="k")
    assert (await error(other, 409))["error"] == "idempotency_key_mismatch"
    third = json.loads(await (await host.post("/v1/runs", body, idempotency_key="l")).rest())
    assert third["runId"] != run_id
    long = await host.post("/v1/runs", body, idempotency_key="k" * 257)
    assert (await error(long, 400))["error"] == "validation_error"


async def test_a_repeated_answer_gets_the_first_response(host: OpenWopPeer) -> None:
    run_id = await host.create(LOW_CONFIDENCE)
    await host.until(run_id, "waiting-approval")
    (token,) = [event["payload"]["token"] for event in await host.log(run_id) if event["type"] == "node.suspended"]
    body, key = {"resumeValue": {"action": "accept"}}, {"idempotency_key": "answer"}
    for path in (f"/v1/runs/{run_id}/interrupts/low-conf-decider", f"/v1/interrupts/{token}"):
        first = await host.post(path, body, **key)
        if first.status == 409:  # another key, and nothing to answer any more: an error is not kept
            assert (await error(await host.post(path, body, **key), 409))["error"] == "interrupt_already_resolved"
            continue
        said = await first.rest()
        await host.until(run_id, "completed")
        again = await host.post(path, body, **key)
        assert (again.status, again.headers[REPLAY], await again.rest()) == (200, "true", said)
        assert (await error(await host.post(path, body), 409))["error"] == "interrupt_already_resolved"


async def test_concurrent_requests_with_one_key_start_one_run(host: OpenWopPeer) -> None:
    body = {"workflowId": REASONING}
    answers = await asyncio.gather(*(host.post("/v1/runs", body, idempotency_key="many") for _ in range(5)))
    assert len({await answer.rest() for answer in answers}) == 1
    assert sorted(answer.headers.get(REPLAY, "first") for answer in answers) == ["first", *["true"] * 4]


async def test_a_key_of_a_failed_request_can_be_used_again(host: OpenWopPeer) -> None:
    refused = await host.post("/v1/runs", {"workflowId": "nothing"}, idempotency_key="again")
    await error(refused, 404)
    assert (await host.post("/v1/runs", {"workflowId": REASONING}, idempotency_key="again")).status == 201


async def test_a_snapshot_names_the_versions(host: OpenWopPeer) -> None:
    snapshot = await host.snapshot(await host.create(REASONING))
    assert snapshot["engineVersion"] == version("public-stream-projector")
    assert snapshot["eventLogSchemaVersion"] == 1


@pytest.mark.parametrize(("path", "status"), [("/v1/runs/x:fork", 405), ("/v1/webhooks", 404)])
async def test_what_the_host_does_not_have_is_not_advertised(host: OpenWopPeer, path: str, status: int) -> None:
    said = await document(await host.get("/.well-known/openwop"))
    assert said.keys() & {"webhooks", "replay", "fork"} == set()
    assert path.replace("/x:", "/{run_id}:") not in (await document(await host.get("/v1/openapi.json")))["paths"]
    assert (await error(await host.post(path, {}), status))["error"] in {"not_found", "method_not_allowed"}


async def test_invalid_bodies_methods_and_paths(host: OpenWopPeer) -> None:
    answer = await host.post("/v1/runs", b"{}", content_type="text/plain")
    assert (await error(answer, 415))["error"] == "unsupported_media_type"
    answer = await host.get("/v1/runs")
    assert (await error(answer, 405))["error"] == "method_not_allowed"
    assert answer.headers["allow"] == "POST"
    for path in ("/v1/runs/run_x", "/v1/runs/run_x/events", "/v1/runs/run_x/events/poll", "/v1/runs/a/b/c"):
        assert (await error(await host.get(path), 404))["error"] == "not_found"
    for path in ("/v1/nothing", "/v1/", "/v1/webhooks/x/y", "/v1/agents"):
        assert (await error(await host.get(path), 404))["error"] == "not_found"
        assert (await error(await host.post(path, {}), 404))["error"] == "not_found"
    for path in ("/v1/runs/run_x/cancel", "/v1/runs/run_x/interrupts/n"):
        assert (await error(await host.post(path, {}), 404))["error"] == "not_found"
    assert (await error(await host.get("/v1/workflows/nothing"), 404))["error"] == "workflow_not_found"


@pytest.mark.parametrize("openwop", [{}, {"openwop": {}}], ids=["without a host", "beside a host"])
async def test_paths_of_other_apis_keep_the_form_of_their_errors(serve: Serve, openwop: dict[str, Any]) -> None:
    callers = {"default": {"agents": "*", "models": "*", "routes": ["responses"]}}
    site = serve(auth={"api_keys": KEYS}, callers=callers, **openwop)
    upgrade = {"connection": "Upgrade", "upgrade": "websocket", "sec_websocket_key": "aGVyb25zIG5lc3QgaGU="}
    rows = [({}, 405, "method_not_allowed"), (upgrade, 426, "websocket_not_supported")]
    for headers, status, code in rows:
        for key in ({}, {"authorization": "Bearer key-of-suite"}):
            answer = await site.get("/v1/responses", **headers, **key)
            said = json.loads(await answer.rest())
            assert (answer.status, said["error"]["code"], answer.headers["allow"]) == (status, code, "POST")


async def test_an_answer_requires_a_pending_interrupt(host: OpenWopPeer) -> None:
    run_id = await host.create(REASONING)
    await host.until(run_id, "completed")
    answer = await host.resolve(run_id, "reasoner", "accept")
    assert (await error(answer, 404))["error"] == "interrupt_not_found"
    waiting = await host.create(LOW_CONFIDENCE)
    await host.until(waiting, "waiting-approval")
    path = f"/v1/runs/{waiting}/interrupts/low-conf-decider"
    assert (await error(await host.post(path, {}), 400))["error"] == "validation_error"
    await document(await host.post(f"/v1/runs/{waiting}/cancel", {}))


async def test_a_caller_must_authenticate(serve: Serve) -> None:
    site = serve(auth={"api_keys": KEYS}, openwop={"conformance": True})
    for headers in ({}, {"authorization": "Bearer nobody"}, {"authorization": "Basic x"}, {"authorization": "Bearer "}):
        answer = await OpenWopPeer(site, **headers).post("/v1/runs", {"workflowId": REASONING})
        assert (await error(answer, 401))["error"] == "unauthenticated"
        assert answer.headers["www-authenticate"] == "Bearer"
        assert (await error(await OpenWopPeer(site, **headers).get("/v1/runs/x/y/z"), 401))["error"]
    for path in ("/.well-known/openwop", "/v1/openapi.json"):
        await document(await site.get(path))
    assert (await document(await site.get("/v1/openapi.json")))["openapi"].startswith("3.1")


async def test_a_run_is_visible_to_its_caller_only(serve: Serve) -> None:
    site = serve(auth={"api_keys": KEYS}, openwop={"conformance": True})
    mine, theirs = peer(site, "key-of-suite"), peer(site, "key-of-other")
    run_id = await mine.create(LOW_CONFIDENCE)
    await mine.until(run_id, "waiting-approval")
    for path in ("", "/events", "/events/poll"):
        assert (await error(await theirs.get(f"/v1/runs/{run_id}{path}"), 404))["error"] == "not_found"
    for path in ("/cancel", "/interrupts/low-conf-decider"):
        body = {"resumeValue": {"action": "accept"}}
        assert (await error(await theirs.post(f"/v1/runs/{run_id}{path}", body), 404))["error"] == "not_found"
    assert (await mine.snapshot(run_id))["status"] == "waiting-approval"
    await document(await mine.post(f"/v1/runs/{run_id}/cancel", {}))


SETTINGS: list[tuple[str, dict[str, Any], str]] = [
    ("configured nodes", {"conformance": True, "workflows": {"mine": MINE}}, "workflows"),
    ("no folder", {"conformance": True, "fixtures_dir": "/nowhere"}, "fixtures_dir"),
    ("a threshold above one", {"escalation_threshold": 1.1}, "escalation_threshold"),
]


@pytest.mark.parametrize(("name", "openwop", "message"), SETTINGS, ids=[row[0] for row in SETTINGS])
def test_invalid_settings_prevent_startup(name: str, openwop: dict[str, Any], message: str) -> None:
    del name
    with pytest.raises(ValueError, match=message):
        Settings.model_validate({"openwop": openwop})


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.json": "{"}, "expected a workflow in `a.json`"),
        ({"a.json": "[]"}, "expected a workflow in `a.json`"),
        ({"a.json": '{"id": "conformance-x"}'}, "expected a workflow in `a.json`"),
        ({"a.txt": "{}"}, "expected a folder with JSON files"),
        (
            {"a.json": '{"id": "x", "nodes": [{"id": "n", "typeId": "core.conformance.mock-agent"}]}'},
            "`id` must match",
        ),
    ],
)
def test_invalid_fixtures_prevent_startup(tmp_path: Path, files: dict[str, str], message: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        Settings.model_validate({"openwop": {"conformance": True, "fixtures_dir": tmp_path}})


def test_fixtures_of_other_node_types_are_skipped(tmp_path: Path) -> None:
    for name, type_id in (("mine", "core.conformance.mock-agent"), ("other", "core.http.request")):
        document = {"id": f"conformance-{name}", "nodes": [{"id": "n", "typeId": type_id}]}
        (tmp_path / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
    settings = Settings.model_validate({"openwop": {"conformance": True, "fixtures_dir": tmp_path}})
    assert isinstance(settings.openwop, OpenWopSettings)
    assert list(settings.openwop.mock_workflows) == ["conformance-mine"]


@pytest.mark.parametrize("kind", ["agents", "workflows"])
def test_the_dialect_requires_the_table(kind: str) -> None:
    """Agent events may not be emitted by a server that does not announce them (RFC 0002 section D)."""
    agent = {"upstream": "model", "model": "m"}
    rows: dict[str, Any] = {"agents": {"a": agent}, "upstreams": {"model": {}}}
    if kind == "agents":
        rows["agents"]["a"] = agent | {"dialects": ["openwop"]}
    else:
        stages = [{"name": "s", "steps": [{"name": "x", "agent": "a"}]}]
        rows["workflows"] = {"w": {"dialects": ["openwop"], "stages": stages}}
    with pytest.raises(ValueError, match="the dialect `openwop` requires the table `openwop`"):
        Settings.model_validate(rows)
    Settings.model_validate({**rows, "openwop": {}})


@pytest.mark.parametrize(("tables", "has_dialect"), [({}, False), ({"openwop": {}}, True)])
def test_the_default_agent_has_the_dialect_with_the_table_only(tables: dict[str, Any], *, has_dialect: bool) -> None:
    catalog = Catalog(Settings.model_validate(tables))
    for dialects in (catalog.agents["default"].settings.dialects, catalog.passthrough["responses"].dialects):
        assert ("openwop" in dialects) == has_dialect


async def test_the_threshold_of_the_run_overrides_the_setting(serve: Serve, tmp_path: Path) -> None:
    node = {"id": "n", "typeId": "core.orchestrator.supervisor", "config": {"mockConfidence": 0.6}}
    document_ = {"id": "conformance-supervisor", "nodes": [node]}
    (tmp_path / "a.json").write_text(json.dumps(document_), encoding="utf-8")
    openwop = {"conformance": True, "escalation_threshold": 0.5, "fixtures_dir": tmp_path}
    host = OpenWopPeer(serve(openwop=openwop))
    await host.until(await host.create("conformance-supervisor"), "completed")
    for threshold, status in ((0.6, "completed"), (0.61, "waiting-approval")):
        run_id = await host.create("conformance-supervisor", configurable={"escalationThreshold": threshold})
        assert (await host.until(run_id, "completed", "waiting-approval"))["status"] == status
        if status != "completed":
            await document(await host.post(f"/v1/runs/{run_id}/cancel", {}))


def test_the_page_lists_every_error_and_fault() -> None:
    page = (Path(__file__).parents[2] / "docs" / "openwop.md").read_text(encoding="utf-8")
    rows = {row[1]: row[2] for row in re.finditer(r"^- `(\w+)` \((\d+)\): ", page, re.MULTILINE)}
    for code, (status, _) in HOST_ERRORS.items():
        assert rows.get(code) == str(status.value), code
    for fault in (INTERRUPT_TIMEOUT, LOG_FULL, REJECTED):
        assert f"`{fault.code}`" in page
