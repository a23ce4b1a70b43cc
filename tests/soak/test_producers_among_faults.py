"""Producers among faults, on a hub that is killed again and again: each event is stored once, and in order."""

import random
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.client import Client, Event
from penstock.errors import RetriesExhausted, Unavailable
from penstock.testing.live_hub import LiveHub
from tests.exhaustive import examples, exhaustive
from tests.faults.either import Either, Kind
from tests.faults.proxy import Fate, Line, Stuck, Visit, answering, cut, is_batch, lost, passed, twice, unanswered
from tests.promises.scene import seeded
from tests.store_contract import database_at

NAME = "soaked"
PRODUCERS = examples(4, 8)
PARTITIONS = 4
FAULTS = 0.2
BATCH_MAX = 40
KINDS_OF_FAULTS = {"lost", "unanswered", "twice", "503", "502", "stuck", "cut"}
KILLS_MIN = 2


class FaultyLine(Line):
    """A line on which a fifth of all that is asked goes wrong, in any way."""

    def __init__(self, port: int, chance: random.Random) -> None:
        super().__init__(port)
        self.asked: Any = deque(maxlen=0)  # In ten minutes there are gigabytes of it.
        self.faults: Counter[str] = Counter()
        self.stuck: list[Stuck] = []
        self._chance = chance

    def fate_of(self, visit: Visit) -> Fate:
        """Roll the dice."""
        if self._chance.random() > FAULTS:
            return passed
        name, fate = self._chance.choice([*self._faults(), ("cut", cut)] if is_batch(visit) else self._faults())
        self.faults[name] += 1
        return fate

    def _faults(self) -> list[tuple[str, Fate]]:
        self.stuck.append(stuck := Stuck())
        return [
            ("lost", lost),
            ("unanswered", unanswered),
            ("twice", twice),
            ("503", answering(503, retry_after="0")),
            ("502", answering(502)),
            ("stuck", stuck),
        ]

    def deliver_some(self) -> None:
        """Let some of what was stuck come to the hub, however late."""
        waiting, self.stuck = self.stuck, []
        for each in waiting:
            try:
                each.deliver()
            except (AssertionError, OSError, ValueError):
                continue  # It was not it that was rolled, or the hub is just being killed.


class Publisher:
    """One who publishes batches until time is over, each again until it is known to be stored."""

    def __init__(self, client: Either, who: int, chance: random.Random) -> None:
        self.who = who
        self.stored: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
        """By partition, what is known to be stored, in its order."""
        self.unknown = 0
        self._chance = chance
        self._client = client
        self._producer = self._new()

    def run(self, over: threading.Event) -> None:
        """Publish."""
        n = 0
        while not over.is_set():
            partition = self._chance.randrange(PARTITIONS)
            numbers = range(n, n + self._chance.randint(1, BATCH_MAX))
            n = numbers.stop
            self._publish(partition, numbers)

    def _publish(self, partition: int, numbers: range) -> None:
        events = [Event({"who": self.who, "n": number}) for number in numbers]
        while True:
            try:
                result = self._producer.send(events, partition=partition)
            except RetriesExhausted as error:
                self.unknown += error.outcome == "unknown"
            except Unavailable:
                pass  # A claim that could not be made.
            else:
                assert result.count == len(events)
                self.stored[partition] += numbers
                return

    def _new(self) -> Any:
        group = f"producer-{self.who}"
        return self._client.producer(NAME, producer_group=group, delivery_timeout=1.0, attempt_timeout=1.0)


@contextmanager
def kills(hub: LiveHub, interval: float) -> Iterator[list[float]]:
    """Kill the hub now and then, and start it again; the list grows with each kill."""
    over = threading.Event()
    killed: list[float] = []

    def kill() -> None:
        while not over.wait(interval):
            hub.kill()
            hub.start()
            killed.append(time.monotonic())

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def play(database: str, seconds: float, kill_interval: float) -> None:
    """Publish among faults and kills for so long, and until there has been each kind of fault, and some kills."""
    chance = seeded()
    hub = LiveHub(database)
    hub.start()
    over = threading.Event()
    failures: list[BaseException] = []
    try:
        with Client(hub.url) as client:
            client.create_event_type(NAME, partition_count=PARTITIONS)
        with FaultyLine(hub.port, chance) as line:
            kinds: list[Kind] = ["sync", "async"]
            clients = [Either(kind, line.url) for kind in kinds]
            publishers = [Publisher(clients[who % 2], who, random.Random(chance.random())) for who in range(PRODUCERS)]

            def publish(publisher: Publisher) -> None:
                try:
                    publisher.run(over)
                except BaseException as error:  # noqa: BLE001 - it is raised where all are waited for
                    failures.append(error)
                    over.set()

            threads = [threading.Thread(target=publish, args=(publisher,)) for publisher in publishers]
            with kills(hub, kill_interval) as killed:
                for thread in threads:
                    thread.start()
                ends = time.monotonic() + seconds
                while not over.wait(0.1) and (
                    time.monotonic() < ends or len(killed) < KILLS_MIN or line.faults.keys() < KINDS_OF_FAULTS
                ):
                    line.deliver_some()
                over.set()
                for thread in threads:
                    thread.join()
            line.deliver_some()
            for each in clients:
                each.close()
        assert not failures, failures
        _check(hub, database, publishers, line)
    finally:
        hub.kill()


def _check(hub: LiveHub, database: str, publishers: list[Publisher], line: FaultyLine) -> None:
    found: dict[tuple[int, int], list[int]] = {}
    with Client(hub.url) as client:
        feed = client.feed(NAME, partition_count=PARTITIONS)
        for partition in range(PARTITIONS):
            page = feed.read({partition: "_first"}, page_size_hint=5_000)
            while page.events:
                for event in page.events:
                    found.setdefault((event.data["who"], partition), []).append(event.data["n"])
                page = feed.read(page.cursors, page_size_hint=5_000)
    stored = {(each.who, partition): each.stored[partition] for each in publishers for partition in each.stored}
    total = sum(map(len, stored.values()))
    unknown = sum(each.unknown for each in publishers)
    print(f"{total} events, {unknown} unknown outcomes, faults: {dict(line.faults)}")  # noqa: T201 - pytest shows it
    assert found == {key: numbers for key, numbers in stored.items() if numbers}
    assert total > 0
    assert line.faults.keys() == KINDS_OF_FAULTS
    batches = database_at(database).run(
        "SELECT producer_id, epoch, number, events FROM penstock_produced ORDER BY producer_id, epoch, number"
    )
    following: dict[tuple[int, int], int] = {}
    for producer_id, epoch, number, events in batches:
        assert number == following.get((producer_id, epoch), 0)
        following[producer_id, epoch] = number + events
    assert sum(following.values()) == total


# A hub on SQLite that is killed: tests/faults/test_crashes.py.
@pytest.mark.parametrize("database_url", [exhaustive("sqlite"), "postgres"], indirect=True)
@pytest.mark.parametrize(
    ("seconds", "kill_interval"), [(0.5, 0.3), exhaustive(600.0, 20.0)], ids=["in short", "ten minutes"]
)
def test_events_are_stored_once_in_order_among_faults_and_kills(
    database_url: str, seconds: float, kill_interval: float
) -> None:
    play(database_url, seconds, kill_interval)
