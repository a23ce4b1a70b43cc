"""TLS of the server, with real certificates: clients, rotation, and files that cannot be used."""

import asyncio
import json
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID
from structlog.testing import capture_logs

from penstock.server.authentication.certificates import CertificateMethod
from penstock.server.http.http1 import http1
from penstock.server.http.tls import (
    HandshakeLog,
    NameKind,
    ServerTls,
    TlsFiles,
    TlsFilesUnusable,
    has_all,
    read_validity,
)
from tests.server.authentication.authority import DAY, Authority

Pair = tuple[Path, Path]


async def say_who_calls(scope: Any, receive: Any, send: Any) -> None:
    """Answer with the caller of the connection's certificate."""
    assert scope["type"] == "http"
    kind: NameKind = scope["path"].strip("/") or "cn"
    caller = CertificateMethod(kind).identify(scope)
    body = json.dumps([scope["scheme"], caller and str(caller)]).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


@contextmanager
def serving(tls: ServerTls) -> Iterator[int]:
    """Yield the port of a server that runs in a thread."""
    config = uvicorn.Config(
        say_who_calls, http=http1(5, 5), lifespan="off", log_config=None, ssl_context_factory=lambda *_: tls.context
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(300)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def files(authority: Authority) -> TlsFiles:
    return TlsFiles(*authority.sign_for_server(), authority.certificate)


@pytest.fixture
def tls(files: TlsFiles) -> ServerTls:
    return ServerTls(files)


@pytest.fixture
def port(tls: ServerTls) -> Iterator[int]:
    with serving(tls) as found:
        yield found


class Client:
    """A client of the server, which may have a certificate."""

    def __init__(self, trusted: Path, pair: Pair | None = None, version: ssl.TLSVersion | None = None) -> None:
        self.context = ssl.create_default_context(cafile=str(trusted))
        if version is not None:
            self.context.minimum_version = self.context.maximum_version = version
        if pair is not None:
            self.context.load_cert_chain(*pair)
        self.session: ssl.SSLSession | None = None
        self.was_resumed = False

    def connect(self, port: int) -> ssl.SSLSocket:
        raw = socket.create_connection(("127.0.0.1", port), timeout=60)
        return self.context.wrap_socket(raw, server_hostname="localhost", session=self.session)

    def get(self, port: int, path: str = "/") -> Any:
        with self.connect(port) as connection:
            found = ask(connection, path)
            self.session, self.was_resumed = connection.session, bool(connection.session_reused)
            return found


def ask(connection: ssl.SSLSocket, path: str = "/") -> Any:
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    answer = b""
    while b"]" not in answer:
        piece = connection.recv(65536)
        if not piece:
            raise ConnectionResetError(f"the server closes after {answer!r}")
        answer += piece
    return json.loads(answer.partition(b"\r\n\r\n")[2])


def test_client_without_certificate_is_served_and_has_no_caller(port: int, authority: Authority) -> None:
    assert Client(authority.certificate).get(port) == ["https", None]


def test_certificate_names_the_caller_of_each_request(port: int, authority: Authority) -> None:
    pair = authority.sign(
        "client",
        cn=["billing"],
        names=[
            x509.DNSName("billing.example"),
            x509.UniformResourceIdentifier("spiffe://example/billing"),
            x509.RFC822Name("jane@x.example"),
        ],
    )

    with Client(authority.certificate, pair).connect(port) as connection:
        found = [ask(connection, f"/{kind}")[1] for kind in ("cn", "dns", "uri", "email", "cn")]

    names = ["service:billing", "service:billing.example", "service:spiffe://example/billing", "user:jane@x.example"]
    assert found == [*names, "service:billing"]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("fault", ["other authority", "expired", "not yet valid", "for servers", "self-signed"])
def test_certificate_that_is_not_valid_ends_the_connection(
    port: int, authority: Authority, tmp_path: Path, fault: str, version: ssl.TLSVersion
) -> None:
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other")
    options: dict[str, Any] = {
        "expired": {"begins": -2 * DAY, "ends": -DAY},
        "not yet valid": {"begins": DAY, "ends": 2 * DAY},
        "for servers": {"usage": ExtendedKeyUsageOID.SERVER_AUTH},
    }
    signer = other if fault in ("other authority", "self-signed") else authority
    pair = signer.sign("client", cn=["billing"], **options.get(fault, {}))

    with pytest.raises((ssl.SSLError, ConnectionError)):
        Client(authority.certificate, pair, version).get(port)
    assert Client(authority.certificate).get(port) == ["https", None], "the server goes on"


def test_intermediate_authority_can_be_trusted_without_its_root(files: TlsFiles, authority: Authority) -> None:
    intermediate = Authority(files.certificate.parent, "intermediate", authority)
    pairs = [each.sign(f"client-{number}", cn=["billing"]) for number, each in enumerate((intermediate, authority))]
    with serving(ServerTls(files._replace(client_ca=intermediate.certificate))) as port:
        assert Client(authority.certificate, pairs[0]).get(port) == ["https", "service:billing"]
        with pytest.raises((ssl.SSLError, ConnectionError)):
            Client(authority.certificate, pairs[1]).get(port)


def test_certificates_are_not_asked_for_without_authorities_of_clients(files: TlsFiles, authority: Authority) -> None:
    with serving(ServerTls(files._replace(client_ca=None))) as port:
        pair = authority.sign("client", cn=["billing"])

        assert Client(authority.certificate, pair).get(port) == ["https", None]


def test_older_versions_of_tls_are_refused(port: int, authority: Authority) -> None:
    client = Client(authority.certificate)
    client.context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        client.context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        client.context.maximum_version = ssl.TLSVersion.TLSv1_1

    with pytest.raises((ssl.SSLError, ConnectionError)):
        client.get(port)


def test_plain_http_gets_no_answer_and_harms_nobody(port: int, authority: Authority) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with suppress(ConnectionResetError):
            assert not plain.recv(100).startswith(b"HTTP")

    assert Client(authority.certificate).get(port) == ["https", None]


def test_refused_request_over_tls_has_a_whole_answer(port: int, authority: Authority) -> None:
    with Client(authority.certificate).connect(port) as connection:
        connection.sendall(b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n" + b"x" * 2_000_000)
        answer = b""
        while not answer.endswith(b"}"):
            piece = connection.recv(65536)
            assert piece, answer
            answer += piece

    assert answer.startswith(b"HTTP/1.1 400 ")


# Rotation.


def replace(files: TlsFiles, pair: Pair) -> None:
    for source, target in zip(pair, (files.certificate, files.key), strict=True):
        shutil.copy(source, f"{target}.new")
        Path(f"{target}.new").rename(target)


def peer_of(client: Client, port: int) -> bytes | None:
    with client.connect(port) as connection:
        return connection.getpeercert(binary_form=True)


def test_new_certificate_is_used_without_restart(
    port: int, tls: ServerTls, files: TlsFiles, authority: Authority
) -> None:
    client = Client(authority.certificate)
    before, expires_at = peer_of(client, port), tls.expires_at
    assert not tls.reload(), "nothing has changed"
    with client.connect(port) as kept:
        assert ask(kept) == ["https", None]
        replace(files, authority.sign_for_server("renewed", ends=90 * DAY))

        assert tls.reload()

        assert peer_of(client, port) != before
        assert tls.expires_at > expires_at + 80 * 86400
        assert ask(kept) == ["https", None], "a connection that exists goes on"


def test_files_that_do_not_fit_keep_the_last_certificate(
    port: int, tls: ServerTls, files: TlsFiles, authority: Authority
) -> None:
    client = Client(authority.certificate)
    before = peer_of(client, port)
    renewed = authority.sign_for_server("renewed")

    shutil.copy(renewed[0], files.certificate)
    assert not tls.reload()
    assert peer_of(client, port) == before
    files.certificate.write_text("-----BEGIN")
    assert not tls.reload()
    files.certificate.unlink()
    assert not tls.reload()
    assert peer_of(client, port) == before

    replace(files, renewed)
    assert tls.reload()
    assert peer_of(client, port) != before


def test_linked_files_are_followed(authority: Authority, tmp_path: Path) -> None:
    """Kubernetes replaces the link to the folder that has the files of a secret."""
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
        for source, name in zip(authority.sign_for_server(f"s{number}", ends=number * DAY), ("c", "k"), strict=True):
            shutil.copy(source, tmp_path / str(number) / name)
    (tmp_path / "data").symlink_to("1")
    tls = ServerTls(TlsFiles(tmp_path / "data" / "c", tmp_path / "data" / "k"))
    before = tls.expires_at

    (tmp_path / "next").symlink_to("2")
    (tmp_path / "next").rename(tmp_path / "data")

    assert tls.reload()
    assert tls.expires_at > before


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_clients_are_checked_against_new_authorities(
    port: int, tls: ServerTls, files: TlsFiles, authority: Authority, version: ssl.TLSVersion
) -> None:
    folder = files.certificate.parent
    (folder / "next").mkdir()
    successor = Authority(folder / "next")
    trusted = folder / "trusted.pem"
    shutil.copy(authority.certificate, trusted)
    old = Client(trusted, authority.sign("client", cn=["old"]), version)
    new = Client(trusted, successor.sign("client", cn=["new"]), version)
    assert old.get(port) == ["https", "service:old"]
    with pytest.raises((ssl.SSLError, ConnectionError)):
        new.get(port)

    assert files.client_ca is not None
    shutil.copy(successor.certificate, files.client_ca)
    assert tls.reload()

    assert new.get(port) == ["https", "service:new"]
    with pytest.raises((ssl.SSLError, ConnectionError)):
        old.get(port)
    assert not old.was_resumed


def test_files_are_watched_in_the_background(
    tls: ServerTls, files: TlsFiles, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.server.http.tls.CHECK_INTERVAL", 0.01)
    before = tls.expires_at
    tls.start()

    replace(files, authority.sign_for_server("renewed", ends=9 * DAY))

    while tls.expires_at == before:
        time.sleep(0.005)
    tls.close()


# Files that cannot be used.


def reason_for(files: TlsFiles) -> str:
    with pytest.raises(TlsFilesUnusable) as unusable:
        ServerTls(files)
    return str(unusable.value)


@pytest.mark.parametrize("kind", ["same", "other"])
def test_key_of_another_certificate_is_refused_with_a_way_to_find_the_pair(
    files: TlsFiles, authority: Authority, tmp_path: Path, kind: str
) -> None:
    _, key = authority.sign_for_server("other")
    if kind == "other":
        key = tmp_path / "rsa.key"
        key.write_bytes(
            rsa.generate_private_key(65537, 2048).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        )
    with pytest.raises(TlsFilesUnusable, match="the key is that of another certificate") as refused:
        ServerTls(files._replace(key=key))

    assert f"Name the key that the first certificate in {files.certificate} was made for" in refused.value.hint
    assert f"openssl pkey -pubout -in {key}" in refused.value.hint


def test_unusable_files_are_named_with_the_reason(files: TlsFiles, authority: Authority, tmp_path: Path) -> None:
    _, other_key = authority.sign_for_server("other")
    garbage, away = tmp_path / "garbage", tmp_path / "away"
    garbage.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    key = load_pem_private_key(files.key.read_bytes(), None)
    encrypted = tmp_path / "encrypted"
    encrypted.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")))

    assert f"{away} cannot be read: No such file" in reason_for(files._replace(certificate=away))
    assert f"{away} cannot be read: No such file" in reason_for(files._replace(key=away))
    assert f"{away} cannot be read: No such file" in reason_for(files._replace(client_ca=away))
    assert "another certificate" in reason_for(files._replace(key=other_key))
    assert "malformed" in reason_for(files._replace(certificate=garbage))
    assert "no certificate" in reason_for(files._replace(certificate=files.key))
    assert str(files.certificate) in reason_for(files._replace(key=files.certificate))
    assert "encrypted" in reason_for(files._replace(key=encrypted))
    assert "authorities" in reason_for(files._replace(client_ca=files.key))


@pytest.mark.parametrize("days", [1, 365, 365 * 20, 365 * 60])
def test_expiry_is_that_of_the_certificate(authority: Authority, days: int) -> None:
    certificate, _ = authority.sign("c", cn=["billing"], ends=timedelta(days=days))

    expected = x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc.timestamp()
    assert read_validity("a text before it\n" + certificate.read_text()).ends_at == expected


@pytest.mark.parametrize(
    ("begins", "ends", "fault"),
    [(-2 * DAY, -DAY, "has expired: it was valid until 20"), (DAY, 2 * DAY, "is not valid before 20"), (-DAY, DAY, "")],
    ids=["expired", "early", "valid"],
)
def test_certificate_that_is_not_valid_now_has_a_fault(
    authority: Authority, begins: timedelta, ends: timedelta, fault: str
) -> None:
    tls = ServerTls(TlsFiles(*authority.sign_for_server("now", begins=begins, ends=ends)))

    assert fault in (tls.find_fault() or "")
    assert bool(fault) == (tls.find_fault() is not None)


def test_connection_that_is_gone_awaits_nothing() -> None:
    class Gone(asyncio.Transport):
        def get_write_buffer_size(self) -> int:
            return 0

    assert has_all(Gone({"socket": None}))


def test_seconds_left_are_negative_for_an_expired_certificate(authority: Authority) -> None:
    tls = ServerTls(TlsFiles(*authority.sign_for_server("late", begins=-2 * DAY, ends=-DAY)))

    assert -90_000 < tls.measure_seconds_left() < -80_000


def test_handshakes_that_fail_for_one_reason_have_a_line_in_ten_seconds() -> None:
    times = iter((0.0, 1.0, 9.9, 9.9, 10.0))
    log = HandshakeLog(lambda: next(times))
    plain, other = ssl.SSLError(), ssl.SSLError()
    plain.reason, other.reason = "HTTP_REQUEST", "NO_SHARED_CIPHER"
    with capture_logs() as lines:
        for error in (plain, plain, plain, other, plain):
            log.note(error, "10.0.0.7")

    first = "the client speaks plain HTTP: its address has to begin with https:// (HTTP_REQUEST)"
    told = [(each["reason"], each["failures"]) for each in lines]
    assert told == [(first, 1), ("NO_SHARED_CIPHER", 1), (first, 3)]
    assert {(each["event"], each["client"]) for each in lines} == {("TLS handshake failed", "10.0.0.7")}
