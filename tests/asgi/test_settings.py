from __future__ import annotations

from pathlib import Path

import pytest

from projector.server.config.loading import SettingsError, load
from projector.server.config.settings import Settings

TIMEOUTS = ("CONNECT", "FIRST_BYTE", "IDLE", "TOTAL", "REQUEST_READ", "CLIENT_STALL_TIMEOUT")


def test_defaults() -> None:
    assert load({"PATH": "/bin", "HOME": "/"}) == Settings()
    assert Settings().host == "127.0.0.1"


@pytest.mark.parametrize(
    ("environ", "field", "value"),
    [
        ({"PROJECTOR_PORT": "9001"}, "port", 9001),
        ({"PROJECTOR_HOST": "::1"}, "host", "::1"),
        ({"PROJECTOR_MODEL": ""}, "model", Settings().model),
        ({"PROJECTOR_HEARTBEAT_S": "0.5"}, "heartbeat_s", 0.5),
        ({"PROJECTOR_TIMEOUTS__IDLE_S": "3"}, "timeouts.idle_s", 3),
        ({"PROJECTOR_LIMITS__MAX_BODY_BYTES": "100"}, "limits.max_body_bytes", 100),
        ({"OPENAI_BASE_URL": "http://localhost:1/v1"}, "base_url", "http://localhost:1/v1"),
        ({"OPENAI_BASE_URL": "http://a", "PROJECTOR_BASE_URL": "http://b"}, "base_url", "http://b"),
        ({"PROJECTOR_TESTS_REQUIRE": "node"}, "host", "127.0.0.1"),
    ],
)
def test_a_variable_sets_its_field(environ: dict[str, str], field: str, value: object) -> None:
    found: object = load(environ)
    for name in field.split("."):
        found = getattr(found, name)
    assert found == value


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"PROJECTOR_PROT": "1"}, "`PROJECTOR_PROT` is not a setting; did you mean `PROJECTOR_PORT`?"),
        ({"PROJECTOR_TIMEOUTS__IDEL_S": "1"}, "did you mean `PROJECTOR_TIMEOUTS__IDLE_S`?"),
        ({"PROJECTOR_TIMEOUTS": "1"}, "`PROJECTOR_TIMEOUTS` is not a setting"),
        ({"PROJECTOR_PORT": "http"}, "`PROJECTOR_PORT` must be a whole number"),
        ({"PROJECTOR_HEARTBEAT_S": "0"}, "`PROJECTOR_HEARTBEAT_S` must be greater than 0"),
        *(({f"PROJECTOR_TIMEOUTS__{name}_S": "inf"}, f"__{name}_S` must be at most 86400") for name in TIMEOUTS),
        ({"PROJECTOR_TIMEOUTS__CLIENT_STALL_TIMEOUT_S": "3000000"}, "__CLIENT_STALL_TIMEOUT_S` must be at most 86400"),
        ({"PROJECTOR_LIMITS__MAX_BODY_BYTES": "-1"}, "`PROJECTOR_LIMITS__MAX_BODY_BYTES` must be at least 100"),
        ({"OPENAI_BASE_URL": "ftp://x"}, "`OPENAI_BASE_URL`: expected http:// or https://"),
    ],
)
def test_invalid_variables_are_rejected_by_name(environ: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(environ)
    assert message in str(caught.value)


def test_a_key_is_never_printed() -> None:
    settings = load({"OPENAI_API_KEY": "sk-very-secret"})
    assert "sk-very-secret" not in repr(settings)
    assert "sk-very-secret" not in settings.model_dump_json()


def test_flags_take_precedence_unless_they_are_none() -> None:
    settings = load({"PROJECTOR_PORT": "1", "PROJECTOR_HOST": "::1"}, {"port": 2, "host": None})
    assert (settings.port, settings.host) == (2, "::1")
    with pytest.raises(SettingsError):
        load({}, {"port": 65536})


def test_every_problem_is_reported_at_once(tmp_path: Path) -> None:
    file = tmp_path / "projector.toml"
    file.write_text(
        """
prot = 1
host = 1
[upstreams.a]
base_url = "${NO_URL}"
api_key = "${NO_KEY}"
headers = { authorization = "secret-1" }
[upstreams.b]
api_key = "secret-2"
api_key_file = "none.txt"
timeouts.idle_s = "secret-3"
[agents.one]
upstream = "a"
model = "m"
policy.text = { email = "secret-4" }
[agents.two]
model = "m"
targets = "a"
"""
    )
    with pytest.raises(SettingsError) as caught:
        load({"PROJECTOR_PROT": "1", "PROJECTOR_CORS_ORIGINS": "[", "PROJECTOR_PORT": "secret-5"}, config=file)
    lines = str(caught.value).splitlines()
    assert sorted(lines) == sorted(
        [
            f"{file}: `upstreams.a.base_url`: the variable NO_URL is not set",
            f"{file}: `upstreams.a.api_key`: the variable NO_KEY is not set",
            f"{file}: `upstreams.a.headers.authorization`: expected a variable as `${{NAME}}`",
            f"{file}: `upstreams.b.api_key`: expected a variable as `${{NAME}}`, or `api_key_file`",
            f"{file}: `upstreams.b.timeouts.idle_s` must be a number",
            f"{file}: `agents.one.policy.text.email` must be 'mask', 'block', 'report' or 'off'",
            f"{file}: `agents.two.targets` must be a list",
            f"{file}: `prot` is unknown; did you mean `port`?",
            f"{file}: `host` must be a string",
            f"{file}: `upstreams.b.api_key_file`: cannot be combined with `api_key`",
            "`PROJECTOR_PROT` is not a setting; did you mean `PROJECTOR_PORT`?",
            "`PROJECTOR_CORS_ORIGINS`: expected JSON",
            "`PROJECTOR_PORT` must be a whole number",
        ]
    )
