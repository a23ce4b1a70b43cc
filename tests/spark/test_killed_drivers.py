"""Whoever is killed, whenever: all is handled in order, the checkpoint is honest, and tables equal the fold of the log.

At each moment they do as far as their own checkpoint says, which is committed with the rows.

The driver, its Java, or all of its processes are killed while it processes a feed and projects it, and so are executors
and the hub.
"""

import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias, get_args

import pytest

from penstock.client import Client
from penstock.processing import DatabaseCheckpoints
from penstock.processing.sources.feed_position import FeedPosition
from penstock.testing.live_hub import LiveHub
from tests.processing.balances import BALANCES, folded
from tests.spark.drivers import START_SECONDS_MAX, LocalDriver, Part
from tests.spark.journal import Journal, Kept, Log, Sample, check_checkpoints, check_order, kept_in, log_of
from tests.spark.tables import table

Balances: TypeAlias = dict[str, tuple[int, int, int]]
ACCOUNTS = 12
FEED = "booked"
BACKLOG = 150
"""So many events are published for each driver until it calls a handler: the last one has all to do that is left."""


class Run:
    """A feed that is processed and projected by one driver after the other."""

    def __init__(self, hub: LiveHub, client: Client, folder: Path, targets: list[str], seed: int) -> None:
        self.hub = hub
        self.client = client
        self.folder = folder
        self.targets = targets
        self.chance = random.Random(seed)
        self.chance.shuffle(targets)  # They are projected one after the other.
        self.seed = seed
        self.journal = Journal(folder / "journal")
        self.checkpoints = DatabaseCheckpoints(f"sqlite:///{folder}/checkpoints.db", FEED)
        self.beginnings: list[Kept] = []
        self.samples: list[Sample] = []
        self.folds = {url: DatabaseCheckpoints(url, BALANCES.processor) for url in targets if "://" in url}
        self.rows: list[tuple[str, Mapping[str, Any], Balances]] = []
        """What was in a database at a moment: its URL, the checkpoint, and the rows."""
        self.published = 0
        self.drivers: list[LocalDriver] = []
        client.create_event_type(FEED, partition_count=3, partition_strategy="hash", partition_key_fields=["account"])

    def start(self, *, goes_on: bool) -> LocalDriver:
        """Start the next driver, with the checkpoint of the one before. The last one finds all there is."""
        self.beginnings.append(kept_in(self.checkpoints))
        life = len(self.beginnings) - 1
        driver = LocalDriver(
            "survive", self.folder, url=self.hub.url, feed=FEED, journal=str(self.journal.folder),
            checkpoints=f"sqlite:///{self.folder}/checkpoints.db", targets=self.targets, life=life, seed=self.seed,
            lasts_seconds=0.03, timeout=self.chance.choice([None, 5.0]), goes_on=goes_on, has_executors=goes_on,
        )  # fmt: skip
        self.drivers.append(driver)
        driver.wait_until_it_runs()
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self.journal.has_begun(life):
            assert driver.is_running, driver.output[-6000:]
            assert time.monotonic() < deadline, driver.output[-6000:]
            if goes_on and self.published < BACKLOG * len(self.beginnings):
                self.go_on(0.0)
            time.sleep(0.1)
        return driver

    def go_on(self, seconds: float) -> None:
        """Publish, and look how far the processor is, for a while."""
        over = time.monotonic() + seconds
        while True:
            numbers = range(self.published, self.published + self.chance.randrange(1, 12))
            self.client.publish(FEED, [{"account": str(n % ACCOUNTS), "n": n} for n in numbers])
            self.published = numbers.stop
            self.look()
            if time.monotonic() > over:
                return
            time.sleep(0.1)

    def look(self) -> None:
        """Note the checkpoint, and after that, what is handled."""
        kept = kept_in(self.checkpoints)
        self.samples.append(Sample(kept, self.journal.done()))

    def await_rows(self, driver: LocalDriver) -> None:
        """Publish, and wait until a database has more."""
        before, deadline = self.read_positions(), time.monotonic() + START_SECONDS_MAX
        self.go_on(0.0)
        while self.read_positions() == before:
            assert driver.is_running, driver.output[-6000:]
            assert time.monotonic() < deadline, driver.output[-6000:]
            time.sleep(0.1)

    def read_positions(self) -> list[Mapping[str, Any]]:
        """Return how far each database is."""
        return [checkpoints.positions() for checkpoints in self.folds.values()]

    def look_at_rows(self) -> None:
        """Note what is in each database, with a checkpoint that is the same before and after."""
        for url, checkpoints in self.folds.items():
            while positions := checkpoints.positions():
                rows = table(url)
                if checkpoints.positions() == positions:
                    self.rows.append((url, positions, rows))
                    break

    def survive(self, kills: int) -> Balances:
        """Have executors, the hub and drivers killed at random moments; return the rows in files of the last driver."""
        driver = self.start(goes_on=True)
        parts: list[Part] = [*get_args(Part)]
        self.chance.shuffle(parts)
        for number in range(kills):
            self.await_rows(driver)
            self.go_on(self.chance.uniform(0.0, 2.0))
            os.kill(self.chance.choice(driver.executors()), signal.SIGKILL)
            self.go_on(self.chance.uniform(0.0, 3.0))
            if kills == 1 or self.chance.random() < 0.5:
                self.hub.kill()
                time.sleep(self.chance.uniform(0.0, 0.5))
                self.hub.start()
                self.go_on(self.chance.uniform(0.0, 1.0))
            assert driver.is_running, driver.output[-6000:]
            self.look_at_rows()
            driver.kill(parts[number % len(parts)])
            self.look()
            self.look_at_rows()
            driver = self.start(goes_on=number < kills - 1)
        rows = driver.result()
        self.look()
        self.look_at_rows()
        return {key: (total, events, last) for key, (total, events, last) in rows.items()}

    def check(self, tables: list[Balances]) -> None:
        """Hold all that is there against the feed."""
        log = log_of(self.client, FEED, "account")
        assert len(log.numbers) == self.published
        for found in tables:
            assert found == folded(sorted(log.numbers), ACCOUNTS)
        before: dict[tuple[str, str], int] = {}
        for url, positions, rows in self.rows:
            offsets = {name: FeedPosition.decode(str(at)).offset for name, at in positions.items()}
            assert rows == folded(numbers_before(log, offsets), ACCOUNTS), f"{url} at {offsets}"
            assert all(at >= before.get((url, name), 0) for name, at in offsets.items()), f"from {before} to {offsets}"
            before |= {(url, name): at for name, at in offsets.items()}
        calls = self.journal.calls()
        check_order(calls, log, self.beginnings, is_rerun=True)
        assert {call.life for each in calls.values() for call in each} == {*range(len(self.beginnings))}
        check_checkpoints(self.samples, log)
        ends = {each.partition: each.head for each in self.client.partitions(FEED)}
        assert self.checkpoints.positions() == {f"{FEED}/{at}": f"1:{head}" for at, head in ends.items()}
        assert all(driver.is_gone() for driver in self.drivers)


def numbers_before(log: Log, offsets: Mapping[str, int]) -> list[int]:
    """Return the numbers that are in a log before *offsets* of its partitions; those of an account are in its order."""
    found = []
    for (stream, tranche), places in log.offsets.items():
        numbers = [n for n in log.numbers if f"{FEED}-{n % ACCOUNTS}" == stream]
        found += [n for n, at in zip(numbers, places, strict=True) if at < offsets.get(tranche, 0)]
    return sorted(found)


@pytest.fixture
def seed() -> int:
    """What all chance comes from, said so that it can be had again."""
    made = random.randrange(1 << 32)
    sys.stdout.write(f"seed {made}\n")
    return made


@pytest.fixture
def run(own_hub: LiveHub, tmp_path: Path, postgres_url: str, seed: int) -> Iterator[Run]:
    targets = [f"sqlite:///{tmp_path}/rows.db", postgres_url, str(tmp_path / "rows")]
    with Client(own_hub.url) as client:
        made = Run(own_hub, client, tmp_path, targets, seed)
        yield made
        for driver in made.drivers:
            driver.kill("all")


@pytest.mark.exhaustive
@pytest.mark.parametrize("kills", [1, 3, 20])
def test_events_are_handled_and_folded_after_kills_at_random_moments(run: Run, kills: int) -> None:
    files = run.survive(kills)
    run.check([files, *map(table, run.folds)])
