"""Takes payments at once where that is possible, and in any case: exactly once in effect.

`python examples/charge_at_once.py shop URL bank.db` takes orders, one a line, as a web server takes requests.
`python examples/charge_at_once.py guarantee URL bank.db` is the reaction that sees to all that was left undone.

A request is answered once its order is in the feed: that is the promise. The payment is tried at once, since it mostly
succeeds; where it does not, or the server is killed in between, the reaction makes it. Both give it the same id, by
which the bank knows a repeat.
"""

import signal
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from uuid import uuid4

from penstock.client import Client
from penstock.processing import DatabaseCheckpoints, FeedSource, LocalProcessor, StreamEvent
from penstock.processing.effects import effect_id


class Bank:
    """Stands for a payment service that takes a payment once, whatever comes twice under one id."""

    def __init__(self, path: str, by: str, timeout: float) -> None:
        self._path = path
        self._by = by
        self._timeout = timeout
        with closing(self._open(30)) as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS payments (id TEXT PRIMARY KEY, order_id TEXT, taken_by TEXT)"
            )

    def take(self, payment_id: str, order: str) -> None:
        with closing(self._open(self._timeout)) as connection:
            connection.execute(
                "INSERT INTO payments VALUES (?, ?, ?) ON CONFLICT DO NOTHING", (payment_id, order, self._by)
            )

    def _open(self, timeout: float) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=timeout, isolation_level=None)


def request(hub: Client, bank: Bank, order: str) -> None:
    eid = str(uuid4())
    hub.publish("order.placed", {"order_id": order, "metadata": {"eid": eid}})
    try:
        bank.take(effect_id(eid, "payment"), order)
    except sqlite3.OperationalError as error:
        print("accepted", order, f"(payment follows: {error})", flush=True)
    else:
        print("paid", order, flush=True)


def shop(url: str, path: str) -> None:
    bank = Bank(path, "request", timeout=0.1)
    with Client(url) as hub:
        for line in sys.stdin:
            request(hub, bank, line.strip())


def guarantee(url: str, path: str) -> None:
    bank = Bank(path, "reaction", timeout=5)

    def see_to_it(_: str, events: Sequence[StreamEvent]) -> None:
        for event in events:
            bank.take(effect_id(event, "payment"), event.data["order_id"])

    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    checkpoints = DatabaseCheckpoints(f"sqlite:///{path}-checkpoints", "guarantee")
    with LocalProcessor(
        see_to_it, FeedSource(url, "order.placed"), checkpoints=checkpoints, commit_interval=0.5
    ) as processor:
        processor.wait_until_caught_up(60)
        print("caught up", flush=True)
        processor.wait()  # SIGTERM leaves the block; so does what the processor cannot go on from, with status 1.


if __name__ == "__main__":
    {"shop": shop, "guarantee": guarantee}[sys.argv[1]](*sys.argv[2:])
