"""Proxies of the environment: their choice, and the errors of their failures, in each of our HTTP clients."""

from collections.abc import Iterator
from typing import Any

import anyio
import httpx2
import pytest

from penstock.client import Client
from penstock.client.http.adapter import LIMITS
from penstock.client.http.proxies import proxy_for
from penstock.client.http.proxy_transport import AsyncProxyTransport, ProxyTransport
from penstock.errors import BadParameter, ConnectionLost, RequirementMissing, Unavailable, Unreachable
from tests.answering import answering
from tests.failing import has_code
from tests.unit.client.asking import EVERY, Answers, Ask

DEAD = "http://127.0.0.1:1"
HUB = "http://hub.example"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for kind in ("http", "https", "all", "no"):
        for name in (f"{kind}_proxy", f"{kind}_PROXY".upper()):
            monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.fixture
def handler() -> type[Answers]:
    return type("Noting", (Answers,), {"asked": []})


@pytest.fixture
def server(handler: type[Answers]) -> Iterator[str]:
    with answering(handler) as url:
        yield url


@pytest.mark.parametrize(
    ("url", "environment_", "named"),
    [
        (HUB, {}, None),
        (HUB, {"HTTP_PROXY": "http://p:1"}, ("http://p:1", "HTTP_PROXY")),
        (HUB, {"http_proxy": "p:1", "HTTP_PROXY": "http://q"}, ("http://p:1", "http_proxy")),
        (HUB, {"HTTPS_PROXY": "http://p:1"}, None),
        ("https://hub.example", {"HTTPS_PROXY": "http://p:1"}, ("http://p:1", "HTTPS_PROXY")),
        (HUB, {"ALL_PROXY": "socks5://p:1"}, ("socks5://p:1", "ALL_PROXY")),
        (HUB, {"ALL_PROXY": "http://q", "HTTP_PROXY": "http://p"}, ("http://p", "HTTP_PROXY")),
        *((url, {"HTTP_PROXY": "http://p:1", "ALL_PROXY": "http://p:1"}, None) for url in (
            "http://localhost:8080", "http://localhost.:8080", "http://127.0.0.1:8080", "http://127.9.9.9", "http://[::1]:80",
            "http://hub.localhost", "http://[::ffff:127.0.0.1]", "http://0.0.0.0:8080", "http://[::]:8080",
            "http://127.1:8080", "http://127.0.1", "http://2130706433", "http://0x7f000001", "http://0177.0.0.1", "http://0",
        )),
        *((HUB, {"ALL_PROXY": "http://p", "NO_PROXY": entry}, None) for entry in (
            "hub.example", "example", ".example", "*.example", "a.b, hub.example:80", "*", "a.b,*",
        )),
        *((HUB, {"ALL_PROXY": "http://p", "NO_PROXY": entry}, ("http://p", "ALL_PROXY")) for entry in (
            "b.example", "ub.example", "hub.example:81", "10.0.0.0/8",
        )),
        ("http://10.1.2.3", {"ALL_PROXY": "http://p", "no_proxy": "localhost, 10.0.0.0/8"}, None),
        ("http://10.515", {"ALL_PROXY": "http://p", "no_proxy": "10.0.2.3"}, None),
        ("http://127.1.example", {"ALL_PROXY": "http://p"}, ("http://p", "ALL_PROXY")),
        ("http://256.1.1.1", {"ALL_PROXY": "http://p"}, ("http://p", "ALL_PROXY")),
        ("http://11.1.2.3", {"ALL_PROXY": "http://p", "no_proxy": "10.0.0.0/8"}, ("http://p", "ALL_PROXY")),
        ("http://[fd00::7]", {"ALL_PROXY": "http://p", "no_proxy": "[fd00::]/8"}, None),
    ],
)  # fmt: skip
def test_proxy_is_chosen_by_scheme_host_and_exceptions(
    environment: pytest.MonkeyPatch, url: str, environment_: dict[str, str], named: tuple[str, str] | None
) -> None:
    for name, value in environment_.items():
        environment.setenv(name, value)

    assert proxy_for(url) == named


@EVERY
@pytest.mark.parametrize("proxy", [DEAD, "socks5://127.0.0.1:1"])
def test_loopback_is_asked_without_the_proxies_of_the_environment(
    environment: pytest.MonkeyPatch, ask: Ask, server: str, proxy: str
) -> None:
    environment.setenv("HTTP_PROXY", proxy)
    environment.setenv("ALL_PROXY", proxy)

    assert ask(server) == []


@EVERY
@pytest.mark.parametrize("variable", ["HTTP_PROXY", "ALL_PROXY"])
def test_request_goes_through_the_proxy_of_the_variable(
    environment: pytest.MonkeyPatch, ask: Ask, server: str, handler: type[Answers], variable: str
) -> None:
    environment.setenv(variable, server)

    assert ask(HUB) == []
    assert [path.partition("?")[0] for path in handler.asked] == [f"{HUB}/event-types"]


@EVERY
def test_error_names_a_dead_proxy_without_its_password(environment: pytest.MonkeyPatch, ask: Ask) -> None:
    environment.setenv("HTTP_PROXY", "http://me:secret@127.0.0.1:1")
    with pytest.raises(Unreachable, check=has_code("proxy-unreachable")) as failed:
        ask(HUB)

    assert f"{HUB}/event-types" in failed.value.detail
    assert "cannot be reached through the proxy http://127.0.0.1:1 that HTTP_PROXY names: " in failed.value.detail
    assert "secret" not in str(failed.value)


@EVERY
def test_error_names_a_proxy_that_cut_the_answer(
    environment: pytest.MonkeyPatch, ask: Ask, server: str, handler: type[Answers]
) -> None:
    environment.setenv("HTTP_PROXY", server)
    handler.length = 100
    with pytest.raises(ConnectionLost, match=f"through the proxy {server} that HTTP_PROXY names"):
        ask(HUB)


@EVERY
def test_error_names_the_requirement_of_a_socks_proxy(environment: pytest.MonkeyPatch, ask: Ask) -> None:
    environment.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    environment.setattr("penstock.client.http.proxy_transport.find_spec", lambda _: None)
    with pytest.raises(RequirementMissing) as failed:
        ask(HUB)

    for said in ("socks5://127.0.0.1:1", "pip install 'httpx2[socks]'", "unset ALL_PROXY", "hub.example in NO_PROXY"):
        assert said in failed.value.detail


@EVERY
@pytest.mark.parametrize("proxy", ["socks4://me:secret@127.0.0.1:1", "ftp://127.0.0.1:1"])
def test_error_names_the_variable_of_an_unusable_proxy(environment: pytest.MonkeyPatch, ask: Ask, proxy: str) -> None:
    environment.setenv("ALL_PROXY", proxy)
    with pytest.raises(BadParameter, match=r"ALL_PROXY is '(socks4|ftp)://127.0.0.1:1'; allowed: .*NO_PROXY"):
        ask(HUB)


def test_error_of_a_given_http_client_names_no_proxy(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("HTTP_PROXY", DEAD)
    with (
        httpx2.Client() as http,
        Client(HUB, http=http, retry_timeout=0) as client,
        pytest.raises(Unavailable) as failed,
    ):
        client.event_types()

    assert failed.value.code == "unreachable"


def test_connection_that_opens_while_the_client_is_closed_is_closed_too(server: str) -> None:
    transport = ProxyTransport(LIMITS)
    opened = []

    def close(happened: str, info: Any) -> None:
        if happened == "connection.connect_tcp.complete":
            opened.append(info["return_value"].get_extra_info("socket"))
            transport.close()

    with httpx2.Client(transport=transport) as http, pytest.raises(httpx2.ConnectError, match="client was closed"):
        http.get(server, extensions={"trace": close})

    assert [each.fileno() for each in opened] == [-1]


def test_connection_that_opens_while_the_async_client_is_closed_is_closed_too(server: str) -> None:
    transport = AsyncProxyTransport(LIMITS)
    opened = []

    async def close(happened: str, info: Any) -> None:
        if happened == "connection.connect_tcp.complete":
            opened.append(info["return_value"].get_extra_info("socket"))
            await transport.aclose()

    async def asking() -> None:
        async with httpx2.AsyncClient(transport=transport) as http:
            with pytest.raises(httpx2.ConnectError, match="client was closed"):
                await http.get(server, extensions={"trace": close})

    anyio.run(asking)

    assert [each.fileno() for each in opened] == [-1]
