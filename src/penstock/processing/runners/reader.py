"""Reads for a processor, in a thread of its own."""

import threading
from collections.abc import Mapping
from queue import SimpleQueue

from penstock.processing.runners.inbox import Inbox, News
from penstock.processing.sources.source import Source, Want


class Reader:
    """Reads what it is asked for, once each time, in a thread of its own."""

    def __init__(self, source: Source, inbox: Inbox) -> None:
        self._source = source
        self._inbox = inbox
        self._asked: SimpleQueue[tuple[Mapping[str, Want], float] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="penstock-reader", daemon=True)
        self.is_asked = False
        """Whether an answer is to come."""
        self.is_partial = False
        """Whether tranches were left out, since there was no room for them."""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def ask(self, wants: Mapping[str, Want], wait_s: float, *, is_partial: bool) -> None:
        """Have something read."""
        self.is_asked, self.is_partial = True, is_partial
        self._asked.put((wants, wait_s))

    def stop(self) -> None:
        """End, once what is being read has come."""
        self._asked.put(None)

    def _run(self) -> None:
        while (asked := self._asked.get()) is not None:
            try:
                found: News = self._source.read(*asked)
            except BaseException as error:  # noqa: BLE001 - The loop raises it.
                found = error
            self.is_asked = False
            self._inbox.put(found)
