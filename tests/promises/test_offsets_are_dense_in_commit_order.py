import threading
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from typing import Any

from penstock.hub.append import Published
from penstock.hub.hub import Hub
from penstock.storage import Store, open_store
from penstock.storage.store import Block
from tests.promises.scene import NAME, Follower, event, feed, hub_on, seeded, until, waiting_for_locks

PARTITIONS = 3


def test_publishers_share_the_offsets_without_holes(migrated_url: str) -> None:
    chance = seeded()
    with hub_on(migrated_url, partitions=PARTITIONS) as hub, hub_on(migrated_url) as other:
        plans = [
            [[chance.randrange(PARTITIONS) for _ in range(chance.randint(1, 12))] for _ in range(25)] for _ in range(6)
        ]

        def publish(who: int) -> list[tuple[list[int], Published]]:
            by = (hub, other)[who % 2]
            done = []
            for n, plan in enumerate(plans[who]):
                batch = [event({"by": who, "batch": n, "place": i}, p) for i, p in enumerate(plan)]
                done.append((plan, by.publish(NAME, batch)))
            return done

        with ThreadPoolExecutor(len(plans)) as threads:
            told = [each for done in threads.map(publish, range(len(plans))) for each in done]

        for partition in range(PARTITIONS):
            ranges = sorted(
                (published.next_offsets[partition] - plan.count(partition), published.next_offsets[partition])
                for plan, published in told
                if partition in plan
            )
            events = feed(hub, partition)
            assert ranges[0][0] == 0
            assert ranges[-1][1] == len(events)
            assert all(stop == start for (_, stop), (start, _) in pairwise(ranges))
            for start, stop in ranges:  # A publish's events are neighbours, in the order in which they were given.
                assert len({(each["by"], each["batch"]) for each in events[start:stop]}) == 1
                places = [each["place"] for each in events[start:stop]]
                assert places == sorted(places)


def test_a_publisher_never_comes_before_one_that_committed_earlier(migrated_url: str) -> None:
    with hub_on(migrated_url, partitions=1) as hub, hub_on(migrated_url) as other:
        for n in range(20):
            (hub, other)[n % 2].publish(NAME, [event({"n": n})])

        assert [each["n"] for each in feed(hub)] == list(range(20))


def test_an_offset_is_given_after_the_earlier_one_is_committed_or_undone(migrated_url: str) -> None:
    """One holds the head, another publishes: it waits, and goes on where the first has left the partition."""
    with hub_on(migrated_url, partitions=1) as hub:
        partition_id = hub.event_type(NAME).partition_ids[0]
        slow = open_store(migrated_url)
        for undo in (True, False):
            before = len(feed(hub))
            waiting = _hold_and_publish(hub, slow, migrated_url, partition_id, undo=undo)

            told = waiting.result(timeout=300)

            assert told is not None
            assert told.next_offsets == {0: before + (1 if undo else 2)}
            assert [each["by"] for each in feed(hub)[before:]] == (["hub"] if undo else ["slow", "hub"])
        slow.close()


def _hold_and_publish(hub: Hub, slow: Store, url: str, partition_id: int, *, undo: bool) -> Future[Any]:
    try:
        with slow.write() as tx:
            head = tx.events.lock_heads([partition_id])[partition_id]
            tx.events.append(
                [Block(partition_id, head.next_offset, head.received_at, [(None, None, None, b'{"by":"slow"}')])]
            )
            waiting = hub.submit(NAME, [event({"by": "hub"})])
            if url.startswith("postgres"):
                until(lambda: waiting_for_locks(url), "the hub waits for the head")
            assert not waiting.done()
            assert Follower(hub).all() == feed(hub)
            if undo:
                raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    return waiting


def test_a_group_that_fails_leaves_no_hole(migrated_url: str) -> None:
    with hub_on(migrated_url, partitions=2) as hub:
        barrier = threading.Barrier(8)

        def publish(who: int) -> bool:
            barrier.wait()
            for n in range(10):
                batch = [event({"by": who, "n": n}), event({"by": who, "n": n}, 1 if n % 3 else 99)]
                try:
                    hub.publish(NAME, batch)
                except Exception:  # noqa: BLE001 - every third is refused, by whichever error
                    assert n % 3 == 0
            return True

        with ThreadPoolExecutor(8) as threads:
            assert all(threads.map(publish, range(8)))

        heads = [head.next_offset for head in hub.heads(NAME)[1].values()]
        assert heads == [8 * 6] * 2
        assert len(feed(hub)) == len(feed(hub, 1)) == 8 * 6
