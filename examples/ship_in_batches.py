"""A process manager: completed shipments go into batches, and each batch that is full is dispatched.

`python examples/ship_in_batches.py URL shipping.db`, where URL is a hub's, such as http://localhost:8080.

    shipment.completed ──► collect, into the open batch ──► batch.closed ──► dispatch, all of the batch at once

Each shipment is in one batch, no batch is larger than it may be, and each is dispatched once. Kill it whenever you
like, and start it again: what it knows lies in shipping.db, beside how far it is. SIGTERM ends it with status 0; where
a phase cannot go on, the program ends with status 1 and says why.
"""

import signal
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from penstock.client import Client
from penstock.processing import DatabaseCheckpoints, FeedSource, LocalProcessor, StreamEvent
from penstock.processing.batcher import Batcher
from penstock.processing.duplicates import Duplicates
from penstock.processing.effects import effect_id

SIZE = 10
LOOK_INTERVAL = 0.2
"""How long one phase may go on after the other has failed."""
TABLES = """
CREATE TABLE IF NOT EXISTS batches (
    batch INTEGER PRIMARY KEY,
    size INTEGER NOT NULL DEFAULT 0,
    is_announced INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS shipments (
    shipment TEXT PRIMARY KEY,
    batch INTEGER NOT NULL,
    dispatched INTEGER NOT NULL DEFAULT 0
);
"""


@contextmanager
def transaction(path: str) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            yield connection


class Collecting:
    """The first phase. Many streams complete shipments at once: what comes together shares a transaction."""

    def __init__(self, hub: Client, path: str) -> None:
        self._hub = hub
        self._path = path
        self._together = Batcher(self._collect)

    def __call__(self, _: str, events: Sequence[StreamEvent]) -> None:
        self._together.submit([event.data["shipment"] for event in events])

    def _collect(self, spans: list[list[str]]) -> None:
        with transaction(self._path) as connection:
            for shipment in (each for span in spans for each in span):
                add(connection, shipment)
        # None of these events is done before the batches that they have filled are announced. Whoever is killed in
        # between announces them when the events come again; the id tells that it is a repeat.
        for batch in closed(self._path):
            metadata = {"eid": effect_id(f"batch {batch['batch']}", "batch.closed")}
            self._hub.publish("batch.closed", {**batch, "metadata": metadata})
            with transaction(self._path) as connection:
                connection.execute("UPDATE batches SET is_announced = 1 WHERE batch = ?", (batch["batch"],))


def add(connection: sqlite3.Connection, shipment: str) -> None:
    if connection.execute("SELECT 1 FROM shipments WHERE shipment = ?", (shipment,)).fetchone():
        return
    found = connection.execute("SELECT batch FROM batches WHERE size < ?", (SIZE,)).fetchone()
    batch = found[0] if found else connection.execute("INSERT INTO batches DEFAULT VALUES").lastrowid
    connection.execute("INSERT INTO shipments (shipment, batch) VALUES (?, ?)", (shipment, batch))
    connection.execute("UPDATE batches SET size = size + 1 WHERE batch = ?", (batch,))


def closed(path: str) -> list[dict[str, object]]:
    """Return the batches that are full and of which nobody was told yet."""
    with transaction(path) as connection:
        full = connection.execute("SELECT batch FROM batches WHERE size = ? AND NOT is_announced", (SIZE,)).fetchall()
        query = "SELECT shipment FROM shipments WHERE batch = ? ORDER BY shipment"
        return [
            {"batch": batch, "shipments": [shipment for (shipment,) in connection.execute(query, (batch,))]}
            for (batch,) in full
        ]


class Dispatching:
    """The second phase, which begins with the event of a batch: each is dispatched once, however often it comes."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, _: str, events: Sequence[StreamEvent]) -> None:
        with transaction(self._path) as connection:
            for batch in Duplicates(connection, "batch.closed", "dispatching").fresh(event.data for event in events):
                shipments = [(shipment,) for shipment in batch["shipments"]]
                connection.executemany("UPDATE shipments SET dispatched = dispatched + 1 WHERE shipment = ?", shipments)


def main(url: str, path: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(TABLES)
        Duplicates(connection, "batch.closed", "dispatching").create()
        connection.commit()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())

    collected = DatabaseCheckpoints(f"sqlite:///{path}", "collecting")
    dispatched = DatabaseCheckpoints(f"sqlite:///{path}", "dispatching")
    with (
        Client(url) as hub,
        LocalProcessor(
            Collecting(hub, path), FeedSource(url, "shipment.completed"), checkpoints=collected, commit_interval=0.5
        ) as collecting,
        LocalProcessor(
            Dispatching(path), FeedSource(url, "batch.closed"), checkpoints=dispatched, commit_interval=0.5
        ) as dispatching,
    ):
        print("shipping", flush=True)
        while not (
            collecting.wait(LOOK_INTERVAL) or dispatching.wait(LOOK_INTERVAL)
        ):  # Neither is of use without the other.
            pass


if __name__ == "__main__":
    main(*sys.argv[1:])
