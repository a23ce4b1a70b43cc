"""A handler some of whose calls fail."""

import inspect
import threading
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any

from penstock.processing.handlers import Handler, check_handler
from penstock.processing.parameters import check_flag, check_function, check_texts, is_coroutine_function
from penstock.testing.processing.times import Times, always, check_times


class InjectedFault(Exception):
    """Raised by calls that a test has chosen to fail."""


class FaultyHandler:
    """Passes calls to a handler, except those that fail. Safe to use from many threads.

    Args:
        handler: The handler to call.
        times: Calls that fail, among those that *streams* select, counted over all streams.
        streams: Streams with calls that may fail; None: all streams.
        error: Makes the exception.
        has_effect: Call the handler before the call fails, as when a process dies right after it. The handler then gets
            the same events again.

    Raises:
        BadParameter: an argument has the wrong type.
    """

    def __init__(
        self,
        handler: Handler,
        times: Times = always,
        *,
        streams: Collection[str] | None = None,
        error: Callable[[], Exception] = lambda: InjectedFault("a fault was injected"),
        has_effect: bool = False,
    ) -> None:
        check_handler(handler)
        check_times("times", times)
        if streams is not None:
            check_texts("streams", streams)
        check_function("error", error)
        check_flag("has_effect", has_effect)
        self.failures = 0
        """How many calls have failed by this."""
        self.is_async = is_coroutine_function(handler)
        """True if calls are to be awaited."""
        self._handler = handler
        self._times = times
        self._streams = None if streams is None else frozenset(streams)
        self._error = error
        self._has_effect = has_effect
        self._is_mended = False
        self._calls = 0
        self._turn = threading.Lock()

    def __call__(self, stream: str, events: Sequence[Any]) -> Any:
        """Call the handler, or raise."""
        is_failing = self._is_next_failing(stream)
        if is_failing and not self._has_effect:
            raise self._error()
        returned = self._handler(stream, events)
        if not is_failing:
            return returned
        if inspect.iscoroutine(returned):
            return self._failing(returned)
        raise self._error()

    def mend(self) -> None:
        """Fail no more."""
        self._is_mended = True

    async def _failing(self, returned: Coroutine[Any, Any, Any]) -> None:
        await returned
        raise self._error()

    def _is_next_failing(self, stream: str) -> bool:
        with self._turn:
            if self._is_mended or (self._streams is not None and stream not in self._streams):
                return False
            self._calls += 1
            is_failing = self._times(self._calls)
            self.failures += is_failing
            return is_failing
