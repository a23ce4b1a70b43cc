"""Two processors to be killed: `python -m tests.processing.bookkeeping HUB DATABASE [LEASE_SECONDS]`.

One writes down each event. Its rows know nothing of events that come again; calls are short, so that pages are done in
many of them, and one account fails most of the time. The other is a projection of the accounts' balances.
"""

import sqlite3
import sys
import threading
from collections.abc import Sequence
from random import Random
from typing import Any

from penstock.processing import DatabaseCheckpoints, FeedSource, LocalProcessor, Rules, Transactional
from penstock.processing.checkpoints import DatabaseLeases
from penstock.processing.engine import Backoff
from penstock.processing.together import Span
from tests.processing.balances import BALANCES

RULES = Rules(
    backoff=Backoff(first_seconds=0.01, max_seconds=0.05), events_per_call=3, events_ahead=400, batches_ahead=8
)
_NUMBER = {"sqlite": "integer PRIMARY KEY", "postgresql": "bigint GENERATED ALWAYS AS IDENTITY"}
TROUBLED = "7"
"""The account that fails."""


def table(database: str) -> str:
    """Return the statement that creates the table; `number` says in which order rows were written."""
    return (
        f"CREATE TABLE entries (number {_NUMBER[database.partition(':')[0]]}, account text NOT NULL, n bigint NOT NULL)"
    )


def processors(
    url: str, database: str, fails: float = 0.0, lease_seconds: float | None = None
) -> tuple[LocalProcessor, LocalProcessor]:
    """Return the processor that writes each number into the table `entries`, and that of the projection."""
    chance = Random()

    def write(connection: Any, spans: Sequence[Span]) -> list[Exception | None]:
        failed = {span.stream for span in spans if _account(span) == TROUBLED and chance.random() < fails}
        rows = [
            (_account(span), event.data["n"]) for span in spans if span.stream not in failed for event in span.events
        ]
        mark = "?" if isinstance(connection, sqlite3.Connection) else "%s"
        connection.cursor().executemany(f"INSERT INTO entries (account, n) VALUES ({mark}, {mark})", rows)
        return [ValueError("not now") if span.stream in failed else None for span in spans]

    def options(name: str) -> dict[str, Any]:
        leases = None if lease_seconds is None else DatabaseLeases(database, name, lease_seconds=lease_seconds)
        return {"rules": RULES, "commit_interval": 0.05, "leases": leases}

    handler = Transactional(database, write, DatabaseCheckpoints(database, "entries"), streams_max=5)
    return (
        LocalProcessor(handler, FeedSource(url, "booked"), **options("entries")),
        BALANCES.local(FeedSource(url, "booked"), database, **options(BALANCES.processor)),
    )


def _account(span: Span) -> str:
    account: str = span.events[0].data["account"]
    return account


def main(url: str, database: str, lease_seconds: str = "") -> None:
    entries, balances = processors(url, database, 0.9, float(lease_seconds) if lease_seconds else None)
    with entries, balances:
        print("running", flush=True)  # noqa: T201 - The test waits for it.
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
