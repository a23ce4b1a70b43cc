"""Version 1, until: a page stops at a cursor, partition by partition."""

import pytest

from penstock.client import Client
from penstock.errors import BadParameter
from tests.served import Served, problem_of


def fill(feed: Served) -> dict[int, str]:
    """Publish ten events to each partition and return the cursors before their last three."""
    for partition in range(feed.partitions):
        feed.publish_ids(range(partition * 10, partition * 10 + 10), partition=partition)
    return feed.read(pagesizehint=feed.partitions * 7).cursors


def test_page_stops_at_the_until_of_each_partition(feed4: Served) -> None:
    until = fill(feed4)
    page = feed4.read(until0=until[0], until2=until[2])

    assert [page.of(partition) for partition in range(4)] == [
        [*range(7)],
        [*range(10, 20)],
        [*range(20, 27)],
        [*range(30, 40)],
    ]
    assert {partition: page.cursors[partition] for partition in (0, 2)} == {0: until[0], 2: until[2]}
    assert feed4.read(cursors={0: until[0]}, until0=until[0], wait=30).ids == []
    assert feed4.read(cursors={0: "_first"}, until0="_last").ids == [*range(10)]


def test_until_holds_for_merged_and_split_views(feed4: Served) -> None:
    fill(feed4)
    until = feed4.read(2, pagesizehint=8).cursors
    assert sorted(feed4.read(2, until0=until[0], until1=until[1]).ids) == sorted(feed4.read(2, pagesizehint=8).ids)
    split = feed4.read(8, pagesizehint=8).cursors
    assert feed4.read(8, **{f"until{p}": cursor for p, cursor in split.items()}).cursors == split


@pytest.mark.parametrize("either_http", ["sqlite"], indirect=True)
def test_until_without_a_cursor_of_its_partition_is_refused(feed4: Served) -> None:
    for name in ("until", "until1", "until9", "until01", "untilx", "until-1"):
        problem = problem_of(feed4.get(n=4, cursor0="_first", **{name: "_last"}), 400, "bad-parameter")
        assert problem["parameter"] == name
    problem = problem_of(feed4.get(n=4, cursor0="_first", until0="garbage"), 400, "bad-cursor")
    assert problem["parameter"] == "until0"
    problem = problem_of(feed4.events(until0="_last"), 400, "bad-parameter")
    assert problem["parameter"] == "until0", "it is of version 1"


def test_python_client_stops_at_until_in_one_request_and_in_several(feed4: Served) -> None:
    until = fill(feed4)
    with Client(str(feed4.http.base_url)) as client, client.feed(feed4.name) as feed:
        both = feed.read({0: "_first", 2: "_first"}, until={0: until[0], 2: until[2]})
        one = feed.read({3: "_first"}, until={3: until[3]})
        over = feed.read(one.cursors, until={3: until[3]})

        assert sorted(event.data["id"] for event in both.events) == [*range(7), *range(20, 27)]
        assert [event.data["id"] for event in one.events] == [*range(30, 37)]
        assert (over.events, over.cursors, over.since) == ([], {3: until[3]}, {3: until[3]})
        for parameter, wrong in (
            ("until", lambda: feed.read({0: "_first"}, until={1: until[1]})),
            ("wait_seconds", lambda: feed.read({0: "_first"}, until={0: until[0]}, wait_seconds=5)),
        ):
            with pytest.raises(BadParameter) as refused:
                wrong()
            assert refused.value.parameter == parameter
