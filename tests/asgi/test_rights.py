"""Rights of callers: what they may not use does not exist for them, on every route."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Final

import jwt
import pytest

from projector.server.app import rebuild
from projector.server.config.loading import SettingsError, load
from projector.server.config.settings import Settings
from projector.server.http.request_bodies import named_models
from tests.asgi.callers import Server, Upstream, keys
from tests.asgi.test_caller_limits import AG_UI, BASE, CHAT, RESPONSES, asks_first
from tests.asgi.test_callers import CLAIMS, KEYS, key_set

MODELS: Final = ["m", "n"]
SETTINGS: Final[dict[str, Any]] = {
    **BASE,
    "upstreams": {"one": {"models": {name: f"real-{name}" for name in MODELS}}, "chat": {"api": "openai_chat"}},
    "auth": {"api_keys": keys("alice", "bob", "carol")},
    "callers": {
        "default": {"agents": "a", "workflows": [], "models": "m", "routes": ["chat", "responses", "ag_ui", "openwop"]},
        "key:bob": {"agents": "*", "workflows": "*", "models": "*", "routes": "*"},
        "key:carol": {"workflows": "w", "agents": ["a", "b"], "routes": ["workflows", "openwop"]},
    },
}
HI: Final = {"message": "hi"}
OF_M: Final = {"model": "m", "input": "hi"}
MESSAGES: Final = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("name", "path", "body", "alice", "carol"),
    [
        ("an agent", CHAT, {"message": "hi", "agent": "a"}, 200, "permission_denied"),
        ("the only agent", CHAT, {"message": "hi"}, 200, "permission_denied"),
        ("another agent", CHAT, {"message": "hi", "agent": "b"}, "unknown_agent", "permission_denied"),
        ("no agent of this name", CHAT, {"message": "hi", "agent": "x"}, "unknown_agent", "permission_denied"),
        ("AG-UI", "/api/v1/ag-ui/a", AG_UI, 200, "permission_denied"),
        ("AG-UI of another agent", "/api/v1/ag-ui/b", AG_UI, "unknown_agent", "permission_denied"),
        ("a workflow", "/api/v1/workflows/w/run-stream", HI, "permission_denied", 200),
        ("no such workflow", "/api/v1/workflows/x/run-stream", HI, "permission_denied", "unknown_workflow"),
        ("a model", RESPONSES, {"model": "m", "input": "hi"}, 200, "permission_denied"),
        ("another model", RESPONSES, {"model": "n", "input": "hi"}, "model_not_found", "permission_denied"),
        ("its real name", RESPONSES, {"model": "real-n", "input": "hi"}, "model_not_found", "permission_denied"),
        ("no such model", RESPONSES, {"model": "x", "input": "hi"}, "model_not_found", "permission_denied"),
        ("a fallback", RESPONSES, {"model": "m", "models": ["n"], "input": "hi"}, "model_not_found", None),
        ("a map of fallbacks", RESPONSES, OF_M | {"fallbacks": [{"m": ["n"]}]}, "model_not_found", None),
        ("for long texts", RESPONSES, OF_M | {"context_window_fallbacks": [{"m": ["n"]}]}, "model_not_found", None),
        ("for refusals", RESPONSES, OF_M | {"content_policy_fallbacks": [{"m": ["n"]}]}, "model_not_found", None),
        ("an allowed fallback", RESPONSES, OF_M | {"fallbacks": [{"m": ["m"]}]}, 200, None),
        ("another route", "/v1/chat/completions", {"model": "m", "messages": MESSAGES}, "permission_denied", None),
        ("a run", "/v1/runs", {"workflowId": "a", "inputs": HI}, 201, 201),
        ("a run of another agent", "/v1/runs", {"workflowId": "b", "inputs": HI}, "workflow_not_found", 201),
    ],
)  # fmt: skip
async def test_what_a_caller_may_use(name: str, path: str, body: Any, alice: object, carol: object) -> None:
    for caller, expected in (("alice", alice), ("carol", carol)):
        site = Server(SETTINGS)
        answer = await site.run(path, body, key=caller)
        if isinstance(expected, int):
            assert answer.status == expected, name
        elif expected is not None:
            document = answer.json()
            error = document.get("error", document)
            assert (error["code"] if isinstance(error, dict) else error) == expected, name
            assert answer.status == (403 if expected == "permission_denied" else 404)
            assert site.upstream.requests == []


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {"message": "hi", "agent": "NAME"}),
        ("/api/v1/ag-ui/NAME", AG_UI),
        (RESPONSES, {"model": "NAME", "input": "hi"}),
        ("/v1/runs", {"workflowId": "NAME", "inputs": {"message": "hi"}}),
    ],
)
async def test_a_forbidden_name_cannot_be_told_from_an_unknown_one(path: str, body: Any) -> None:
    site = Server(SETTINGS)
    texts = []
    for name in ("n" if path == RESPONSES else "b", "x"):
        asked = json.loads(json.dumps(body).replace("NAME", name))
        answer = await site.ask(path.replace("NAME", name), asked, headers={"x-request-id": "r"})
        texts.append((answer.status, answer.text.replace(f"`{name}`", "`_`").replace(f'/{name}"', '/_"')))
    assert texts[0] == texts[1]


@pytest.mark.parametrize(("caller", "listed"), [("alice", ["m"]), ("bob", MODELS)])
async def test_models_are_listed_for_their_callers(caller: str, listed: list[str]) -> None:
    site = Server(SETTINGS)
    models = (await site.ask("/v1/models", key=caller, method="GET")).json()["data"]
    assert [model["id"] for model in models] == listed
    statuses = [(await site.ask(f"/v1/models/{name}", key=caller, method="GET")).status for name in MODELS]
    assert statuses == [200 if name in listed else 404 for name in MODELS]


async def test_models_with_several_targets_have_their_own_names() -> None:
    targets = [{"upstream": "one", "model": "real-m"}, {"upstream": "one", "model": "real-n"}]
    callers = {"default": {"models": "fast"}}
    site = Server(
        SETTINGS | {"models": {"fast": {"targets": targets}, "slow": {"targets": targets}}, "callers": callers}
    )
    asked = [await site.ask(RESPONSES, {"model": name, "input": "hi"}) for name in ("fast", "slow", "m", "real-m")]
    assert [answer.status for answer in asked] == [200, 404, 404, 404]
    models = (await site.ask("/v1/models", method="GET")).json()["data"]
    assert [model["id"] for model in models] == ["fast"]


async def test_without_a_passthrough_route_no_model_is_listed() -> None:
    answer = await Server(SETTINGS).ask("/v1/models", key="carol", method="GET")
    error = answer.json()["error"]
    assert (answer.status, error["code"], error["type"]) == (403, "permission_denied", "permission_error")
    assert error["message"] == "This caller may not use this route."


async def test_workflows_are_described_for_their_callers() -> None:
    site = Server(SETTINGS)
    found = {
        caller: [(await site.ask(f"/v1/workflows/{name}", key=caller, method="GET")).status for name in ("a", "b")]
        for caller in ("alice", "carol")
    }
    assert found == {"alice": [200, 404], "carol": [200, 200]}


async def test_a_workflow_needs_the_rights_to_its_agents() -> None:
    callers = {"default": {"workflows": "*", "agents": "a"}}
    answer = await Server(SETTINGS | {"callers": callers}).ask("/api/v1/workflows/w/run-stream")
    assert (answer.status, answer.json()["code"]) == (404, "unknown_workflow")


async def test_one_cancels_ones_own_stream_without_rights() -> None:
    site = Server(SETTINGS | {"callers": {"default": {"routes": []}}})
    assert (await site.ask("/api/v1/streams/none/cancel")).status == 404


@pytest.mark.parametrize("way", ["key", "token"])
@pytest.mark.parametrize(
    ("rights", "statuses", "code"),
    [({"agents": "b"}, [200, 404], "workflow_not_found"), ({"routes": "chat"}, [403, 403], "forbidden")],
)
async def test_a_run_does_not_continue_without_the_right(
    way: str, rights: dict[str, str], statuses: list[int], code: str
) -> None:
    """The rights of a caller may change between the start of a run and the approval that it waits for."""
    site = Server(SETTINGS, Upstream(asks_first))
    started = (await site.run("/v1/runs", {"workflowId": "a", "inputs": {"message": "hi"}})).json()
    path = (await site.interrupts(started["runId"]))[way]
    site.app = rebuild(site.app, Settings.model_validate(SETTINGS | {"callers": {"default": rights}}))
    site.app.state.activate()
    read = await site.ask(f"/v1/runs/{started['runId']}", method="GET")
    refused = await site.ask(path, {"resumeValue": {"action": "accept"}}, key="alice" if way == "key" else "")
    assert ([read.status, refused.status], refused.json()["error"]) == (statuses, code)
    await site.app.state.aclose()


# callers


@pytest.mark.parametrize(
    ("name", "claims", "agents"),
    [
        ("its own table", {"sub": "ann", "roles": ["analysts"]}, "a"),
        ("a group", {"sub": "ben", "roles": ["others", "analysts"]}, "b"),
        ("a scope", {"sub": "ben", "roles": "read analysts"}, "b"),
        ("the first of two groups", {"sub": "ben", "roles": ["admins", "analysts"]}, "b"),
        ("no group", {"sub": "ben"}, ""),
        ("groups of other types", {"sub": "ben", "roles": [1, None, {"a": 1}, ["analysts"]]}, ""),
        ("an object", {"sub": "ben", "roles": {"analysts": True}}, ""),
        ("a name like that of a key", {"sub": "web"}, ""),
        ("a name like that of a table", {"sub": "default"}, ""),
        ("a name like that of a group", {"sub": "group:analysts"}, ""),
        ("a name with a prefix", {"sub": "key:web"}, ""),
        ("odd characters", {"sub": "\r\nx: 1\0\u2028\U0001f600"}, ""),
    ],
)
async def test_the_table_of_a_token(name: str, claims: dict[str, Any], agents: str) -> None:
    token = {
        "issuer": "https://login.example", "audience": "projector", "jwks": key_set("one"), "groups_claim": "roles",
    }  # fmt: skip
    callers = {
        "default": {"agents": []},
        "token:ann": {"agents": "a"},
        "group:analysts": {"agents": "b"},
        "group:admins": {"agents": "*"},
        "key:web": {"agents": "*"},
    }
    site = Server(BASE | {"auth": {"jwt": token, "api_keys": keys("web")}, "callers": callers})
    key = jwt.encode(CLAIMS | {"exp": time.time() + 60} | claims, KEYS["one"], "RS256", {"kid": "one"})
    found = [
        agent for agent in "ab" if (await site.ask(CHAT, {"message": "hi", "agent": agent}, key=key)).status == 200
    ]
    assert "".join(found) == agents, name


@pytest.mark.parametrize(
    ("name", "body", "models"),
    [
        ("one", {"model": "a"}, ["a"]),
        ("none", {}, ["default"]),
        ("fallbacks", {"model": "a", "models": ["b", "c"], "fallbacks": [{"model": "d"}, "e"]}, list("abcde")),
        ("in another case", {"model": "a", "Models": ["b"]}, ["a", "b"]),
        ("of a tool", {"model": "a", "tools": [{"type": "image_generation", "model": "b"}]}, ["a", "b"]),
        ("a map", {"model": "a", "fallbacks": [{"a": ["b", {"x": "c"}]}, {"*": ["d"]}]}, list("abcd")),
        (
            "maps of other names",
            {"context_window_fallbacks": {"a": ["b"]}, "Default_Fallbacks": "c", "model": "a"},
            list("bca"),
        ),
        (
            "a request",
            {"fallbacks": [{"model": "b", "messages": [{"role": "user"}], "user": "u"}], "model": "a"},
            list("ba"),
        ),
        ("a request and a map", {"fallbacks": [{"a": ["b"], "Model": "c", "fallbacks": ["d"]}]}, ["default", *"bcd"]),
        ("of an object", {"model": "a", "router_settings_override": {"fallbacks": [{"a": ["b"]}]}}, ["a", "b"]),
        ("of a plugin", {"model": "a", "plugins": [{"id": "x", "analysis_models": ["b"]}]}, ["a", "b"]),
        ("of a tool that was found", {"model": "a", "input": [{"tools": [{"model": "b"}]}]}, ["a", "b"]),
        ("in a namespace", {"model": "a", "tools": [{"tools": [{"tools": [{"model": "b"}]}]}]}, ["a", "b"]),
        ("of an author", {"model": "a", "tools": [{"type": "image_generation", "svg": {"model": "b"}}]}, ["a", "b"]),
        (
            "no models",
            {"model": "a", "metadata": {"model": "b"}, "input": [{"model": "c"}], "messages": [{"model": "d"}]},
            ["a"],
        ),
        ("of an example", {"model": "a", "tools": [{"name": "f", "input_examples": [{"model": "b"}]}]}, ["a"]),
        (
            "of a schema",
            {"model": "a", "tools": [{"name": "f", "parameters": {"properties": {"models": {"type": "b"}}}}]},
            ["a"],
        ),
        ("of other types", {"model": "a", "models": {"a": 1}, "tools": [1, None, {"model": 2}]}, ["a"]),
        ("tools of another type", {"model": "a", "tools": {"model": "b"}}, ["a", "b"]),
    ],
)
def test_the_models_of_a_request(name: str, body: dict[str, Any], models: list[str]) -> None:
    assert [*named_models(body, "default")] == models, name


# settings


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a caller", '[callers."key:alic"]', "unknown caller `key:alic`; known: `key:alice`"),
        ("a token", '[callers."token:ann"]', "unknown caller `token:ann`; known: "),
        ("another kind", '[callers."address:::1"]', "expected `default`, `key:NAME`, `token:NAME` or `group:NAME`"),
        ("an agent", 'callers.default.agents = ["helper", "helpr"]', "of caller `default`: `helpr`; known: `helper`"),
        ("a workflow", 'callers.default.workflows = "flow"', "`workflows` of caller `default`: `flow`; known: `flows`"),
        ("a route", 'callers.default.routes = ["chats"]', "`routes` of caller `default`: `chats`; known: `chat`"),
        ("a model", 'callers.default.models = ["gpt-5"]', "`models` of caller `default`: `gpt-5`; known: `gpt-5.4`"),
        ("a step", 'callers.default = { agents = [], workflows = "flows" }', "are not in `agents`: `helper`"),
        ("a limit", "callers.default.rate_limits.requests_per_hour = 1", "did you mean"),
        ("no limit", "callers.default.rate_limits.requests_per_day = 0", "rate_limits.requests_per_day"),
        ("a fraction", "agents.other.rate_limits.tokens_per_day = 0.5", "agents.other.rate_limits.tokens_per_day"),
        ("a large number", "callers.default.rate_limits.tokens_per_day = 1_000_000_000_001", "tokens_per_day"),
    ],
)  # fmt: skip
def test_mistakes_are_found(tmp_path: Any, name: str, text: str, message: str) -> None:
    config = tmp_path / "projector.toml"
    config.write_text(
        f"""
        {text if not text.startswith("[") else ""}
        [upstreams.one]
        models = ["gpt-5.4"]
        [passthrough]
        responses = "one"
        [auth.api_keys]
        alice = "sha256:{"0" * 64}"
        [agents.helper]
        upstream = "one"
        model = "m"
        [[workflows.flows.stages]]
        name = "s"
        steps = [{{ name = "t", agent = "helper" }}]
        {text if text.startswith("[") else ""}
        """,
        encoding="utf-8",
    )
    with pytest.raises(SettingsError) as caught:
        load({}, config=config)
    assert message in str(caught.value), name


def test_the_example_of_the_page_is_valid(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
    example = page.partition("## Rate limits and rights")[2].partition("```toml")[2].partition("```")[0]
    config = tmp_path / "projector.toml"
    config.write_text(
        f"""
        upstreams.one.models = ["fast"]
        passthrough.responses = "one"
        auth.api_keys.frontend = "sha256:{"0" * 64}"
        auth.jwt = {{ issuer = "i", audience = "a", jwks_url = "https://login.example/jwks", groups_claim = "groups" }}
        agents.helper = {{ upstream = "one", model = "m" }}
        agents.reports.upstream = "one"
        agents.reports.model = "m"
        {example}
        """,
        encoding="utf-8",
    )
    assert load({}, config=config).callers.keys() == {"default", "key:frontend", "group:analysts"}


def test_limits_are_variables() -> None:
    variables = {
        "PROJECTOR_CALLERS__DEFAULT__RATE_LIMITS__REQUESTS_PER_MINUTE": "60",
        "PROJECTOR_CALLERS__DEFAULT__ROUTES": "chat",
        "PROJECTOR_CALLERS__DEFAULT__MODELS": '["a", "b"]',
    }
    found = load(variables).callers["default"]
    assert (found.rate_limits.requests_per_minute, found.routes, found.models) == (60, ("chat",), ("a", "b"))
