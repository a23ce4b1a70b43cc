"""FeedAPI's filters by kind, on ZeroEventHub v1 and FeedAPI v2 alike."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from tests.served import Page, Served, create, page_of, problem_of, until

KINDS = ["order.placed", "order.paid", "Order.Shipped", None]


@pytest.fixture(params=["v1", "v2"])
def mixed(request: pytest.FixtureRequest, either_http: httpx2.Client) -> "Mixed":
    """One partition with forty events of four kinds in turn, by either protocol."""
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


@pytest.mark.parametrize(
    "asked", ["order.placed", "ORDER.Placed", " order.placed ", "order.placed;;", "nothing;order.placed"]
)
def test_only_the_kinds_asked_for_come_in_any_case(mixed: Mixed, asked: str) -> None:
    assert mixed.read(event_types=asked).ids == mixed.every(0)


def test_several_kinds_are_separated_by_semicolons(mixed: Mixed) -> None:
    assert mixed.read(event_types="order.paid;order.shipped").ids == mixed.every(1, 2)


def test_an_event_that_says_no_kind_has_that_of_its_event_type(mixed: Mixed) -> None:
    assert mixed.read(event_types=mixed.feed.name.upper()).ids == mixed.every(3)
    assert mixed.read(skip_event_types=mixed.feed.name).ids == mixed.every(0, 1, 2)


@pytest.mark.parametrize("asked", ["order.placed;order.shipped", "ORDER.PLACED;Order.Shipped"])
def test_kinds_can_be_skipped_instead(mixed: Mixed, asked: str) -> None:
    assert mixed.read(skip_event_types=asked).ids == mixed.every(1, 3)


def test_both_at_once_is_refused(mixed: Mixed) -> None:
    problem = problem_of(mixed.ask(event_types="a", skip_event_types="b"), 400, "bad-parameter")
    assert problem["parameter"] == "skip-event-types"


def test_progress_is_reported_over_what_was_filtered_out(mixed: Mixed) -> None:
    page = mixed.read(event_types="nothing")
    assert page.events == []
    mixed.feed.publish_lines([line(40)])
    assert mixed.read(page.cursor).ids == [40]


@pytest.mark.parametrize("hint", [1, 3, 9])
def test_pages_of_a_filtered_read_give_everything_once_in_small_pages(mixed: Mixed, hint: int) -> None:
    seen: list[int] = []
    cursor, before = "_first", ""
    while cursor != before:
        page = mixed.read(cursor, event_types="order.placed", pagesizehint=hint)
        assert len(page.ids) <= 2 * hint
        seen += page.ids
        before, cursor = cursor, page.cursor
    assert seen == mixed.every(0)


@pytest.mark.parametrize("headers", ["", "_all"])
def test_a_kind_with_other_letters_is_told_apart_alike_with_and_without_headers(mixed: Mixed, headers: str) -> None:
    feed = create(mixed.feed.http)
    other = Mixed(feed, mixed.version)
    feed.publish_lines({"data": {"id": i}, "headers": {"ce_type": kind}} for i, kind in enumerate(["åpnet", "ÅPNET"]))
    assert other.read(event_types="åpnet", headers=headers).ids == [0]
    assert other.read(event_types="ÅPNET", headers=headers).ids == [1]


@pytest.mark.parametrize("headers", ["", "_all"])
def test_filtered_events_come_with_headers_as_without(mixed: Mixed, headers: str) -> None:
    assert mixed.read(event_types="order.paid", headers=headers).ids == mixed.every(1)


def test_a_wait_ends_with_the_first_event_of_the_kind(mixed: Mixed) -> None:
    start = mixed.read("_last").cursor
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(mixed.read, start, event_types="order.placed", wait=55)
        until(mixed.feed.waiters)
        mixed.feed.publish_lines([line(41)])
        mixed.feed.publish_lines([line(44)])
        assert future.result(timeout=300).ids == [44]


def test_a_wait_in_which_nothing_of_the_kind_came_ends_with_an_advanced_cursor(mixed: Mixed) -> None:
    start = mixed.read("_last").cursor
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(mixed.read, start, event_types="nothing", wait=1)
        until(lambda: mixed.feed.waiters() or future.done())
        mixed.feed.publish_lines([line(41)])
        page = future.result(timeout=300)
    assert page.events == []
    assert page.cursor == mixed.read("_last").cursor != start


def test_a_scan_gives_a_cursor_every_ten_thousand_and_stops_after_a_hundred_thousand(mixed: Mixed) -> None:
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
