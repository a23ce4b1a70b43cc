"""Producers publish to many partitions, take over and are forgotten at once, through two hubs on PostgreSQL."""

import json
import threading
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from random import Random
from typing import NamedTuple

from penstock.core.events.event import NewEvent
from penstock.core.producers import EpochClaim, ProducerStamp
from penstock.errors import OutcomeUnknown, ProducerNotFound, ProducerUnsafe, Unavailable
from penstock.hub.admin.sweeping import Sweeper
from penstock.hub.background import system_clock
from penstock.hub.hub import Hub
from penstock.hub.log.publish import AppendResult, ProducerName
from penstock.hub.producers.producers import DAY_SECONDS
from penstock.storage import open_store
from penstock.testing.postgres import PostgresCluster
from tests.exhaustive import examples
from tests.promises.deadlocks import deadlocks_in
from tests.promises.scene import NAME, feed, hub_on, seeded

PARTITIONS = 16
AT_ONCE = 12
"""To how many partitions a publisher sends before it waits for any of them."""
ROUNDS = examples(5, 25)
PUBLISHERS = examples(4, 8)
MOST_SECONDS = 200.0
"""So long publishers go on at most, where something has not occurred."""
OCCURRING = ("appended", "producer-fenced", "producer-state-expired", "forgotten", "swept")
"""Each has to occur to show anything; until then the publishers go on, and so do those who are beside them."""


class Sent(NamedTuple):
    """A batch under way."""

    partition: int
    stamp: ProducerStamp
    numbers: list[int]
    told: "Future[AppendResult | None]"


class Publisher:
    """A producer group that others take over from all the time; its events are numbered."""

    def __init__(self, hub: Hub, who: int, chance: Random, said: Counter[str]) -> None:
        self.hub = hub
        self.who = who
        self.chance = chance
        self.said = said
        self.count = 0
        self.next = dict.fromkeys(range(PARTITIONS), ProducerStamp(0, 0))
        self.again: list[Sent] = []
        self.stored: set[tuple[int, int]] = set()

    def publish(self) -> None:
        """Send to many partitions at once, the batches of unknown outcome first; then wait for all."""
        again, self.again = self.again, []
        free = sorted(set(range(PARTITIONS)) - {each.partition for each in again})
        sent = [self.send(each.partition, each.stamp, each.numbers) for each in again]
        for partition in self.chance.sample(free, min(AT_ONCE, len(free))):
            size = self.chance.randint(1, 5)
            numbers = list(range(self.count, self.count + size))
            self.count += size
            sent.append(self.send(partition, self.next[partition], numbers))
        for each in sent:
            self.take(each)

    def send(self, partition: int, stamp: ProducerStamp, numbers: list[int]) -> Sent:
        events = [NewEvent.of(json.dumps({"by": self.who, "n": number}).encode()) for number in numbers]
        who = ProducerName(NAME, partition, f"g{self.who}")
        return Sent(partition, stamp, numbers, self.hub.producers.submit(who, stamp, events, partition=partition))

    def take(self, sent: Sent) -> None:
        try:
            published = sent.told.result(300)
        except ProducerUnsafe as error:
            self.said[error.code] += 1
            self.keep(sent, is_stored=error.committed is True)
            self.take_over(sent.partition)
        except (Unavailable, OutcomeUnknown) as error:
            self.said[error.code] += 1
            self.again.append(sent)
        else:
            assert published is not None
            assert published.produced is not None
            self.said[published.produced.outcome] += 1
            self.keep(sent, is_stored=True)
            self.next[sent.partition] = ProducerStamp(published.produced.epoch, published.produced.next)

    def keep(self, sent: Sent, *, is_stored: bool) -> None:
        if is_stored:
            self.stored.update((sent.partition, number) for number in sent.numbers)

    def take_over(self, partition: int) -> None:
        with suppress(Unavailable):
            state = self.hub.producers.claim(ProducerName(NAME, partition, f"g{self.who}"), EpochClaim()).producer.state
            self.next[partition] = ProducerStamp(state.epoch, state.next)


def missing(said: Counter[str]) -> list[str]:
    """Return what has not occurred yet."""
    return [each for each in OCCURRING if not said[each]]


def publishes(publisher: Publisher, latest: float) -> Publisher:
    """Publish some rounds, and on until all has occurred or *latest* is over; then what is of unknown outcome."""
    for _ in range(ROUNDS):
        publisher.publish()
    while missing(publisher.said) and time.monotonic() < latest:
        publisher.publish()
    while publisher.again:
        publisher.publish()
    return publisher


def takes_over(hub: Hub, chance: Random, over: threading.Event, said: Counter[str]) -> None:
    """Claims the groups of the publishers, and deletes them now and then."""
    while not over.is_set():
        who = ProducerName(NAME, chance.randrange(PARTITIONS), f"g{chance.randrange(PUBLISHERS)}")
        with suppress(Unavailable, ProducerNotFound):
            if chance.random() < 0.2:
                hub.producers.forget(who)
                said["forgotten"] += 1
            else:
                hub.producers.claim(who, EpochClaim(is_pinned=chance.random() < 0.5))
                said["taken over"] += 1
        time.sleep(0.01)  # Else nobody gets anything done.


def sweeps(url: str, chance: Random, over: threading.Event, said: Counter[str]) -> None:
    """Lets producers expire as after a week, or be forgotten as after two months."""
    with closing(open_store(url)) as store:
        while not over.is_set():
            ahead = chance.choice([8, 60]) * DAY_SECONDS * 1_000_000
            sweeper = Sweeper(store, lambda ahead=ahead: system_clock() + ahead)  # type: ignore[misc]
            said["swept"] += sweeper._remove_some()
            time.sleep(0.2)  # Else nobody is known for long enough to be shut out.


def test_producers_of_many_partitions_never_deadlock(postgres_cluster: PostgresCluster, postgres_url: str) -> None:
    chance = seeded()
    over = threading.Event()
    said: Counter[str] = Counter()
    with (
        hub_on(postgres_url, partitions=PARTITIONS) as first,
        hub_on(postgres_url) as second,
        deadlocks_in(postgres_cluster.log) as deadlocks,
        ThreadPoolExecutor(PUBLISHERS + 4) as threads,
    ):
        try:
            beside = [threads.submit(takes_over, hub, Random(chance.random()), over, said) for hub in (first, second)]
            beside += [threads.submit(sweeps, postgres_url, Random(chance.random()), over, said) for _ in range(2)]
            hubs, latest = [first, second] * PUBLISHERS, time.monotonic() + MOST_SECONDS
            publishing = [
                threads.submit(publishes, Publisher(hubs[who], who, Random(chance.random()), said), latest)
                for who in range(PUBLISHERS)
            ]
            publishers = [each.result(MOST_SECONDS + 300) for each in publishing]
        finally:
            over.set()
        for each in beside:
            each.result(300)
        found = [
            (partition, each["by"], each["n"]) for partition in range(PARTITIONS) for each in feed(second, partition)
        ]

    assert not deadlocks(), f"{deadlocks()} after {dict(said)}"
    assert len(found) == len(set(found)), "an event is there twice"
    for publisher in publishers:
        own = [(partition, number) for partition, who, number in found if who == publisher.who]
        assert own == sorted(own), "events are not in the order of their numbers"
        assert publisher.stored <= set(own), "an event that was told to be stored is lost"
    assert not missing(said), f"{missing(said)} has not occurred: {dict(said)}"
