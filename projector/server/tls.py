"""TLS contexts from settings, and checks of the files that they name.

OpenSSL describes an unusable file in its own terms, and asks for a missing password on the terminal. So files are read
here first, and every problem is a `SettingsError` with the name of the setting.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from projector._file_problems import file_problem
from projector.server.config.loading import SettingsError
from projector.server.config.upstream_settings import ListenerTls, Tls, UpstreamTls

EXPIRES_SOON: Final = timedelta(days=14)
"""Authorities that renew certificates by themselves do so a month before the end."""

_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


def context_of(tls: Tls, path: str) -> ssl.SSLContext:
    """Return the context of a table; raise `SettingsError` for a file that cannot be used."""
    return client_context(tls, path) if isinstance(tls, UpstreamTls) else server_context(tls)


def client_context(tls: UpstreamTls, path: str = "tls") -> ssl.SSLContext:
    """Return the context of requests to an upstream; raise `SettingsError` for a file that cannot be used.

    Args:
        tls: names of the files.
        path: path of the table, for messages.
    """
    if tls.ca_file is not None:
        _certificates(tls.ca_file, f"{path}.ca_file")
    try:
        context = ssl.create_default_context(cafile=tls.ca_file)
    except ssl.SSLError as error:
        raise _unusable(f"{path}.ca_file", error) from None
    context.minimum_version = _VERSIONS[tls.min_version]
    if tls.cert_file is not None:
        load_certificate(context, tls, path)
    return context


def server_context(tls: Tls) -> ssl.SSLContext:
    """Return the context of this server; raise `SettingsError` for a file that cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[tls.min_version]
    context.options |= ssl.OP_NO_RENEGOTIATION  # it costs a client less than the server
    context.set_alpn_protocols(["http/1.1"])
    load_certificate(context, tls)
    return context


class RenewableContext:
    """The context of this server; its certificate can be replaced for new connections.

    Each handshake continues with the newest context. A certificate that is loaded into the same context again would
    stay beside an old one with a key of another type.
    """

    def __init__(self, tls: ListenerTls) -> None:
        self._tls = tls
        self._newest = self.context = server_context(tls)
        self.context.sni_callback = self._continue

    def read(self) -> Callable[[], None]:
        """Read the files again, and return a function that uses them; raise `SettingsError` if that is impossible."""
        context = server_context(self._tls)

        def use() -> None:
            self._newest = context

        return use

    def _continue(self, handshake: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        handshake.context = self._newest


def load_certificate(context: ssl.SSLContext, tls: Tls, path: str = "tls") -> None:
    """Use the certificate and key of the settings for new connections; raise `SettingsError` if that is impossible."""
    if tls.cert_file is None:
        return
    certificate = _certificates(tls.cert_file, f"{path}.cert_file")[0]
    password = tls.key_password.get_secret_value() if tls.key_password is not None else ""
    key_file, name = (tls.key_file, "key_file") if tls.key_file is not None else (tls.cert_file, "cert_file")
    key = _private_key(_read(key_file, f"{path}.{name}"), password, f"{path}.{name}")
    if key.public_key() != certificate.public_key():
        raise SettingsError(f"`{path}.{name}`: the private key does not belong to the certificate of `cert_file`")
    try:
        context.load_cert_chain(tls.cert_file, key_file, lambda: password)
    except (ssl.SSLError, OSError) as error:
        raise _unusable(f"{path}.cert_file", error) from None


def certificate_warnings(tls: Tls, path: str, now: datetime | None = None) -> Iterator[str]:
    """Yield a sentence for each file with a certificate that is not valid now, or will not be soon."""
    now = now or datetime.now(UTC)
    for name, certificates in _named(tls, path):
        reasons = [_invalid(one, now) for one in certificates]
        if all(reasons):
            yield f"`{name}`: the certificate {reasons[0]}"


def certificate_ends(tls: Tls, path: str) -> Iterator[tuple[str, float]]:
    """Yield each setting with a certificate, and when that expires, in seconds since 1970."""
    for name, certificates in _named(tls, path):
        yield name, max(one.not_valid_after_utc for one in certificates).timestamp()


def _named(tls: Tls, path: str) -> Iterator[tuple[str, list[x509.Certificate]]]:
    """Yield each setting with a file, and its certificates, of which one must be valid: of a chain the first.

    Bundles of a system contain expired ones.
    """
    if tls.cert_file is not None:
        yield f"{path}.cert_file", _certificates(tls.cert_file, f"{path}.cert_file")[:1]
    ca_file = getattr(tls, "ca_file", None)
    if ca_file is not None:
        yield f"{path}.ca_file", _certificates(ca_file, f"{path}.ca_file")


def _invalid(certificate: x509.Certificate, now: datetime) -> str:
    """Return why a certificate is not valid now or soon, empty if it is."""
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < begin:
        return f"is not valid before {begin:%Y-%m-%d %H:%M} UTC"
    if now > end:
        return f"expired on {end:%Y-%m-%d}"
    return f"expires on {end:%Y-%m-%d}" if now > end - EXPIRES_SOON else ""


def _read(file: Path, name: str) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise SettingsError(f"`{name}`: {file}: {file_problem(error)}") from None


def _certificates(file: Path, name: str) -> list[x509.Certificate]:
    """Return the certificates of a file, at least one."""
    data = _read(file, name)
    try:
        return x509.load_pem_x509_certificates(data)
    except ValueError:
        raise SettingsError(f"`{name}`: expected a certificate in PEM format") from None


def _private_key(data: bytes, password: str, name: str) -> PrivateKeyTypes:
    try:
        return serialization.load_pem_private_key(data, password.encode() or None)
    except TypeError:  # a password without an encrypted key, or the reverse
        reason = "the private key has no password" if password else "the private key needs `key_password_file`"
    except UnsupportedAlgorithm:
        reason = "the private key has an unsupported type"
    except ValueError:
        reason = "expected a private key in PEM format" + (", and its password" if password else "")
    raise SettingsError(f"`{name}`: {reason}")


def _unusable(name: str, error: OSError) -> SettingsError:
    reason = (getattr(error, "reason", None) or type(error).__name__).lower().replace("_", " ")
    return SettingsError(f"`{name}`: cannot be used: {reason}")
