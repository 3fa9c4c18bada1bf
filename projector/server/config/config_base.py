"""What every table of the configuration is made of."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Annotated, Final, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from projector._errors import known_name
from projector.dialects import DIALECTS

DEFAULT_DIALECT: Final = "public_sse_v1"

Dialect: TypeAlias = Annotated[str, AfterValidator(lambda name: known_name("dialect", name, DIALECTS))]
Dialects: TypeAlias = Annotated[tuple[Dialect, ...], Field(min_length=1)]


def written_as(pattern: str, expected: str) -> AfterValidator:
    """Check how a text is written, and say in words what was expected: few who run a server read patterns."""
    form = re.compile(pattern)

    def check(text: str) -> str:
        if form.fullmatch(text) is None:
            raise ValueError(f"expected {expected}")
        return text

    return AfterValidator(check)


Name: TypeAlias = Annotated[
    str,
    written_as(
        r"[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?",
        "at most 64 of a to z, 0 to 9, - and _, with a letter or digit at both ends",
    ),
]


def names_a_host(url: str) -> bool:
    """Say whether a URL names a host, and perhaps a port, that a client can be told to connect to."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        if host.rpartition(".")[2].isdigit():  # no name ends in a number
            ip_address(host)
    except ValueError:
        return False
    return bool(host) and port != 0 and url.isprintable()


def _is_an_address(url: str) -> str:
    if not (_ADDRESS.fullmatch(url) and names_a_host(url)):
        raise ValueError("expected http:// or https://, a host, perhaps a port and a path, and nothing else")
    return url


_ADDRESS: Final = re.compile(r"https?://[^@\s?#]+")
BaseUrl: TypeAlias = Annotated[str, AfterValidator(_is_an_address)]
"""Of another server: without a user or a key in it, which would be printed."""


class Table(BaseModel):
    """One table of the configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
