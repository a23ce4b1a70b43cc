"""Which certificates each of our HTTP clients trusts, and what it says of others."""

import ssl
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography.x509 import DNSName, IPAddress
from cryptography.x509.oid import ExtendedKeyUsageOID

from penstock.client.http import proxy_transport
from penstock.errors import BadParameter, Unreachable
from tests.answering import answering
from tests.failing import has_code
from tests.server.authentication.authority import DAY, Authority
from tests.unit.client.asking import EVERY, Answers, Ask

HERE = [IPAddress(ip_address("127.0.0.1"))]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Iterator[str]:
    """The URL of a server whose certificate the authority has signed."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.sign_for_server())
    handler = type("Noting", (Answers,), {"asked": []})
    with answering(handler, context) as url:
        yield url


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """The environment of a process that has asked nobody yet."""
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    proxy_transport.tls_context.cache_clear()
    yield monkeypatch
    proxy_transport.tls_context.cache_clear()


@EVERY
def test_client_trusts_the_authority_in_ssl_cert_file(
    environment: pytest.MonkeyPatch, ask: Ask, server: str, authority: Authority
) -> None:
    environment.setenv("SSL_CERT_FILE", str(authority.certificate))

    assert ask(server) == []


@EVERY
def test_untrusted_certificate_is_named_with_the_variable_that_makes_it_trusted(ask: Ask, server: str) -> None:
    with pytest.raises(Unreachable, check=has_code("certificate-untrusted")) as failed:
        ask(server)

    assert f"{server}/event-types has a certificate that this machine does not trust" in failed.value.detail
    assert "SSL_CERT_FILE" in (failed.value.hint or "")


@EVERY
@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"names": [DNSName("hub.example")]}, "Name the server in the address as its certificate does"),
        ({"names": HERE, "begins": -2 * DAY, "ends": -DAY}, "Renew the certificate"),
        ({"names": HERE, "begins": DAY, "ends": 2 * DAY}, "Renew the certificate"),
    ],
    ids=["other host", "expired", "early"],
)
def test_certificate_of_another_host_or_time_is_named_with_what_to_do(
    environment: pytest.MonkeyPatch, ask: Ask, authority: Authority, options: dict[str, Any], hint: str
) -> None:
    environment.setenv("SSL_CERT_FILE", str(authority.certificate))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.sign("other", usage=ExtendedKeyUsageOID.SERVER_AUTH, **options))
    handler = type("Noting", (Answers,), {"asked": []})
    with (
        answering(handler, context) as url,
        pytest.raises(Unreachable, check=has_code("certificate-untrusted")) as failed,
    ):
        ask(url.replace("localhost", "127.0.0.1"))

    assert (failed.value.hint or "").startswith(hint)


@EVERY
@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "No such file or directory"), ("no certificate", "NO_CERTIFICATE_OR_CRL_FOUND")],
)
def test_authority_that_cannot_be_used_is_named(
    environment: pytest.MonkeyPatch, ask: Ask, tmp_path: Path, content: str | None, reason: str
) -> None:
    file = tmp_path / "authority.pem"
    if content is not None:
        file.write_text(content)
    environment.setenv("SSL_CERT_FILE", str(file))

    with pytest.raises(BadParameter, match=reason) as failed:
        ask("https://127.0.0.1:1")

    assert (failed.value.parameter, failed.value.fields["value"]) == ("SSL_CERT_FILE", str(file))
