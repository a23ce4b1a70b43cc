"""The short way to a processor: `@handles` names event types, a consumer group and a handler.

    @handles("order.placed", group="greeter")
    def greet(event):
        print(event.key, event.data)

    greet.run("http://localhost:8080")

It consists of a `FeedSource`, `HubCheckpoints` and a `LocalProcessor`. Put them together by hand for more:
another source, positions in a database of your own, several processors in one program.
"""

import asyncio
import functools
import inspect
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any, Final

from penstock.client.concurrency import is_cancelled
from penstock.core.log.start import Start
from penstock.errors import BadParameter
from penstock.processing.checkpoints.checkpoint import Checkpoints
from penstock.processing.checkpoints.hub import HubCheckpoints
from penstock.processing.engine.rules import Rules
from penstock.processing.handlers import Classify, Handler, check_handler
from penstock.processing.outcomes import Outcome, done_to
from penstock.processing.parameters import check_returns, is_coroutine_function
from penstock.processing.runners.local import LocalProcessor
from penstock.processing.sources.feed import FeedSource

__all__ = ["EventHandler", "handles"]

HUB: Final = "http://127.0.0.1:8080"
_EITHER: Final = (
    "a function of one event, handle(event), or of a stream and a span of its events, handle(stream, events)"
)


class EventHandler:
    """A function that handles the events of feeds, as a consumer group of the hub; made by `handles`.

    It can still be called like the function itself, as in tests.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        event_types: Sequence[str],
        *,
        group: str,
        start: Start,
        rules: Rules | None,
        classify: Classify | None,
    ) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._event_types = event_types
        self._start = start
        self._rules = rules
        self._classify = classify
        self.group = group
        """The consumer group's name."""
        self.handler = to_handler(function)
        """The function as runners call it: with a stream's name and a span of its events."""

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        return self._function(*arguments)

    def processor(self, hub: str = HUB, *, auth: Any = None, checkpoints: Checkpoints | None = None) -> LocalProcessor:
        """Return a processor that calls the function; it runs from `start` to `stop`, or as long as a `with` block.

        Args:
            hub: The hub's address.
            auth: The credential that the hub is sent: see `Client`.
            checkpoints: Where the processor keeps its positions; by default in the hub.

        Raises:
            BadParameter: the address or the credential is invalid.
            RequirementMissing: PyArrow is not installed; the extra `arrow` brings it.
        """
        return LocalProcessor(
            self.handler,
            FeedSource(hub, *self._event_types, start=self._start, auth=auth),
            checkpoints=HubCheckpoints(hub, self.group, auth=auth) if checkpoints is None else checkpoints,
            rules=self._rules,
            classify=self._classify,
            name=self.group,
        )

    def run(self, hub: str = HUB, *, auth: Any = None, checkpoints: Checkpoints | None = None) -> None:
        """Handle events until Ctrl-C or SIGTERM; running calls end first, and their progress is committed.

        Outside the main thread, which alone receives signals, it runs until the processor ends by itself.

        Raises:
            PenstockError: the processor has ended by itself: its checkpoint was moved, say, or a stream has failed as
                often as `Rules` allow.
        """
        processor = self.processor(hub, auth=auth, checkpoints=checkpoints)
        try:
            with end_on_signals() as signals, processor:
                signals.wait(processor)
        except (Terminated, KeyboardInterrupt):
            return


def handles(
    *event_types: str,
    group: str,
    start: Start = "earliest",
    rules: Rules | None = None,
    classify: Classify | None = None,
) -> Callable[[Callable[..., Any]], EventHandler]:
    """Return a decorator that makes a function the handler of feeds, as a consumer group of the hub.

    The function takes an event, or a stream's name and a span of its events; it may be a coroutine function. Events of
    one key are handled in their order, one after the other; events of different keys concurrently. Each event is
    handled at least once. If the function raises, the event comes again after a growing pause, and delays only its own
    key.

    Args:
        event_types: The event types to read, at least one.
        group: The name under which the hub keeps the processor's positions, and `penstock groups` shows them.
        start: Where a new group begins: see `FeedSource`.
        rules: The number of keys handled at once, and the treatment of failures.
        classify: Names failures, for logs and metrics.

    Raises:
        BadParameter: there is no event type, or the function takes neither an event nor a stream and its events.
    """
    if not event_types or not all(isinstance(each, str) for each in event_types):
        allowed = 'the names of event types, such as @handles("order.placed", group="billing")'
        raise BadParameter(parameter="event_types", value=event_types, allowed=allowed)

    def decorate(function: Callable[..., Any]) -> EventHandler:
        return EventHandler(function, event_types, group=group, start=start, rules=rules, classify=classify)

    return decorate


def to_handler(function: Callable[..., Any]) -> Handler:
    """Return *function* as a handler of spans.

    Raises:
        BadParameter: it takes neither an event nor a stream and its events.
    """
    if not _takes(function, 1):
        if not _takes(function, 2):
            shown = getattr(function, "__name__", type(function).__name__)
            raise BadParameter(parameter="handler", value=shown, allowed=_EITHER)
        check_handler(function)
        return function
    check_returns("handler", function)

    def handle(stream: str, events: Sequence[Any]) -> Outcome | None:  # noqa: ARG001 - runners give both
        for place, event in enumerate(events):
            try:
                returned = function(event)
            except Exception:
                if place == 0:
                    raise
                return done_to(event.index)  # It comes again as the first, and its exception is raised then.
            _check_nothing(returned, function)
        return None

    async def handle_async(stream: str, events: Sequence[Any]) -> Outcome | None:  # noqa: ARG001 - likewise
        for place, event in enumerate(events):
            try:
                returned = await function(event)
            except (Exception, asyncio.CancelledError) as error:
                if place == 0 or (isinstance(error, asyncio.CancelledError) and is_cancelled()):
                    raise
                return done_to(event.index)
            _check_nothing(returned, function)
        return None

    return handle_async if is_coroutine_function(function) else handle


def _takes(function: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(function, follow_wrapped=False).bind(*range(count))
    except (TypeError, ValueError):
        return False
    return True


def _check_nothing(returned: Any, function: Callable[..., Any]) -> None:
    """Raise TypeError if a handler of one event has *returned* a value: it may not return an outcome."""
    if returned is None:
        return
    if inspect.iscoroutine(returned):
        returned.close()
    name = getattr(function, "__name__", type(function).__name__)
    raise TypeError(
        f"{name}(event) returned {type(returned).__name__}: a handler of one event returns nothing, and raises where "
        "it has failed; one that is called as handle(stream, events) can return an outcome"
    )


class Terminated(Exception):
    """The process has received a signal to end."""


SIGNAL_INTERVAL: Final = 0.25
"""Seconds between two looks whether a signal has come."""


class EndSignals:
    """Signals to end that the process has received.

    Python raises the exception of a signal wherever the main thread is. In a finalizer it is printed and dropped, so
    the signal is noted as well.
    """

    def __init__(self) -> None:
        self.has_come = False

    def wait(self, processor: LocalProcessor, is_over: Callable[[], bool] = lambda: False) -> None:
        """Wait until *processor* ends by itself or *is_over*.

        Raises:
            Terminated: a signal has come.
        """
        while not (processor.wait(SIGNAL_INTERVAL) or is_over()):
            if self.has_come:
                raise Terminated


@contextmanager
def end_on_signals() -> Iterator[EndSignals]:
    """Make the first SIGTERM end the block as Ctrl-C does, in the main thread, unless the program handles it itself.

    Later ones change nothing: supervisors may send several while the last commit is under way. Within the block,
    `EndSignals.wait` also ends by a signal whose exception was dropped.
    """
    signals = EndSignals()
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return

    def end(*_: object) -> None:
        signal.signal(signal.SIGTERM, lambda *_: None)
        signals.has_come = True
        raise Terminated

    def interrupt(number: int, frame: FrameType | None) -> None:
        signals.has_come = True
        signal.default_int_handler(number, frame)

    handlers: tuple[tuple[int, Any, Any], ...] = (
        (signal.SIGTERM, signal.SIG_DFL, end),
        (signal.SIGINT, signal.default_int_handler, interrupt),
    )
    with ExitStack() as stack:
        for number, default, handler in handlers:
            if signal.getsignal(number) is default:
                stack.callback(signal.signal, number, default)
                signal.signal(number, handler)
        yield signals
