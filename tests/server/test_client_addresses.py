"""Clients behind a trusted proxy are known by their own addresses, and nobody can make one up."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from starlette.testclient import TestClient

from penstock.errors import PenstockError, TooManyRequests, Unauthenticated
from penstock.hub.hub import Hub
from penstock.server import HubApp
from penstock.server.authentication.authentication import Authentication
from penstock.server.authentication.proxy_header import ProxyHeaderMethod
from penstock.server.authentication.tokens import TokenMethod
from penstock.server.http.requests import TrustedProxies
from penstock.server.telemetry import AccessLine
from penstock.storage import open_store
from penstock.testing.factories import an_event_type

PROXY: Final = "10.0.0.7"
OTHER: Final = "192.0.2.9"
TRUSTED: Final = ["10.0.0.0/8", "fd00::/8"]


def scope_of(peer: str | None, *headers: tuple[str, str]) -> dict[str, Any]:
    given = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
    return {"type": "http", "scheme": "http", "path": "/", "headers": given, "client": peer and (peer, 4711)}


def find_client(peer: str, *values: str) -> str:
    """Return the address of the client of a request that *peer* sends with such headers `X-Forwarded-For`."""
    scope = scope_of(peer, *(("X-Forwarded-For", each) for each in values))
    address: str = TrustedProxies(TRUSTED).apply_forwarding(scope)["client"][0]
    return address


@pytest.mark.parametrize(
    ("values", "client"),
    [
        ([], PROXY),
        (["192.0.2.1"], "192.0.2.1"),
        (["198.51.100.66, 192.0.2.1"], "192.0.2.1"),
        (["192.0.2.1, 10.0.0.8"], "192.0.2.1"),
        (["198.51.100.66, 192.0.2.1, 10.0.0.8,10.0.0.9"], "192.0.2.1"),
        (["198.51.100.66", "192.0.2.1", "10.0.0.8"], "192.0.2.1"),
        (["10.0.0.1, 10.0.0.8"], "10.0.0.1"),
        (["192.0.2.1:4711"], "192.0.2.1"),
        (["2001:DB8:0::1"], "2001:db8::1"),
        (["[2001:db8::1]"], "2001:db8::1"),
        (["[2001:db8::1]:443, fd00::7"], "2001:db8::1"),
        (["::ffff:192.0.2.1, ::ffff:10.0.0.8"], "192.0.2.1"),
        (["", " , ", "192.0.2.1,"], "192.0.2.1"),
    ],
)
def test_client_is_the_last_address_that_is_no_trusted_proxy(values: Sequence[str], client: str) -> None:
    assert find_client(PROXY, *values) == client


@pytest.mark.parametrize(
    "garbage",
    ["unknown", "_hidden", "192.0.2.01", "192.0.2", "192.0.2.1.evil", "fe80::1%eth0", "[fe80::1%25x]", '"192.0.2.1"',
     "192.0.2.1 192.0.2.2", "é", "-", "[", "1" * 5_000, "hub.example:80"],
)  # fmt: skip
def test_what_stands_before_no_address_is_not_believed(garbage: str) -> None:
    assert find_client(PROXY, garbage) == PROXY
    assert find_client(PROXY, f"198.51.100.66, {garbage}") == PROXY
    assert find_client(PROXY, f"198.51.100.66, {garbage}, 10.0.0.8") == "10.0.0.8"
    assert find_client(PROXY, f"{garbage}, 192.0.2.1") == "192.0.2.1"


@pytest.mark.parametrize("peer", [OTHER, "2001:db8::9", "unix", "", None])
def test_header_of_an_untrusted_peer_has_no_effect(peer: str | None) -> None:
    scope = scope_of(peer, ("X-Forwarded-For", "10.0.0.8"), ("X-Forwarded-For", "192.0.2.1"))

    assert TrustedProxies(TRUSTED).apply_forwarding(scope) is scope
    assert TrustedProxies([]).apply_forwarding(scope) is scope


def test_other_headers_say_nothing_of_the_address() -> None:
    spoofed = [("Forwarded", "for=198.51.100.66"), ("X-Real-IP", "198.51.100.66"), ("True-Client-IP", "198.51.100.66")]
    scope = scope_of(PROXY, *spoofed, ("X-Forwarded-For", "192.0.2.1"))

    assert TrustedProxies(TRUSTED).apply_forwarding(scope)["client"] == ("192.0.2.1", 0)
    assert TrustedProxies(TRUSTED).apply_forwarding(scope_of(PROXY, *spoofed))["client"] == (PROXY, 0)


def test_caller_of_a_proxy_header_goes_by_the_proxy_and_not_by_its_client() -> None:
    proxies, method = TrustedProxies(TRUSTED), ProxyHeaderMethod("X-User", "user", TRUSTED)
    named = ("X-User", "jane")

    forwarded = proxies.apply_forwarding(scope_of(PROXY, named, ("X-Forwarded-For", "192.0.2.1")))
    spoofed = proxies.apply_forwarding(scope_of(OTHER, named, ("X-Forwarded-For", "10.0.0.8")))

    assert str(method.identify(forwarded)) == "user:jane"
    assert method.identify(spoofed) is None


class Lines:
    """A hub behind a proxy, and the addresses in its access lines."""

    def __init__(self, url: str) -> None:
        self.addresses = list[str]()
        self.hub = HubApp(url, trusted_proxies=TRUSTED, access_log=self._note)

    def _note(self, line: AccessLine) -> None:
        self.addresses.append(line.members()["address"])

    def client(self, peer: str) -> TestClient:
        return TestClient(self.hub, base_url="http://hub", client=(peer, 4711))


@pytest.fixture
def lines(tmp_path: Path) -> Iterator[Lines]:
    found = Lines(f"sqlite:///{tmp_path}/hub.db")
    with TestClient(found.hub):
        yield found


def test_access_line_has_the_address_of_the_client(lines: Lines) -> None:
    spoofing = {"X-Forwarded-For": "198.51.100.66, 192.0.2.1"}
    lines.client(PROXY).get("/event-types", headers=spoofing)
    lines.client(OTHER).get("/event-types", headers=spoofing)

    assert lines.addresses == ["192.0.2.1", OTHER]


def test_audit_log_has_the_address_of_the_client(lines: Lines, tmp_path: Path) -> None:
    through, made = lines.client(PROXY), {"X-Forwarded-For": "198.51.100.66, 192.0.2.1"}
    through.post("/settings/features", json={"feature": "audit_log_collection", "enabled": True})
    assert through.post("/event-types", json=an_event_type("audited"), headers=made).status_code == 201

    log = through.get("/feeds/nakadi.audit.log?n=1&cursor0=_first").text
    assert '"address":"192.0.2.1"' in log
    assert "198.51.100.66" not in log


@pytest.mark.parametrize(
    ("guessing", "innocent"), [("192.0.2.1", OTHER), ("2001:db8::{number:x}", "2001:db8:0:1::1")], ids=["IPv4", "IPv6"]
)
def test_guesses_of_one_address_or_network_slow_down_no_other_behind_the_same_proxy(
    tmp_path: Path, guessing: str, innocent: str
) -> None:
    store = open_store(f"sqlite:///{tmp_path}/hub.db")
    store.migrate()
    authentication, proxies = Authentication([TokenMethod()]), TrustedProxies(TRUSTED)

    def guess(client: str) -> Any:
        header = ("X-Forwarded-For", f"198.51.100.66, {client}")
        scope = {**proxies.apply_forwarding(scope_of(PROXY, header)), "penstock.credential": b"Bearer pst_short"}
        return authentication.authenticate(scope)

    async def send_all() -> tuple[list[Any], Any]:
        guesses = [guess(guessing.format(number=number)) for number in range(100)]
        many = await asyncio.gather(*guesses, return_exceptions=True)
        return many, (await asyncio.gather(guess(innocent), return_exceptions=True))[0]

    hub = Hub(store)
    authentication.start(hub)
    try:
        many, other = asyncio.run(send_all())
    finally:
        hub.stop()

    assert {type(each) for each in many} == {Unauthenticated, TooManyRequests}
    assert isinstance(other, PenstockError)
    assert other.code == "unauthenticated"
