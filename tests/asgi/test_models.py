"""Several upstreams behind a passthrough route, aliases, `/v1/models`, and paths that are not served."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
import structlog
from openai import AsyncOpenAI, NotFoundError
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from projector.core.faults import FAULTS
from projector.server.catalog import Catalog
from projector.server.config.agent_settings import PASSTHROUGH_APIS
from projector.server.config.config_dump import to_toml
from projector.server.config.loading import Loaded, SettingsError, load
from projector.server.config.settings import Settings
from projector.server.http.model_routes import FAILURE_S, LIST_S, ModelLists
from projector.server.http.problems import Problem, problem_of
from projector.server.http.request_bodies import passthrough_body
from projector.server.upstream.http_upstream import MODELS_MAX, read_models
from projector.server.upstream.protocol import Model, UpstreamError

CHAT = {"api": "openai_chat"}
UPSTREAMS = {
    "every": CHAT,
    "local": {**CHAT, "models": ["qwen3:8b", "shared"]},
    "azure": {**CHAT, "models": {"fast": "my-deployment", "shared": "never"}},
}
NAMES = ["every", "local", "azure"]


def settings(names: object = NAMES, **upstreams: Any) -> Settings:
    return Settings.model_validate({"upstreams": upstreams or UPSTREAMS, "passthrough": {"chat_completions": names}})


def sent_to(configured: Settings, model: object) -> tuple[str, str]:
    """Return the upstream of a model, and the model that it receives."""
    binding = Catalog(configured).passthrough["chat_completions"].binding(model)
    return binding.provider.name, passthrough_body({"model": model, "messages": []}, binding, required="messages")[
        "model"
    ]


@pytest.mark.parametrize(
    ("names", "model", "expected"),
    [
        (NAMES, "qwen3:8b", ("local", "qwen3:8b")),
        (NAMES, "fast", ("azure", "my-deployment")),
        (NAMES, "my-deployment", ("every", "my-deployment")),
        (NAMES, "gpt-5.4", ("every", "gpt-5.4")),
        (NAMES, "shared", ("local", "shared")),
        (["azure", "local"], "shared", ("azure", "never")),
        ("every", "fast", ("every", "fast")),
        ("azure", "fast", ("azure", "my-deployment")),
    ],
)
def test_the_model_selects_the_upstream(names: object, model: str, expected: tuple[str, str]) -> None:
    assert sent_to(settings(names), model) == expected


def test_a_model_that_is_not_offered() -> None:
    with pytest.raises(Problem) as caught:
        sent_to(settings(["local", "azure"]), "gpt-5.4")
    assert (caught.value.status, caught.value.code, caught.value.param) == (404, "model_not_found", "model")
    assert "`gpt-5.4`" in caught.value.detail


@pytest.mark.parametrize("model", [7, ["a"], {}, True])
def test_a_model_that_is_no_text(model: object) -> None:
    with pytest.raises(Problem) as caught:
        sent_to(settings(), model)
    assert (caught.value.code, caught.value.param) == ("invalid_request", "model")


@pytest.mark.parametrize(
    ("names", "upstreams", "message"),
    [
        (["a", "b"], {"a": CHAT, "b": CHAT}, "`b` would never be used, because `a` accepts every model"),
        (["a", "c"], {"a": CHAT}, "unknown upstream of `passthrough.chat_completions`: `c`; known: `a`"),
        (["a", "b"], {"a": CHAT, "b": {}}, "`b` would never be used, because `a` accepts every model"),
        ([], {"a": CHAT}, "at least 1"),
        ("a", {"a": {**CHAT, "models": []}}, "at least 1"),
        ("a", {"a": {**CHAT, "models": {"x": ""}}}, "expected an ID of 1 to 256 characters of printable ASCII"),
        ("a", {"a": {**CHAT, "models": ["x\n"]}}, "expected an ID of 1 to 256 characters of printable ASCII"),
        ("a", {"a": {**CHAT, "models": [7]}}, "expected a list of IDs, or a table of aliases and IDs"),
    ],
)
def test_invalid_routes_and_models(names: object, upstreams: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        settings(names, **upstreams)
    assert message in str(caught.value)


# settings


@pytest.mark.parametrize(
    ("variables", "routes"),
    [
        ({}, set(PASSTHROUGH_APIS)),
        ({"PASSTHROUGH__POLICY": "strict"}, set(PASSTHROUGH_APIS)),
        ({"PASSTHROUGH__DIALECTS": '["openresponses"]'}, set(PASSTHROUGH_APIS)),
        ({"PASSTHROUGH__RESPONSES": "default", "PASSTHROUGH__POLICY": "strict"}, {"responses"}),
        ({"PASSTHROUGH__RESPONSES": '["default"]'}, {"responses"}),
    ],
)
def test_a_partly_given_table_keeps_the_default_upstreams(variables: dict[str, str], routes: set[str]) -> None:
    loaded = load({f"PROJECTOR_{name}": value for name, value in variables.items()})
    catalog = Catalog(loaded)
    assert catalog.passthrough.keys() == routes
    if "PASSTHROUGH__DIALECTS" in variables:
        assert {tuple(one.dialects) for one in catalog.passthrough.values()} == {("openresponses",)}


def test_a_table_without_an_upstream_is_an_error_where_there_is_no_default() -> None:
    variables = {"PROJECTOR_PASSTHROUGH__POLICY": "strict", "PROJECTOR_UPSTREAMS__A__API": "openai_chat"}
    with pytest.raises(SettingsError, match="`passthrough`: expected an upstream: `responses` or `chat_completions`"):
        load(variables)


def test_models_in_variables() -> None:
    variables = {
        "PROJECTOR_UPSTREAMS__A__MODELS": '["x/y", "z"]',
        "PROJECTOR_UPSTREAMS__B__MODELS": '{"fast": "x"}',
        "PROJECTOR_PASSTHROUGH__RESPONSES": '["a", "b"]',
    }
    loaded = load(variables)
    assert loaded.upstreams["a"].models == {"x/y": "x/y", "z": "z"}
    assert loaded.upstreams["b"].models == {"fast": "x"}
    printed = to_toml(Loaded(loaded, {}))
    assert '[upstreams.a.models]\n"x/y" = "x/y"\nz = "z"' in printed
    assert 'responses = ["a","b"]' in printed or 'responses = ["a", "b"]' in printed


# lists


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"data": [{"id": "a", "object": "model", "created": 5, "owned_by": "b"}]}, [Model("a", 5, "b")]),
        ({"data": [{"id": "vendor/a:free"}, {"id": "b", "created": None}]}, [Model("vendor/a:free"), Model("b")]),
        ([{"id": "a"}], [Model("a")]),
        ({"data": [{"id": "a"}, {"id": "a", "created": 9}]}, [Model("a")]),
        ({"data": [{"id": 5}, {"id": ""}, {"id": "a\n"}, {"id": "x" * 257}, {}, 7, None]}, []),
        ([{"id": "a", "created": -1, "owned_by": ["x"]}, {"id": "b", "created": True}], [Model("a"), Model("b")]),
        ({"data": {}}, []),
        ("text", []),
        (None, []),
    ],
    ids=range(9),
)  # fmt: skip
def test_reading_a_list(value: object, expected: list[Model]) -> None:
    assert read_models(value) == expected


def test_a_long_list_is_cut() -> None:
    assert len(read_models([{"id": str(i)} for i in range(MODELS_MAX + 5)])) == MODELS_MAX


class Listing:
    """An upstream that only lists its models."""

    def __init__(self) -> None:
        self.asked = 0
        self.fails = False

    async def models(self) -> Sequence[Model]:
        self.asked += 1
        await anyio.sleep(0.01)
        if self.fails:
            raise UpstreamError(FAULTS["upstream_unreachable"], reason="refused")
        return [Model("a")]


async def test_a_list_is_kept_for_some_minutes() -> None:
    now, upstream = 100.0, Listing()
    lists = ModelLists(lambda: now)
    for _ in range(2):
        await asyncio.gather(*(lists.of("x", upstream) for _ in range(5)))
    assert upstream.asked == 1
    now += LIST_S
    assert await lists.of("x", upstream) == [Model("a")]
    assert upstream.asked == 2


async def test_a_list_is_cleaned_once_and_off_the_event_loop() -> None:
    threads: list[int] = []

    def clean(models: Sequence[Model]) -> Sequence[Model]:
        threads.append(threading.get_ident())
        return [model._replace(owned_by="b") for model in models]

    lists, upstream = ModelLists(), Listing()
    found = await asyncio.gather(*(lists.of("x", upstream, clean) for _ in range(5)))
    assert found == [[Model("a", owned_by="b")]] * 5
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


async def test_an_upstream_that_fails_is_logged_and_asked_again_later() -> None:
    now, upstream = 100.0, Listing()
    upstream.fails = True
    lists = ModelLists(lambda: now)
    with structlog.testing.capture_logs() as logs:
        assert [await lists.of("x", upstream) for _ in range(2)] == [(), ()]
    line = {"event": "models_not_listed", "upstream": "x", "code": "upstream_unreachable", "reason": "refused"}
    assert [one for one in logs if one["event"] == "models_not_listed"] == [{**line, "log_level": "warning"}]
    upstream.fails = False
    now += FAILURE_S
    assert await lists.of("x", upstream) == [Model("a")]


async def test_an_upstream_without_a_list_has_no_models() -> None:
    assert await ModelLists().of("x", object()) == ()


# routes


def listing(body: bytes, status: bytes = b"200 OK") -> Any:
    """Answer requests for models."""

    async def script(peer: Any) -> None:
        head = b"HTTP/1.1 %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % (status, len(body))
        await peer.send(head + body)

    return script


MODELS = [
    {"id": "gpt-5.4", "object": "model", "created": 1_700_000_000, "owned_by": "system", "secret": "x"},
    {"id": "openai/gpt-oss-20b"},
    {"id": "sk-proj-" + "a1B2c3D4" * 6},  # a model whose name is a credential is left out
]


def site_of(serve: Any, port: int, **more: Any) -> Any:
    url = {"base_url": f"http://localhost:{port}/v1"}
    upstreams = {
        "every": {**url, "headers": {"x-team": "seven"}},
        "listed": {**url, "api": "openai_chat", "models": {"fast": "slow"}},
        "hidden": {**url, "models": ["of-an-agent-only"]},
    }
    agents = {"helper": {"upstream": "hidden", "model": "of-an-agent-only"}}
    passthrough = {"responses": "every", "chat_completions": "listed"}
    every = {"upstreams": upstreams, "agents": agents, "passthrough": passthrough, **more}
    return serve(api_key=None, base_url=None, **every)


async def test_the_models_of_all_routes(serve: Any, upstream: Any, upstream_port: int) -> None:
    """One test, because the list is kept: with the real client, by ID, an unknown one, an unknown path."""
    provider = await upstream(listing(json.dumps({"object": "list", "data": MODELS}).encode()))
    site = site_of(serve, upstream_port)
    async with AsyncOpenAI(base_url=f"http://127.0.0.1:{site.port}/v1", api_key="none") as client:
        found = [model.model_dump(exclude_unset=True) async for model in client.models.list()]
        assert found == [
            {"id": "gpt-5.4", "object": "model", "created": 1_700_000_000, "owned_by": "system"},
            {"id": "openai/gpt-oss-20b", "object": "model", "created": 0, "owned_by": "system"},
            {"id": "fast", "object": "model", "created": 0, "owned_by": "system"},
        ]
        assert (await client.models.retrieve("openai/gpt-oss-20b")).model_dump(exclude_unset=True) == found[1]
        assert (await client.models.retrieve("fast")).id == "fast"
        with pytest.raises(NotFoundError) as caught:
            await client.models.retrieve("of-an-agent-only")
        assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
        with pytest.raises(NotFoundError) as caught:
            await client.embeddings.create(model="fast", input="hello")
        assert "`/v1/embeddings` is not served here; available: `POST /v1/responses`" in caught.value.message
        with pytest.raises(NotFoundError) as caught:
            await client.chat.completions.create(model="other", messages=[{"role": "user", "content": "hello"}])
        assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
    assert provider.peers.qsize() == 1
    peer = await provider.peers.get()
    assert peer.head.startswith(b"GET /v1/models HTTP/1.1\r\n")
    assert (peer.header(b"x-team"), peer.header(b"accept")) == (b"seven", b"application/json")


@pytest.mark.parametrize(
    ("n", "script"),
    [
        (0, listing(b"{}", b"404 Not Found")),
        (1, listing(b"<html>", b"200 OK")),
        (2, listing(b"[" * 100_000)),
        (3, listing(b" " * 5_000_000)),
    ],
    ids=range(4),
)
async def test_an_upstream_that_fails_is_left_out(
    serve: Any, upstream: Any, upstream_port: int, n: int, script: Any
) -> None:
    await upstream(script)
    site = site_of(serve, upstream_port, heartbeat_s=20 + n)  # a server of its own, because lists are kept
    answer = await site.get("/v1/models")
    assert (answer.status, [model["id"] for model in json.loads(await answer.rest())["data"]]) == (200, ["fast"])


async def test_an_alias_is_the_providers_name_upstream(serve: Any, upstream: Any, upstream_port: int) -> None:
    async def script(peer: Any) -> None:
        await peer.start()
        choice = {"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "reported", "choices": [choice]}
        await peer.event(chunk)
        await peer.chunk(b"data: [DONE]\n\n")
        await peer.end()

    provider = await upstream(script)
    body = {"model": "fast", "messages": [{"role": "user", "content": "hello"}]}
    answer = await site_of(serve, upstream_port).ask("/v1/chat/completions", body)
    assert json.loads(await answer.rest())["model"] == "reported"
    assert (await provider.peers.get()).body["model"] == "slow"


async def test_the_list_needs_the_key_of_a_caller(serve: Any, upstream: Any, upstream_port: int) -> None:
    await upstream(listing(b'{"data": []}'))
    auth = {"api_keys": {"caller": f"sha256:{hashlib.sha256(b'the-key').hexdigest()}"}}
    site = site_of(serve, upstream_port, auth=auth)
    for path in ("/v1/models", "/v1/models/fast"):
        refused = await site.get(path)
        assert (refused.status, json.loads(await refused.rest())["error"]["code"]) == (401, "invalid_api_key")
        answer = await site.get(path, authorization="Bearer the-key")
        assert answer.status == 200
        await answer.rest()


@pytest.mark.parametrize(
    ("path", "status", "code", "detail"),
    [
        ("/v1/embeddings", 404, "not_found", "`/v1/embeddings` is not served here; available: `POST /v1/responses`, "),
        ("/v1/", 404, "not_found", "`GET /v1/models`, `GET /v1/models/{model}`."),
        ("/v1/a%07b", 404, "not_found", "This path is not served here"),
        ("/v1/responses", 405, "method_not_allowed", "Method not allowed; allowed: POST."),
        ("/v1/chat/completions/", 404, "not_found", "is not served here"),
    ],
)
async def test_what_is_not_served(serve: Any, path: str, status: int, code: str, detail: str) -> None:
    answer = await serve().get(path)
    error = json.loads(await answer.rest())["error"]
    assert (answer.status, error["code"]) == (status, code)
    assert detail in error["message"]
    assert answer.headers.get("allow") == ("POST" if status == 405 else None)


@pytest.mark.parametrize(
    ("headers", "message"),
    [(None, "Method not allowed."), ({"allow": "PUT, GET"}, "Method not allowed; allowed: GET, PUT.")],
)
def test_a_route_of_an_extension_may_refuse_a_method(headers: dict[str, str] | None, message: str) -> None:
    assert problem_of(HTTPException(405, headers=headers)).detail == message


@pytest.mark.parametrize("path", ["/v1/files", "/v1/skills/skill_1", "/v1/complete"])
async def test_a_client_of_anthropic_is_told_in_its_form(serve: Any, path: str) -> None:
    answer = await serve().get(path, anthropic_version="2023-06-01")
    body = json.loads(await answer.rest())
    assert (answer.status, body["type"], body["error"]["type"]) == (404, "error", "not_found_error")


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        ("/v1/responses/input_tokens", "The usage of a response counts the tokens of its input."),
    ],
)
async def test_a_route_of_openai_is_no_response(serve: Any, path: str, detail: str) -> None:
    answer = await serve().ask(path, {"model": "m", "input": "Hi"})
    error = json.loads(await answer.rest())["error"]
    assert (answer.status, error["code"]) == (404, "not_found")
    assert f"`{path}` is not served here; available: `POST /v1/responses`, " in error["message"]
    assert detail in error["message"]


@pytest.mark.parametrize(("path", "status"), [("/v1/responses", 426), ("/v1/models", 200), ("/v1/embeddings", 404)])
async def test_a_websocket_is_refused_where_a_post_is_served(serve: Any, path: str, status: int) -> None:
    answer = await serve().get(
        path,
        connection="Upgrade",
        upgrade="websocket",
        sec_websocket_version="13",
        sec_websocket_key="aGVyb25zIG5lc3QgaGU=",
    )
    await answer.rest()
    assert (answer.status, answer.headers.get("upgrade")) == (status, "HTTP/1.1" if status == 426 else None)


async def test_without_a_passthrough_route_nothing_is_served(serve: Any) -> None:
    for path, detail in (
        ("/v1/models", "the OpenAI API, name an upstream in the table `[passthrough]`"),
        ("/v1/chat/completions", "it, set `passthrough.chat_completions` to the name of an upstream"),
    ):
        answer = await serve(passthrough={}).get(path)
        error = json.loads(await answer.rest())["error"]
        assert (answer.status, error["message"]) == (404, f"`{path}` is not served here. To serve {detail}.")
