"""An address where no hub or feed answers is named in the error, with the parts to check."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler
from typing import Any

import pytest

from penstock.client import Client
from penstock.errors import WrongAddress
from penstock.spark.connection import RemoteHub
from penstock.testing.live_hub import live_hub
from tests.answering import answering
from tests.unit.client.kinds import Kind, first, opened, result


class Files(SimpleHTTPRequestHandler):
    """The server of `python -m http.server`: 404 in HTML, and 501 for every method but GET."""

    def log_message(self, *_: Any) -> None:
        pass


class OnePage(BaseHTTPRequestHandler):
    """The server of an application for browsers: one page for every request."""

    def do_GET(self) -> None:
        body = b"<!doctype html><title>Shop</title>"
        self.send_response(200)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(params=[Files, OnePage])
def elsewhere(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a server that is no hub and has no feed."""
    with answering(request.param) as url:
        yield url


def check(error: WrongAddress, url: str, wanted: str) -> None:
    assert error.detail.startswith(f"no {wanted} answers at {url}")
    assert "<!doctype html>" in error.detail.lower()
    assert "Check scheme, host, port and path" in str(error)


@pytest.mark.anyio
async def test_client_without_a_hub_names_the_address(elsewhere: str, kind: Kind) -> None:
    async with opened(kind.client(elsewhere)) as hub:
        for ask in (
            lambda: hub.create_event_type("order.placed"),
            hub.event_types,
            lambda: hub.event_type("order.placed"),
            lambda: hub.partitions("order.placed"),
            lambda: hub.publish("order.placed", {"order_id": 7}),
        ):
            with pytest.raises(WrongAddress) as refused:
                await result(ask())
            check(refused.value, f"{elsewhere}/event-types", "Penstock hub")
        feed = hub.feed("order.placed")
        for read in (feed.discover, feed.cursors, lambda: first(feed.follow()), lambda: feed.read({0: "_first"})):
            with pytest.raises(WrongAddress) as refused:
                await result(read())
            check(refused.value, f"{elsewhere}/feeds/order.placed", "feed")


def test_spark_without_a_hub_names_the_address(elsewhere: str) -> None:
    with pytest.raises(WrongAddress) as refused:
        RemoteHub(elsewhere, retry_timeout=30).heads("order.placed")
    check(refused.value, f"{elsewhere}/event-types/order.placed/partitions", "Penstock hub")


def test_path_below_a_hub_is_no_hub(sqlite_url: str) -> None:
    with live_hub(sqlite_url) as hub, Client(f"{hub.url}/version") as client, pytest.raises(WrongAddress) as refused:
        client.event_types()
    assert "GET /docs" in refused.value.detail
