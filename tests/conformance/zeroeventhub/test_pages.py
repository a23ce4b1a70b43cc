"""ZeroEventHub v1, pages: cursors in, events and checkpoints out."""

from itertools import chain

import httpx2
import pytest

from tests.served import NDJSON, Served, create


def fill(feed: Served, each: int) -> list[list[int]]:
    """Publish *each* events to every partition; return their ids by partition."""
    ids = [[partition * 1000 + number for number in range(each)] for partition in range(feed.partitions)]
    feed.publish_lines(
        {"data": {"id": ids[partition][number]}, "partition": partition}
        for number in range(each)
        for partition in range(feed.partitions)
    )
    return ids


def test_page_has_each_event_in_order_and_a_checkpoint_for_each_partition(feed4: Served) -> None:
    """Reading again from the same cursors gives the same page."""
    ids = fill(feed4, 5)
    page = feed4.read()
    assert [page.of(p) for p in range(4)] == ids
    assert feed4.read().lines == page.lines
    again = feed4.read(cursors=page.cursors)
    assert (again.events, set(again.cursors)) == ([], {0, 1, 2, 3})


@pytest.mark.parametrize("subset", [(3,), (2, 0), (0, 1, 2, 3)])
def test_page_has_the_partitions_of_its_cursors(feed4: Served, subset: tuple[int, ...]) -> None:
    fill(feed4, 2)
    page = feed4.read(cursors=dict.fromkeys(subset, "_first"))
    assert set(page.cursors) == {line["partition"] for line in page.lines} == set(subset)


def test_checkpoint_continues_exactly_after_the_events_before_it(feed4: Served) -> None:
    """Partitions may be split between requests, and joined again."""
    ids = fill(feed4, 7)
    seen: list[int] = []
    cursors = dict.fromkeys(range(4), "_first")
    while (page := feed4.read(cursors=cursors, pagesizehint=3)).events:
        seen += page.ids
        cursors = page.cursors
    assert sorted(seen) == [*chain(*ids)]
    left = feed4.read(cursors={0: "_first", 1: "_first"}, pagesizehint=2)
    right = feed4.read(cursors={2: "_first", 3: "_first"}, pagesizehint=2)
    rest = feed4.read(cursors=left.cursors | right.cursors)
    assert sorted(left.ids + right.ids + rest.ids) == [*chain(*ids)]


def test_first_and_last_are_the_ends_of_a_partition(feed4: Served) -> None:
    fill(feed4, 1)
    page = feed4.read(cursors={0: "_first", 1: "_last"})
    assert page.ids == [0]
    feed4.publish_ids([2], partition=1)
    assert feed4.read(cursors=page.cursors).ids == [2]


def test_published_event_is_in_the_next_page_with_the_cursor_of_the_answer(feed4: Served) -> None:
    for number in range(20):
        cursors = feed4.publish_ids([number], partition=number % 4)["cursors"]
        page = feed4.read()
        assert number in page.of(number % 4)
        assert cursors == {str(number % 4): page.cursors[number % 4]}


# Lines


def test_lines_have_the_members_of_the_specification_and_no_others(feed: Served) -> None:
    feed.publish_lines([{"data": {"id": 1}, "key": "k", "headers": {"a": "b"}}])
    event, checkpoint = feed.read().lines
    assert event == {"partition": 0, "data": {"id": 1}}
    assert set(checkpoint) == {"partition", "cursor"}
    assert checkpoint["cursor"].isascii()
    assert checkpoint["cursor"].isprintable()
    for accept in ("*/*", NDJSON, "application/json", "application/jsonl"):
        assert feed.get(n=1, cursor0="_first", sending={"accept": accept}).headers["content-type"] == NDJSON


def test_event_is_one_line_with_the_bytes_that_were_published(feed: Served) -> None:
    sent = '{"b": 1.10,  "a" :"\\u00e9\\t","n":1e2}'
    feed.post(f'{{"data":{sent}}}\n'.encode())
    assert feed.get(n=1, cursor0="_first").text.splitlines()[0] == f'{{"partition":0,"data":{sent}}}'


# The page-size hint


def test_page_has_1000_events_by_default_and_none_for_a_hint_of_0(feed: Served) -> None:
    feed.publish_ids(range(1_200))
    for arguments, count in (({}, 1_000), ({"pagesizehint": 1_100}, 1_100), ({"pagesizehint": 7}, 7)):
        assert len(feed.read(**arguments).events) == count
    page = feed.read(pagesizehint=0)
    assert page.events == []
    assert len(feed.read(cursors=page.cursors).events) == 1_000


def test_hint_is_cut_at_100000(either_http: httpx2.Client) -> None:
    feed = create(either_http)
    for _ in range(2):
        feed.post(b'{"data":{}}\n' * 60_000)
    for hint in (100_001, 10**17):
        assert feed.get(n=1, cursor0="_first", pagesizehint=hint).text.count('"data"') == 100_000


def test_hint_is_shared_evenly_among_partitions_that_have_events(feed4: Served) -> None:
    feed4.publish_ids(range(50), partition=3)
    assert len(feed4.read(pagesizehint=40).of(3)) == 40
    feed4.publish_ids(range(100), partition=0)
    feed4.publish_ids(range(3), partition=2)
    page = feed4.read(pagesizehint=43)
    assert [len(page.of(p)) for p in range(4)] == [20, 0, 3, 20]
