"""A projection of the balances of accounts, and the rows that it comes to."""

import msgspec

from penstock.processing import StreamEvent
from penstock.processing.projections.projection import Projection

CLOSED_EVERY = 97
"""Each event of a number that is one below a multiple of this closes its account."""


class Balance(msgspec.Struct):
    total: int = 0
    events: int = 0
    last: int = -1


def book(balance: Balance, event: StreamEvent) -> Balance | None:
    """Add an amount, or remove the account."""
    n = event.data["n"]
    return None if n % CLOSED_EVERY == CLOSED_EVERY - 1 else Balance(balance.total + n, balance.events + 1, n)


def by_account(event: StreamEvent) -> str | None:
    return event.key


BALANCES = Projection("balances", Balance, book, key=by_account)


def folded(numbers: list[int], accounts: int) -> dict[str, tuple[int, int, int]]:
    """Return the rows of the projection after *numbers*, each of which is in account `n % accounts`."""
    rows: dict[str, tuple[int, int, int]] = {}
    for n in numbers:
        key = str(n % accounts)
        total, events, _ = rows.get(key, (0, 0, -1))
        if n % CLOSED_EVERY == CLOSED_EVERY - 1:
            rows.pop(key, None)
        else:
            rows[key] = (total + n, events + 1, n)
    return rows
