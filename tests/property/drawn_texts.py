"""Contexts and disguises of the secrets that `test_redaction_draws.py` draws, as tables of texts."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable, Mapping
from random import Random
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import quote

from tests.property.drawn_secrets import Secret

Spelling: TypeAlias = Callable[[str], str]
Disguise: TypeAlias = Callable[[str, str, str, Random], str]

SPELLINGS: Final[Mapping[str, Spelling]] = {
    "bare": str,
    "double": lambda text: text.replace("\\", "\\\\").replace('"', '\\"'),
    "single": lambda text: text.replace("\\", "\\\\").replace("'", "\\'"),
    "json": lambda text: json.dumps(text)[1:-1],
    "utf8": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "doubled": lambda text: text.replace("'", "''"),
    "markup": html.escape,
    "cdata": str,
    "percent": lambda text: quote(text, safe=""),
    "indented": lambda text: text.replace("\n", "\n  "),
    "lines": lambda text: '","'.join(text.split("\n")),
    "escaped lines": lambda text: "\\n".join(text.split("\n")),
    "base64": lambda text: base64.b64encode(f"-----BEGIN RSA PRIVATE KEY-----\n{text}\n".encode()).decode(),
}
"""How a context writes a secret. `§` in a context is its place."""


class Context(NamedTuple):
    """A text around a secret: `§` stands for the secret, `¤` for a sensitive word."""

    text: str
    spelling: str = "bare"


_ASSIGNMENTS: Final[Mapping[str, Context]] = {
    "equals": Context("¤=§"),
    "equals with blanks": Context("¤ = §"),
    "colon": Context("¤: §"),
    "colon without blank": Context("¤:§"),
    "colon, many blanks": Context("¤:             §"),
    "arrow": Context('"¤" => "§",', "double"),
    "ruby": Context(":¤ => '§'", "single"),
    "python": Context('¤ = "§"', "double"),
    "python single": Context("¤ = '§'  # note", "single"),
    "python bytes": Context("¤ = b'§'", "single"),
    "python unicode": Context("¤ = u'§'", "single"),
    "python format": Context('¤ = rf"§"', "double"),
    "python keyword": Context("connect(user='me', ¤='§', port=1)", "single"),
    "python triple": Context('¤ = """§"""', "double"),
    "python parentheses": Context('¤ = (\n    "§"\n)', "double"),
    "python typed": Context('¤: str = "§"', "double"),
    "python dict": Context("{'user': 'me', '¤': '§'}", "single"),
    "python item": Context("settings['¤'] = '§'", "single"),
    "typescript": Context('const ¤: string = "§";', "double"),
    "template": Context("¤: `§`,", "double"),
    "walrus": Context('¤ := "§"', "double"),
    "go field": Context('Config{Host: "db", ¤: "§"}', "double"),
    "rust": Context('¤: Some("§"), port: 1', "double"),
    "java": Context('String ¤ = "§";', "double"),
    "php": Context("'¤' => '§',", "single"),
    "getenv": Context('os.environ.get("¤", "§")', "double"),
    "getenv script": Context('process.env.¤ || "§"', "double"),
    "export": Context("export ¤='§'", "single"),
    "crlf": Context("A=1\r\n¤=§\r\nB=2"),
    "tabs": Context("¤\t=\t§"),
    "json5": Context("{user: 'me', ¤: \"§\"}", "double"),
    "yaml flow": Context('{user: me, ¤: "§", port: 1}', "double"),
    "comma list": Context("user=me, ¤=§"),
    "parameters of a command": Context("docker run -e ¤=§ image"),
    "env file": Context("HOME=/x\n¤=§\nPATH=/bin"),
    "env file with comment": Context('# settings\n¤="§"\nPORT=1', "double"),
    "ini": Context("[db]\nuser = me\n¤ = §\nport = 1"),
    "toml": Context('[db]\n¤ = "§"', "double"),
    "properties": Context("spring.datasource.¤=§\nserver.port=1"),
    "connection string": Context("Server=db;Uid=me;¤=§;Port=1"),
    "option": Context("tool --¤ § --verbose"),
    "option equals": Context("tool --¤=§ --verbose"),
    "option double": Context('tool --¤ "§" -v', "double"),
    "option single": Context("tool --¤ '§' -v", "single"),
    "argv": Context('["tool","--¤","§","-v"]', "json"),
    "json": Context('{"user": "me", "¤": "§", "port": 1}', "json"),
    "json utf-8": Context('{"¤":"§"}', "utf8"),
    "json behind text": Context('HTTP 200\n{"¤": "§"}', "json"),
    "json list behind text": Context('HTTP 200\n{"¤":["§"]}', "json"),
    "json object behind text": Context('log: {"¤": {"a": 1, "b": ["§"]}}', "json"),
    "json with comment": Context('{ // note\n "¤": {"value": "§"}}', "json"),
    "json with error": Context('{"a":1,, "¤":["§"]}', "json"),
    "python container": Context("x = {'¤': {'a': ['§']}}", "single"),
    "escaped key": Context('text {"\\u0070assword": "§"}', "json"),
    "far value": Context('text {"¤":            "§"}', "json"),
    "yaml": Context("db:\n  ¤: §\n  port: 1"),
    "yaml quoted": Context('db:\n  ¤: "§"\n', "double"),
    "yaml single": Context("db:\n  ¤: '§'\n", "doubled"),
    "yaml block": Context("¤: |\n  §\nport: 1", "indented"),
    "yaml folded": Context("db:\n  ¤: >-\n    §\n  port: 1", "indented"),
    "kubernetes": Context("env:\n- name: ¤\n  value: §\n- name: A\n  value: b"),
    "kubernetes quoted": Context('  - name: ¤\n    value: "§"', "double"),
    "name and value": Context('{"name": "¤", "value": "§"}', "json"),
    "key and value": Context('[{"key": "¤", "value": "§"}]', "json"),
    "pair": Context('[["¤", "§"]]', "json"),
    "element": Context("<¤>§</¤>", "markup"),
    "element in element": Context("<db>\n  <¤>§</¤>\n</db>", "markup"),
    "cdata": Context("<¤><![CDATA[§]]></¤>", "cdata"),
    "attribute": Context('<db user="me" ¤="§"/>', "markup"),
    "name attribute": Context('<add key="¤" value="§"/>', "markup"),
    "property": Context('<property name="¤" value="§" />', "markup"),
    "netrc": Context("machine db.example login me password §"),
    "netrc lines": Context("machine db.example\n  login me\n  password §\n"),
    "parameter": Context("https://example.org/a?¤=§&b=1", "percent"),
    "fragment": Context("https://example.org/cb#¤=§&b=1", "percent"),
    "form": Context("grant_type=x&¤=§&user=me", "percent"),
}
"""Contexts that tell that what follows is a secret, of each spelling of an assignment."""

_HEADERS: Final[Mapping[str, Context]] = {
    "basic": Context("Authorization: Basic §"),
    "authorization": Context("> Authorization: §\n> Host: example.org"),
    "header option": Context("curl -H 'X-Api-Key: §' https://example.org", "single"),
    "header line": Context("X-Auth-Token: §\r\nHost: example.org"),
    "cookie": Context('Cookie: theme="dark"; sid=§'),
    "set-cookie": Context("Set-Cookie: sid=§; Path=/; HttpOnly"),
    "digest": Context('Authorization: Digest username="me", nonce="n", response="§"'),
    "header pairs": Context('[["Host","x"],["X-Api-Key","§"]]', "json"),
    "header names": Context('{"name":"Authorization","value":"Basic §"}', "json"),
    "url password": Context("postgres://app:§@db.example.org/app", "percent"),
    "url password raw": Context("amqp://app:§@mq.example.org"),
    "bearer": Context("Authorization: Bearer §"),
}
"""Contexts with their own name for a secret."""

_KEYS: Final[Mapping[str, Context]] = {
    "pem rsa": Context("-----BEGIN RSA PRIVATE KEY-----\n§\n-----END RSA PRIVATE KEY-----\n"),
    "pem ed25519": Context("-----BEGIN ED25519 PRIVATE KEY-----\n§\n-----END ED25519 PRIVATE KEY-----\n"),
    "pem x25519": Context("-----BEGIN X25519 PRIVATE KEY-----\n§\n"),
    "pem any": Context("-----BEGIN ANY PRIVATE KEY-----\n§\n"),
    "pem lower": Context("-----begin rsa private key-----\n§\n-----end rsa private key-----\n"),
    "pem blanks": Context("-----BEGIN  RSA  PRIVATE  KEY-----\n§\n"),
    "pem in code": Context('key = "-----BEGIN PRIVATE KEY-----\\n§\\n"', "escaped lines"),
    "pem lines": Context('["-----BEGIN RSA PRIVATE KEY-----","§","-----END RSA PRIVATE KEY-----"]', "lines"),
    "pem indented": Context("tls.key: |\n  -----BEGIN PRIVATE KEY-----\n  §\n", "indented"),
    "pem base64": Context("tls: §", "base64"),
}
PROSE: Final[Mapping[str, Context]] = {
    "alone": Context("§"),
    "prose": Context("it is § here"),
    "quoted": Context('it is "§" here', "double"),
    "list": Context('["a", "§"]', "json"),
    "value": Context('{"id": "§"}', "json"),
    "utf-8 value": Context('{"id":"§"}', "utf8"),
    "text element": Context("<p>§</p>", "markup"),
}
NUMBERS: Final[Mapping[str, Context]] = {
    "number": Context('{"n": §}'),
    "number in a list": Context("[1, §]"),
    "negative": Context('{"n": -§}'),
    "fraction": Context('{"n": §.0}'),
    "exponent": Context('{"n": §e0}'),
}
CONTEXTS: Final[Mapping[str, Context]] = {**PROSE, **_ASSIGNMENTS, **_HEADERS, **_KEYS, **NUMBERS}

KEYS: Final = (
    *("password", "api_key", "client_secret", "access_token", "DB_PASSWORD", "passphrase", "aws_secret_access_key"),
    *("authToken", "X-Api-Key", "db.password", "passwd", "private_key", "refreshToken", "SECRET_KEY_BASE"),
)
"""Sensitive words that stand for `¤`; those with `-` and `.` only where a name may have them."""
_NAMES: Final = re.compile(r"[A-Za-z_]+")
PLAIN_KEYS: Final = tuple(key for key in KEYS if _NAMES.fullmatch(key))


def write(context: Context, secret: Secret, random: Random) -> tuple[str, str, str]:
    """Return the text before the secret, the secret as it is spelled, and the text behind it."""
    key = random.choice(PLAIN_KEYS)
    before, _, after = context.text.partition("§")
    return before.replace("¤", key), SPELLINGS[context.spelling](secret.text), after.replace("¤", key)


# disguises: functions of the text before the secret, the secret, the text behind it


def _before(mark: str) -> Disguise:
    """Write a mark before the text, or directly before a secret that has no name."""

    def disguise(before: str, secret: str, after: str, _random: Random) -> str:
        at = 0 if _NAMED.search(before) else len(before)
        return f"{before[:at]}{mark}{before[at:]}{secret}{after}"

    return disguise


_NAMED: Final = re.compile(r"[=:<,]|--|password")


def _wrapped(levels: int) -> Disguise:
    """Write the text as a JSON string in JSON strings."""

    def disguise(before: str, secret: str, after: str, _random: Random) -> str:
        text = before + secret + after
        for level in range(levels):
            text = json.dumps({f"d{level}": text})
        return text

    return disguise


def _inside(mark: str) -> Disguise:
    """Write a mark between all characters of the secret."""
    return lambda before, secret, after, _random: before + mark.join(secret) + after


def _escapes(text: str) -> str:
    units = text.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _escaped(before: str, secret: str, after: str, _random: Random) -> str:
    return f'{{"d":"{_escapes(before + secret + after)}"}}'


def _partly_escaped(before: str, secret: str, after: str, random: Random) -> str:
    text = before + secret + after
    spelled = (_escapes(char) if random.random() < _ESCAPED else json.dumps(char)[1:-1] for char in text)
    return f'{{"d":"{"".join(spelled)}"}}'


_ESCAPED: Final = 0.3


def _in_key(change: Spelling) -> Disguise:
    """Change the sensitive words of a text."""

    def disguise(before: str, secret: str, after: str, _random: Random) -> str:
        for key in (*PLAIN_KEYS, "Authorization", "Api-Key", "Cookie", "Token"):
            before = before.replace(key, change(key))
        return before + secret + after

    return disguise


def _whole(change: Spelling) -> Disguise:
    return lambda before, secret, after, _random: change(before + secret + after)


def _ansi_value(before: str, secret: str, after: str, _random: Random) -> str:
    return f"{before}\x1b[1;32m{secret}\x1b[0m{after}"


def _entities(before: str, secret: str, after: str, _random: Random) -> str:
    return (
        before
        + "".join(f"&#x{ord(char):x};" if at % 3 == 0 else html.escape(char) for at, char in enumerate(secret))
        + after
    )


def _in_array(before: str, secret: str, after: str, random: Random) -> str:
    """Split the text into adjacent strings of an array."""
    text, pieces = before + secret + after, []
    while text:
        size = random.randint(4, 20)
        pieces.append(text[:size])
        text = text[size:]
    return json.dumps({"lines": pieces})


DISGUISES: Final[Mapping[str, Disguise]] = {
    "none": lambda before, secret, after, _random: before + secret + after,
    **{f"json {levels}": _wrapped(levels) for levels in (1, 2, 3, 4)},
    "escaped": _escaped,
    "partly escaped": _partly_escaped,
    "behind \\n": _before("done\\n"),
    "behind \\t": _before("a\\t"),
    "behind \\u003d": _before("a\\u003d"),
    "behind colour": _before("\x1b[32m"),
    "behind colours": _before("\x1b[0m\x1b[38;5;12m"),
    "behind %20": _before("a%20"),
    "behind %3D": _before("a%3D"),
    "behind %2F": _before("a%2F"),
    "behind %253D": _before("a%253D"),
    "behind =3D": _before("a=3D"),
    "coloured value": _ansi_value,
    "zero-width inside": _inside("\u200b"),
    "soft hyphens inside": _inside("\u00ad"),
    "joiners inside": _inside("\u2060"),
    "zero-width in key": _in_key("\u200b".join),
    "soft hyphens in key": _in_key("\u00ad".join),
    "look-alikes in key": _in_key(lambda key: key.translate(str.maketrans("aeopcy", "аеорсу"))),  # noqa: RUF001
    "entities": _entities,
    "array": _in_array,
    "array of lines": lambda before, secret, after, _random: json.dumps((before + secret + after).split("\n")),
}
