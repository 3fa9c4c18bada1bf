"""The secrets of a configuration in each form in which an echo of a request may contain them.

They are withheld from every stream (CONTRACT D41) and from recordings. Hashes of callers' keys are no secrets.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote, quote_plus, unquote, urlsplit

from pydantic import SecretStr

from projector.redaction.registered import SECRET_MIN_CHARS
from projector.server.config.config_base import parts_of
from projector.server.config.settings import Settings
from projector.server.config.upstream_settings import is_credential

_SCHEME_PARTS: Final = 2  # a scheme and a token, as in `Bearer <token>`


def secret_values(settings: Settings, min_chars: int = SECRET_MIN_CHARS) -> tuple[str, ...]:
    """Return the secrets of a configuration that have at least `min_chars` characters, each once."""
    found = (value for _, value in _named(settings, min_chars))
    return tuple(dict.fromkeys(value for value in found if len(value.strip()) >= min_chars))


def secret_warnings(settings: Settings) -> Iterator[str]:
    """Yield a sentence for each setting with a secret that is too short to be withheld from streams."""
    found = _named(settings, min_chars=1)
    for path in dict.fromkeys(path for path, value in found if 0 < len(value.strip()) < SECRET_MIN_CHARS):
        yield f"`{path}`: streams do not withhold this secret: it has fewer than {SECRET_MIN_CHARS} characters"


def _named(settings: Settings, min_chars: int) -> Iterator[tuple[str, str]]:
    """Yield each secret after the path of its setting, in each form that may be echoed."""
    forms: Iterable[str]
    for path, secret in parts_of(settings, SecretStr):
        text = secret.get_secret_value()
        match path.split(".", 3):
            case ("upstreams", _, "headers", name):
                forms = _of_header(name, text, min_chars)
            case ("upstreams", _, "query", _):
                forms = (text, quote(text, safe=""), quote_plus(text))
            case (*_, "proxy" | "url"):
                forms = _of_url(text)
            case _:
                forms = (text,)
        yield from ((path, form) for form in forms)


def _of_header(name: str, value: str, min_chars: int) -> Iterator[str]:
    """Yield the token of `Bearer <token>`, and the password of `Basic <token>`; any other value as a whole.

    The scheme is not part of the secret: a text that ends with the word `Bearer` is shown.
    """
    parts = value.split(" ")
    is_token = len(parts) == _SCHEME_PARTS and is_credential(name) and len(parts[-1]) >= min_chars
    yield parts[-1] if is_token else value
    if is_token and parts[0].lower() == "basic":
        try:
            _, _, password = base64.b64decode(parts[-1], validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return
        yield password


def _of_url(text: str) -> Iterator[str]:
    """Yield the password in the URL of a proxy or store, and the token that is sent for it."""
    url = urlsplit(text)
    if url.password:
        user, password = unquote(url.username or ""), unquote(url.password)
        yield from (url.password, password, base64.b64encode(f"{user}:{password}".encode()).decode())
