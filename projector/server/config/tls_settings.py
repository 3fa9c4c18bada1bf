"""Tables for TLS: of upstreams, and of this server. `projector.server.tls` reads the files that they name.

Files are named, not read into settings, because OpenSSL reads them itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import SecretStr, model_validator

from projector.server.config.config_base import Table

TlsVersion: TypeAlias = Literal["1.2", "1.3"]


class Tls(Table):
    """A certificate with its key, and the accepted versions of the protocol."""

    cert_file: Path | None = None
    """File with the certificate chain in PEM format."""
    key_file: Path | None = None
    """File with the private key; by default it is in `cert_file`."""
    key_password: SecretStr | None = None
    """Password of the private key."""
    key_password_file: Path | None = None
    """File with the password."""
    min_version: TlsVersion = "1.2"
    """Least version of TLS: `1.2` or `1.3`."""

    @model_validator(mode="after")
    def _check_certificate(self) -> Tls:
        for name in ("key_file", "key_password"):
            if getattr(self, name) is not None and self.cert_file is None:
                raise ValueError(f"`{name}` needs `cert_file`")
        return self


class UpstreamTls(Tls):
    """TLS of requests to an upstream. The certificate identifies this server."""

    ca_file: Path | None = None
    """File of the trusted authorities, instead of those of the system."""

    @property
    def is_default(self) -> bool:
        """Whether nothing is set."""
        return self == UpstreamTls()


class ListenerTls(Tls):
    """TLS of this server. The certificate is sent to clients."""

    cert_file: Path
