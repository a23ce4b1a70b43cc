"""ZeroEventHub v1, API: cursors in, events and checkpoints out."""

import httpx2
import pytest

from tests.served import NDJSON, Served, create


def in_all_partitions(feed: Served, each: int) -> None:
    feed.publish_lines(
        {"data": {"id": partition * 1000 + number}, "partition": partition}
        for number in range(each)
        for partition in range(feed.partitions)
    )


def test_every_event_comes_once_and_in_order_within_its_partition(feed4: Served) -> None:
    in_all_partitions(feed4, 5)
    page = feed4.read()
    assert [page.of(p) for p in range(4)] == [[p * 1000 + i for i in range(5)] for p in range(4)]


@pytest.mark.parametrize("subset", [(0,), (3,), (1, 2), (0, 2), (0, 1, 2, 3), (2, 0)])
def test_any_subset_of_cursors_can_be_asked_for(feed4: Served, subset: tuple[int, ...]) -> None:
    in_all_partitions(feed4, 2)
    page = feed4.read(cursors=dict.fromkeys(subset, "_first"))
    assert set(page.cursors) == set(subset)
    assert {line["partition"] for line in page.lines} == set(subset)


def test_every_partition_asked_for_has_a_checkpoint_even_where_there_is_nothing(feed4: Served) -> None:
    feed4.publish_ids([1], partition=2)
    first = feed4.read()
    assert set(first.cursors) == {0, 1, 2, 3}
    again = feed4.read(cursors=first.cursors)
    assert again.events == []
    assert set(again.cursors) == {0, 1, 2, 3}


def test_a_checkpoint_goes_on_exactly_after_the_events_before_it(feed4: Served) -> None:
    in_all_partitions(feed4, 7)
    seen: list[int] = []
    cursors = dict.fromkeys(range(4), "_first")
    while (page := feed4.read(cursors=cursors, pagesizehint=3)).events:
        seen += page.ids
        cursors = page.cursors
    assert sorted(seen) == sorted(p * 1000 + i for p in range(4) for i in range(7))


def test_partitions_can_be_split_between_requests_and_joined_again(feed4: Served) -> None:
    in_all_partitions(feed4, 4)
    left = feed4.read(cursors={0: "_first", 1: "_first"}, pagesizehint=2)
    right = feed4.read(cursors={2: "_first", 3: "_first"}, pagesizehint=2)
    rest = feed4.read(cursors=left.cursors | right.cursors)
    assert sorted(left.ids + right.ids + rest.ids) == sorted(p * 1000 + i for p in range(4) for i in range(4))


def test_reading_again_from_a_cursor_gives_the_same(feed4: Served) -> None:
    in_all_partitions(feed4, 3)
    assert feed4.read().lines == feed4.read().lines


def test_last_stands_at_the_head_so_that_only_what_comes_later_is_seen(feed4: Served) -> None:
    feed4.publish_ids([1], partition=0)
    now = feed4.read(cursors="_last")
    assert now.events == []
    feed4.publish_ids([2], partition=0)
    assert feed4.read(cursors=now.cursors).ids == [2]


def test_first_and_last_can_be_asked_for_side_by_side(feed4: Served) -> None:
    in_all_partitions(feed4, 1)
    assert feed4.read(cursors={0: "_first", 1: "_last"}).ids == [0]


def test_lines_have_the_members_of_the_specification_and_no_others(feed: Served) -> None:
    feed.publish_lines([{"data": {"id": 1}, "key": "k", "headers": {"a": "b"}}])
    event, checkpoint = feed.read().lines
    assert event == {"partition": 0, "data": {"id": 1}}
    assert set(checkpoint) == {"partition", "cursor"}
    assert checkpoint["cursor"].isascii()
    assert checkpoint["cursor"].isprintable()


def test_an_event_is_one_line_with_the_bytes_that_came(feed: Served) -> None:
    sent = '{"b": 1.10,  "a" :"\\u00e9\t"\n,"n":1e2}'.replace("\t", "\\t")
    feed.post(b'{"data":' + sent.replace("\n", "").encode() + b"}\n")
    line = feed.get(n=1, cursor0="_first").text.splitlines()[0]
    assert line == '{"partition":0,"data":' + sent.replace("\n", "") + "}"


def test_media_type_is_that_of_lines_by_whatever_name_they_are_accepted(feed: Served) -> None:
    for accept in ("*/*", NDJSON, "application/json", "application/jsonl"):
        assert feed.get(n=1, cursor0="_first", sending={"accept": accept}).headers["content-type"] == NDJSON


def test_a_page_has_a_thousand_events_unless_told_otherwise(feed: Served) -> None:
    feed.publish_ids(range(1_200))
    assert len(feed.read().events) == 1_000
    assert len(feed.read(pagesizehint=1_100).events) == 1_100
    assert len(feed.read(pagesizehint=7).events) == 7


def test_a_page_hint_is_cut_at_a_hundred_thousand(either_http: httpx2.Client) -> None:
    feed = create(either_http)
    for _ in range(2):
        feed.post(b'{"data":{}}\n' * 60_000)
    for hint in (100_000, 100_001, 10**17):
        assert feed.get(n=1, cursor0="_first", pagesizehint=hint).text.count('"data"') == 100_000


def test_a_hint_of_zero_gives_checkpoints_alone(feed4: Served) -> None:
    in_all_partitions(feed4, 2)
    page = feed4.read(pagesizehint=0)
    assert page.events == []
    assert len(feed4.read(cursors=page.cursors).events) == 8


def test_the_hint_is_the_total_and_shared_evenly_among_partitions_that_have_events(feed4: Served) -> None:
    feed4.publish_ids(range(100), partition=0)
    feed4.publish_ids(range(100), partition=1)
    feed4.publish_ids(range(3), partition=2)
    page = feed4.read(pagesizehint=43)
    assert [len(page.of(p)) for p in range(4)] == [20, 20, 3, 0]


def test_the_page_of_a_lone_busy_partition_is_full(feed4: Served) -> None:
    feed4.publish_ids(range(50), partition=3)
    assert len(feed4.read(pagesizehint=40).of(3)) == 40


def test_what_was_published_is_in_the_next_read(feed4: Served) -> None:
    for number in range(20):
        cursors = feed4.publish_ids([number], partition=number % 4)["cursors"]
        page = feed4.read()
        assert number in page.of(number % 4)
        assert cursors == {str(number % 4): page.cursors[number % 4]}
