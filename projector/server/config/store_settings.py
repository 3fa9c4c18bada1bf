"""The table `store`: where streams are kept for clients that come back, and how much of them."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator

from projector.server.config.config_base import Table, has_valid_host
from projector.store.protocol import StoreLimits

KEY_BYTES: Final = 32
_DEFAULTS: Final = StoreLimits()


def decoded_key(key: SecretStr) -> bytes:
    """Return an encryption key; raise `ValueError` if it does not have 32 bytes in base64."""
    try:
        decoded = base64.b64decode(key.get_secret_value(), validate=True)
    except ValueError:
        decoded = b""
    if len(decoded) != KEY_BYTES:
        raise ValueError(f"expected {KEY_BYTES} bytes in base64, as `openssl rand -base64 {KEY_BYTES}` prints them")
    return decoded


def _check_keys(keys: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
    if len({decoded_key(key) for key in keys}) != len(keys):
        raise ValueError("expected different keys, but there is one twice")
    return keys


EncryptionKeys: TypeAlias = Annotated[tuple[SecretStr, ...], AfterValidator(_check_keys)]


class StoreSettings(Table):
    """The store of streams."""

    kind: Literal["memory", "sqlite", "redis"] = "memory"
    """Where streams are [stored](operations.md#stored-streams): `memory`, a file (`sqlite`), Redis or Valkey
    (`redis`)."""
    path: Path | None = None
    """File of `sqlite`."""
    url: SecretStr | None = None
    """URL of `redis`: `redis://USER:PASSWORD@HOST:PORT/NUMBER`, or `rediss://` for TLS; of a
    [cluster](deployment.md#redis-cluster), some of its servers: `redis://HOST:PORT,HOST:PORT`. It needs the extra
    `redis`."""
    url_file: Path | None = None
    """File with the URL."""
    ca_file: Path | None = None
    """File of the trusted authorities, instead of those of the system."""
    prefix: str = Field(default="projector:", min_length=1, max_length=64, pattern=r"^[!-z|~]+$")
    """Prefix of all keys in Redis, without braces. Servers with the same prefix share their streams."""
    encryption_keys: EncryptionKeys = ()
    """Keys that encrypt what is stored (AES-256-GCM). The first one encrypts, all decrypt."""
    encryption_keys_file: Path | None = None
    """File with the keys, each in a line."""
    required: bool = False
    """Refuse new streams while the store is unavailable."""
    retention_s: float = Field(default=300, gt=0, le=604_800)
    """Seconds that a stream is kept after its end."""
    unread_s: float = Field(default=300, gt=0, le=86_400)
    """Seconds that a stream goes on without any reader, if `on_disconnect` is `continue`."""
    calls_s: float = Field(default=604_800, gt=0, le=2_592_000)
    """Seconds that [what providers want back](providers.md#what-providers-want-back) is kept."""
    max_stream_bytes: int = Field(default=8 * 2**20, gt=0)
    """Size of one stream; the first events of a longer one are dropped."""
    max_caller_bytes: int = Field(default=_DEFAULTS.owner_bytes, gt=0)
    """Size of all streams of one caller."""
    max_caller_streams: int = Field(default=_DEFAULTS.owner_streams, gt=0)
    """Streams of one caller."""
    max_bytes: int | None = Field(default=None, gt=0)
    """Size of all streams; by default 256 MiB, in `memory` an eighth of `limits.max_memory_bytes`. At any limit, the
    streams that ended first are dropped first."""
    max_streams: int = Field(default=_DEFAULTS.total_streams, gt=0)
    """Number of all streams."""

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: SecretStr | None) -> SecretStr | None:
        if url is None:
            return None
        text = url.get_secret_value()
        parts = urlsplit(text)
        hosts = parts.netloc.rpartition("@")[2].split(",")
        if not (re.match(r"rediss?://", text) and all(has_valid_host(f"redis://{one}") for one in hosts)):
            raise ValueError("expected redis:// or rediss://, and a host; a port is a number from 1 to 65535")
        if not re.fullmatch(r"/?\d*", parts.path):
            raise ValueError("expected the number of a database after the host: redis://HOST:PORT/NUMBER")
        if len(hosts) > 1 and parts.path.strip("/0"):
            raise ValueError("expected no number of a database: a cluster has only 0")
        return url

    @model_validator(mode="after")
    def _check_place(self) -> StoreSettings:
        for name, kind in (("path", "sqlite"), ("url", "redis")):
            given = getattr(self, name) is not None
            if given and self.kind != kind:
                raise ValueError(f'`{name}` requires `kind = "{kind}"`')
            if not given and self.kind == kind:
                raise ValueError(f'`kind = "{kind}"` requires `{name}`')
        is_plain = self.url is not None and not self.url.get_secret_value().startswith("rediss:")
        if self.ca_file is not None and is_plain:
            raise ValueError("`ca_file` has no effect, because `url` does not begin with rediss://")
        return self

    def limits(self, max_memory_bytes: int) -> StoreLimits:
        """Return the limits of the store of a server with a memory budget."""
        return StoreLimits(
            retention_s=self.retention_s,
            stream_bytes=self.max_stream_bytes,
            owner_bytes=self.max_caller_bytes,
            owner_streams=self.max_caller_streams,
            total_bytes=self.max_bytes or (max_memory_bytes // 8 if self.kind == "memory" else _DEFAULTS.total_bytes),
            total_streams=self.max_streams,
        )
