"""A reader that has seen an event has seen all events before it in its partition."""

import threading
from contextlib import closing
from random import Random
from typing import Any

from penstock.hub.hub import Hub
from penstock.storage import open_store
from tests.exhaustive import examples
from tests.promises.processes import FORKSERVER, follow_numbers, join_all, publish_numbers, run_processes
from tests.promises.scene import NAME, Follower, event, feed, hub_on, seeded, slow_append

PUBLISHERS, READERS, PARTITIONS = 2, 2, 2
BATCHES, SLOW = examples(30, 120), examples(10, 50)
Numbers = list[tuple[Any, int]]
"""The events of a partition: by whom they are published, and their numbers."""


def test_readers_in_several_processes_beside_publishers_see_one_history(url: str) -> None:
    """One of the publishers is slow between its lock and its commit."""
    chance = seeded()
    told, total = FORKSERVER.Queue(), FORKSERVER.Value("q", 0)
    with hub_on(url, partitions=PARTITIONS) as hub:
        publishers = [(url, who, chance.getrandbits(32), BATCHES, PARTITIONS) for who in range(PUBLISHERS)]
        readers = [(url, chance.getrandbits(32), total, PARTITIONS, told) for _ in range(READERS)]
        with run_processes(follow_numbers, *readers) as following:
            with run_processes(publish_numbers, *publishers) as publishing:
                slow = threading.Thread(target=append_slowly, args=(url, hub, Random(chance.getrandbits(32))))
                slow.start()
                here = Follower(hub, range(PARTITIONS))
                while any(process.is_alive() for process in publishing):
                    here.page(chance.choice([1, 3, 100]))
                join_all(publishing)
                slow.join()
            whole = [numbers_of(feed(hub, partition)) for partition in range(PARTITIONS)]
            total.value = sum(map(len, whole))
            histories = [told.get(timeout=300) for _ in range(READERS)]
            join_all(following)
        here.all()

    assert_numbered(whole)
    assert [numbers_of(here.found[partition]) for partition in range(PARTITIONS)] == whole
    assert histories == [whole] * READERS


def test_event_shows_once_all_events_before_it_do(hub: Hub, other: Hub, url: str) -> None:
    """A transaction has its offset and stays open: an event published meanwhile comes after it."""
    with closing(open_store(url)) as store:
        follower = Follower(other)
        for n in range(3):
            with slow_append(store, hub):
                waiting = hub.log.submit(NAME, [event({"by": "hub"})])
                assert follower.page() == 0
            waiting.result(300)
            follower.page()
            assert [each["by"] for each in follower.found[0]] == ["slow", "hub"] * (n + 1)


def append_slowly(url: str, hub: Hub, chance: Random) -> None:
    """Append as a hub that is slow between its lock and its commit: readers read meanwhile."""
    with closing(open_store(url)) as store:
        for n in range(SLOW):
            with slow_append(store, hub, b'{"by":"slow","n":%d}' % n):
                beside = Follower(hub)
                for _ in range(chance.randint(0, 3)):
                    beside.page(10)


def numbers_of(events: list[Any]) -> Numbers:
    return [(each["by"], each["n"]) for each in events]


def assert_numbered(partitions: list[Numbers]) -> None:
    """Assert that the events of each publisher are there once, in the order of their numbers."""
    for events in partitions:
        for publisher in {by for by, _ in events}:
            own = [n for by, n in events if by == publisher]
            assert own == list(range(len(own)))
