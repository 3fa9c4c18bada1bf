"""Certificates and keys for tests, as files in PEM format."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

FORM = serialization.PrivateFormat.PKCS8
_OFF = dict.fromkeys(
    ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only", "decipher_only"),
    False,
)
_OF_AUTHORITIES = (
    x509.BasicConstraints(ca=True, path_length=0),
    x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, **_OFF),
)
"""With the key identifiers, what RFC 5280 requires of authorities, and Python 3.13 of those that it trusts."""


class Authority:
    """A certificate authority of its own; its certificate is in `file`."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        certificate = self._signed(self._name, self._key.public_key(), 400, *_OF_AUTHORITIES)
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self, name: str, *, valid_days: float = 365, password: str = "", address: str | None = None
    ) -> tuple[Path, Path]:
        """Return the files of a new certificate for localhost or an address, and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        certificate = self._signed(subject, key.public_key(), valid_days, address=address)
        cert_file, key_file = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        cert_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        hidden = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
        key_file.write_bytes(key.private_bytes(serialization.Encoding.PEM, FORM, hidden))
        return cert_file, key_file

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        valid_days: float,
        *extensions: x509.ExtensionType,
        address: str | None = None,
    ) -> x509.Certificate:
        begin = datetime.now(UTC) - timedelta(days=2)
        name = x509.DNSName("localhost") if address is None else x509.IPAddress(ip_address(address))
        names = x509.SubjectAlternativeName([name])
        builder = x509.CertificateBuilder(
            self._name, subject, key, x509.random_serial_number(), begin, begin + timedelta(days=2 + valid_days)
        )
        ids = (
            x509.SubjectKeyIdentifier.from_public_key(key),
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
        )
        for extension in (names, *ids, *extensions):
            builder = builder.add_extension(extension, critical=extension in _OF_AUTHORITIES)
        return builder.sign(self._key, hashes.SHA256())
