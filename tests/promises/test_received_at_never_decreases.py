"""`received_at` never decreases within a partition, whatever the clocks of the hubs do."""

from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Event

from penstock.hub.hub import Hub
from tests.promises.scene import NAME, commit_to_outbox, event, hub_on, rows_of, seeded
from tests.store_contract.database import purge

NOON = 1_700_000_000_000_000


def test_times_do_not_decrease_if_the_clock_goes_back(url: str) -> None:
    chance = seeded()
    wild = Event()

    def clock() -> int:
        return NOON + chance.randint(-10_000_000, 10_000_000) if wild.is_set() else NOON - 20_000_000

    with hub_on(url, clock=clock, partitions=2) as hub:
        hub.log.publish(NAME, [event({}, partition) for partition in range(2)])  # Later times than theirs will follow.
        wild.set()
        for n in range(30):
            hub.log.publish(NAME, [event({"n": n}, n % 2), event({"n": n}, 0)])

        times = times_of(url, hub)

    for each in times:
        assert each == sorted(each)
        assert len(set(each)) > 1


def test_times_do_not_decrease_if_the_clocks_of_two_hubs_differ(url: str) -> None:
    chance = seeded()
    with (
        hub_on(url, clock=lambda: NOON + chance.randrange(1000), partitions=2) as early,
        hub_on(url, clock=lambda: NOON + 86_400_000_000 + chance.randrange(1000)) as late,
    ):

        def publish(n: int) -> None:
            (early, late)[n % 2].log.publish(NAME, [event({"n": n}, n // 2 % 2)])
            if n % 5 == 0:
                commit_to_outbox(url, {"n": n})

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(publish, range(40)))
        early.log.settle(NAME)

        for times in times_of(url, early):
            assert times == sorted(times)
            assert times[-1] >= NOON + 86_400_000_000


def test_times_do_not_decrease_if_the_clock_goes_back_while_the_last_events_are_gone(url: str) -> None:
    now = NOON
    with hub_on(url, clock=lambda: now, starts=False, partitions=2) as hub:
        feed = hub.registry.load(NAME)
        hub.log.publish(NAME, [event({}, 0), event({}, 1)])
        with hub.store.write() as tx:
            heads = tx.log.find_heads(sorted(feed.partition_ids), lock=True)
            expired, erased = feed.partition_ids
            tx.removal.raise_floor(expired, heads[expired].next_offset)
            tx.removal.remove(erased, [0])
        while purge(hub.store):
            pass
        assert times_of(url, hub) == [[], []]
        now = NOON - 60_000_000

        hub.log.publish(NAME, [event({}, 0), event({}, 1)])

        assert times_of(url, hub) == [[NOON], [NOON]]


def test_events_of_one_publish_have_the_same_time(url: str) -> None:
    with hub_on(url, clock=count(NOON).__next__, partitions=1) as hub:
        for _ in range(5):
            hub.log.publish(NAME, [event({"n": n}) for n in range(3)])

        (times,) = times_of(url, hub)

    assert len(set(times)) == 5
    assert times == sorted(times)


def times_of(url: str, hub: Hub) -> list[list[int]]:
    """Return the times of each partition by offset."""
    rows = rows_of(url, 'SELECT partition_id, received_at FROM penstock_event ORDER BY partition_id, "offset"')
    ids = hub.registry.load(NAME).partition_ids
    return [[at for each, at in rows if each == partition_id] for partition_id in ids]
