"""Publishes for as long as it lasts, whatever becomes of the hub meanwhile."""

import threading
from random import Random
from typing import Self

from penstock.client import Client
from penstock.errors import OutcomeUnknown, Unavailable

PAUSE_SECONDS = 0.2


class Booking:
    """Numbers that are booked to accounts, each number to `n % accounts` and at most once, by a thread of its own.

    What the hub does not take, since it is killed, is not handed in again: there are holes in the numbers.

    Args:
        url: The hub's address.
        feed: Its event type.
        accounts: How many there are.
        seed: Of chance, by which there are more events or fewer.
    """

    def __init__(self, url: str, feed: str, accounts: int, seed: int) -> None:
        self._url = url
        self._feed = feed
        self._accounts = accounts
        self._chance = Random(seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="booking", daemon=True)
        self._failure: BaseException | None = None
        self.acknowledged: list[int] = []
        """What the hub has said that it has."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            self._book()
        except BaseException as failure:  # noqa: BLE001 - whoever waits for the end is told
            self._failure = failure

    def _book(self) -> None:
        first = 0
        with Client(self._url) as client:
            while not self._over.wait(PAUSE_SECONDS):
                numbers = range(first, first + self._chance.randrange(1, 12))
                first = numbers.stop
                try:
                    client.publish(self._feed, [{"account": str(n % self._accounts), "n": n} for n in numbers])
                except (OutcomeUnknown, Unavailable):
                    continue
                self.acknowledged += numbers
