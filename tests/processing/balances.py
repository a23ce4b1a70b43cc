"""A projection that runs until it is killed: `python -m tests.processing.balances HUB DATABASE FEED`."""

import sys
import threading
from typing import Any

import msgspec

from penstock.processing import Backoff, FeedSource, Rules, StreamEvent
from penstock.processing.projections.projection import Projection


class Balance(msgspec.Struct):
    total: int = 0
    events: int = 0
    last: int = -1


def booked(balance: Balance, event: StreamEvent) -> Balance | None:
    """Add an amount; what closes an account removes it."""
    if event.data["n"] % 97 == 96:
        return None
    return Balance(balance.total + event.data["n"], balance.events + 1, event.data["n"])


def by_account(event: StreamEvent) -> str | None:
    return event.key


BALANCES = Projection("balances", Balance, booked, key=by_account)


def folded(numbers: list[int], accounts: int) -> dict[str, tuple[int, int, int]]:
    """Return what the table is to hold of the accounts of *numbers*, each of which is in account `n % accounts`."""
    found: dict[str, tuple[int, int, int]] = {}
    for n in numbers:
        key = str(n % accounts)
        total, events, _ = found.get(key, (0, 0, -1))
        if n % 97 == 96:
            found.pop(key, None)
        else:
            found[key] = (total + n, events + 1, n)
    return found


def main(url: str, database: str, feed: str) -> None:
    rules = Rules(backoff=Backoff(first=0.01, most=0.1), events_ahead=200, batches_ahead=8)
    options: dict[str, Any] = {"rules": rules, "commit_s": 0.05}
    with BALANCES.local(FeedSource(url, feed), database, **options):
        sys.stdout.write("running\n")
        sys.stdout.flush()
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
