"""Ranges are read from a feed that is told what to answer: no network."""

import logging
from collections.abc import Iterator

import pyarrow as pa
import pytest

from penstock.core.log.cursor import FeedCursor, FeedView, feed_mark
from penstock.errors import (
    BadCursor,
    ConnectionLost,
    CursorExpired,
    EventsLost,
    EventTypeNotFound,
    MalformedAnswer,
    PenstockError,
    StaleToken,
)
from penstock.spark.heads import Heads
from penstock.spark.patience import Patience
from penstock.spark.planning import Range
from penstock.spark.reading import PagePart, read_range, sift

ALL = Heads(1, (0, 0), (0, 1000))
WANTED = Range("order.placed", 1, 2, 1, 100, 110)
LOST = ConnectionLost(url="http://hub", reason="reset")


def batch(*offsets: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"offset": pa.array(offsets, pa.int64())})


class Told:
    """Gives each page as it was told to: batches, and then an end or an error."""

    def __init__(self, *pages: list[pa.RecordBatch | PenstockError], heads: Heads = ALL) -> None:
        self.pages = list(pages)
        self.asked: list[Range] = []
        self._heads = heads

    def page(self, wanted: Range, *, with_headers: bool) -> Iterator[PagePart]:
        assert not with_headers
        self.asked.append(wanted)
        end = wanted.start
        for each in self.pages.pop(0):
            if isinstance(each, PenstockError):
                raise each
            end += each.num_rows
            yield PagePart(each, end)

    def heads(self, event_type: str) -> Heads:
        assert event_type == "order.placed"
        return self._heads


def offsets(feed: Told, wanted: Range = WANTED, *, fail_on_loss: bool = True) -> list[int]:
    patience = Patience(1000, sleep=lambda _: None)
    batches = read_range(feed, wanted, patience, fail_on_loss=fail_on_loss, with_headers=False)
    return [offset for each in batches for offset in each.column("offset").to_pylist()]


def test_pages_are_followed_to_the_end_of_the_range() -> None:
    feed = Told([batch(100, 101), batch(102)], [batch(*range(103, 110))])

    assert offsets(feed) == list(range(100, 110))
    assert [asked.start for asked in feed.asked] == [100, 103]


def test_read_resumes_at_the_next_event_after_a_lost_connection() -> None:
    feed = Told([LOST], [batch(100, 101), LOST], [LOST], [batch(*range(102, 110))])

    assert offsets(feed) == list(range(100, 110))
    assert [asked.start for asked in feed.asked] == [100, 100, 102, 102]


def test_a_refusal_that_does_not_pass_ends_the_read() -> None:
    with pytest.raises(EventTypeNotFound):
        offsets(Told([EventTypeNotFound(event_type="order.placed")]))


@pytest.mark.parametrize(
    "wrong",
    [batch(101, 102), batch(100, 102), batch(100, 100), batch(100, 102, 101), batch(*range(100, 111)), batch(99, 100)],
    ids=["late", "gap", "twice", "disorder", "beyond", "early"],
)
def test_other_events_than_were_asked_for_are_an_error(wrong: pa.RecordBatch) -> None:
    with pytest.raises(MalformedAnswer, match="were asked for"):
        offsets(Told([wrong]))


def test_a_page_without_events_is_an_error_where_there_are_some() -> None:
    with pytest.raises(MalformedAnswer, match=r"no events of 'order.placed' from offset 100"):
        offsets(Told([batch()]))


def test_a_feed_that_has_grown_is_read_with_its_new_token() -> None:
    grown = Heads(1, (0,) * 4, (0, 1000, 0, 0))
    feed = Told([StaleToken(given="1-2", current="1-4")], [batch(*range(100, 110))], heads=grown)

    assert offsets(feed) == list(range(100, 110))
    assert [asked.partition_count for asked in feed.asked] == [2, 4]


def test_a_token_that_stays_stale_ends_the_read() -> None:
    with pytest.raises(StaleToken):
        offsets(Told([StaleToken(given="1-2", current="?")]))


LOSSES = [
    ([CursorExpired(reason="gone")], Heads(1, (0, 105), (0, 1000)), "5 events", list(range(105, 110))),
    ([CursorExpired(reason="gone")], Heads(1, (0, 500), (0, 1000)), "10 events", []),
    (
        [batch(100, 101), CursorExpired(reason="gone")],
        Heads(1, (0, 105), (0, 1000)),
        "3 events",
        [100, 101, *range(105, 110)],
    ),
    ([StaleToken(given="1-2", current="2-2")], Heads(2, (0, 0), (0, 1000)), "10 events", []),
    ([StaleToken(given="1-2", current="2-1")], Heads(2, (0,), (0,)), "10 events", []),
    ([BadCursor(reason="after the end")], Heads(1, (0, 0), (0, 103)), "7 events", [100, 101, 102]),
    ([BadCursor(reason="after the end")], Heads(1, (0, 0), (0, 50)), "10 events", []),
]


@pytest.mark.parametrize(
    ("page", "heads", "lost", "read"),
    LOSSES,
    ids=[
        "retention",
        "all by retention",
        "in the midst",
        "created again",
        "fewer partitions",
        "cut short",
        "cut before",
    ],
)
def test_lost_events_end_the_read_or_are_counted_and_logged(
    page: list[pa.RecordBatch | PenstockError],
    heads: Heads,
    lost: str,
    read: list[int],
    caplog: pytest.LogCaptureFixture,
) -> None:
    rest = [batch(*(offset for offset in read if offset not in (100, 101) or len(page) == 1))]

    with pytest.raises(EventsLost, match=f"^{lost} of 'order.placed', partition 1, can no longer be read"):
        offsets(Told(page, rest, heads=heads))
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        assert offsets(Told(page, rest, heads=heads), fail_on_loss=False) == read
    assert [record.getMessage().split(" of ")[0] for record in caplog.records] == [lost]


def test_an_empty_range_asks_for_nothing() -> None:
    assert offsets(Told(), WANTED._replace(end=100)) == []


def cursor(offset: int) -> str:
    return FeedCursor(feed_mark("order.placed"), 1, FeedView(2, 1, 2), (offset,)).encode()


class Sifting(Told):
    """Gives pages that leave events out."""

    def __init__(self, *pages: tuple[list[pa.RecordBatch], int, int]) -> None:
        super().__init__()
        self.sifted = list(pages)

    def page(self, wanted: Range, *, with_headers: bool) -> Iterator[PagePart]:  # noqa: ARG002
        self.asked.append(wanted)
        batches, left_out, end = self.sifted.pop(0)
        yield from sift(batches, wanted, str(left_out), cursor(end))


def test_events_that_a_page_says_to_leave_out_are_not_missed() -> None:
    feed = Sifting(([batch(100, 103), batch(104)], 3, 106), ([], 2, 108), ([batch(109)], 1, 110))

    assert offsets(feed) == [100, 103, 104, 109]
    assert [asked.start for asked in feed.asked] == [100, 106, 108]


@pytest.mark.parametrize(
    "page",
    [([batch(100, 103)], 0, 104), ([batch(100)], 3, 105), ([], 0, 101), ([batch(100)], 20, 121), ([batch(99)], 9, 110)],
    ids=["unsaid", "too few", "nothing", "beyond", "early"],
)
def test_a_page_that_leaves_out_more_than_it_says_is_an_error(page: tuple[list[pa.RecordBatch], int, int]) -> None:
    with pytest.raises(MalformedAnswer):
        offsets(Sifting(page))
