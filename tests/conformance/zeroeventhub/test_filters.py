"""FeedAPI's filters by kind, on ZeroEventHub v1 and FeedAPI v2 alike."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from tests.exhaustive import exhaustive
from tests.served import Page, Served, create, page_of, problem_of, until

KINDS = ["order.placed", "order.paid", "Order.Shipped", None]


@pytest.fixture(params=["v1", "v2"])
def mixed(request: pytest.FixtureRequest, either_http: httpx2.Client) -> "Mixed":
    """A partition with forty events of four kinds in turn, read by either protocol."""
    feed = create(either_http)
    feed.publish_lines(line(number) for number in range(40))
    return Mixed(feed, request.param)


def line(number: int) -> dict[str, Any]:
    kind = KINDS[number % 4]
    return {"data": {"id": number}} | ({"headers": {"ce_type": kind}} if kind else {})


class Mixed:
    """A feed, read by one protocol."""

    def __init__(self, feed: Served, version: str) -> None:
        self.feed = feed
        self.version = version

    def ask(self, cursor: str = "_first", **arguments: Any) -> httpx2.Response:
        if self.version == "v1":
            return self.feed.get(n=1, cursor0=cursor, **arguments)
        return self.feed.events(cursor=cursor, **arguments)

    def read(self, cursor: str = "_first", **arguments: Any) -> Page:
        return page_of(self.ask(cursor, **arguments))

    def every(self, *remainders: int) -> list[int]:
        return [number for number in range(40) if number % 4 in remainders]


def test_filter_takes_kinds_in_any_case_separated_by_semicolons(mixed: Mixed) -> None:
    """An event without a kind has that of its event type."""
    for asked, remainders in (
        ("order.placed", [0]),
        ("ORDER.Placed", [0]),
        (" order.placed ;; nothing", [0]),
        ("order.paid;order.shipped", [1, 2]),
        (mixed.feed.name.upper(), [3]),
    ):
        assert mixed.read(event_types=asked).ids == mixed.every(*remainders)
        assert mixed.read(event_types=asked, headers="_all").ids == mixed.every(*remainders)
    for asked in ("order.placed;order.shipped", "ORDER.PLACED;Order.Shipped"):
        assert mixed.read(skip_event_types=asked).ids == mixed.every(1, 3)
    assert mixed.read(skip_event_types=mixed.feed.name).ids == mixed.every(0, 1, 2)
    problem = problem_of(mixed.ask(event_types="a", skip_event_types="b"), 400, "bad-parameter")
    assert problem["parameter"] == "skip-event-types"


def test_cursor_advances_over_filtered_events(mixed: Mixed) -> None:
    page = mixed.read(event_types="nothing")
    assert page.events == []
    mixed.feed.publish_lines([line(40)])
    assert mixed.read(page.cursor).ids == [40]


@pytest.mark.parametrize("hint", [3, exhaustive(1), exhaustive(9)])
def test_small_pages_of_a_filtered_read_have_every_event_once(mixed: Mixed, hint: int) -> None:
    seen: list[int] = []
    cursor, before = "_first", ""
    while cursor != before:
        page = mixed.read(cursor, event_types="order.placed", pagesizehint=hint)
        assert len(page.ids) <= 2 * hint
        seen += page.ids
        before, cursor = cursor, page.cursor
    assert seen == mixed.every(0)


def test_case_of_letters_beyond_ascii_matters(mixed: Mixed) -> None:
    feed = create(mixed.feed.http)
    other = Mixed(feed, mixed.version)
    feed.publish_lines({"data": {"id": i}, "headers": {"ce_type": kind}} for i, kind in enumerate(["åpnet", "ÅPNET"]))
    for headers in ("", "_all"):
        assert other.read(event_types="åpnet", headers=headers).ids == [0]
        assert other.read(event_types="ÅPNET", headers=headers).ids == [1]


def test_wait_ends_with_the_first_event_of_the_kind(mixed: Mixed) -> None:
    start = mixed.read("_last").cursor
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(mixed.read, start, event_types="order.placed", wait=55)
        until(mixed.feed.waiters)
        mixed.feed.publish_lines([line(41)])
        mixed.feed.publish_lines([line(44)])
        assert future.result(timeout=300).ids == [44]


def test_wait_without_an_event_of_the_kind_ends_with_an_advanced_cursor(mixed: Mixed) -> None:
    start = mixed.read("_last").cursor
    mixed.feed.publish_lines([line(41)])
    page = mixed.read(start, event_types="nothing", wait="0.2")
    assert page.events == []
    assert page.cursor == mixed.read("_last").cursor != start


def test_scan_gives_a_cursor_every_10000_events_and_stops_after_100000(mixed: Mixed) -> None:
    feed = create(mixed.feed.http)
    for _ in range(3):
        feed.post(b'{"data":{}}\n' * 40_000)
    other = Mixed(feed, mixed.version)
    page = other.read(event_types="nothing")
    offsets = [int(found["cursor"].rsplit("-", 1)[1]) for found in page.lines]
    assert page.events == []
    assert offsets[-1] == 100_000
    assert all(later - earlier <= 10_000 for earlier, later in zip([0, *offsets], offsets, strict=False))
    assert int(other.read(page.cursor, event_types="nothing").cursor.rsplit("-", 1)[1]) == 120_000
