import msgspec
import pytest

from penstock.spark.zeroeventhub.ends import EMPTY_PAGES_MAX, Ends
from penstock.spark.zeroeventhub.options import RemoteOptions
from penstock.wire.log.reader.pages import FeedEvent, Page

FULL = Page([FeedEvent(0, msgspec.Raw(b"1"))], {0: "2"}, {0: "1"})
STILL = Page([], {0: "1"}, {0: "1"})
MOVED = Page([], {0: "2"}, {0: "1"})


def ends(*event_types: str) -> Ends:
    return Ends(RemoteOptions(url="http://x", event_types=event_types))


def test_empty_page_with_the_same_cursor_is_the_end() -> None:
    assert [ends().is_end(0, page) for page in (FULL, STILL)] == [False, True]


def test_a_cursor_that_moves_on_by_itself_does_not_hide_the_end() -> None:
    seen = ends()

    assert EMPTY_PAGES_MAX == 3
    assert [seen.is_end(0, page) for page in (MOVED, MOVED, FULL, MOVED, MOVED, MOVED)] == [False] * 5 + [True]


def test_each_partition_has_an_end_of_its_own() -> None:
    seen = ends()
    other = Page([], {1: "2"}, {1: "1"})

    assert [seen.is_end(0, MOVED), seen.is_end(0, MOVED), seen.is_end(1, other)] == [False] * 3


@pytest.mark.parametrize("page", [MOVED, FULL])
def test_filtered_feed_may_have_many_empty_pages_before_its_end(page: Page) -> None:
    seen = ends("placed")

    assert not any(seen.is_end(0, page) for _ in range(20))
    assert seen.is_end(0, STILL)
