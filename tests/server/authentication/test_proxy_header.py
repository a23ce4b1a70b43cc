"""A proxy's header: who is identified by it, and who cannot spoof it."""

from typing import Any

import pytest

from penstock.core.access import Caller
from penstock.errors import Unauthenticated
from penstock.server.authentication.proxy_header import ProxyHeaderMethod

METHOD = ProxyHeaderMethod("X-Forwarded-User", "user", ["127.0.0.1", "10.0.0.0/8"])


def scope_of(address: str | None, *headers: tuple[bytes, bytes]) -> dict[str, Any]:
    given = [(b"host", b"hub"), *headers]
    return {"type": "http", "headers": given, "client": address and (address, 1)}


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "::ffff:10.1.2.3"])
def test_trusted_proxy_names_the_caller(address: str) -> None:
    assert METHOD.identify(scope_of(address, (b"x-forwarded-user", b"jane"))) == Caller("user", "jane")
    assert METHOD.identify(scope_of(address, (b"x-forwarded-user", "zoë".encode()))) == Caller("user", "zoë")


@pytest.mark.parametrize("address", ["192.0.2.1", "127.0.0.2", "11.0.0.1", "::1", "", "unix", "10.0.0.1.evil", None])
def test_header_of_another_address_is_ignored(address: str | None) -> None:
    assert METHOD.identify(scope_of(address, (b"x-forwarded-user", b"jane"))) is None


def test_forwarding_headers_make_nobody_a_trusted_proxy() -> None:
    spoofed = [(b"x-forwarded-for", b"127.0.0.1"), (b"forwarded", b"for=127.0.0.1"), (b"x-real-ip", b"127.0.0.1")]

    assert METHOD.identify(scope_of("192.0.2.1", *spoofed, (b"x-forwarded-user", b"jane"))) is None


def test_request_without_the_header_has_no_credential() -> None:
    assert METHOD.identify(scope_of("127.0.0.1")) is None
    assert METHOD.identify(scope_of("127.0.0.1", (b"x_forwarded_user", b"jane"), (b"x-user", b"jane"))) is None


@pytest.mark.parametrize("value", [b"", b"*", b" jane", b"a\tb", b"\xff", "a\u202eb".encode(), b"a" * 256])
def test_header_that_names_nobody_is_refused(value: bytes) -> None:
    with pytest.raises(Unauthenticated):
        METHOD.identify(scope_of("127.0.0.1", (b"x-forwarded-user", value)))


def test_header_that_is_there_twice_is_refused() -> None:
    with pytest.raises(Unauthenticated) as refused:
        METHOD.identify(scope_of("127.0.0.1", (b"x-forwarded-user", b"jane"), (b"x-forwarded-user", b"admin")))

    assert "2 times" in refused.value.fields["reason"]


def test_method_without_trusted_proxies_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="no proxy"):
        ProxyHeaderMethod("X-Forwarded-User", "user", [])
