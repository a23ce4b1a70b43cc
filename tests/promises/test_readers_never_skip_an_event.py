import threading
from typing import Any

from penstock.storage import open_store
from penstock.storage.store import Block
from penstock.testing.store_contract import database_at
from tests.promises.processes import SPAWN, finished, follow_numbers, publish_numbers, running
from tests.promises.scene import NAME, Follower, event, feed, hub_on, seeded

PUBLISHERS, READERS, BATCHES, PARTITIONS = 3, 2, 60, 2


def test_followers_see_every_event_of_every_publisher_in_order(migrated_url: str) -> None:
    """Publishers and readers in processes of their own; one more holds its transaction open between lock and commit."""
    chance = seeded()
    told = SPAWN.Queue()
    with hub_on(migrated_url, partitions=PARTITIONS) as hub:
        seeds = [chance.getrandbits(32) for _ in range(PUBLISHERS + READERS)]
        publishers = [(migrated_url, who, seeds[who], BATCHES, PARTITIONS) for who in range(PUBLISHERS)]
        with running(publish_numbers, *publishers) as publishing:
            slow = threading.Thread(target=_append_slowly, args=(migrated_url, hub, 25, chance))
            slow.start()
            early = Follower(hub, range(PARTITIONS))
            while any(process.is_alive() for process in publishing):
                early.page(chance.choice([1, 3, 100]))
            finished(publishing)
            slow.join()
        whole = [[(each["by"], each["n"]) for each in feed(hub, partition)] for partition in range(PARTITIONS)]
        early.all()
    total = sum(map(len, whole))
    with running(
        follow_numbers, *((migrated_url, seed, total, PARTITIONS, told) for seed in seeds[PUBLISHERS:])
    ) as late:
        histories = [told.get(timeout=300) for _ in range(READERS)]
        finished(late)

    _assert_numbered(whole)
    assert [[(each["by"], each["n"]) for each in early.found[p]] for p in range(PARTITIONS)] == whole
    assert histories == [whole] * READERS


def test_followers_that_run_beside_publishers_see_one_history(migrated_url: str) -> None:
    chance = seeded()
    told = SPAWN.Queue()
    with hub_on(migrated_url, partitions=1) as hub:
        slow, total = 20, 20 + 300
        follower = (migrated_url, chance.getrandbits(32), total, 1, told)
        with running(follow_numbers, follower, follower) as following:
            appending = threading.Thread(target=_append_slowly, args=(migrated_url, hub, slow, chance))
            appending.start()
            for n in range(total - slow):
                hub.publish(NAME, [event({"by": 0, "n": n})])
            appending.join()
            first, second = told.get(timeout=300), told.get(timeout=300)
            finished(following)
        whole = [(each["by"], each["n"]) for each in feed(hub)]

    _assert_numbered([whole])
    assert first == second == [whole]


def test_an_event_shows_only_once_all_before_it_do(migrated_url: str) -> None:
    """A transaction that has its offsets and stays open: what is published meanwhile comes after it, or not yet."""
    with hub_on(migrated_url, partitions=1) as hub, hub_on(migrated_url) as other:
        partition_id = hub.event_type(NAME).partition_ids[0]
        slow, follower = open_store(migrated_url), Follower(other)
        for n in range(5):
            with slow.write() as tx:
                head = tx.events.lock_heads([partition_id])[partition_id]
                tx.events.append(
                    [Block(partition_id, head.next_offset, head.received_at, [(None, None, None, b'{"by":"slow"}')])]
                )
                waiting = hub.submit(NAME, [event({"by": "hub"})])
                assert follower.page() == 0
            waiting.result(300)
            follower.page()
            assert [each["by"] for each in follower.found[0]] == ["slow", "hub"] * (n + 1)
        slow.close()


def _append_slowly(url: str, hub: Any, times: int, chance: Any) -> None:
    """Append as a hub would that is slow between its lock and its commit: readers read meanwhile."""
    store = open_store(url)
    partition_id = hub.event_type(NAME).partition_ids[0]
    for n in range(times):
        with store.write() as tx:
            head = tx.events.lock_heads([partition_id])[partition_id]
            data = b'{"by":"slow","n":%d}' % n
            tx.events.append([Block(partition_id, head.next_offset, head.received_at, [(None, None, None, data)])])
            beside = Follower(hub)
            for _ in range(chance.randint(0, 3)):
                beside.page(10)
        database_at(url).run("SELECT 1")
    store.close()


def _assert_numbered(partitions: list[list[tuple[Any, int]]]) -> None:
    for found in partitions:
        for by in {by for by, _ in found}:
            assert [n for who, n in found if who == by] == list(range(sum(who == by for who, _ in found)))
