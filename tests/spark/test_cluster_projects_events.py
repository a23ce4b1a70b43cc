"""Whoever is killed on a cluster, at random moments: the table is the fold of the log, as far as its checkpoint says.

The driver, its Java or its Python, executors and the hub are killed while a feed is projected and published to.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, get_args

import pytest

from penstock.client import Client
from penstock.processing import DatabaseCheckpoints
from penstock.processing.sources.feed_position import FeedPosition, encode_tranche
from penstock.testing.live_hub import LiveHub
from tests.processing.balances import BALANCES, folded
from tests.spark.booking import Booking
from tests.spark.cluster import Cluster, kill
from tests.spark.drivers import SCRIPT, START_SECONDS_MAX, Driver, Part
from tests.spark.journal import Log, log_of
from tests.spark.tables import table

ACCOUNTS = 12
FEED = "booked"
VICTIMS = ["driver", "executor", "hub"]
KILLS = 2
"""Of each."""
SEEDS = range(8)
Positions = Mapping[str, Any]


class Sample(NamedTuple):
    """What there was in the database at a moment."""

    positions: Positions
    rows: dict[str, tuple[int, int, int]]


class Run:
    """A feed that is projected into a database, by one driver after the other."""

    def __init__(self, cluster: Cluster, hub: LiveHub, folder: Path, target: str, seed: int) -> None:
        self.cluster = cluster
        self.hub = hub
        self.folder = folder
        self.target = target
        self.checkpoints = DatabaseCheckpoints(target, BALANCES.processor)
        self.chance = Random(seed)
        self.history = [f"seed {seed}"]
        """What was done, and how many seconds after the beginning."""
        self.began = time.monotonic()
        self.samples: list[Sample] = []
        self.former: set[int] = set()
        """Executors of drivers that are dead."""
        self.driver = self.start_driver()

    def start_driver(self) -> Driver:
        given = {"url": self.hub.url, "feed": FEED, "targets": [self.target], "events_per_round": 2000}
        return self.cluster.driver("follow", self.folder, script=SCRIPT, **given)

    def until(self, condition: Callable[[], Any], what: str) -> None:
        """Look again until *condition* holds, as long as the driver runs."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while not condition():
            assert self.driver.is_running, self.message("the driver has ended")
            assert time.monotonic() < deadline, self.message(f"it does not come that {what}")
            time.sleep(0.2)

    def note(self, what: str) -> None:
        self.history.append(f"{time.monotonic() - self.began:.1f} s {what}")

    def message(self, what: str) -> str:
        return f"{what}: {'; '.join(self.history)}\n{self.driver.output[-6000:]}"

    def go_on(self) -> None:
        """Wait until the table has gone on."""
        before = self.checkpoints.positions()
        self.until(lambda: self.checkpoints.positions() != before, "the table goes on")
        self.note("the table has gone on")

    def look(self) -> None:
        """Note what is in the table, with the checkpoint of the same moment: one that is still the same afterwards."""
        positions, rows = self.checkpoints.positions(), table(self.target)
        while (now := self.checkpoints.positions()) != positions:
            positions, rows = now, table(self.target)
        self.samples.append(Sample(positions, rows))

    def survive(self, victims: list[str]) -> None:
        """Have each of them killed at a random moment, after all that was killed before has gone on."""
        self.go_on()
        kills = {"driver": self.kill_driver, "executor": self.kill_executor, "hub": self.kill_hub}
        for victim in victims:
            time.sleep(self.chance.uniform(0.0, 2.0))
            self.note(f"{victim} to be killed")
            assert self.driver.is_running, self.message("the driver has ended")
            kills[victim]()
            self.look()
            self.go_on()

    def kill_driver(self) -> None:
        self.former = {*self.cluster.executors()}
        self.end_driver(self.chance.choice(get_args(Part)))
        self.driver = self.start_driver()

    def end_driver(self, part: Part) -> None:
        self.note(f"end of the driver, {part}")
        self.driver.kill(part)
        assert self.driver.is_gone(), self.message("there is something of the driver")

    def kill_executor(self) -> None:
        self.until(self.executors, "there is an executor")
        kill(self.chance.choice(self.executors()))

    def executors(self) -> list[int]:
        """Return those of this driver."""
        return sorted({*self.cluster.executors()} - self.former)

    def kill_hub(self) -> None:
        self.hub.kill()
        time.sleep(self.chance.uniform(0.0, 0.5))
        self.hub.start()

    def end(self, log: Log, ends: Positions) -> None:
        """Wait until the checkpoint is at the end, and hold all that was noted against the log."""
        self.until(lambda: self.checkpoints.positions() == ends, f"the checkpoint is at {ends}")
        self.look()
        before: dict[str, int] = {}
        for sample in self.samples:
            offsets = {name: FeedPosition.decode(str(at)).offset for name, at in sample.positions.items()}
            assert all(offsets[name] >= at for name, at in before.items()), self.message(f"from {before} to {offsets}")
            assert sample.rows == folded(numbers_before(log, offsets), ACCOUNTS), self.message(
                f"not the fold: {sample}"
            )
            before = offsets
        assert table(self.target) == folded(sorted(log.numbers), ACCOUNTS), self.message("not the fold of the log")


def numbers_before(log: Log, offsets: Mapping[str, int]) -> list[int]:
    """Return the numbers that are in a log before *offsets* of its partitions; those of an account are in its order."""
    found = []
    for (stream, tranche), places in log.offsets.items():
        numbers = [n for n in log.numbers if f"{FEED}-{n % ACCOUNTS}" == stream]
        end = offsets.get(tranche, 0)
        found += [n for n, at in zip(numbers, places, strict=True) if at < end]
    return sorted(found)


@pytest.fixture
def target(request: pytest.FixtureRequest, tmp_path: Path, seed: int) -> str:
    """The URL of an empty database, of either kind in turn."""
    return request.getfixturevalue("postgres_url") if seed % 2 else f"sqlite:///{tmp_path}/rows.db"


@pytest.fixture
def run(cluster: Cluster, own_hub: LiveHub, tmp_path: Path, target: str, seed: int) -> Iterator[Run]:
    with Client(own_hub.url) as client:
        client.create_event_type(FEED, partition_count=3, partition_strategy="hash", partition_key_fields=["account"])
    made = Run(cluster, own_hub, tmp_path, target, seed)
    yield made
    made.end_driver("all")


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"seed {seed}")
def test_projection_is_the_fold_of_the_log_after_kills_at_random_moments(run: Run, own_hub: LiveHub, seed: int) -> None:
    victims = VICTIMS * KILLS
    run.chance.shuffle(victims)
    with Booking(own_hub.url, FEED, ACCOUNTS, seed) as booking:
        run.survive(victims)
    with Client(own_hub.url) as client:
        log = log_of(client, FEED, "account")
        ends = {encode_tranche(FEED, each.partition): f"1:{each.head}" for each in client.partitions(FEED)}
    assert {*booking.acknowledged} <= {*log.numbers}, run.message("the hub has lost events")
    run.end(log, ends)
