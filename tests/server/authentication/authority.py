"""An authority that signs certificates for tests."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = timedelta(days=1)
SIGNS = x509.KeyUsage(
    key_cert_sign=True,
    crl_sign=True,
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)


class Authority:
    """Signs certificates, and writes them into *folder*."""

    def __init__(self, folder: Path, name: str = "authority", parent: "Authority | None" = None) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        signer = parent or self
        public = self._key.public_key()
        built = (
            signer._builder(self._name, public, -DAY, 3650 * DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(SIGNS, critical=True)
            .sign(signer._key, hashes.SHA256())
        )
        self.certificate = self._write(f"{name}.pem", built.public_bytes(Encoding.PEM))

    def sign(
        self,
        file: str,
        *,
        cn: Sequence[str] = (),
        names: Sequence[x509.GeneralName] = (),
        begins: timedelta = -DAY,
        ends: timedelta = DAY,
        usage: x509.ObjectIdentifier = ExtendedKeyUsageOID.CLIENT_AUTH,
    ) -> tuple[Path, Path]:
        """Return the files of a certificate and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, each) for each in cn])
        builder = self._builder(subject, key.public_key(), begins, ends)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=not cn)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return self._write(f"{file}.pem", certificate), self._write(f"{file}.key", private)

    def sign_for_server(self, file: str = "server", **options: Any) -> tuple[Path, Path]:
        """Return the files of a certificate for this machine."""
        names = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
        return self.sign(file, cn=["hub"], names=names, usage=ExtendedKeyUsageOID.SERVER_AUTH, **options)

    def _builder(self, subject: x509.Name, key: Any, begins: timedelta, ends: timedelta) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + begins)
            .not_valid_after(now + ends)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )

    def _write(self, name: str, content: bytes) -> Path:
        path = self._folder / name
        path.write_bytes(content)
        return path
