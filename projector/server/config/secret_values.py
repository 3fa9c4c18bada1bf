"""The secrets of a configuration in each form in which an echo of a request may contain them.

They are withheld from every stream (CONTRACT D41) and from recordings. Hashes of callers' keys are no secrets.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote, quote_plus, unquote, urlsplit

from pydantic import SecretStr

from projector.redaction.registered import SECRET_MIN_CHARS
from projector.server.config.http_fields import is_credential
from projector.server.config.settings import Settings, UpstreamSettings

_SCHEME_PARTS: Final = 2  # a scheme and a token, as in `Bearer <token>`


def secret_values(settings: Settings, min_chars: int = SECRET_MIN_CHARS) -> tuple[str, ...]:
    """Return the secrets of a configuration that have at least `min_chars` characters, each once."""
    found = (value for _, value in _named(settings, min_chars))
    return tuple(dict.fromkeys(value for value in found if len(value.strip()) >= min_chars))


def short_secrets(settings: Settings) -> Iterator[str]:
    """Yield the path of each setting with a secret that is too short to be withheld from streams."""
    found = _named(settings, min_chars=1)
    yield from dict.fromkeys(path for path, value in found if 0 < len(value.strip()) < SECRET_MIN_CHARS)


def _named(settings: Settings, min_chars: int) -> Iterator[tuple[str, str]]:
    """Yield each secret after the path of its setting; those of upstreams in each form that may be echoed."""
    if settings.api_key is not None:
        yield "api_key", settings.api_key.get_secret_value()
    for name, upstream in settings.upstreams.items():
        for path, value in _of_upstream(upstream, min_chars):
            yield f"upstreams.{name}.{path}", value
    if settings.store.url is not None:
        yield from (("store.url", value) for value in _of_proxy(settings.store.url.get_secret_value()))
    for key in settings.store.encryption_keys:
        yield "store.encryption_keys", key.get_secret_value()
    for key in settings.state_encryption_keys:
        yield "state_encryption_keys", key.get_secret_value()


def _of_upstream(upstream: UpstreamSettings, min_chars: int) -> Iterator[tuple[str, str]]:
    if upstream.api_key is not None:
        yield "api_key", upstream.api_key.get_secret_value()
    for name, value in upstream.headers.items():
        if isinstance(value, SecretStr):
            for form in _of_header(name, value.get_secret_value(), min_chars):
                yield f"headers.{name}", form
    for name, parameter in upstream.query.items():
        if isinstance(parameter, SecretStr):
            text = parameter.get_secret_value()
            yield from ((f"query.{name}", form) for form in (text, quote(text, safe=""), quote_plus(text)))
    if upstream.tls.key_password is not None:
        yield "tls.key_password", upstream.tls.key_password.get_secret_value()
    if upstream.proxy is not None:
        yield from (("proxy", value) for value in _of_proxy(upstream.proxy.get_secret_value()))


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


def _of_proxy(proxy: str) -> Iterator[str]:
    """Yield the password of a proxy, and the token that is sent for it."""
    url = urlsplit(proxy)
    if url.password:
        user, password = unquote(url.username or ""), unquote(url.password)
        yield from (url.password, password, base64.b64encode(f"{user}:{password}".encode()).decode())
