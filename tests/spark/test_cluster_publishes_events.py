"""Faults of batches that only a cluster can show.

Tasks run in two executors at once, and an executor dies with rows that others have still to fetch.
"""

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from penstock.client import Client
from penstock.core.events.event import NewEvent
from penstock.testing.live_hub import LiveHub
from tests.faults.proxy import Held, Line, Visit, passed
from tests.spark.cluster import Cluster, kill
from tests.spark.drivers import Driver
from tests.spark.events import numbers_in

EVENTS = 400
WHOLE = Counter(range(EVENTS))
TASKS = 4
STRAGGLER_SECONDS_MAX = 500
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.minTaskRuntime": "50ms",
    "spark.speculation.quantile": "0.5",
}
"""A task is an old one when half of the others are done."""
ORDER_MATTERS = {"spark.sql.execution.sortBeforeRepartition": "false", "spark.sql.adaptive.enabled": "false"}
"""Has Spark tell a shuffle that goes by the order of rows for what it is: one that is another when it comes again."""
pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(1800)]


class Publishing:
    """A stream from one feed to another, whose driver and executors are on a cluster."""

    def __init__(self, cluster: Cluster, options: dict[str, str], target: str, folder: Path) -> None:
        self.cluster = cluster
        self.options = options
        self.target = target
        self.folder = folder

    def start(self, url: str, shuffled: str = "plain", conf: dict[str, str] | None = None) -> Driver:
        sink = {"url": url, "eventType": self.target}
        given: dict[str, Any] = {"url": self.options["url"], "event_type": self.options["eventType"], "sink": sink}
        given |= {"checkpoint": str(self.folder / "checkpoint"), "shuffled": shuffled}
        return self.cluster.driver("republish", self.folder, conf=conf, **given)


@pytest.fixture
def publishing(cluster: Cluster, client: Client, options: dict[str, str], tmp_path: Path) -> Publishing:
    source, target = options["eventType"], f"{options['eventType']}.again"
    client.create_event_type(target, partition_count=TASKS)
    client.publish(source, (NewEvent(b'{"n": %d}' % n, partition=n % 2) for n in range(EVENTS)))
    return Publishing(cluster, options, target, tmp_path)


def is_open(visit: Visit) -> bool:
    return visit.method == "POST" and visit.path.endswith("/uploads")


def is_chunk(visit: Visit) -> bool:
    return "/chunks/" in visit.path


class Noticed:
    """Something comes to pass."""

    def __init__(self) -> None:
        self._noticed = threading.Event()

    def __call__(self, visit: Visit) -> None:
        self._noticed.set()
        passed(visit)

    def wait(self) -> None:
        assert self._noticed.wait(STRAGGLER_SECONDS_MAX), "nothing has come"


def test_batch_is_published_once_by_two_concurrent_attempts(
    publishing: Publishing, hub: LiveHub, client: Client
) -> None:
    """A task is slow, so that another executor is given the same one; both hand in, and one is named."""
    with Line(hub.port) as line:
        straggler, second = Held(), Noticed()
        line.does(straggler, to=is_chunk)
        line.does(*[passed] * TASKS, second, to=is_open)
        with publishing.start(line.url, conf=SPECULATION) as driver:
            second.wait()
            straggler.let_go()
            assert driver.has_succeeded(), driver.output[-6000:]

    assert numbers_in(client, publishing.target) == WHOLE


def lose_executor(publishing: Publishing, driver: Driver, held: Held, asking: list[Visit]) -> None:
    """Kill the executor that does not ask, behind the shuffle: what it has of that cannot be fetched any more."""
    assert held.reached.wait(STRAGGLER_SECONDS_MAX), driver.output[-6000:]
    asker = publishing.cluster.executor_of(asking[0])
    for executor in publishing.cluster.executors():
        if executor != asker:
            kill(executor)
    held.let_go()


def test_executor_killed_with_shuffled_rows_publishes_each_event_once(
    publishing: Publishing, hub: LiveHub, client: Client
) -> None:
    """Rows are others when they are shuffled again: a query that Spark ends then is started again."""
    with Line(hub.port) as line:
        held, asking = Held(), []

        def hold(visit: Visit) -> None:
            asking.append(visit)
            held(visit)

        line.does(hold, to=is_chunk)
        with publishing.start(line.url, "random", ORDER_MATTERS) as driver:
            lose_executor(publishing, driver, held, asking)
            is_done = driver.has_succeeded()
        assert "FetchFailed" in driver.output, "it has not missed any rows"
        if not is_done:
            with publishing.start(line.url, "random", ORDER_MATTERS) as driver:
                assert driver.has_succeeded(), driver.output[-6000:]

    assert numbers_in(client, publishing.target) == WHOLE
