"""What secures the demo's hub: certificates that hold in a handshake, and tokens that nobody else can read."""

import os
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.failures import CommandFailure
from penstock_demo.access import CALLERS, FLAGGER, OPERATOR, PIPELINE, RIGHTS, HubAccess
from penstock_demo.dataset import DEPARTED, EVENT_TYPES
from penstock_demo.securing import Security, make_certificates, make_tokens, secure
from penstock_demo.story import tell


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture
def generous_umask() -> Iterator[None]:
    """Withhold no right from files that are made: those of secret files have to be withheld by who makes them."""
    before = os.umask(0)
    yield
    os.umask(before)


def shake_hands(trusted: Path, certificate: Path, key: Path, name: str) -> str | None:
    """Connect a client that trusts the authority in *trusted* to a server *name*; return the version of TLS."""
    ours = ssl.create_default_context(cafile=trusted)
    ours.verify_flags |= ssl.VERIFY_X509_STRICT  # As newer Pythons do by default.
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(certificate, key)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ours.wrap_bio(down, up, server_hostname=name)
    server = theirs.wrap_bio(up, down, server_side=True)
    for side in (client, server, client, server):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return client.version()


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_certificate_holds_for_this_machine_under_strict_rules(tmp_path: Path, name: str) -> None:
    assert shake_hands(*make_certificates(tmp_path), name) == "TLSv1.3"


def test_certificate_holds_for_no_other_name_and_no_other_authority(tmp_path: Path) -> None:
    authority, certificate, key = make_certificates(tmp_path)
    (tmp_path / "other").mkdir()
    other, _, _ = make_certificates(tmp_path / "other")

    with pytest.raises(ssl.SSLCertVerificationError, match=r"not valid for 'hub\.example'"):
        shake_hands(authority, certificate, key, "hub.example")
    with pytest.raises(ssl.SSLCertVerificationError, match=r"unable to get local issuer|signature failure"):
        shake_hands(other, certificate, key, "localhost")


@pytest.mark.usefixtures("generous_umask")
def test_secrets_are_readable_by_their_owner_alone(tmp_path: Path) -> None:
    security = secure(tmp_path, f"sqlite:///{tmp_path}/penstock.db")

    assert {mode(file) for file in (security.key, *security.tokens.values())} == {0o600}
    assert {mode(tmp_path / folder) for folder in ("tls", "tokens")} == {0o700}
    assert security.tokens.keys() == {*CALLERS}
    assert [*tmp_path.rglob("*.new")] == []
    kept = {each.read_bytes().strip() for each in security.tokens.values()}
    assert len(kept) == len(CALLERS)
    assert all(each.startswith(b"pst_") for each in kept)
    for file in tmp_path.glob("penstock.db*"):
        assert b"pst_" not in file.read_bytes()
    assert b"PRIVATE KEY" not in security.authority.read_bytes() + security.certificate.read_bytes()


def test_tokens_of_an_earlier_run_are_revoked(tmp_path: Path) -> None:
    from penstock.cli.database import open_database
    from penstock.hub.admin.tokens import Tokens
    from penstock.hub.background import system_clock

    database = f"sqlite:///{tmp_path}/penstock.db"
    first = {name: file.read_text() for name, file in make_tokens(tmp_path, database).items()}
    second = {name: file.read_text() for name, file in make_tokens(tmp_path, database).items()}

    assert not {*first.values()} & {*second.values()}
    with open_database(database) as store:
        there = Tokens(store, system_clock).list()
    assert sorted(each.caller.value for each in there) == sorted(CALLERS)


def test_options_of_the_hub_name_files_and_no_secret(tmp_path: Path) -> None:
    tokens = {name: tmp_path / f"{name}.token" for name in CALLERS}
    security = Security(tmp_path / "authority.pem", tmp_path / "hub.pem", tmp_path / "hub.key", tokens)

    options = security.serve_options()

    assert options[:4] == ["--auth", "token", "--default-access", "closed"]
    assert options[options.index("--tls-key") + 1] == str(tmp_path / "hub.key")
    assert not any("token" in option for option in options[2:])


def test_each_event_type_of_the_demo_has_its_lists() -> None:
    assert {file.stem for file in EVENT_TYPES.glob("*.yaml")} <= RIGHTS.keys()
    given = HubAccess("https://h", {name: Path(name) for name in CALLERS}).protect(DEPARTED, {"category": "business"})

    assert given["category"] == "business"
    assert [each["value"] for each in given["authorization"]["readers"]] == [PIPELINE, FLAGGER]
    assert [each["value"] for each in given["authorization"]["admins"]] == [OPERATOR]


def test_open_hub_is_asked_without_credentials_and_spark_told_the_absolute_file_of_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = HubAccess("http://h")

    assert not hub.is_secured
    assert (hub.find_credential(PIPELINE), hub.make_options(PIPELINE)) == (None, {"url": "http://h"})
    assert hub.protect(DEPARTED, {"category": "business"}) == {"category": "business"}

    monkeypatch.chdir(tmp_path)
    hub = HubAccess("https://h", {PIPELINE: Path("tokens/pipeline.token")})

    assert hub.make_options(PIPELINE) == {"url": "https://h", "tokenFile": f"{tmp_path}/tokens/pipeline.token"}


def test_missing_library_for_certificates_is_named_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "cryptography" else name)

    with pytest.raises(CommandFailure) as failed:
        tell(tmp_path / "demo", is_secure=True)

    assert failed.value.detail == "--secure needs cryptography, which makes the certificate"
    assert failed.value.hint == "pip install -e '.[demo]'"
    assert not (tmp_path / "demo").exists()
