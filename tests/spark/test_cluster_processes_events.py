"""Processors and projections on a cluster of which executors and workers are killed in the middle of a round."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from penstock.client import Client
from penstock.processing import DatabaseCheckpoints
from penstock.testing.live_hub import LiveHub
from tests.faults.proxy import Held, Line, Visit
from tests.processing.balances import folded
from tests.spark.cluster import START_SECONDS_MAX, Cluster, kill, standalone
from tests.spark.drivers import SCRIPT, Driver
from tests.spark.journal import Journal, Kept, Log, check_order, log_of
from tests.spark.tables import table

ACCOUNTS = 8
EVENTS = 160
pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(1800)]


class Booked(NamedTuple):
    """A feed of numbers, and where is written down what handlers were called with."""

    url: str
    client: Client
    feed: str
    folder: Path

    @property
    def journal(self) -> Journal:
        return Journal(self.folder / "journal")

    @property
    def checkpoints(self) -> str:
        return f"sqlite:///{self.folder}/checkpoints.db"

    @property
    def log(self) -> Log:
        return log_of(self.client, self.feed, "account")

    def process(self, cluster: Cluster, *, lasts_seconds: float, timeout: float | None = None) -> Driver:
        """Start a driver that processes all of it."""
        return cluster.driver(
            "process", self.folder, script=SCRIPT, url=self.url, feed=self.feed, journal=str(self.journal.folder),
            checkpoints=self.checkpoints, life=0, seed=7, lasts_seconds=lasts_seconds, timeout=timeout,
        )  # fmt: skip

    def check(self, driver: Driver) -> None:
        """Wait for the driver's end, and hold what was called against the feed."""
        driver.result()
        # That two calls have never gone on at once is checked where calls are made of what was written.
        check_order(self.journal.calls(), self.log, [Kept({}, {})], is_rerun=True)
        ends = {f"{self.feed}/{each.partition}": f"1:{each.head}" for each in self.client.partitions(self.feed)}
        assert DatabaseCheckpoints(self.checkpoints, self.feed).positions() == ends


@pytest.fixture
def booked(hub: LiveHub, client: Client, tmp_path: Path) -> Booked:
    name = f"booked-{time.monotonic_ns()}"
    client.create_event_type(name, partition_count=3, partition_strategy="hash", partition_key_fields=["account"])
    client.publish(name, [{"account": str(n % ACCOUNTS), "n": n} for n in range(EVENTS)])
    return Booked(hub.url, client, name, tmp_path)


def under_way(journal: Journal) -> dict[str, int]:
    """Return the processes of calls that are under way, by stream: those that last have written something."""
    found = {}
    for stream, lines in journal.lines().items():
        if lines and "done" not in lines[-1] and len([line for line in lines if line["call"] == lines[-1]["call"]]) > 3:
            found[stream] = int(str(lines[-1]["pid"]))
    return found


def executor_in_a_call(cluster: Cluster, booked: Booked, driver: Driver, *, others: set[int]) -> int:
    """Wait until a handler is called, and return the executor that it is called on, none of *others*."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        for pid in under_way(booked.journal).values():
            with suppress(FileNotFoundError, ProcessLookupError):
                if (found := cluster.executor_above(pid)) not in others:
                    return found
        time.sleep(0.01)
    raise AssertionError(driver.output[-6000:])


@pytest.mark.parametrize("timeout", [None, 30.0], ids=["in the worker", "in a child"])
def test_events_are_handled_in_order_though_executors_are_killed_during_calls(
    cluster: Cluster, booked: Booked, timeout: float | None
) -> None:
    killed: set[int] = set()
    with booked.process(cluster, lasts_seconds=0.2, timeout=timeout) as driver:
        for _ in range(3):
            executor = executor_in_a_call(cluster, booked, driver, others=killed)
            kill(executor)
            killed.add(executor)
        booked.check(driver)
    calls = [call for found in booked.journal.calls().values() for call in found]
    assert any(call.done is None for call in calls), "none was killed in a call"


def test_running_call_is_not_repeated_after_another_executor_dies_with_shuffled_rows(
    cluster: Cluster, booked: Booked
) -> None:
    """Spark makes again what a dead executor had shuffled, and with that the tasks that others are still at."""
    with booked.process(cluster, lasts_seconds=3.0) as driver:
        kill(executor_in_a_call(cluster, booked, driver, others=set()))
        booked.check(driver)


def test_events_are_handled_in_order_though_a_worker_is_killed(
    cluster: Cluster, booked: Booked, tmp_path: Path
) -> None:
    with (
        standalone(cluster.python, cluster.wheel, tmp_path) as own,
        booked.process(own, lasts_seconds=0.2) as driver,
    ):
        executor = executor_in_a_call(own, booked, driver, others=set())
        kill(own.worker_of(executor))
        booked.check(driver)


def is_read(visit: Visit) -> bool:
    return visit.method == "GET" and "/events?" in visit.path


@pytest.mark.parametrize("dies", ["who reads", "who has read"])
@pytest.mark.parametrize("nth", [0, 5], ids=["in the first round", "in a later round"])
def test_projection_is_the_fold_of_the_log_though_executors_are_killed(
    cluster: Cluster, booked: Booked, hub: LiveHub, dies: str, nth: int
) -> None:
    targets = [f"sqlite:///{booked.folder}/rows.db", str(booked.folder / "rows")]
    with Line(hub.port) as line:
        held, asking = Held(), list[Visit]()

        def hold(visit: Visit) -> None:
            asking.append(visit)
            held(visit)

        passing: list[Callable[[Visit], None]] = [lambda visit: visit.answer(visit.forward())] * nth
        line.does(*passing, hold, to=is_read)
        given = {"url": line.url, "feed": booked.feed, "targets": targets, "events_per_round": 60}
        with cluster.driver("fold", booked.folder, script=SCRIPT, **given) as driver:
            assert held.reached.wait(START_SECONDS_MAX), driver.output[-6000:]
            asker = cluster.executor_of(asking[0])
            chosen = {"who reads": lambda each: each == asker, "who has read": lambda each: each != asker}[dies]
            for executor in filter(chosen, cluster.executors()):
                kill(executor)
            held.let_go()
            done = driver.result()
    wanted = folded(list(range(EVENTS)), ACCOUNTS)
    assert table(targets[0]) == wanted
    assert done == {key: list(row) for key, row in wanted.items()}
