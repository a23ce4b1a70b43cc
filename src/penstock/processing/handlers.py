"""Handlers, and calls of them: each result or exception becomes the outcome or failure of a call.

    Handler        a function of one stream, which `StreamCaller` calls
    by_kind        a handler that chooses another by the kind of events

Spark's executors import this module: it needs no database.
"""

import asyncio
import inspect
import logging
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias, TypeVar

from penstock.client.concurrency import is_cancelled
from penstock.errors import BadOutcome, BadParameter, EventUnusable
from penstock.errors.root import printable
from penstock.processing.engine.stream import Call
from penstock.processing.outcomes import ALL, Failure, Outcome, to_outcome
from penstock.processing.parameters import (
    INDEX_END,
    check_function,
    check_kind,
    check_returns,
    is_coroutine_function,
)

__all__ = ["Classify", "Handler", "by_kind"]

R = TypeVar("R")
_inherited: "Final[list[_OwnLoop]]" = []
"""Loops of the parent process before a fork: closing one here would stop the parent's from waking."""


class EventLoop(threading.local):
    """One event loop for each thread, and for each process that a thread is forked into."""

    _own: "_OwnLoop | None" = None

    def run(self, coroutine: Coroutine[Any, Any, R]) -> R:
        """Run *coroutine*, and return its result.

        Raises:
            RuntimeError: an event loop runs in this thread already.
        """
        if self._own is not None and self._own.process != os.getpid():
            _inherited.append(self._own)
            self._own = None
        if self._own is None:
            self._own = _OwnLoop()
        return self._own.loop.run_until_complete(coroutine)


class _OwnLoop:
    """An event loop that is closed when it is unused."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.loop = asyncio.new_event_loop()
        # In no other order, also where both are found to be garbage at once: a loop complains that is not closed.
        weakref.finalize(self, self.loop.close).atexit = False


Handler: TypeAlias = Callable[[str, Sequence[Any]], Any]
"""Takes a stream's name and a span of its events, by index; returns an outcome, an index, or None if all is done.

It may be a coroutine function. A stream has one call at a time. Events may be repeats of earlier calls.
"""
Classify: TypeAlias = Callable[[Exception], str | None]
"""Returns the tag of a failure; None: the name of its exception's class."""

DETAIL_CHARS_MAX: Final = 4_000
TAG_CHARS_MAX: Final = 200
_log: Final = logging.getLogger("penstock.processing")


class StreamCaller:
    """Calls one handler.

    Args:
        handler: The handler to call.
        classify: Returns tags of failures, for views, logs and metrics.

    Raises:
        BadParameter: the handler or *classify* cannot be called with the right arguments.
    """

    def __init__(self, handler: Handler, classify: Classify | None = None) -> None:
        check_handler(handler)
        if classify is not None:
            check_function("classify", classify, "error", is_async=False)
        self._handler = handler
        self._classify = classify
        self._loop = EventLoop()

    def __call__(self, call: Call) -> Outcome | Failure:
        """Call the handler, and return the result of the call."""
        try:
            returned = self._handler(call.stream, call.events)
            if returned is None:
                return ALL
            if inspect.iscoroutine(returned):
                returned = self._loop.run(returned)
            return read_outcome(returned, call.next)
        except BaseException as error:  # An exception of a handler is a failure of that stream, and of no other.
            if is_interrupt(error):
                raise
            return self.fail(call, error)

    async def call_async(self, call: Call) -> Outcome | Failure:
        """Call the handler, a coroutine function, and return the result of the call.

        Raises:
            CancelledError: the call itself is cancelled, rather than an operation that it awaited.
        """
        try:
            returned = self._handler(call.stream, call.events)
            return read_outcome(await returned if inspect.iscoroutine(returned) else returned, call.next)
        except GeneratorExit:
            raise
        except BaseException as error:  # Likewise.
            if (isinstance(error, asyncio.CancelledError) and is_cancelled()) or is_interrupt(error):
                raise
            return self.fail(call, error)

    def fail(self, call: Call, error: BaseException) -> Failure:
        """Return the failure of a call that has raised *error*."""
        _log.debug("a call for %s has failed", call.stream, exc_info=error)
        return to_failure(error, self._classify)


def is_interrupt(error: BaseException) -> bool:
    """Return whether the user has interrupted the program, which is possible in the main thread only."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def check_handler(handler: Handler, parameter: str = "handler") -> None:
    """Raise BadParameter unless *handler* takes a stream's name and its events, and is no generator."""
    check_function(parameter, handler, "stream", "events")
    check_returns(parameter, handler)


def read_outcome(returned: Any, end: int) -> Outcome:
    """Convert the value that a handler has *returned* for a span that ends before index *end* to an outcome.

    Raises:
        BadOutcome: it is none, or an index beyond the span: only `skip_to` may skip unseen events.
    """
    outcome = to_outcome(returned)
    if outcome.next is not None and outcome.next > end and not (outcome.skips and outcome.next <= INDEX_END):
        what = "though no index is as large" if outcome.skips else f"though its span ends at {end}, and without skip_to"
        raise BadOutcome(returned=f"{outcome.next}, {what}")
    return outcome


def to_failure(error: BaseException, classify: Classify | None) -> Failure:
    """Return *error* as a failure with the tag from *classify*; if *classify* fails, return its own failure.

    Unprintable characters are escaped, and long texts are cut, so that a failure can be stored and shown anywhere.
    """
    tag, beside = None, ""
    if classify is not None and isinstance(error, Exception):
        try:
            found: Any = classify(error)
            if found is not None and not isinstance(found, str):
                allowed = f"a function that returns a text or None, also for {type(error).__name__}: {error}"
                raise BadParameter(parameter="classify", value=found, allowed=allowed)
            tag = found
        except BaseException as raised:  # The user's code, like the handler.
            if is_interrupt(raised):
                raise
            if not isinstance(raised, BadParameter):
                beside = f", raised by classify for {type(error).__name__}: {_to_text(error)}"
            error = raised
    name = type(error).__name__
    lines = f"{_to_text(error) or name}{beside}"[: DETAIL_CHARS_MAX + 1].split("\n")
    detail = _cut("\n".join(map(printable, lines)), DETAIL_CHARS_MAX)
    return Failure(_cut(printable((tag or name)[: TAG_CHARS_MAX + 1]), TAG_CHARS_MAX), detail, error)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _to_text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as raised:  # An exception's `__str__` may fail.
        if is_interrupt(raised):
            raise
        return f"its text cannot be had: {type(raised).__name__}"


def by_kind(handlers: Mapping[str, Handler], *, otherwise: Handler | None = None) -> Handler:
    """Return a handler that gives each run of events of one kind to the handler of that kind.

    The next run follows when the one before is done; the call ends at the first run that is not done. If a handler is
    a coroutine function, so is the returned one.

    Args:
        handlers: Handlers by kind.
        otherwise: The handler of all other kinds; None: they fail.

    Raises:
        BadParameter: *handlers* is no mapping, there is no handler, or one cannot be called as a handler.
        EventUnusable: (the handler) an event has a kind without a handler.
    """
    allowed = "handlers by kind, such as {'order.placed': handle}"
    check_kind("handlers", handlers, Mapping, allowed)
    if not handlers and otherwise is None:
        raise BadParameter(parameter="handlers", value="{}", allowed=f"{allowed}, or otherwise=handle")
    for each in handlers.values():
        check_handler(each, "handlers")
    if otherwise is not None:
        check_handler(otherwise, "otherwise")

    def call_first_run(stream: str, events: Sequence[Any]) -> tuple[Any, int]:
        """Call the handler of the first run; return its result, and the end of the run."""
        kind = events[0].kind
        chosen = handlers.get(kind, otherwise)
        if chosen is None:
            raise EventUnusable.of(
                "kind-unexpected", kind=kind, stream=stream, index=events[0].index, kinds=sorted(handlers)
            )
        end = next((at for at, event in enumerate(events) if event.kind != kind), len(events))
        return chosen(stream, events[:end]), end

    def handle(stream: str, events: Sequence[Any]) -> Any:
        returned, end = call_first_run(stream, events)
        return _to_span_outcome(returned, events, end)

    async def handle_async(stream: str, events: Sequence[Any]) -> Any:
        returned, end = call_first_run(stream, events)
        return _to_span_outcome(await returned if inspect.iscoroutine(returned) else returned, events, end)

    return handle_async if any(map(is_coroutine_function, (*handlers.values(), otherwise))) else handle


def _to_span_outcome(returned: Any, events: Sequence[Any], end: int) -> Outcome:
    """Return the outcome of a span from the value *returned* for its first run, which ends before place *end*."""
    outcome = read_outcome(returned, events[end - 1].next)
    if end < len(events) and outcome.next is None:
        return replace(outcome, next=events[end].index)
    return outcome
