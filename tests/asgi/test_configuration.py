"""Configuration files, variables and flags: precedence, validation errors, printing."""

from __future__ import annotations

import base64
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

from projector import cli
from projector.redaction.policy import Policy
from projector.server.config.config_dump import to_toml
from projector.server.config.loading import SettingsError, load, read
from projector.server.config.settings import Settings

FILE = """
port = 9001

[timeouts]
idle_s = 60

[upstreams.openai]
api_key = "${OPENAI_API_KEY}"

[upstreams.local]
api = "openai_chat"
base_url = "http://localhost:11434/v1"
api_key_file = "key"
timeouts.first_byte_s = 300
profile.takes_stream_options = false

[agents.helper]
upstream = "openai"
model = "gpt-5.4-mini"
instructions_file = "helper.md"
tools = [{ type = "mcp", server_label = "a b", authorization = "${MCP_TOKEN}" }]
parameters = { temperature = 0.5 }
allowed_params = ["temperature", "images"]
policy.registered = [{ id = "vault", value = "${MCP_TOKEN}" }]

[passthrough]
chat_completions = "local"
"""
AZURE = "https://RESOURCE.openai.azure.com/openai/v1"
HASH = f"sha256:{64 * '0'}"
ENVIRON = {
    "OPENAI_API_KEY": "sk-of-the-environment",
    "MCP_TOKEN": "mcp-token-of-the-environment",
    "NOT_EXPANDED": "${A}",
}


@pytest.fixture
def written(tmp_path: Path) -> Any:
    """Return a function that writes a configuration and the files that it refers to."""
    (tmp_path / "key").write_text("sk-of-a-file\n", encoding="utf-8")
    (tmp_path / "helper.md").write_text("Be short.\n", encoding="utf-8")

    def write(text: str = FILE) -> Path:
        file = tmp_path / "projector.toml"
        file.write_text(text, encoding="utf-8")
        return file

    return write


def test_a_file_names_upstreams_and_agents(written: Any) -> None:
    settings = load(ENVIRON, config=written())
    openai, local, helper = settings.upstreams["openai"], settings.upstreams["local"], settings.agents["helper"]
    assert openai.api_key is not None
    assert openai.api_key.get_secret_value() == "sk-of-the-environment"
    assert local.api_key is not None
    assert local.api_key.get_secret_value() == "sk-of-a-file"
    assert helper.instructions == "Be short."
    assert helper.tools[0]["authorization"] == "mcp-token-of-the-environment"
    assert (settings.timeouts_of(openai).idle_s, settings.timeouts_of(local).idle_s) == (60, 60)
    assert (settings.timeouts_of(openai).first_byte_s, settings.timeouts_of(local).first_byte_s) == (120, 300)


@pytest.mark.parametrize(
    ("environ", "flags", "port"),
    [
        ({}, {}, 9001),
        ({"PROJECTOR_PORT": "9002"}, {}, 9002),
        ({"PROJECTOR_PORT": "9002"}, {"port": 9003}, 9003),
        ({"PROJECTOR_PORT": ""}, {"port": None}, 9001),
    ],
)
def test_flags_win_over_variables_over_the_file(
    written: Any, environ: dict[str, str], flags: dict[str, object], port: int
) -> None:
    assert load(ENVIRON | environ, flags, written()).port == port


def test_variables_reach_into_named_tables(written: Any) -> None:
    environ = {
        "PROJECTOR_AGENTS__HELPER__MODEL": "gpt-other",
        "PROJECTOR_AGENTS__HELPER__ALLOWED_PARAMS": '["top_p"]',
        "PROJECTOR_AGENTS__HELPER__POLICY": '{"images": "host"}',
        "PROJECTOR_UPSTREAMS__LOCAL__TIMEOUTS__IDLE_S": "7",
    }
    settings = load(ENVIRON | environ, config=written())
    helper = settings.agents["helper"]
    assert (helper.model, helper.allowed_params, helper.policy.images) == ("gpt-other", {"top_p"}, "host")
    assert settings.timeouts_of(settings.upstreams["local"]).idle_s == 7
    named = load(ENVIRON | {"PROJECTOR_AGENTS__HELPER__POLICY": "strict"}, config=written())
    assert named.agents["helper"].policy == Policy.named("strict")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            '[passthrough.policy]\nregistered = [{ value = "${NOT_THERE}" }]',
            "`passthrough.policy.registered[0].value`: the variable NOT_THERE is not set",
        ),
        (
            '[auth.jwt]\nissuer = "a"\naudience = "a"\njwks_file = "none"',
            "`auth.jwt.jwks_file`: none: not found",
        ),
    ],
)
def test_a_setting_that_is_not_there_is_one_problem(tmp_path: Path, text: str, problem: str) -> None:
    config = tmp_path / "projector.toml"
    config.write_text(text)
    with pytest.raises(SettingsError) as caught:
        load(ENVIRON, config=config)
    assert str(caught.value).replace(f"{tmp_path}/", "") == f"projector.toml: {problem}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot = 1", "`prot` is unknown; did you mean `port`?"),
        ("[timeout]\nidle_s = 1", "`timeout` is unknown; did you mean `timeouts`?"),
        ("[timeouts]\nidel_s = 1", "`timeouts.idel_s` is unknown; did you mean `timeouts.idle_s`?"),
        (
            '[agents.a]\nupstream = "default"\nmodle = "secret"',
            "`agents.a.modle` is unknown; did you mean `agents.a.model`?",
        ),
        ("agents = 3", "projector.toml: `agents` must be a table"),
        ("port = 70000", "projector.toml: `port` must be at most 65535"),
        ('[upstreams.a]\napi_key = "sk-in-the-file"', "`upstreams.a.api_key`: expected a variable as `${NAME}`, or"),
        (
            '[upstreams.a]\napi_key = "${NOT_THERE}"',
            "projector.toml: `upstreams.a.api_key`: the variable NOT_THERE is not set",
        ),
        ("timeouts = 30", "projector.toml: `timeouts` must be a table"),
        (
            "[passthrough]\nchat_completions = true",
            "`passthrough.chat_completions`: expected a name, or a list of names",
        ),
        ("[callers.default]\nagents = true", "`callers.default.agents`: expected a name, or a list of names"),
        ('[upstreams.a]\napi_key_file = "none"', "projector.toml: `upstreams.a.api_key_file`: "),
        ('[upstreams.a]\napi_key_file = "none"', "/none: not found"),
        (
            '[upstreams.a]\napi_key = "${MCP_TOKEN}"\napi_key_file = "key"',
            "projector.toml: `upstreams.a.api_key_file`: cannot be combined with `api_key`",
        ),
        (
            '[passthrough.policy]\nregistered = [{ value = "${NOT_EXPANDED}" }]',
            "`passthrough.policy.registered[0]`: expected the value itself: a reference such as `${NAME}` is replaced",
        ),
        ("[upstreams.a]\napi = {}", "`upstreams.a.api` must be a string"),
        ('[upstreams.a]\napi = "telepathy"', "`upstreams.a.api`: unknown api `telepathy`; known: `openai_"),
        ('[upstreams.a]\nbase_url = "https://me:secret@host/v1"', "`upstreams.a.base_url`: "),
        (
            '[upstreams.a]\nbase_url = "http://host:secret/v1"',
            "`upstreams.a.base_url`: expected http:// or https://, a host",
        ),
        (
            '[upstreams.a]\nbase_url = "http://host:99999/v1"',
            "`upstreams.a.base_url`: expected http:// or https://, a host",
        ),
        ('[upstreams.a]\nbase_url = "http:///v1"', "`upstreams.a.base_url`: expected http:// or https://, a host"),
        ('[upstreams.a]\nbase_url = "http://[::1/v1"', "`upstreams.a.base_url`: expected http:// or https://, a host"),
        (
            '[upstreams.a]\nbase_url = "http://1.2.3.999"',
            "`upstreams.a.base_url`: expected http:// or https://, a host",
        ),
        (
            '[upstreams.a]\nbase_url = "http://models..internal"',
            "`upstreams.a.base_url`: expected http:// or https://, a host",
        ),
        (
            '[upstreams.a]\nbase_url = "http://' + 64 * "m" + '.internal"',
            "`upstreams.a.base_url`: expected http:// or https://, a host",
        ),
        (
            '[upstreams.a]\nbase_url = "http://a\\u007fb"',
            "`upstreams.a.base_url`: expected http:// or https://, a host",
        ),
        ('[upstreams.a]\nproxy = "http://me:secret@host:port"', "`upstreams.a.proxy`: expected http://host:port"),
        ("[upstreams.a]\nprofile.takes_options = 1", "profile of `openai_responses`"),
        ('[agents.a]\nupstream = "b"\nmodel = "m"', "projector.toml: unknown upstream of agent `a`: `b`; no up"),
        ('[agents.a]\nupstream = "default"\nmodel = "m"\ndialects = ["x"]', "unknown dialect `x`; known: "),
        (
            '[agents.a]\nupstream = "default"\nmodel = "m"\npolicy.image = "host"',
            "did you mean `agents.a.policy.images`",
        ),
        ('[agents.a]\nupstream = "default"\nmodel = "m"\nparameters.tools = []', "`tools` cannot be set here"),
        ('[agents."A b"]\nupstream = "default"\nmodel = "m"', "`agents.A b`: expected a name of at most 64 char"),
        ('[auth.api_keys]\na = "secret-key"', "`auth.api_keys.a`: expected the hash of a key: `sha256:` and"),
        (f'[auth.api_keys]\na = "${{KEY}} {HASH}"', "`auth.api_keys.a`: a reference must be the whole value, "),
        ('[store]\nkind = "redis"\nurl = "redis://:${A}@host"', "`store.url`: a reference must be the whole value, as"),
        ('[agents.a]\nmodel = "m${A}"', "`agents.a.model`: a reference must be the whole value, as `${NAME}`: put the"),
        (
            '[agents.a]\nmodel = "m"\ntools = [{ type = "mcp", authorization = "Bearer ${A}" }]',
            "`agents.a.tools[0].authorization`: a reference must be the whole value, as `${NAME}`",
        ),
        ('cors_origins = ["https://${A:-a.example}"]', "`cors_origins[0]`: expected a reference as `${NAME}`, w"),
        ('base_url = "${A:-http://a/v1}"', "`base_url`: expected a reference as `${NAME}`, without a default"),
        (
            '[upstreams.a]\nheaders = { x-team = "${A:-secret}" }',
            "`upstreams.a.headers.x-team`: expected a reference as",
        ),
        (
            '[upstreams.a]\nquery = { api-version = "v${A:?}" }',
            "`upstreams.a.query.api-version`: expected a reference as",
        ),
        ('[upstreams.a]\nheaders = { x-team = "${A B}" }', "`upstreams.a.headers.x-team`: expected a reference as"),
        (
            '[upstreams.a]\napi_key = "${MCP_TOKEN:-secret}"',
            "`upstreams.a.api_key`: expected a variable as `${NAME}`, or",
        ),
        (
            '[agents.a]\ninstructions = "${PROMPT:-Be brief}"',
            "`agents.a.instructions`: expected a reference as `${NAME}`",
        ),
        ('[auth.jwt]\nissuer = "i"\naudience = "a"\njwks = "secret"', "`auth.jwt.jwks`: expected a JSON Web Key Set"),
        ('[auth.jwt]\nissuer = "i"\naudience = "a"\njwks = "[]"', "`auth.jwt.jwks`: expected a JSON Web Key Set"),
        ('cors_origins = ["https://secret.example/"]', "`cors_origins[0]`: expected an origin such as https://app."),
        ('[passthrough]\nresponses = "a"', "`a`; no upstreams are configured: add `[upstreams.a]`"),
        ('model = "m"\n[upstreams.a]', "`model` cannot be combined with `upstreams`: it belongs in `[agents.NAME]`"),
        (
            'api_key_file = "key"\n[upstreams.a]',
            "`api_key_file` cannot be combined with `upstreams`: it belongs in `[upstreams.a]`",
        ),
        (
            "port = secret-value",
            'invalid TOML at line 1, column 8: invalid value; a text needs straight quotes: `"..."`',
        ),
        (
            '[agents.a]\nmodel = "m"\n\n[ agents."a" ]  # again\nmodel = "m"',
            "invalid TOML at line 4, column 14: it is already written above",
        ),
        ('[upstreams.a]\napi = "openai_chat"\nheartbeat_s = 5', "`heartbeat_s` is a setting without a table, and"),
        ('[agents.a]\ntargets = [{ upstream = "b", model = 1 }]', "`agents.a.targets[0].model` must be a string"),
        (f'[auth.api_keys]\na = "{HASH}"\nport = 1', "`auth.api_keys.port` must be a string; `port` is a setting wi"),
        (
            f'# base_url = "{AZURE}"\n[upstreams.a]\nbase_url = "{AZURE}"',
            "`upstreams.a.base_url`: has the placeholder RESOURCE: replace it",
        ),
        (
            '[agents.a]\ntargets = [\n{ upstream = "a", model = "m" },\n{ upstream = "a", model = "DEPLOYMENT" }]',
            "`agents.a.targets[1].model`: has the placeholder DEPLOYMENT: replace it",
        ),
        (
            '[upstreams.a]\nbase_url = "https://models.example/v1/chat/completions"',
            "`upstreams.a.base_url`: expected the base of the API, without `/chat/completions`",
        ),
        ("[openwp]\nconformance = true", "`openwp` is unknown; did you mean `openwop`?"),
        ("[openwop]\nconformnce = true", "`openwop.conformnce` is unknown; did you mean `openwop.conformance`?"),
        ("[openwop]\nmax_runs = 0", "`openwop.max_runs` must be greater than 0"),
    ],
)
def test_invalid_settings_are_rejected_by_path(written: Any, text: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(ENVIRON, config=written(text))
    assert message in str(caught.value)
    assert "JSON" not in str(caught.value).replace("JSON Web", "")
    assert ("without a table" in str(caught.value)) == ("without a table" in message or "; `port`" in message)
    assert "secret" not in str(caught.value)


def test_texts_for_a_model_may_have_what_looks_like_a_reference(written: Any) -> None:
    text = (
        '[upstreams.a]\n[agents.a]\nupstream = "a"\nmodel = "m"\ninstructions = "Write $0 as ${HOME}/bin."\n'
        'parameters = { stop = ["${A} b"] }\ntools = [{ type = "function", name = "f", description = "${A} b" }]'
    )
    agent = load({}, config=written(text)).agents["a"]
    assert agent.instructions == "Write $0 as ${HOME}/bin."
    assert agent.parameters == {"stop": ["${A} b"]}
    assert agent.tools[0]["description"] == "${A} b"


MISTAKES: Final = f"""
    [upstreams.one]
    [agents.a]
    upstream = "two"
    model = "m"
    [agents.b]
    upstream = "one"
    model = "m"
    dialects = ["openwop"]
    [models.m]
    targets = [{{ upstream = "three", model = "m" }}]
    [passthrough]
    responses = "four"
    [auth.api_keys]
    x = "{HASH}"
    [callers."key:x"]
    agents = ["c", "d"]
    routes = ["chats"]
    [callers."token:y"]
"""


def test_every_rule_between_settings_is_reported(written: Any) -> None:
    with pytest.raises(SettingsError) as caught:
        load({}, config=written(MISTAKES))
    lines = str(caught.value).splitlines()
    expected = (
        "unknown upstream of agent `a`: `two`",
        "unknown upstream of model `m`: `three`",
        "agent `b`: the dialect `openwop` requires the table `openwop`",
        "unknown upstream of `passthrough.responses`: `four`",
        "unknown name in `agents` of caller `key:x`: `c`",
        "unknown name in `agents` of caller `key:x`: `d`",
        "unknown name in `routes` of caller `key:x`: `chats`",
        "unknown caller `token:y`",
    )
    assert len(lines) == len(expected)
    for line, sentence in zip(lines, expected, strict=True):
        assert f"projector.toml: {sentence}" in line


@pytest.mark.parametrize("key", ["secret\nkey", "secr\u00e9t", "secret key"])
def test_a_key_that_is_no_header_value_is_rejected(written: Any, tmp_path: Path, key: str) -> None:
    (tmp_path / "odd").write_text(key, encoding="utf-8")
    for environ, config, place in (
        ({"ODD": key}, '[upstreams.a]\napi_key = "${ODD}"', "projector.toml: `upstreams.a.api_key`: "),
        ({}, '[upstreams.a]\napi_key_file = "odd"', "projector.toml: `upstreams.a.api_key`: "),
        ({"OPENAI_API_KEY": key}, "port = 1", "`OPENAI_API_KEY`: "),
    ):
        with pytest.raises(SettingsError) as caught:
            load(environ, config=written(config))
        assert f"{place}expected printable ASCII" in str(caught.value)
        assert "secr" not in str(caught.value)


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"PROJECTOR_AGENT__A__MODEL": "m"}, "; did you mean `PROJECTOR_AGENTS__A__MODEL`?"),
        ({"PROJECTOR_AGENTS__A__MODLE": "m"}, "; did you mean `PROJECTOR_AGENTS__A__MODEL`?"),
        ({"PROJECTOR_OPENWOP__CONFORMNCE": "1"}, "; did you mean `PROJECTOR_OPENWOP__CONFORMANCE`?"),
        ({"PROJECTOR_API_KEY_FILE": "none"}, "`PROJECTOR_API_KEY_FILE`: none: not found"),
        ({"PROJECTOR_AGENTS__A__TOOLS": "[secret"}, "`PROJECTOR_AGENTS__A__TOOLS`: expected JSON"),
        (
            {"PROJECTOR_CORS_ORIGINS": "https://secret"},
            '`PROJECTOR_CORS_ORIGINS` must be a list in JSON, as `["a", "b"]`',
        ),
        ({"PROJECTOR_MODELS__A__TARGETS": "secret"}, "`PROJECTOR_MODELS__A__TARGETS` must be a list in JSON, as"),
        ({"PROJECTOR_AGENTS__A__ALLOWED_PARAMS": '["secret"]'}, "`PROJECTOR_AGENTS__A__ALLOWED_PARAMS` must be"),
    ],
)
def test_invalid_variables_are_rejected(environ: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(environ)
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_file_that_is_not_utf_8_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(b"\xff")
    with pytest.raises(SettingsError, match="expected UTF-8"):
        load({}, config=tmp_path / "a.toml")


def test_a_route_that_the_default_upstream_cannot_serve_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as one of a provider that reads no request of its clients, which is only forwarded."""
    monkeypatch.setattr("projector.server.config.settings.can_serve", str.__eq__)
    assert {route: Settings().passthrough_upstreams(route) for route in ("responses", "messages")} == {
        "responses": ("default",),
        "messages": (),
    }


def test_passthrough_routes_are_on_without_a_file_and_off_with_one(written: Any) -> None:
    assert load({}).passthrough is None
    passthrough = load({}, config=written("port = 1")).passthrough
    assert passthrough is not None
    assert (passthrough.responses, passthrough.chat_completions) == (None, None)


def test_a_file_has_a_key_in_each_line(written: Any, tmp_path: Path) -> None:
    new, old = (base64.b64encode(byte * 32).decode() for byte in (b"n", b"o"))
    (tmp_path / "keys").write_text(f"{new}\n{old}\n")
    loaded = read({}, config=written('state_encryption_keys_file = "keys"\n[store]\nencryption_keys_file = "keys"'))
    for keys in (loaded.settings.state_encryption_keys, loaded.settings.store.encryption_keys):
        assert [key.get_secret_value() for key in keys] == [new, old]
    assert new not in to_toml(loaded)


@pytest.mark.parametrize("text", ["", "\n\n"])
@pytest.mark.parametrize("table", ["", "store"])
def test_a_file_of_keys_without_a_key_is_rejected(written: Any, tmp_path: Path, table: str, text: str) -> None:
    """Nothing would be encrypted, without a word of it."""
    (tmp_path / "keys").write_text(text)
    name = "encryption_keys_file" if table else "state_encryption_keys_file"
    with pytest.raises(SettingsError, match=f"{name}`: .*keys is empty"):
        load({}, config=written(f'{f"[{table}]" if table else ""}\n{name} = "keys"\n'))
    with pytest.raises(SettingsError, match=f"{name.upper()}`: .*keys is empty"):
        load({f"PROJECTOR_{f'{table.upper()}__' if table else ''}{name.upper()}": str(tmp_path / "keys")})


def test_printed_settings_contain_no_secret(written: Any) -> None:
    text = to_toml(read(ENVIRON | {"PROJECTOR_UPSTREAMS__LOCAL__PROFILE": "{}"}, config=written()))
    assert "sk-of" not in text
    assert "mcp-token" not in text
    assert 'api_key = "${OPENAI_API_KEY}"' in text
    assert 'value = "${MCP_TOKEN}"' in text
    assert 'api_key_file = "key"' in text
    assert "first_byte_s = 300.0" in text


def test_a_reference_overridden_by_a_variable_is_printed_as_its_value(written: Any) -> None:
    variables = {
        "PROJECTOR_UPSTREAMS__OPENAI__API_KEY": "sk-of-the-variable",
        "PROJECTOR_AGENTS__HELPER__TOOLS": "[]",
        "PROJECTOR_AGENTS__HELPER__POLICY": "{}",
    }
    text = to_toml(read(ENVIRON | variables, config=written()))
    shown_again = tomllib.loads(text)
    assert shown_again["upstreams"]["openai"]["api_key"] == "**********"
    assert shown_again["agents"]["helper"]["tools"] == []
    assert "${" not in text


def test_a_reference_overridden_by_a_flag_is_printed_as_its_value(written: Any) -> None:
    text = to_toml(read({"HERE": "::1"}, {"host": "127.0.0.1"}, written('host = "${HERE}"')))
    assert tomllib.loads(text)["host"] == "127.0.0.1"


def test_printed_settings_can_be_read_again(written: Any) -> None:
    text = FILE.replace('authorization = "${MCP_TOKEN}"', 'note = "\\u007f \\"x\\""')
    loaded = read(ENVIRON, config=written(text))
    again = read(ENVIRON, config=written(to_toml(loaded)))
    assert again.settings.agents == loaded.settings.agents
    assert again.settings.upstreams.keys() == loaded.settings.upstreams.keys()
    assert again.settings.timeouts == loaded.settings.timeouts


def test_defaults_are_printed() -> None:
    assert tomllib.loads(to_toml(read({})))["port"] == Settings().port


@pytest.mark.parametrize(
    ("command", "text", "status", "output"),
    [
        ("check", "port = 1", 0, "Configuration is valid.\n"),
        ("print", "port = 1", 0, "\nport = 1\n"),
        ("check", "prot = 1", 2, "projector.toml: `prot` is unknown; did you mean `port`?\n"),
    ],
)
def test_the_commands(
    written: Any, capsys: pytest.CaptureFixture[str], command: str, text: str, status: int, output: str
) -> None:
    assert cli.main(["config", command, str(written(text))]) == status
    out, err = capsys.readouterr()
    assert output in out + err
