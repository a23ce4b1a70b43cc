"""A handler some of whose calls take long, by virtual time."""

import threading
from collections.abc import Collection, Sequence
from typing import Any

from penstock.processing.handlers import Handler, check_handler
from penstock.processing.parameters import check_seconds, check_texts
from penstock.testing.clock import VirtualClock, check_clock
from penstock.testing.processing.times import Times, always, check_times


class SlowHandler:
    """Advances virtual time before it passes a call on; nothing sleeps. Safe to use from many threads.

    Args:
        handler: The handler to call.
        clock: The clock to advance.
        seconds: The duration of a slow call, by this clock.
        times: Calls that are slow, among those that *streams* select, counted over all streams.
        streams: Streams with calls that may be slow; None: all streams.

    Raises:
        BadParameter: an argument has the wrong type.
    """

    def __init__(
        self,
        handler: Handler,
        clock: VirtualClock,
        seconds: float,
        times: Times = always,
        *,
        streams: Collection[str] | None = None,
    ) -> None:
        check_handler(handler)
        check_clock(clock)
        check_seconds("seconds", seconds, zero=True)
        check_times("times", times)
        if streams is not None:
            check_texts("streams", streams)
        self._handler = handler
        self._clock = clock
        self._seconds = seconds
        self._times = times
        self._streams = None if streams is None else frozenset(streams)
        self._calls = 0
        self._turn = threading.Lock()

    def __call__(self, stream: str, events: Sequence[Any]) -> Any:
        """Let time pass, if it is to, and call the handler."""
        if self._is_next_slow(stream):
            self._clock.advance(seconds=self._seconds)
        return self._handler(stream, events)

    def _is_next_slow(self, stream: str) -> bool:
        with self._turn:
            if self._streams is not None and stream not in self._streams:
                return False
            self._calls += 1
            return self._times(self._calls)
