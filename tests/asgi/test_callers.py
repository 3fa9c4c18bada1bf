"""Authentication by keys and tokens; ownership of responses and conversations."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import re
import ssl
import time
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import RSAAlgorithm
from structlog.testing import capture_logs

from projector import UsageError
from projector.cli import main
from projector.server.config.caller_settings import Auth
from projector.server.config.loading import SettingsError, load
from projector.server.config.settings import Settings
from projector.server.control.callers import Authenticator
from projector.server.http.hosts import TrustedProxies
from projector.server.http.problems import Problem
from projector.server.ownership import Ownership
from projector.store.memory import MemoryStore
from tests.asgi.callers import Server
from tests.asgi.certificates import Authority

KEYS = {name: rsa.generate_private_key(public_exponent=65537, key_size=2048) for name in ("one", "two")}
CLAIMS = {"iss": "https://login.example", "aud": "projector", "sub": "ann", "exp": 2**32}


def key_set(*names: str) -> str:
    keys = [json.loads(RSAAlgorithm.to_jwk(KEYS[name].public_key())) | {"kid": name, "alg": "RS256"} for name in names]
    return json.dumps({"keys": keys})


def hashed(key: str) -> str:
    return f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"


def scope(authorization: str | None) -> dict[str, Any]:
    headers = [(b"authorization", authorization.encode())] if authorization is not None else []
    return {"type": "http", "path": "/", "headers": headers, "client": ("127.0.0.1", 1)}


def authenticator(**token: object) -> Authenticator:
    about = {"issuer": "https://login.example", "audience": "projector", "jwks": key_set("one")}
    auth = {"api_keys": {"web": hashed("key-1"), "app": hashed("key-2")}, "jwt": about | token}
    return Authenticator(Auth.model_validate(auth))


def token(name: str = "one", **claims: object) -> str:
    present = {claim: value for claim, value in (CLAIMS | claims).items() if value is not None}
    return f"Bearer {jwt.encode(present, KEYS[name], 'RS256', {'kid': name})}"


@pytest.mark.parametrize(
    ("authorization", "caller"),
    [
        ("Bearer key-1", "key:web"),
        ("bearer key-2", "key:app"),
        (token(), "token:ann"),
    ],
)
async def test_valid_credentials(authorization: str, caller: str) -> None:
    assert await authenticator().caller(scope(authorization)) == caller


async def test_made_keys_are_accepted_beside_older_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The hashes are a table of a configuration; a caller has two while its key is replaced."""
    assert main(["keys", "ann", "ben"]) == 0
    table, hand_out = capsys.readouterr()
    made = dict(line.split() for line in hand_out.splitlines())
    assert made.keys() == {"ann", "ben"}
    assert not any(key in table for key in made.values())
    file = tmp_path / "keys.txt"
    assert main(["keys", "ann", "--out", str(file)]) == 0
    later, nothing = capsys.readouterr()
    name, new = file.read_text().split()
    assert (nothing, name, file.stat().st_mode & 0o777) == ("", "ann", 0o600)
    hashes = tomllib.loads(table)["auth"]["api_keys"]
    hashes["ann"] += " " + tomllib.loads(later)["auth"]["api_keys"]["ann"]
    site = Server({"model": "m", "auth": {"api_keys": hashes}})
    answers = {key: (await site.ask(key=key)).status for key in (*made.values(), new, f"{new}x", "ann")}
    assert [*answers.values()] == [200, 200, 200, 401, 401]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["Ann"], "expected a name of at most 64"), (["ann", "--out", "keys.txt"], "keys.txt: file exists")],
)
def test_no_key_is_made(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("keys.txt").write_text("kept")
    assert main(["keys", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert Path("keys.txt").read_text() == "kept"


async def test_clock_skew_is_tolerated() -> None:
    assert await authenticator().caller(scope(token(exp=time.time() - 10))) == "token:ann"


@pytest.mark.parametrize(
    ("name", "authorization"),
    [
        ("no credentials", None),
        ("another scheme", "Basic key-1"),
        ("an empty key", "Bearer "),
        ("an unknown key", "Bearer key-3"),
        ("the hash of a key", f"Bearer {hashed('key-1')}"),
        ("an expired token", token(exp=1)),
        ("a token without an expiry", token(exp=None)),
        ("a token for another audience", token(aud="other")),
        ("a token of another issuer", token(iss="https://evil.example")),
        ("a token without a caller", token(sub=None)),
        ("a token with an empty caller", token(sub="")),
        ("a token with an unknown key", token("two")),
        ("a token without a signature", f"Bearer {jwt.encode(CLAIMS, None, 'none')}"),
        ("a token with a shared secret", f"Bearer {jwt.encode(CLAIMS, 'x' * 32, 'HS256', {'kid': 'one'})}"),
        ("a token with an invalid signature", token()[:-6] + "AAAAAA"),
    ],
)
async def test_invalid_credentials(name: str, authorization: str | None) -> None:
    with pytest.raises(Problem) as caught:
        await authenticator().caller(scope(authorization))
    assert (caught.value.status, caught.value.code) == (401, "unauthenticated"), name
    assert caught.value.headers == {"www-authenticate": "Bearer"}


def unsigned(header: object) -> str:
    """Return a token with any header."""
    head = base64.urlsafe_b64encode(json.dumps(header).encode()).rstrip(b"=").decode()
    return f"Bearer {head}.e30.AAAA"


@pytest.mark.parametrize(
    "authorization",
    [
        unsigned({"alg": "RS256", "kid": ["one"]}),
        unsigned({"alg": "RS256", "kid": {"one": 1}}),
        unsigned({"alg": "RS256", "kid": 1}),
        unsigned({"alg": ["RS256"], "kid": "one"}),
        unsigned({"alg": None, "kid": "one"}),
        unsigned({"alg": "RS256", "kid": "one", "crit": ["b64"], "b64": False}),
        unsigned([]),
        unsigned("one"),
        "Bearer ...",
        "Bearer " + "." * 50_000,
        "Bearer \xe9.\xe9.\xe9",
        "Bearer  key-1",
        "Bearer key-1 ",
    ],
)
async def test_malformed_tokens(authorization: str) -> None:
    request = {"type": "http", "path": "/", "headers": [(b"authorization", authorization.encode("latin-1"))]}
    with pytest.raises(Problem) as caught:
        await authenticator().caller(request)
    assert caught.value.code == "unauthenticated"


@pytest.mark.parametrize("signed_with", ["the public key", "its modulus"])
async def test_a_public_key_is_not_accepted_as_a_shared_secret(signed_with: str) -> None:
    """The public key must not work as an HMAC secret (algorithm confusion)."""
    public = KEYS["one"].public_key()
    secret = {
        "the public key": public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        "its modulus": str(public.public_numbers().n).encode(),
    }[signed_with]
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=")
        for part in ({"alg": "HS256", "kid": "one"}, CLAIMS)
    ]
    signature = base64.urlsafe_b64encode(hmac.digest(secret, b".".join(parts), "sha256")).rstrip(b"=")
    with pytest.raises(Problem):
        await authenticator().caller(scope("Bearer " + b".".join([*parts, signature]).decode()))


async def test_without_authentication_the_caller_is_an_address() -> None:
    assert await Authenticator(Auth()).caller(scope("Bearer anything")) == "address:127.0.0.1"


@pytest.mark.parametrize("client", ["ann", ("ann",), {"name": "ann"}, (7, 0), ("ann", 0, 0)])
async def test_a_user_of_the_host_is_a_pair(client: Any) -> None:
    """Of a name alone, `ann` and `alex` would have the streams of `a`."""
    with pytest.raises(UsageError, match=re.escape('`scope["client"]`: expected `(name, 0)` or None')):
        await Authenticator(Auth()).caller({**scope(None), "client": client})
    with pytest.raises(UsageError, match="expected `"):
        await TrustedProxies(Authenticator, Settings())({**scope(None), "client": client}, None, None)


@pytest.mark.parametrize("client", [["ann", 0], ("ann", None)])
async def test_a_user_of_the_host(client: Any) -> None:
    assert await Authenticator(Auth()).caller({**scope(None), "client": client}) == "address:ann"


class KeyServer:
    """A server with one response; counts its requests."""

    def __init__(self) -> None:
        self.answer = b""
        self.requests = 0
        self.url = ""

    async def on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.requests += 1
        writer.write(self.answer)
        await writer.drain()
        writer.close()

    def hold(self, body: str, status: str = "200 OK") -> None:
        self.answer = f"HTTP/1.1 {status}\r\nlocation: {self.url}\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()


@pytest.fixture
async def keys() -> AsyncIterator[KeyServer]:
    served = KeyServer()
    async with await asyncio.start_server(served.on_connection, "127.0.0.1", 0) as listening:
        served.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/keys"
        yield served


async def test_keys_are_cached_and_fetched_for_an_unknown_key(keys: KeyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    keys.hold(key_set("one"))
    found = authenticator(jwks=None, jwks_url=keys.url)
    for _ in range(3):
        assert await found.caller(scope(token())) == "token:ann"
    assert keys.requests == 1
    keys.hold(key_set("one", "two"))
    with pytest.raises(Problem):
        await found.caller(scope(token("two")))  # too soon for another fetch
    monkeypatch.setattr("projector.server.http.token_verifier._MIN_FETCH_INTERVAL_S", 0.0)
    assert await found.caller(scope(token("two"))) == "token:ann"
    assert keys.requests == 2


async def test_no_token_is_valid_after_the_last_key_was_removed(
    keys: KeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("projector.server.http.token_verifier._FRESH_S", 0.0)
    keys.hold(key_set("one"))
    found = authenticator(jwks=None, jwks_url=keys.url)
    await found.caller(scope(token()))
    keys.hold("<html>")
    await found.caller(scope(token()))
    keys.hold('{"keys": []}')
    with pytest.raises(Problem) as caught:
        await found.caller(scope(token()))
    assert caught.value.code == "auth_unavailable"


async def test_keys_of_a_server_with_an_own_authority(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.issue("server"))
    served = KeyServer()
    served.hold(key_set("one"))
    async with await asyncio.start_server(served.on_connection, "127.0.0.1", 0, ssl=context) as listening:
        served.url = f"https://localhost:{listening.sockets[0].getsockname()[1]}/keys"
        with capture_logs() as lines, pytest.raises(Problem):
            await authenticator(jwks=None, jwks_url=served.url).caller(scope(token()))
        failures = [line["error_type"] for line in lines if line["event"] == "jwks_not_fetched"]
        assert failures == ["ClientConnectorCertificateError"]
        trusting = authenticator(jwks=None, jwks_url=served.url, ca_file=authority.file)
        assert await trusting.caller(scope(token())) == "token:ann"


@pytest.mark.parametrize(
    ("body", "status"), [("{}", "200 OK"), ("<html>", "200 OK"), ("", "302 Found"), ("", "500 No")]
)
async def test_keys_that_cannot_be_fetched(keys: KeyServer, body: str, status: str) -> None:
    keys.hold(body, status)
    with pytest.raises(Problem) as caught:
        await authenticator(jwks=None, jwks_url=keys.url).caller(scope(token()))
    assert (caught.value.status, caught.value.code) == (503, "auth_unavailable")
    assert keys.requests == 1


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"PROJECTOR_HOST": "0.0.0.0"}, "`host` must be a loopback address unless callers are"),  # noqa: S104 - refused
        ({"PROJECTOR_AUTH__API_KEYS": '{"web": "key-1"}'}, "PROJECTOR_AUTH__API_KEYS"),
        ({"PROJECTOR_AUTH__JWT__ISSUER": "a", "PROJECTOR_AUTH__JWT__AUDIENCE": "b"}, "expected either `jwks_url` or"),
        ({"PROJECTOR_CORS_ORIGINS": '["*"]'}, "PROJECTOR_CORS_ORIGINS"),
    ],
)
def test_an_unprotected_server_does_not_start(environ: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        load(environ)


def test_a_public_address_is_allowed_with_authentication() -> None:
    environ = {"PROJECTOR_HOST": "0.0.0.0", "PROJECTOR_AUTH__API_KEYS": json.dumps({"web": hashed("key-1")})}  # noqa: S104 - with callers
    assert load(environ).auth.is_on


def test_responses_and_conversations_belong_to_their_callers() -> None:
    ownership = Ownership(kept_max=2)
    ownership.add("response", "resp_1", "ann")
    ownership.add("response", "resp_1", "bob")
    ownership.check_response("resp_1", "ann")
    ownership.enter_conversation("conv_1", "ann")
    ownership.enter_conversation("conv_1", "ann")
    for check in (ownership.check_response, ownership.enter_conversation):
        with pytest.raises(Problem):
            check({ownership.enter_conversation: "conv_1"}.get(check, "resp_1"), "bob")
    for number in range(2, 4):
        ownership.add("response", f"resp_{number}", "ann")
    with pytest.raises(Problem):
        ownership.check_response("resp_1", "ann")  # only the newest are kept


def test_an_active_conversation_is_not_evicted() -> None:
    ownership = Ownership(kept_max=2)
    ownership.enter_conversation("conv_1", "ann")
    for number in range(2, 5):
        ownership.enter_conversation(f"conv_{number}", "bob")
        ownership.enter_conversation("conv_1", "ann")
    with pytest.raises(Problem):
        ownership.enter_conversation("conv_1", "bob")


async def test_another_server_knows_the_tokens_of_a_response() -> None:
    """Servers of before have written none."""
    store = MemoryStore()
    await store.put("response", {"resp_0": b'["ann","one"]'}, 60.0)
    here, there = Ownership(store), Ownership(store)
    here.add("response", "resp_1", "ann", "one", 500)
    await here.aclose()
    for name in ("resp_0", "resp_1"):
        await there.load({"previous_response_id": name})
        there.check_response(name, "ann")
    assert [there.tokens_of(name) for name in ("resp_0", "resp_1", "resp_2", None)] == [0, 500, 0, 0]


WHOLE = {"type": "mcp_approval_request", "id": "mcpr_1", "name": "f", "server_label": "s", "arguments": "{}"}


@pytest.mark.parametrize(
    "body",
    [
        {"input": [WHOLE], "junk": [{"id": f"j{number}"} for number in range(50_000)]},
        {"junk": [{"id": f"j{number}"} for number in range(50_000)], "input": [WHOLE]},
        {"input": [WHOLE, *({"type": "message", "id": f"msg_{number}"} for number in range(5_000))]},
        {"input": [*({"type": "message", "id": f"msg_{number}"} for number in range(5_000)), WHOLE]},
    ],
)
async def test_many_ids_hide_no_owner(body: dict[str, Any]) -> None:
    store = MemoryStore()
    here, there = Ownership(store), Ownership(store)
    here.add("item", "mcpr_1", "ann")
    await here.aclose()
    await there.load(body)
    there.check_item("mcpr_1", "ann", is_whole=True)
    with pytest.raises(Problem):
        there.check_item("mcpr_1", "bob", is_whole=True)


async def test_an_input_with_more_ids_than_are_checked_is_refused() -> None:
    junk = [{"type": "message", "id": f"msg_{number}"} for number in range(50_000)]
    for items in ([WHOLE, *junk], [*junk, WHOLE]):
        with pytest.raises(Problem, match="IDs"):
            await Ownership(MemoryStore()).load({"input": items})
        await Ownership().load({"input": items})  # this process knows every owner
