"""Publishers and readers in processes of their own, each with its own hub on the same database.

Their work is a function of this file, so that a new process can import it.
"""

import multiprocessing
import random
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.context import ForkServerContext
from typing import Any

from penstock.hub.background import system_clock
from penstock.hub.cold.sealing import SealingOptions
from penstock.hub.cold.tables import update_tables
from penstock.hub.hub import Hub
from penstock.hub.log import read
from penstock.storage import open_store
from tests.promises.scene import NAME, Follower, event, hub_on

FORKSERVER: ForkServerContext = multiprocessing.get_context("forkserver")
FORKSERVER.set_forkserver_preload([__name__])  # Each process would take a second to import the hub by itself.


@contextmanager
def run_processes(work: Callable[..., None], *given: tuple[Any, ...]) -> Iterator[list[Any]]:
    """Run *work* once for each of *given* in a process of its own; kill those that outlive the block."""
    processes = [FORKSERVER.Process(target=work, args=each, daemon=True) for each in given]
    for process in processes:
        process.start()
    try:
        yield processes
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()
            process.join()


def join_all(processes: list[Any]) -> None:
    """Wait for all processes and assert that each has succeeded."""
    for process in processes:
        process.join(300)
    assert [process.exitcode for process in processes] == [0] * len(processes)


def publish_numbers(url: str, who: int, seed: int, batches: int, partitions: int) -> None:
    """Publish batches of any size; in every partition the events of one publisher are numbered from 0."""
    chance = random.Random(seed)
    numbers = [0] * partitions
    with hub_on(url) as hub:
        pending: list[Any] = []
        for _ in range(batches):
            batch = []
            for _ in range(chance.randint(1, 8)):
                partition = chance.randrange(partitions)
                batch.append(event({"by": who, "n": numbers[partition]}, partition))
                numbers[partition] += 1
            pending.append(hub.log.submit(NAME, batch))
            while len(pending) > chance.randint(0, 3):
                pending.pop(0).result(300)
        for each in pending:
            each.result(300)


def follow_numbers(url: str, seed: int, total: Any, partitions: int, told: Any) -> None:
    """Follow all partitions in pages of any size until *total*, once it is set; put the events into *told*, a queue."""
    chance = random.Random(seed)
    with hub_on(url) as hub:
        follower = Follower(hub, range(partitions))
        while not total.value or sum(map(len, follower.found.values())) < total.value:
            follower.page(chance.choice([1, 2, 7, 50, 1000]))
        told.put([[(each["by"], each["n"]) for each in follower.found[p]] for p in range(partitions)])


def publish_until(url: str, who: int, go: Any, counts: Any, total: int) -> None:
    """Publish one event after another until all processes together have published *total*; keep count."""
    with hub_on(url) as hub:
        hub.log.publish(NAME, [event({"by": who})])
        go.wait()
        while sum(counts) < total:
            hub.log.publish(NAME, [event({"by": who})])
            counts[who] += 1


def hold_the_file(path: str, held: Any, release: Any) -> None:
    """Hold an SQLite file in a write transaction until *release* is set."""
    import sqlite3

    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    held.set()
    release.wait(60)
    connection.execute("COMMIT")
    connection.close()


def commit_rows(path: str, count: int, counts: Any, waits: Any) -> None:
    """Commit rows to the outbox of an SQLite file as a service; put into *waits* how many commits each row waited for.

    The hubs beside it, whose *counts* these are, commit between two rows: the service has to get its turn each time.
    """
    import sqlite3

    import penstock.outbox

    connection = sqlite3.connect(path, isolation_level=None, timeout=300)
    passed = []
    for n in range(count):
        enough = sum(counts) + 1
        while sum(counts) < enough:
            time.sleep(0.001)
        before = sum(counts)
        connection.execute("BEGIN IMMEDIATE")
        penstock.outbox.publish(connection, NAME, {"by": "service", "n": n}, partition=0)
        connection.execute("COMMIT")
        passed.append(sum(counts) - before)
    connection.close()
    waits.put(passed)


def publish_forever(url: str, counts: Any, who: int) -> None:
    """Publish until killed, so much at once that the hub always has its next group to commit."""
    batch = [event({"by": "load", "x": "x" * 300}) for _ in range(200)]
    with hub_on(url) as hub:
        pending = deque(hub.log.submit(NAME, batch) for _ in range(20))
        while True:
            pending.popleft().result()
            counts[who] += 1
            pending.append(hub.log.submit(NAME, batch))


def seal_forever(url: str, cold: str, ahead: float, seed: int, began: Any, *, has_tables: bool = False) -> None:
    """Seal small files, and delete what was sealed, until killed; by a clock that is *ahead* by so many seconds."""
    chance = random.Random(seed)
    read.CHUNK_ROWS = 20  # type: ignore[misc]
    store = open_store(url, cold, has_tables=has_tables)
    hub = Hub(store, clock=lambda: system_clock() + int(ahead * 1e6), sealing=SealingOptions(0.0, 1_000))
    while True:
        hub.cold.sealer.run()
        update_tables(store)
        began.set()
        for _ in range(chance.randint(0, 3)):
            with store.read() as tx:
                found = tx.removal.list_unswept(1)
            for partition_id, start, stop in found:
                with store.write() as tx:
                    tx.removal.delete(partition_id, start, min(stop, start + 30))
