"""`config check` finds what would stop a start, and a start is refused with the same message."""

from __future__ import annotations

import contextlib
import os
import socket
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from projector.cli import main
from projector.server import process
from projector.server.config.settings import Settings
from projector.server.listening import listen

SERVED = '[passthrough]\nresponses = "a"\n[upstreams.a]\n'
CALLERS = '[auth.jwt]\nissuer = "https://a.example"\naudience = "b"\njwks_file = "keys.json"\n'
AGENT = '[upstreams.one]\n[agents.helper]\nupstream = "one"\nmodel = "m"\nrecord.folder = "{folder}"\n'
KEY = f"sha256:{64 * '0'}"

Check = Callable[[str], str]


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Check:
    """Check a configuration, and start a server with it; return the message that both print."""
    for name in [name for name in os.environ if name.startswith(("PROJECTOR_", "OPENAI_"))]:
        monkeypatch.delenv(name)

    def start(settings: Settings, *_args: object, **_named: object) -> None:
        process.server(settings)
        listen(settings).close()
        pytest.fail("the server was started")

    monkeypatch.setattr(process, "run", start)

    def run(text: str) -> str:
        file = tmp_path / "projector.toml"
        file.write_text(text)
        printed = []
        for command in (["config", "check", str(file)], ["serve", "--config", str(file)]):
            assert main(command) != 0
            printed.append(capsys.readouterr().err)
        assert printed[0].splitlines()[-1] == printed[1].splitlines()[-1]
        return printed[0]

    return run


@pytest.mark.parametrize(
    "content",
    ["", "keys", "[]", "null", "{}", '{"keys": 1}', '{"keys": []}', '{"keys": ["a"]}', '{"keys": [{"kty": "x"}]}'],
)
def test_a_file_of_signing_keys(check: Check, tmp_path: Path, content: str) -> None:
    (tmp_path / "keys.json").write_text(content)
    assert "`auth.jwt.jwks`: expected a JSON Web Key Set" in check(CALLERS)


def test_a_memory_limit_below_one_request(check: Check) -> None:
    message = check("[limits]\nmax_memory_bytes = 10\n")
    assert "`limits.max_memory_bytes` must be at least `limits.max_body_bytes` (8388608)" in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("heartbeat_s = 15000\n", "`heartbeat_s` must be at most 3600"),
        ("drain_timeout_s = 15000\n", "`drain_timeout_s` must be at most 7200"),
        ("[limits]\nmax_body_bytes = 8\n", "`limits.max_body_bytes` must be at least 100"),
        ("[timeouts]\nfirst_byte_s = 4000\n", "`timeouts.first_byte_s` must be at most `timeouts.total_s` (1800)"),
        (
            "[timeouts]\ntotal_s = 60\n[upstreams.a]\ntimeouts.first_byte_s = 90\n",
            "`upstreams.a.timeouts.first_byte_s` must be at most `timeouts.total_s` (60)",
        ),
        (
            "[timeouts]\nfirst_byte_s = 5000\n[upstreams.a]\n",
            ": `timeouts.first_byte_s` must be at most `timeouts.total_s` (1800)",
        ),
        (
            "[timeouts]\nfirst_byte_s = 90\n[upstreams.a]\ntimeouts.total_s = 60\n",
            ": `timeouts.first_byte_s` must be at most `upstreams.a.timeouts.total_s` (60)",
        ),
    ],
)
def test_values_in_another_unit(check: Check, text: str, message: str) -> None:
    assert message in check(text)


def test_all_that_the_system_lacks_is_reported(check: Check, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    message = check("[limits]\nmax_memory_bytes = 10\n" + AGENT.format(folder=(tmp_path / "file").as_posix()))
    assert "`limits.max_memory_bytes`" in message
    assert "`agents.helper.record.folder`" in message


def test_a_folder_for_recordings_that_is_a_file(check: Check, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in ("file", "file/below"):
        message = check(AGENT.format(folder=(tmp_path / folder).as_posix()))
        assert "`agents.helper.record.folder`: " in message
        assert "is not a folder" in message


def test_a_file_of_streams_below_a_file(check: Check, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    message = check(f'[store]\nkind = "sqlite"\npath = "{(tmp_path / "file" / "store.db").as_posix()}"\n')
    assert "`store.path`: " in message
    assert "is not a folder" in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('kind = "sqlite"\n', '`kind = "sqlite"` requires `path`'),
        ('kind = "redis"\n', '`kind = "redis"` requires `url`'),
        ('path = "a"\n', '`path` requires `kind = "sqlite"`'),
        ('kind = "redis"\nurl = "http://a"\n', "expected redis:// or rediss://, and a host"),
        ('kind = "redis"\nurl = "redis://h:99999"\n', "a port is a number from 1 to 65535"),
        ('kind = "redis"\nurl = "redis://h:abc/0"\n', "a port is a number from 1 to 65535"),
        ('kind = "redis"\nurl = "redis://h:1/abc"\n', "redis://HOST:PORT/NUMBER"),
        ('encryption_keys = ["c2hvcnQ="]\n', "expected 32 bytes in base64"),
        ('encryption_keys = ["?"]\n', "expected 32 bytes in base64"),
    ],
)
def test_an_invalid_store(check: Check, text: str, message: str) -> None:
    assert message in check(f"[store]\n{text}")


def _other_version(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 3")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.mkdir(), "is not a file"),
        (os.mkfifo, "is not a file"),
        (lambda path: path.write_bytes(b"no database" * 99), "is not a database"),
        (_other_version, "the file has version 3, expected 4: move it away to start with an empty store"),
    ],
    ids=["folder", "fifo", "foreign", "another version"],
)
def test_a_file_of_streams_that_is_none(
    check: Check, tmp_path: Path, make: Callable[[Path], object], message: str
) -> None:
    path = tmp_path / "store.db"
    make(path)
    found = check(f'[store]\nkind = "sqlite"\npath = "{path.as_posix()}"\n')
    assert f"`store.path`: {path}" in found
    assert message in found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"a = {'[' * 500}{']' * 500}\n", "lists and tables are nested too deeply"),
        (f"a = {'{b = ' * 500}1{'}' * 500}\n", "lists and tables are nested too deeply"),
        (f"\nport = {'1' * 5_000}\n", "line 2, column 1: a number has too many digits"),
        (f"[limits]\nmax_streams = {'1' * 400}\n", "`limits.max_streams` must be at most 9007199254740991"),
        (f"[store]\nmax_caller_streams = {'1' * 400}\n", "`store.max_caller_streams` must be at most"),
        ("port = true\n", "`port` must be a whole number"),
        ("[timeouts]\nidle_s = true\n", "`timeouts.idle_s` must be a number"),
        ('[store]\nkind = "sqlite"\npath = "a\\u0000b"\n', "`store.path`: a text must not have a NUL character"),
        ('[upstreams.a]\napi_key_file = "\\u0000"\n', "`upstreams.a.api_key_file`: a text must not have"),
        (f'[auth.api_keys]\na = "{KEY}"\nb = "{KEY}"\n', "`a` and `b` have the same key"),
    ],
)
def test_values_that_would_only_fail_later(check: Check, text: str, message: str) -> None:
    assert message in check(text)


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_closed_output(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(sys, name, None)
    assert main(["config", "print"]) == 0
    getattr(sys, name).close()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_a_folder_for_recordings_that_is_not_writable(check: Check, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    if os.access(closed, os.W_OK):  # root may write everywhere but there
        closed = Path("/proc")
    for folder in (closed, closed / "below"):
        message = check(AGENT.format(folder=folder.as_posix()))
        assert "`agents.helper.record.folder`: " in message
        assert "is not writable" in message


@pytest.mark.parametrize(
    "host", ["", " ", "127.0.0.1:80", "http://127.0.0.1", "local host", "127.0.0.256", "::1::", "[::1]"]
)
def test_an_invalid_address(check: Check, host: str) -> None:
    assert "`host`: expected an IP address or a host name" in check(f'host = "{host}"\n')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('host = "192.0.2.1"\n', "cannot listen on 192.0.2.1, port 8000: Cannot assign requested address"),
        ('host = "no-such-host.invalid"\n', "cannot listen on no-such-host.invalid, port 8000: "),
        ('[admin]\nhost = "192.0.2.1"\nport = 9000\n', "cannot listen on 192.0.2.1, port 9000: Cannot assign"),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="another message")
def test_an_address_that_is_not_of_this_machine(check: Check, text: str, message: str) -> None:
    assert message in check(text + f'[auth.api_keys]\na = "sha256:{"0" * 64}"\n')


def test_an_address_that_is_in_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It may be that of the running server, which the configuration is for."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        file = tmp_path / "projector.toml"
        file.write_text(f"port = {taken.getsockname()[1]}\n")
        assert main(["config", "check", str(file)]) == 0
        assert main(["serve", "--config", str(file)]) == 2
        assert "Address already in use" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("port = 9000\n[admin]\nport = 9000\n", "`admin.port` must not be the same as `port`"),
        ("[admin]\n", "`admin.port` is missing"),
        ('[admin]\nhost = "metrics:9000"\nport = 9000\n', "`admin.host`: expected an IP address or a host name"),
        ("[limits]\nmax_connections = 0\n", "`limits.max_connections` must be greater than 0"),
        ("[tls]\n", "`tls.cert_file` is missing"),
    ],
)
def test_listeners(check: Check, text: str, message: str) -> None:
    assert message in check(text)


def test_a_folder_that_does_not_exist_yet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "projector.toml"
    file.write_text(AGENT.format(folder=(tmp_path / "new" / "folder").as_posix()))
    assert main(["config", "check", str(file)]) == 0
    assert "valid" in capsys.readouterr().out
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("", "`api_key` is not set, from the variable OPENAI_API_KEY: api.openai.com refuses every request"),
        ("[upstreams.a]\n", "`upstreams.a.api_key` is not set: api.openai.com refuses every request without a key"),
        (f'{SERVED}headers = {{ api-key = "${{SHELL_KEY}}" }}\n', ""),
        (f'{SERVED}base_url = "https://models.example/v1"\n', ""),
        (
            '[upstreams.a]\nbase_url = "https://models.example/v1"\n',
            "no stream is configured: expected a table `[agents",
        ),
        (
            f'{SERVED}base_url = "http://localhost:11434"\n',
            "`upstreams.a.base_url` has no path: most servers of this API",
        ),
        (f'{SERVED}api_key = "${{SHORT_KEY}}"\n', "`upstreams.a.api_key`: streams do not withhold this secret: it has"),
        (f'{SERVED}headers = {{ Authorization = "Bearer ${{SHORT_KEY}}" }}\n', "`upstreams.a.headers.Authorization`: "),
        (f'{SERVED}headers = {{ Authorization = "Bearer ${{SHELL_KEY}}" }}\n', ""),
        (
            f'trusted_proxies = ["127.0.0.1"]\n[auth.api_keys]\n{SERVED}base_url = "https://models.example/v1"\n',
            "`trusted_proxies` is set, and `auth` has no callers: everyone",
        ),
        (
            f'trusted_proxies = ["::1"]\nauth.api_keys.a = "{KEY}"\n{SERVED}base_url = "https://models.example/v1"\n',
            "",
        ),
    ],
)
def test_what_an_operator_should_look_at_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str, warning: str
) -> None:
    for name in [name for name in os.environ if name.startswith(("PROJECTOR_", "OPENAI_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SHELL_KEY", "a-key-for-a-test")
    monkeypatch.setenv("SHORT_KEY", "short-7")
    (tmp_path / "projector.toml").write_text(text)
    assert main(["config", "check", str(tmp_path / "projector.toml")]) == 0
    printed = capsys.readouterr().err
    assert (warning in printed) if warning else printed == ""
    assert "short-7" not in printed


def test_the_command_redact_names_secrets_that_it_does_not_withhold(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHORT_KEY", "short-7")
    (tmp_path / "projector.toml").write_text(f'{SERVED}api_key = "${{SHORT_KEY}}"\n')
    (tmp_path / "text").write_text("it is short-7\n")
    assert main(["redact", "--config", str(tmp_path / "projector.toml"), str(tmp_path / "text")]) == 0
    out, err = capfd.readouterr()
    assert out == "it is short-7\n"
    assert err.startswith("warning: `upstreams.a.api_key`: ")


def test_every_problem_of_a_policy_is_reported(check: Check, tmp_path: Path) -> None:
    policy = 'text = { emial = "mask", phoen = "mask" }\nformats_off = ["github-tokens"]\n'
    message = check(f"{SERVED}[passthrough.policy]\n{policy}")
    for meant in ("email", "phone", "github-token"):
        assert f"did you mean `{meant}`?" in message
    word = '[[word]]\nname = "badge"\nabout = "badges"\nsource = "a handbook"\nwhere = "ends"\n'
    (tmp_path / "ours.toml").write_text(f'{word}matches = ["badge", "one", "two"]\nharmless = ["badges", "a_badge"]\n')
    message = check(f'{SERVED}[passthrough.policy]\nrules = ["ours.toml"]\n')
    assert message.count("`passthrough.policy.rules`: ours.toml: `badge`: `") == 3
