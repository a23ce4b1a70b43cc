"""A source that ends when it is closed, and says so to whoever would begin with it again."""

import threading

from penstock.client.concurrency import Closing


class Closable(Closing):
    """A source that is closed by setting `_closed`."""

    _closed: threading.Event

    @property
    def is_closed(self) -> bool:
        """Whether it has ended: no processor can begin with it any more."""
        return self._closed.is_set()
