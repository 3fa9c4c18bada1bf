"""Settings `headers` and `query` of an upstream: validation, printing, requests."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from projector.server.config.config_dump import to_toml
from projector.server.config.loading import SettingsError, load, read
from projector.server.config.settings import Settings
from projector.server.config.upstream_settings import OWNED_HEADERS, UpstreamSettings
from projector.server.upstream.recorder import secrets_of
from tests.asgi.conftest import plays

FILE = """
[upstreams.a]
headers = { api-key = "${KEY}", authorization = "Bearer ${TOKEN}", X-Title = "My app" }
query = { api-version = "preview", tenant = "${TENANT}" }
"""
ENVIRON = {"KEY": "key-of-the-environment", "TOKEN": "token-of-the-environment", "TENANT": "tenant-7"}


@pytest.fixture
def written(tmp_path: Path) -> Any:
    def write(text: str = FILE) -> Path:
        file = tmp_path / "projector.toml"
        file.write_text(text, encoding="utf-8")
        return file

    return write


def test_values_with_references_are_secrets(written: Any) -> None:
    settings = load(ENVIRON, config=written())
    one = settings.upstreams["a"]
    assert one.headers == {
        "api-key": SecretStr("key-of-the-environment"),
        "authorization": SecretStr("Bearer token-of-the-environment"),
        "X-Title": "My app",
    }
    assert one.query == {"api-version": "preview", "tenant": SecretStr("tenant-7")}
    registered = {row.value.get_secret_value() for row in secrets_of(settings)}
    assert registered == {*ENVIRON.values()}  # of `Bearer <token>` the token


def test_printed_settings_have_references_and_no_secret(written: Any) -> None:
    text = to_toml(read(ENVIRON, config=written()))
    assert tomllib.loads(text)["upstreams"]["a"]["headers"] == tomllib.loads(FILE)["upstreams"]["a"]["headers"]
    assert tomllib.loads(text)["upstreams"]["a"]["query"] == tomllib.loads(FILE)["upstreams"]["a"]["query"]
    assert not [value for value in ENVIRON.values() if value in text]


def test_values_of_a_variable_are_not_printed(written: Any) -> None:
    variables = {"PROJECTOR_UPSTREAMS__A__HEADERS": '{"X-Title": "My app", "x-team": "only-here"}'}
    loaded = read(ENVIRON | variables, config=written())
    assert loaded.settings.upstreams["a"].headers == {"X-Title": "My app", "x-team": "only-here"}
    text = to_toml(loaded)
    assert "My app" not in text
    assert "only-here" not in text
    assert tomllib.loads(text)["upstreams"]["a"]["query"]["tenant"] == "${TENANT}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('headers = { api-key = "literal-secret" }', "`upstreams.a.headers.api-key`: expected a variable as `${NAME}`"),
        ('headers = { Ocp-Apim-Subscription-Key = "literal-secret" }', "expected a variable as `${NAME}`"),
        ('query = { code = "literal-secret" }', "`upstreams.a.query.code`: expected a variable as `${NAME}`"),
        ('headers = { x = "${NOT_THERE}" }', "`upstreams.a.headers.x`: the variable NOT_THERE is not set"),
        ('headers = { Host = "secret.example" }', "`upstreams.a.headers`: `Host` cannot be set; the server sets it"),
        ('headers = { Content-Length = "3" }', "`Content-Length` cannot be set; the server sets it"),
        ('headers = { transfer-encoding = "chunked" }', "`transfer-encoding` cannot be set; the server sets it"),
        ('headers = { Connection = "close" }', "`Connection` cannot be set; the server sets it"),
        ('headers = { X-A = "1", x-a = "2" }', "`x-a` is given twice"),
        ('headers = { "a b" = "secret" }', "`upstreams.a.headers`: expected names of letters, digits and -"),
        ('headers = { "a\\r\\nb" = "secret" }', "`upstreams.a.headers`: expected names of letters, digits and -"),
        ('headers = { a = "secret\\r\\nhost: evil" }', "`upstreams.a.headers`: `a`: expected printable ASCII"),
        ('headers = { a = "secret\\n" }', "`a`: expected printable ASCII in one line"),
        ('headers = { a = "${BROKEN}" }', "`a`: expected printable ASCII in one line"),
        ('headers = { a = "" }', "`a`: expected printable ASCII in one line"),
        ('headers = { a = "secr\\u00e9t" }', "`a`: expected printable ASCII in one line"),
        ("headers = { a = 1 }", "`upstreams.a.headers.a` must be a string"),
        ('headers = "secret"', "`upstreams.a.headers` must be a table"),
        ('query = { "a b" = "secret" }', "`upstreams.a.query`: expected names of printable ASCII"),
        ('query = { a = "secret\\r\\n" }', "`upstreams.a.query`: `a`: expected printable text in one line"),
    ],
)  # fmt: skip
def test_invalid_values_are_rejected(written: Any, text: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(ENVIRON | {"BROKEN": "secret\r\nx: y"}, config=written(f"[upstreams.a]\n{text}"))
    assert message in str(caught.value)
    assert "secret" not in str(caught.value).replace("literal-secret", "")


@pytest.mark.parametrize("name", sorted(OWNED_HEADERS))
def test_no_header_of_the_server_can_be_set(name: str) -> None:
    with pytest.raises(ValidationError, match="the server sets it"):
        UpstreamSettings(headers={name.title(): "x"})


async def test_they_are_sent(serve: Any, upstream: Any, upstream_port: int, text_events: Any) -> None:
    provider = await upstream(plays([text_events[-1]]))
    azure = {
        "base_url": f"http://localhost:{upstream_port}/openai/deployments/gpt%204",
        "api_key": "sk-test",
        "headers": {"api-key": "azure-key", "Authorization": "Basic dTpw", "user-agent": "mine"},
        "query": {"api-version": "2024-10-21", "x": "a b&c=d/\u00e9"},
    }
    agents = {"helper": {"upstream": "azure", "model": "m"}}
    site = serve(api_key=None, base_url=None, upstreams={"azure": azure}, agents=agents)
    assert (await (await site.ask()).frames())[-1]["kind"] == "final"
    peer = await provider.peers.get()
    path = peer.head.split(b" ")[1].decode()
    assert path == "/openai/deployments/gpt%204/responses?api-version=2024-10-21&x=a+b%26c%3Dd/%C3%A9"
    assert peer.header(b"api-key") == b"azure-key"
    assert peer.header(b"user-agent") == b"mine"
    assert [line for line in peer.head.split(b"\r\n") if line.lower().startswith(b"authorization")] == [
        b"Authorization: Basic dTpw"
    ]


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("PROJECTOR_PASSTHROUGH__DIALECTS", '["openresponses"]', ("openresponses",)),
        ("PROJECTOR_PASSTHROUGH__DIALECTS", ' ["ag_ui", "openwop"]', ("ag_ui", "openwop")),
    ],
)
def test_an_optional_list_in_a_variable(name: str, text: str, value: object) -> None:
    passthrough = load({name: text}).passthrough
    assert passthrough is not None
    assert passthrough.dialects == value


def test_a_list_in_a_variable_that_is_no_json() -> None:
    with pytest.raises(SettingsError, match="`PROJECTOR_PASSTHROUGH__DIALECTS`: expected JSON"):
        load({"PROJECTOR_PASSTHROUGH__DIALECTS": '["openresponses"'})
    with pytest.raises(SettingsError, match="`PROJECTOR_PASSTHROUGH__DIALECTS` must be a list"):
        load({"PROJECTOR_PASSTHROUGH__DIALECTS": "openresponses"})


def test_the_defaults_add_nothing() -> None:
    assert secrets_of(Settings()) == []
