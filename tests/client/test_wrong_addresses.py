"""Where something else answers than a hub or a feed, the error says so, and what to check."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler
from typing import Any

import anyio
import pytest

from penstock.client import AsyncClient, AsyncFeed, Client, Feed
from penstock.errors import WrongAddress
from penstock.spark.connection import Hub
from penstock.testing.live_hub import live_hub
from tests.answering import answering


class Files(SimpleHTTPRequestHandler):
    """What `python -m http.server` runs: 404 in HTML, and 501 for whatever is not GET."""

    def log_message(self, *_: Any) -> None:
        pass


class OnePage(BaseHTTPRequestHandler):
    """What serves an application for browsers: its page, whatever is asked for."""

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


def test_a_client_says_that_no_hub_answers(elsewhere: str) -> None:
    with Client(elsewhere) as hub:
        for ask in (
            lambda: hub.create_event_type("order.placed"),
            hub.event_types,
            lambda: hub.event_type("order.placed"),
            lambda: hub.partitions("order.placed"),
            lambda: hub.publish("order.placed", {"order_id": 7}),
        ):
            with pytest.raises(WrongAddress) as told:
                ask()
            check(told.value, f"{elsewhere}/event-types", "Penstock hub")
        feed = hub.feed("order.placed")
        for read in (feed.discover, feed.cursors, lambda: next(feed.follow()), lambda: feed.read({0: "_first"})):
            with pytest.raises(WrongAddress) as told:
                read()
            check(told.value, f"{elsewhere}/feeds/order.placed", "feed")


def test_an_async_client_says_the_same(elsewhere: str) -> None:
    async def ask() -> None:
        async with AsyncClient(elsewhere) as hub:
            with pytest.raises(WrongAddress) as told:
                await hub.event_types()
            check(told.value, f"{elsewhere}/event-types", "Penstock hub")
        async with AsyncFeed(f"{elsewhere}/feed") as feed:
            with pytest.raises(WrongAddress) as told:
                await feed.cursors()
            check(told.value, f"{elsewhere}/feed", "feed")

    anyio.run(ask)


@pytest.mark.parametrize("known", [{}, {"partition_count": 2}, {"partition_count": 2, "version": 1}, {"version": 2}])
def test_a_reader_of_another_server_says_that_no_feed_answers(elsewhere: str, known: dict[str, int]) -> None:
    with Feed(f"{elsewhere}/feed", **known) as feed, pytest.raises(WrongAddress) as told:
        feed.read({0: "_first"})
    check(told.value, f"{elsewhere}/feed", "feed")


def test_spark_says_that_no_hub_answers(elsewhere: str) -> None:
    with pytest.raises(WrongAddress) as told:
        Hub(elsewhere, retry_seconds=30).heads("order.placed")
    check(told.value, f"{elsewhere}/event-types/order.placed/partitions", "Penstock hub")


def test_a_path_below_a_hub_is_no_hub(sqlite_url: str) -> None:
    with live_hub(sqlite_url) as hub, Client(f"{hub.url}/version") as client, pytest.raises(WrongAddress) as told:
        client.event_types()
    assert "GET /docs" in told.value.detail
