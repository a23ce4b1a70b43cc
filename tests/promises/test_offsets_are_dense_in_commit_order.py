"""Offsets of a partition have no holes and are given in the order of the commits."""

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import pairwise
from typing import Any

import pytest

from penstock.hub.hub import Hub
from penstock.hub.log.publish import AppendResult
from penstock.storage import open_store
from tests.promises.scene import (
    NAME,
    PATIENCE_SECONDS,
    Follower,
    commit_to_outbox,
    create,
    event,
    feed,
    hub_on,
    rows_of,
    seeded,
    slow_append,
    until,
    waiting_for_locks,
)

WIDE, PARTITIONS = "wide", 3


def test_publishes_at_once_have_neighbouring_offsets_without_holes(hub: Hub, other: Hub) -> None:
    create(hub, WIDE, partitions=PARTITIONS)
    chance = seeded()
    plans = [
        [[chance.randrange(PARTITIONS) for _ in range(chance.randint(1, 12))] for _ in range(20)] for _ in range(6)
    ]

    def publish(who: int) -> list[tuple[list[int], AppendResult]]:
        by = (hub, other)[who % 2]
        batches = [
            [event({"by": who, "batch": n, "place": i}, p) for i, p in enumerate(plan)]
            for n, plan in enumerate(plans[who])
        ]
        return [(plan, by.log.publish(WIDE, batch)) for plan, batch in zip(plans[who], batches, strict=True)]

    with ThreadPoolExecutor(len(plans)) as threads:
        told = [each for done in threads.map(publish, range(len(plans))) for each in done]

    for partition in range(PARTITIONS):
        ends = [(plan.count(partition), each.next_offsets.get(partition, 0)) for plan, each in told]
        ranges = sorted((end - count, end) for count, end in ends if count)
        events = feed(hub, partition, WIDE)
        assert (ranges[0][0], ranges[-1][1]) == (0, len(events))
        assert all(stop == start for (_, stop), (start, _) in pairwise(ranges))
        for start, stop in ranges:  # In the order in which the publish has them.
            assert len({(each["by"], each["batch"]) for each in events[start:stop]}) == 1
            places = [each["place"] for each in events[start:stop]]
            assert places == sorted(places)


@pytest.mark.parametrize("is_undone", [True, False], ids=["undone", "committed"])
def test_publish_waits_for_an_append_under_way_and_follows_it_without_a_hole(
    hub: Hub, url: str, is_undone: bool
) -> None:
    waiting: Future[Any]
    with closing(open_store(url)) as store, suppress(ZeroDivisionError), slow_append(store, hub):
        waiting = hub.log.submit(NAME, [event({"by": "hub"})])
        if url.startswith("postgres"):
            until(lambda: waiting_for_locks(url), "the hub waits for the head")
        assert not waiting.done()
        assert Follower(hub).all() == []
        if is_undone:
            raise ZeroDivisionError

    assert waiting.result(PATIENCE_SECONDS).next_offsets == {0: 1 if is_undone else 2}
    assert [each["by"] for each in feed(hub)] == (["hub"] if is_undone else ["slow", "hub"])


def test_appends_lock_head_rows_and_write_none(postgres_url: str) -> None:
    """A head row that each append updated would leave as many dead rows as long as any transaction is open."""
    url = postgres_url
    with hub_on(url, partitions=3) as hub, hub_on(url) as other:
        before = versions_of_rows(url)
        for n in range(30):
            (hub, other)[n % 2].log.publish(NAME, [event({"n": n}, n % 3)])
            if n % 10 == 0:
                commit_to_outbox(url, {"n": n})

        assert versions_of_rows(url) == before
    assert rows_of(url, "SELECT count(*) FROM penstock_event")[0][0] == 33
    updated = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'penstock_partition'"
    assert rows_of(url, updated) == [(0, 0)]


def versions_of_rows(url: str) -> list[Any]:
    """Return the place and the transaction of each row: an update would change them."""
    tables = ("penstock_partition", "penstock_event_type")
    return [rows_of(url, f"SELECT id, ctid::text, xmin::text FROM {table} ORDER BY id") for table in tables]
