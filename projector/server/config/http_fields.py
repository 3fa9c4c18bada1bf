"""Types of settings for HTTP requests to a provider: additional headers, query parameters, names of models.

The value of a header or query parameter is a `SecretStr` if it was read from a variable, or if its name is that of a
credential. Such values are never printed, and are withheld from streams and recordings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from projector.redaction.rules import KeyRules, Verdict, normal_form
from projector.server.config.config_base import matching

OWNED_HEADERS: Final = frozenset(
    {
        "accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect",
        "host", "keep-alive", "proxy-authorization", "proxy-connection", "te", "traceparent", "tracestate", "trailer",
        "transfer-encoding", "upgrade",
    }
)  # fmt: skip
"""Headers that this server or its HTTP client sets for each request; `proxy-authorization` belongs in `proxy`."""

_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
"""Name of a header (RFC 9110, 5.6.2)."""
_HEADER_TEXT: Final = re.compile(r"[!-~](?:[ -~]{0,8190}[!-~])?")
_NAME: Final = re.compile(r"[!-~]{1,128}")
_ENDS_OF_CREDENTIALS: Final = ("key", "auth", "code", "sig", "signature", "jwt")
"""Ends of names as in `Ocp-Apim-Subscription-Key`, `code` (Azure Functions) and `sig`."""
_key_rules: Final = cache(KeyRules)


def is_credential(name: str) -> bool:
    """Return whether the value of a header or query parameter is a secret, by its name."""
    return _key_rules().verdict(name) is not Verdict.PLAIN or normal_form(name).endswith(_ENDS_OF_CREDENTIALS)


def _check_headers(headers: Mapping[str, SecretStr | str]) -> dict[str, SecretStr | str]:
    seen: set[str] = set()
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name):
            raise ValueError("expected names of letters, digits and -")
        if name.lower() in OWNED_HEADERS:
            raise ValueError(f"`{name}` cannot be set; the server sets it")
        if name.lower() in seen:
            raise ValueError(f"`{name}` is given twice")
        seen.add(name.lower())
        if not _HEADER_TEXT.fullmatch(plain(value)):
            raise ValueError(f"`{name}`: expected printable ASCII in one line, without spaces at its ends")
    return _with_secrets(headers)


def _check_query(query: Mapping[str, SecretStr | str]) -> dict[str, SecretStr | str]:
    for name, value in query.items():
        if not _NAME.fullmatch(name):
            raise ValueError("expected names of printable ASCII without spaces")
        if not plain(value).isprintable():
            raise ValueError(f"`{name}`: expected printable text in one line")
    return _with_secrets(query)


def _with_secrets(values: Mapping[str, SecretStr | str]) -> dict[str, SecretStr | str]:
    return {
        name: SecretStr(value) if isinstance(value, str) and is_credential(name) else value
        for name, value in values.items()
    }


def plain(value: SecretStr | str) -> str:
    """Return the text of a value."""
    return value.get_secret_value() if isinstance(value, SecretStr) else value


def _by_alias(models: object) -> object:
    """Return a list of models as a table in which each is its own alias."""
    if isinstance(models, list | tuple):
        if not all(isinstance(model, str) for model in models):
            raise ValueError("expected a list of IDs, or a table of aliases and IDs")
        return {model: model for model in models}
    return models


ModelId: TypeAlias = Annotated[
    str, matching(r"[!-~]([ -~]{0,254}[!-~])?", "an ID of 1 to 256 characters of printable ASCII")
]
ModelNames: TypeAlias = Annotated[dict[ModelId, ModelId], BeforeValidator(_by_alias), Field(min_length=1)]
ExtraHeaders: TypeAlias = Annotated[dict[str, str | SecretStr], AfterValidator(_check_headers)]
ExtraQuery: TypeAlias = Annotated[dict[str, str | SecretStr], AfterValidator(_check_query)]
