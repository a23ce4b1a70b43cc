"""Readers whose events come from a hot standby get each event once, in order, and at once, whatever becomes of it."""

import threading
from collections.abc import Iterator
from contextlib import closing

import httpx2
import pytest

from penstock.core.log.cursor import FIRST
from penstock.testing.live_hub import LiveHub, live_hub
from penstock.testing.postgres import PostgresCluster, PostgresMissing
from tests.nakadi import Nakadi
from tests.promises.scene import Remote, seeded, until
from tests.promises.test_sealed_events_are_read_like_others import PARTITIONS, addresses, answer, publish
from tests.served import client_of
from tests.standby import Standby
from tests.subscribing import event_type_of, filled, put

READERS = 2
EVENTS_MIN = 50
"""Events that are published between two events in the life of the standby."""


@pytest.fixture(scope="module")
def primary() -> Iterator[PostgresCluster]:
    """A cluster of its own: what others publish would have to be replayed, too."""
    try:
        cluster = PostgresCluster()
    except PostgresMissing as missing:
        pytest.skip(str(missing))
    with cluster:
        yield cluster


@pytest.fixture(scope="module")
def standby(primary: PostgresCluster) -> Iterator[Standby]:
    with Standby(primary) as standby:
        yield standby


class Publisher:
    """Publishes numbers, and reads each right after it was acknowledged."""

    def __init__(self, hub: LiveHub) -> None:
        self._hub = hub
        self.acknowledged = 0
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.failure: BaseException | None = None

    def _run(self) -> None:
        try:
            with closing(Remote(self._hub.port)) as remote:
                cursor, random = FIRST, seeded()
                while not self.done.is_set():
                    numbers = [*range(self.acknowledged, self.acknowledged + random.randint(1, 20))]
                    assert remote.publish(*({"n": n} for n in numbers))[0] == 200
                    found, cursor = remote.page(cursor)
                    assert [each["n"] for each in found] == numbers
                    self.acknowledged += len(numbers)
        except BaseException as failure:
            self.failure = failure
            raise


class Reader:
    """Follows the feed from its beginning, again and again."""

    def __init__(self, hub: LiveHub, publisher: Publisher) -> None:
        self._hub = hub
        self._publisher = publisher
        self.rounds = 0
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            with closing(Remote(self._hub.port)) as remote:
                while not self._publisher.done.is_set():
                    least = self._publisher.acknowledged
                    numbers, cursor = list[int](), FIRST
                    while len(numbers) < least:
                        found, cursor = remote.page(cursor, size=997)
                        assert found, f"the feed ends at {len(numbers)} before {least}"
                        numbers += [each["n"] for each in found]
                    assert numbers == [*range(len(numbers))]
                    self.rounds += 1
        except BaseException as failure:
            self.failure = failure
            raise


def count_reads(http: httpx2.Client, *, is_up: bool = False) -> float | None:
    """Return how many chunks the only replica has served; None if it is not used, unless it need not be *is_up*."""
    lines = dict(line.rsplit(" ", 1) for line in http.get("/metrics").text.splitlines() if "{" in line)
    [up] = [value for name, value in lines.items() if name.startswith("penstock_replica_up{")]
    [count] = [
        value
        for name, value in lines.items()
        if name.startswith("penstock_chunk_reads_total{") and "primary" not in name
    ]
    return float(count) if float(up) or not is_up else None


@pytest.mark.usefixtures("short_replica_pause")
def test_readers_with_a_replica_see_each_event_once_in_order_and_at_once(
    primary: PostgresCluster, standby: Standby
) -> None:
    url = primary.create_database()
    replica = standby.url(url.rpartition("/")[2])
    with live_hub(url, options=["--replica", replica]) as hub, client_of(hub) as http:
        with closing(Remote(hub.port)) as remote:
            remote.create()
        publisher = Publisher(hub)
        readers = [Reader(hub, publisher) for _ in range(READERS)]
        threads = [publisher.thread, *(each.thread for each in readers)]
        for thread in threads:
            thread.start()

        def go_on() -> None:
            """Wait until much was published and every reader has read all of it."""
            goal, rounds = publisher.acknowledged + EVENTS_MIN, [each.rounds for each in readers]
            until(
                lambda: (
                    any(each.failure for each in (publisher, *readers))
                    or (
                        publisher.acknowledged >= goal
                        and all(each.rounds >= before + 2 for each, before in zip(readers, rounds, strict=True))
                    )
                ),
                "readers and publisher go on",
            )

        def is_used() -> bool:
            return count_reads(http, is_up=True) is not None

        try:
            for harm, repair in (
                (standby.pause, standby.resume),
                (standby.stop, standby.start),
                (standby.freeze, standby.thaw),
                (standby.kill, standby.start),
            ):
                until(is_used, "the replica is used")
                go_on()
                harm()
                go_on()
                repair()
            until(is_used, "the replica is used")
            go_on()
        finally:
            publisher.done.set()
            for thread in threads:
                thread.join()

        assert [each.failure for each in (publisher, *readers)] == [None] * len(threads)
        assert (count_reads(http) or 0) > 0


def test_every_page_from_a_replica_has_the_same_bytes(primary: PostgresCluster, standby: Standby) -> None:
    url = primary.create_database()
    options = ["--replica", standby.url(url.rpartition("/")[2])]
    with live_hub(url) as plain, live_hub(url, options=options) as hub, client_of(hub) as http:
        until(lambda: count_reads(http, is_up=True) == 0, "the replica is used")
        with closing(Remote(plain.port)) as remote, closing(Remote(hub.port)) as other:
            remote.create(PARTITIONS)
            publish(remote)
            standby.catch_up()
            for path in addresses(remote):
                assert answer(other, *path) == answer(remote, *path), path
        lines = http.get("/metrics").text
        assert (count_reads(http) or 0) > 0
        assert 'penstock_chunk_reads_total{source="primary"} 0.0' in lines


def test_subscription_with_a_replica_is_sent_each_event_once(primary: PostgresCluster, standby: Standby) -> None:
    url = primary.create_database()
    replica = standby.url(url.rpartition("/")[2])
    with live_hub(url, options=["--replica", replica]) as hub, client_of(hub) as http:
        until(lambda: count_reads(http, is_up=True) == 0, "the replica is used")
        subscription = filled(Nakadi(http), 500)
        standby.catch_up()
        numbers: list[int] = []
        with subscription.stream(batch_limit=100, batch_flush_timeout=1) as consumer:
            for published in (500, 600):
                while len(numbers) < published:
                    batch = consumer.batch()
                    numbers += batch.numbers
                    consumer.done(batch)
                if published == 500:
                    assert (count_reads(http) or 0) > 0
                    standby.pause()
                    put(event_type_of(subscription), *range(500, 600))

    standby.resume()
    assert numbers == [*range(600)]
