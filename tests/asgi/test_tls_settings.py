"""TLS settings: `config check` and a start refuse unusable files with one message, and warn of what works for now."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from projector.cli import main
from projector.server import process
from projector.server.config.loading import load
from projector.server.config.preflight import warnings
from projector.server.config.settings import Settings
from projector.server.tls import certificate_ends, certificate_warnings
from tests.asgi.certificates import Authority

PASSWORD = "open sesame"
UPSTREAM = '[passthrough]\nresponses = "one"\n[upstreams.one]\nbase_url = "https://one.example/v1"\n'
STORE = '[store]\nkind = "redis"\nurl = "rediss://redis.example:6379"\n'
TOKENS = '[auth.jwt]\nissuer = "a"\naudience = "b"\njwks_url = "https://a.example/keys"\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with good and bad files."""
    authority = Authority(tmp_path)
    authority.issue("good")
    authority.issue("other")
    authority.issue("hidden", password=PASSWORD)
    cert_file, key_file = authority.issue("joined")
    cert_file.write_bytes(cert_file.read_bytes() + key_file.read_bytes())
    (tmp_path / "none.pem").write_text("")
    (tmp_path / "text.pem").write_text("-----BEGIN CERTIFICATE-----\nno certificate\n-----END CERTIFICATE-----\n")
    (tmp_path / "password").write_text(PASSWORD + "\n")
    (tmp_path / "wrong").write_text("another\n")
    for name in [name for name in os.environ if name.startswith(("PROJECTOR_", "OPENAI_"))]:
        monkeypatch.delenv(name)
    return tmp_path


Run = Callable[[str], tuple[int, str]]


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Check a configuration, and start a server with it; return the exit code, and what the check printed."""
    monkeypatch.setattr(process, "run", lambda *_args, **_named: 0)

    def run(text: str) -> tuple[int, str]:
        file = folder / "projector.toml"
        file.write_text(text)
        checked, printed = main(["config", "check", str(file)]), capsys.readouterr().err
        assert main(["serve", "--config", str(file)]) == checked
        if checked:
            assert capsys.readouterr().err.splitlines()[-1] == printed.splitlines()[-1]
        return checked, printed

    return run


OWN = [
    ('cert_file = "missing.pem"', "/missing.pem: not found"),
    ('cert_file = "."', ": cannot be read: Is a directory"),
    ('cert_file = "none.pem"', "`{path}.cert_file`: expected a certificate in PEM format"),
    ('cert_file = "text.pem"', "`{path}.cert_file`: expected a certificate in PEM format"),
    ('cert_file = "good.key"', "`{path}.cert_file`: expected a certificate in PEM format"),
    ('cert_file = "good.crt"', "`{path}.cert_file`: expected a private key in PEM format"),
    ('cert_file = "good.crt"\nkey_file = "missing.key"', "/missing.key: not found"),
    ('cert_file = "good.crt"\nkey_file = "text.pem"', "`{path}.key_file`: expected a private key in PEM format"),
    ('cert_file = "good.crt"\nkey_file = "other.key"', "`{path}.key_file`: the private key does not belong to the"),
    ('cert_file = "hidden.crt"\nkey_file = "hidden.key"', "`{path}.key_file`: the private key needs `key_password"),
    ('cert_file = "hidden.crt"\nkey_file = "hidden.key"\nkey_password_file = "wrong"', "`{path}.key_file`: expected a"),
    ('cert_file = "good.crt"\nkey_file = "good.key"\nkey_password_file = "password"', "the private key has no passw"),
    ('cert_file = "good.crt"\nkey_password_file = "missing"', "/missing: not found"),
    ('cert_file = "joined.crt"\nkey_password = "secret"', "`{path}.key_password`: expected a variable as `${{NAME}}`"),
    ('cert_file = "joined.crt"\nmin_version = "1.1"', "`{path}.min_version` must be '1.2' or '1.3'"),
    ('cert_file = "joined.crt"\nkey_files = "a"', "`{path}.key_files` is unknown; did you mean `{path}.key_file`?"),
    ('key_file = "good.key"', "`{path}"),
]
"""Members of a table with a certificate -> the message."""
GOOD = [
    'cert_file = "joined.crt"',
    'cert_file = "good.crt"\nkey_file = "good.key"\nmin_version = "1.3"',
    'cert_file = "hidden.crt"\nkey_file = "hidden.key"\nkey_password_file = "password"',
]
TABLES = {"tls": "[tls]\n", "upstreams.one.tls": UPSTREAM + "[upstreams.one.tls]\n"}


@pytest.mark.parametrize("path", TABLES)
@pytest.mark.parametrize(("members", "message"), OWN)
def test_a_certificate_that_cannot_be_used(run: Run, path: str, members: str, message: str) -> None:
    code, printed = run(TABLES[path] + members)
    assert code == 2
    assert message.format(path=path) in printed


@pytest.mark.parametrize("path", TABLES)
@pytest.mark.parametrize("members", GOOD)
def test_a_certificate_that_can_be_used(run: Run, monkeypatch: pytest.MonkeyPatch, path: str, members: str) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-a-test-key")  # without it there is a warning
    assert run(TABLES[path] + members) == (0, "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (UPSTREAM + 'tls.ca_file = "missing.pem"', "missing.pem: not found"),
        (UPSTREAM + 'tls.ca_file = "text.pem"', "`upstreams.one.tls.ca_file`: expected a certificate in PEM format"),
        (UPSTREAM.replace("https", "http") + 'tls.min_version = "1.3"', "`tls` has no effect, because `base_url`"),
        (TOKENS + 'ca_file = "none.pem"', "`auth.jwt.ca_file`: expected a certificate in PEM format"),
        (STORE + 'ca_file = "missing.pem"', "`store.ca_file`: "),
        (STORE + 'ca_file = "text.pem"', "`store.ca_file`: expected a certificate in PEM format"),
        (STORE.replace("rediss", "redis") + 'ca_file = "authority.pem"', "`ca_file` has no effect, because `url`"),
        (TOKENS.replace("https", "http") + 'ca_file = "authority.pem"', "`ca_file` has no effect, because `jwks_url`"),
    ],
)
def test_authorities_that_cannot_be_used(run: Run, text: str, message: str) -> None:
    code, printed = run(text)
    assert (code, message in printed) == (2, True), printed


def test_authorities_that_can_be_used(run: Run) -> None:
    assert run(UPSTREAM + 'tls.ca_file = "authority.pem"\n' + TOKENS + 'ca_file = "authority.pem"') == (0, "")


def test_a_store_without_a_connection_needs_no_authorities(run: Run) -> None:
    assert run(UPSTREAM + '[store]\nca_file = "missing.pem"\n') == (0, "")


def test_tables_are_printed_without_secrets(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, again = folder / "projector.toml", folder / "again.toml"
    file.write_text("".join(f"{table}{GOOD[2]}\n" for table in TABLES.values()) + "[admin]\nport = 9000\n")
    assert main(["config", "print", str(file)]) == 0
    text = capsys.readouterr().out
    assert PASSWORD not in text
    assert text.count('key_password_file = "') == len(TABLES)
    assert '[admin]\nhost = "127.0.0.1"\nport = 9000\n' in text
    again.write_text(text)
    one, other = load({}, config=file), load({}, config=again)
    assert (one.tls, one.admin, one.upstreams) == (other.tls, other.admin, other.upstreams)


# what works, for now


@pytest.mark.parametrize(
    ("days", "reason"),
    [
        (-3, "is not valid before"),
        (0, ""),
        (85, ""),
        (87, "expires on"),
        (99, "expires on"),
        (101, "expired on"),
    ],
)
def test_the_time_of_a_certificate(folder: Path, days: int, reason: str) -> None:
    cert_file, _ = Authority(folder, "short").issue("short", valid_days=100)
    tls = Settings(upstreams={"one": {"tls": {"cert_file": cert_file}}}).upstreams["one"].tls
    found = list(certificate_warnings(tls, "tls", datetime.now(UTC) + timedelta(days=days)))
    assert [f"`tls.cert_file`: the certificate {reason}" in one for one in found] == [True] * bool(reason)


def test_authorities_of_which_one_is_valid(folder: Path) -> None:
    tls = Settings(upstreams={"one": {"tls": {"ca_file": folder / "authority.pem"}}}).upstreams["one"].tls
    later = datetime.now(UTC) + timedelta(days=401)
    (warning,) = certificate_warnings(tls, "tls", later)
    assert warning.startswith("`tls.ca_file`: the certificate expired on ")
    longer, _ = Authority(folder, "longer").issue("longer", valid_days=800)
    (folder / "authority.pem").write_bytes((folder / "authority.pem").read_bytes() + longer.read_bytes())
    assert list(certificate_warnings(tls, "tls", later)) == []
    [(name, end_s)] = certificate_ends(tls, "tls")
    assert (name, end_s > later.timestamp()) == ("tls.ca_file", True)


PLAIN = "the key is sent unencrypted"


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"base_url": "http://10.0.0.7:8000/v1", "api_key": "sk-a-test-key"}, [PLAIN]),
        ({"base_url": "http://llm.models.svc.cluster.local/v1", "api_key": "sk-a-test-key"}, [PLAIN]),
        ({"base_url": "http://a.example/v1", "headers": {"authorization": "Bearer sk-a-test-key"}}, [PLAIN]),
        ({"base_url": "http://a.example/v1", "headers": {"x-team": "search"}}, []),
        ({"base_url": "http://a.example/v1", "query": {"code": "sk-a-test-key"}}, [PLAIN]),
        ({"base_url": "http://a.example/v1"}, []),
        ({"base_url": "https://a.example/v1", "api_key": "sk-a-test-key"}, []),
        ({"base_url": "http://localhost:11434/v1", "api_key": "sk-a-test-key"}, []),
        ({"base_url": "http://127.0.0.2:11434/v1", "api_key": "sk-a-test-key"}, []),
        ({"base_url": "http://[::1]:11434/v1", "api_key": "sk-a-test-key"}, []),
    ],
)
def test_a_key_over_plain_http(members: dict[str, object], expected: list[str]) -> None:
    settings = {"upstreams": {"one": members}, "passthrough": {"responses": "one"}}
    found = list(warnings(Settings.model_validate(settings)))
    assert [one.partition(": ")[2].partition(";")[0] for one in found] == expected
    if members.keys() <= {"base_url", "api_key"}:
        found = list(warnings(Settings.model_validate(members)))
        assert [one.partition(";")[0] for one in found] == [f"`base_url`: {one}" for one in expected]


@pytest.mark.parametrize(
    ("environ", "members", "is_unused"),
    [
        ({"HTTPS_PROXY": "http://proxy:3128"}, {}, True),
        ({"https_proxy": "http://proxy:3128"}, {}, True),
        ({"HTTPS_PROXY": "http://proxy:3128"}, {"proxy": "http://other:3128"}, False),
        ({"HTTPS_PROXY": "http://proxy:3128"}, {"base_url": "http://localhost:11434/v1"}, False),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": ".example"}, {}, False),
        ({"HTTPS_PROXY": ""}, {}, False),
    ],
)
def test_a_variable_with_a_proxy_is_not_read(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], members: dict[str, str], *, is_unused: bool
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    one = {"base_url": "https://a.example/v1", "api_key": "sk-a-test-key", **members}
    found = list(warnings(Settings.model_validate({"upstreams": {"one": one}, "passthrough": {"responses": "one"}})))
    expected = "`upstreams.one.proxy` is not set, and the variable HTTPS_PROXY is not read: a.example is asked directly"
    assert found == [expected] * is_unused


def test_signing_keys_over_plain_http() -> None:
    jwt = {"issuer": "a", "audience": "b", "jwks_url": "http://a.example/keys"}
    (warning,) = warnings(Settings.model_validate({"api_key": "sk-a-test-key", "auth": {"jwt": jwt}}))
    assert warning.startswith("`auth.jwt.jwks_url`: the keys are fetched unencrypted")


def test_signing_keys_without_the_proxy_of_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "api.openai.com")
    jwt = {"issuer": "a", "audience": "b", "jwks_url": "https://a.example/keys"}
    (warning,) = warnings(Settings.model_validate({"api_key": "sk-a-test-key", "auth": {"jwt": jwt}}))
    assert warning.startswith("`auth.jwt.jwks_url`: the variable HTTPS_PROXY is not read")


def test_a_check_prints_warnings(run: Run, folder: Path) -> None:
    (folder / "key").write_text("sk-a-test-key")
    code, printed = run(UPSTREAM.replace("https", "http") + 'api_key_file = "key"')
    assert (code, printed) == (0, f"warning: `upstreams.one.base_url`: {PLAIN}; use https:// for another machine\n")
