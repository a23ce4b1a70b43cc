"""Secures the demo's hub: makes a certificate, and a token for each caller.

Each run makes new ones. The authority that signs the certificate signs nothing else: its key is never written down.
The tokens of earlier runs are revoked.
"""

import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final, NamedTuple

from penstock_demo.access import CALLERS, OPERATOR

VALID_DAYS: Final = 90
"""The validity of certificate and tokens: later visits to the hub need them, too."""


class Security(NamedTuple):
    """The files by which a hub is secured."""

    authority: Path
    """The certificate that clients trust."""
    certificate: Path
    key: Path
    tokens: Mapping[str, Path]
    """For each caller."""

    def serve_options(self) -> list[str]:
        """Return the options of `penstock serve`; no secret is among them."""
        tls = ["--tls-cert", str(self.certificate), "--tls-key", str(self.key)]
        return ["--auth", "token", "--default-access", "closed", "--admin", f"service:{OPERATOR}", *tls]


def secure(directory: Path, database: str) -> Security:
    """Make a certificate and tokens in *directory*, for a hub on *database*, which is created if it is not there.

    Raises:
        CommandFailure: the database cannot be used.
    """
    authority, certificate, key = make_certificates(_make_folder(directory / "tls"))
    return Security(authority, certificate, key, make_tokens(_make_folder(directory / "tokens"), database))


def make_certificates(folder: Path) -> tuple[Path, Path, Path]:
    """Make an authority, and a certificate for this machine; return the files of both certificates and of the key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    def named(name: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])

    now = datetime.now(UTC)
    authority_name, authority_key = named("Penstock demo authority"), ec.generate_private_key(ec.SECP256R1())
    signed_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())

    def build(name: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder(authority_name, name, public, x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + timedelta(days=VALID_DAYS))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(signed_by, critical=False)
        )

    signing = dict.fromkeys(
        ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"), False
    )
    usage = x509.KeyUsage(key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False, **signing)
    authority = (
        build(authority_name, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
    certificate = (
        build(named("Penstock demo hub"), key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    return (
        _write(folder / "authority.pem", authority.public_bytes(Encoding.PEM), 0o644),
        _write(folder / "hub.pem", certificate.public_bytes(Encoding.PEM), 0o644),
        _write(folder / "hub.key", key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), 0o600),
    )


def make_tokens(folder: Path, database: str) -> dict[str, Path]:
    """Make a token for each caller, each in a file that only its owner may read; revoke those of an earlier run.

    It is what `penstock token create NAME --expires-in 90d --to NAME.token` does.

    Raises:
        CommandFailure: the database cannot be used.
    """
    from penstock.cli.database import find_operator, open_database
    from penstock.core.access import Caller
    from penstock.hub.admin.tokens import Tokens
    from penstock.hub.background import system_clock

    by, files = find_operator(), {name: folder / f"{name}.token" for name in CALLERS}
    with open_database(database, create=True) as store:
        store.migrate()
        tokens = Tokens(store, system_clock)
        earlier = [each.id for each in tokens.list() if each.caller in {Caller("service", name) for name in CALLERS}]
        for name, file in files.items():
            created = tokens.create(Caller("service", name), expires_in_seconds=VALID_DAYS * 86_400, by=by)
            _write(file, f"{created.secret}\n".encode("ascii"), 0o600)
        for id_ in earlier:
            tokens.revoke(id_, by)
    return files


def _make_folder(folder: Path) -> Path:
    folder.mkdir(mode=0o700, exist_ok=True)
    folder.chmod(0o700)
    return folder


def _write(file: Path, content: bytes, mode: int) -> Path:
    """Write *content* into a new file that others never could read, if *mode* forbids it."""
    new = file.with_name(f"{file.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as target:
        target.write(content)
    return new.replace(file)
