"""Reads the streams of a subscription, one after the other, and keeps what is under way from being sent again."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Protocol

from penstock.client.subscriptions.stream import SubscriptionStream, UncommittedBatch
from penstock.client.subscriptions.stream_protocol import StreamBegan
from penstock.errors import PenstockError

RENEWALS: Final = 3
"""So often a lease is extended within a commit timeout."""
STOP_TIMEOUT: Final = 5.0


class Taker(Protocol):
    """Who is told what comes in, by a thread that is not his."""

    def began(self) -> None:
        """Take note that another stream has begun: it sends what is not committed."""
        ...

    def came(self, batch: UncommittedBatch[Any]) -> None:
        """Take a batch."""
        ...

    def failed(self, error: BaseException) -> None:
        """Take note that nothing comes any more."""
        ...


class Inflow:
    """The streams of one subscription, until it is stopped or fails.

    Args:
        stream: What is read.
        taker: Who is told.
        is_outstanding: Whether anything is under way, so that the lease is to be extended.
    """

    def __init__(self, stream: SubscriptionStream[Any], taker: Taker, is_outstanding: Callable[[], bool]) -> None:
        self.stream = stream
        self._taker = taker
        self._is_outstanding = is_outstanding
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._read, name="penstock-subscription", daemon=True),
            threading.Thread(target=self._keep, name="penstock-lease", daemon=True),
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Read no more. What has come can still be committed."""
        self._over.set()
        self.stream.stop()
        for thread in self._threads:
            thread.join(STOP_TIMEOUT)

    def _read(self) -> None:
        try:
            while (news := self.stream.advance()) is not None:
                if self._over.is_set():
                    continue  # Its end lets go of the connection.
                if isinstance(news, StreamBegan):
                    self._taker.began()
                elif isinstance(news, UncommittedBatch):
                    self._taker.came(news)
        except BaseException as error:  # noqa: BLE001 - Whoever reads is told.
            self._over.set()
            with suppress(PenstockError):
                self.stream.close()
            self._taker.failed(error)

    def _keep(self) -> None:
        while not self._over.wait(self.stream.protocol.parameters.commit_timeout / RENEWALS):
            if self._is_outstanding():
                with suppress(PenstockError):  # Should its time be over, another stream is sent the events.
                    self.stream.extend_lease()
