import msgspec

from penstock.spark.zeroeventhub.ends import EMPTY_PAGES_MAX, Ends
from penstock.spark.zeroeventhub.options import RemoteOptions
from penstock.wire.log.reader.pages import FeedEvent, Page

FULL = Page([FeedEvent(0, msgspec.Raw(b"1"))], {0: "2"}, {0: "1"})
MOVED = Page([], {0: "2"}, {0: "1"})
OTHER = Page([], {1: "2"}, {1: "1"})


def test_three_empty_pages_in_a_row_are_the_end_of_a_partition_whose_cursor_moves_on() -> None:
    seen = Ends(RemoteOptions(url="http://x"))

    assert EMPTY_PAGES_MAX == 3
    assert not seen.is_end(1, OTHER), "each partition has an end of its own"
    assert [seen.is_end(0, page) for page in (MOVED, MOVED, FULL, MOVED, MOVED, MOVED)] == [False] * 5 + [True]
