"""Every link of every route leads to the hub, alone, mounted in an application, or behind a proxy."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urljoin

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.server import HubApp
from penstock.server.openapi.operation import HttpOperation
from penstock.server.routes import ROUTES
from penstock.storage.log.outbox import OutboxRow
from penstock.testing.factories import an_event_type

MOUNT: Final = "/the hub/é"
PREFIX: Final = "/public"
ANSWERS_THAT_END: Final = {"application/json", "text/html", "text/plain"}
"""Answers of other types are streams and pages: a HEAD request shows their headers."""


class StrippingProxy:
    """A proxy that removes `PREFIX` from paths and says so in forwarding headers."""

    def __init__(self, app: ASGIApp, **headers: str) -> None:
        self._app = app
        self._headers = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["path"].startswith(PREFIX + "/"), f"{scope['path']} is not below {PREFIX}"
        scope = {**scope, "path": scope["path"].removeprefix(PREFIX), "client": ("10.1.2.3", 4711)}
        await self._app({**scope, "headers": [*scope["headers"], *self._headers]}, receive, send)


def plain(hub: HubApp) -> tuple[ASGIApp, str]:
    return hub, ""


def mounted(hub: HubApp) -> tuple[ASGIApp, str]:
    app = Starlette()
    app.mount(MOUNT, hub)
    return app, "/the%20hub/%C3%A9"


def prefixed(hub: HubApp) -> tuple[ASGIApp, str]:
    return StrippingProxy(hub, x_forwarded_prefix=PREFIX), PREFIX


def mounted_and_prefixed(hub: HubApp) -> tuple[ASGIApp, str]:
    app, path = mounted(hub)
    return StrippingProxy(app, x_forwarded_prefix=PREFIX), PREFIX + path


class Walk:
    """Asks every route that can be asked with GET, and follows the links in all answers."""

    def __init__(self, http: httpx2.AsyncClient, at: str) -> None:
        self.http = http
        self.at = at
        self.found: dict[str, set[str]] = {}
        """The links by the path of the operation that gave them."""
        self.values: dict[str, str] = {}
        """The values of path parameters."""

    async def ask(self, operation: HttpOperation, body: Any = None, /, query: str = "", **headers: str) -> Any:
        path = operation.path.format_map(self.values)
        method = operation.method
        if method == "GET" and not ANSWERS_THAT_END & set(operation.answer.content):
            method = "HEAD"
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        url = f"{self.at}{path}{query}"
        answer = await self.http.request(method, url, json=body, headers=given)
        links = {urljoin(str(answer.url), link).format_map(self.values) for link in links_of(answer)}
        self.found.setdefault(operation.path, set()).update(links)
        return answer

    async def build(self) -> None:
        """Create two of everything that is listed by pages."""
        post = {each.path: each for each in ROUTES if each.method == "POST"}
        put = {each.path: each for each in ROUTES if each.method == "PUT"}
        for name in ("a.b", "c.d"):
            assert (await self.ask(post["/event-types"], an_event_type(name))).status_code == 201
            for _ in range(2):  # The second request finds the subscription of the first.
                wanted = {"owning_application": "x", "event_types": [name]}
                answer = await self.ask(post["/subscriptions"], wanted)
            self.values |= {"event_type": name, "subscription": answer.json()["id"]}
            given = {"type": "json_schema", "schema": '{"properties": {"id": {}}}'}
            assert (await self.ask(post["/event-types/{event_type}/schemas"], given)).status_code == 200
            for group in ("g h", "i/j"):
                self.values["group"] = group
                for stream in ("one", "two"):
                    items = {"items": [{"event_type": "a.b", "partition": 0, "offset": 0}]}
                    given = {"kind": "processor", "parked": [parked(stream)]}
                    answer = await self.ask(post["/groups/{group}/positions"], items | given)
                    assert answer.status_code == 200, answer.text
                    moved = await self.http.patch(f"{self.at}/groups/{group}/positions", json={**items, "reason": "r"})
                    assert moved.status_code == 200, moved.text
            self.values |= {"partition": "0"}
            for group in ("p", "q"):
                self.values["group"] = group
                claim = put["/event-types/{event_type}/partitions/{partition}/producers/{group}"]
                assert (await self.ask(claim, {})).status_code == 200

    async def ask_all(self) -> None:
        self.values |= {"version": "latest", "id": "default", "parked": "1", "first": "0", "batch": "0", "path": "x"}
        for operation in ROUTES:
            if operation.method == "GET":
                self.values["group"] = "p" if "producers" in operation.path else "i/j"
                paged = "_links" in str(operation.answer.content)
                await self.ask(operation, query="?limit=1" if paged else "")
                if paged and any(each.name == "offset" for each in operation.parameters):
                    await self.ask(operation, query="?limit=1&offset=1")


def parked(stream: str) -> dict[str, Any]:
    """Return a stream as a processor has it parked."""
    counts = {"index": 0, "next": 1, "events": 1, "attempts": 1}
    return {"stream": stream, "event_type": "a.b", "partition": 0, "tag": "t", "detail": "d", "since": "1:0"} | counts


def links_of(answer: httpx2.Response) -> Iterator[str]:
    for name in ("location", "content-location"):
        if name in answer.headers:
            yield answer.headers[name]
    yield from (each["url"] for each in answer.links.values() if "url" in each)
    kind = answer.headers.get("content-type", "")
    if kind.startswith("text/html"):
        base = re.findall(r'<base href="([^"]+)"', answer.text)
        named = re.findall(r'(?:href|src)="([^"]+)"', answer.text)
        yield from (urljoin(base[0], each) for each in named) if base else named
    elif kind.startswith("application/json") and answer.content:
        told = answer.json()
        if "openapi" in told and "paths" in told:  # Its paths are below its servers.
            told = [f"{each['url'].rstrip('/')}/version" for each in told["servers"]]
        elif "asyncapi" in told and "channels" in told:
            servers = told["servers"].values()
            told = [f"{each['protocol']}://{each['host']}{each.get('pathname', '')}/version" for each in servers]
        yield from texts_like_links(told)


def texts_like_links(told: Any) -> Iterator[str]:
    if isinstance(told, str) and re.match(r"/|https?://", told):
        yield told
    for each in told.values() if isinstance(told, dict) else told if isinstance(told, list) else ():
        yield from texts_like_links(each)


async def walk(hub: HubApp, arranged: Callable[[HubApp], tuple[ASGIApp, str]]) -> set[str]:
    """Follow all links; return the paths of the operations that gave any."""
    app, at = arranged(hub)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://hub", timeout=60) as http:
        walked = Walk(http, at)
        async with hub.lifespan():
            await walked.build()
            with hub.hub.store.write() as tx:
                row = OutboxRow(0, "a.b", "7", None, None, None, "2026-01-01T00:00:00.000Z")
                tx.outbox.reject([(row, "no event")] * 2, 0)
            await walked.ask_all()
            for link in sorted(set.union(*walked.found.values())):
                assert link.startswith(f"http://hub{at}"), f"{link} leaves {at}"
                assert (await http.get(link)).status_code == 200, link
    return {path for path, links in walked.found.items() if links}


@pytest.mark.anyio
@pytest.mark.parametrize("arranged", [plain, mounted, prefixed, mounted_and_prefixed])
async def test_every_link_leads_to_the_hub(hub: HubApp, arranged: Callable[[HubApp], tuple[ASGIApp, str]]) -> None:
    found = await walk(hub, arranged)

    paged = {each.path for each in ROUTES if "_links" in str(each.answer.content)}
    located = {each.path for each in ROUTES if {"Location", "Link"} & each.answer.headers.keys()}
    assert not (paged | located | {"/", "/docs", "/openapi.json", "/asyncapi.json"}) - found


FORWARDED: Final = [
    ({}, "/public"),
    ({"x_forwarded_host": "hub.example", "x_forwarded_proto": "https"}, "https://hub.example/public"),
    ({"forwarded": 'for="[2001:db8::1]:4711";proto=https;host="hub.example:8443"'}, "https://hub.example:8443/public"),
    ({"forwarded": "host=forged;proto=http, for=192.0.2.1;host=hub.example;proto=https"}, "https://hub.example/public"),
    ({"forwarded": "for=192.0.2.1;host=hub.example, for=10.9.9.9;host=inner"}, "http://hub.example/public"),
    ({"x_forwarded_for": "192.0.2.1, 10.9.9.9", "x_forwarded_host": "hub.example, inner"}, "http://hub.example/public"),
    ({"forwarded": 'host="hub.example'}, "/public"),
    ({"forwarded": "host=hub.example/evil"}, "/public"),
    ({"x_forwarded_host": "hub.example", "x_forwarded_proto": "gopher"}, "http://hub.example/public"),
]


@pytest.mark.parametrize(("headers", "url"), FORWARDED)
def test_description_has_the_address_of_a_trusted_proxy(hub: HubApp, headers: dict[str, str], url: str) -> None:
    told = get(StrippingProxy(hub, x_forwarded_prefix=PREFIX, **headers), PREFIX + "/openapi.json")
    assert told["servers"] == [{"url": url}]


@pytest.mark.parametrize(
    "prefix", ["//evil.example", "/a//b", "evil", "/%2fevil", "/a?b", '/"', "/%FF", "/a%0Ab", "/a%", "/%zz"]
)
def test_malformed_prefix_of_a_trusted_proxy_changes_nothing(hub: HubApp, prefix: str) -> None:
    assert get(StrippingProxy(hub, x_forwarded_prefix=prefix), PREFIX + "/")["docs"] == "/docs"


@pytest.mark.parametrize(
    ("prefix", "shown"),
    [("/the%20hub/%C3%A9/", "/the%20hub/%C3%A9"), ("/%7Eada", "/~ada"), ("/50%25", "/50%25"), ("/%5cevil", "/%5Cevil")],
)
def test_links_follow_a_percent_encoded_prefix(hub: HubApp, prefix: str, shown: str) -> None:
    told = get(StrippingProxy(hub, x_forwarded_prefix=prefix), PREFIX + "/")

    assert told["docs"] == f"{shown}/docs"


def test_prefixes_of_several_proxies_follow_each_other(hub: HubApp) -> None:
    proxy = StrippingProxy(hub, x_forwarded_prefix="/outer/, /inner")
    assert get(proxy, PREFIX + "/")["docs"] == "/outer/inner/docs"


def test_forwarding_headers_of_other_peers_change_nothing(tmp_path: Path) -> None:
    headers = {"x_forwarded_prefix": "/evil", "forwarded": "host=evil.example", "x_forwarded_host": "evil.example"}
    for trusted in ([], ["10.1.2.4", "fd00::/8"]):
        hub = HubApp(f"sqlite:///{tmp_path}/hub.db", trusted_proxies=trusted)
        assert get(StrippingProxy(hub, **headers), PREFIX + "/openapi.json")["servers"] == [{"url": "/"}]


def test_trusted_proxy_that_is_no_address_is_refused() -> None:
    with pytest.raises(ValueError, match=r"proxy\.example"):
        HubApp("sqlite:///hub.db", trusted_proxies=["proxy.example"])


@pytest.fixture
def hub(tmp_path: Path) -> HubApp:
    return HubApp(f"sqlite:///{tmp_path}/hub.db", trusted_proxies=["10.0.0.0/8"])


def get(app: ASGIApp, path: str) -> Any:
    return TestClient(app, base_url="http://hub").get(path).json()
