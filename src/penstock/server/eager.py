"""Runs what is awaited at once, as far as it goes without waiting: most of what is sent need not wait.

A task of its own costs more than such a sending. From Python 3.12 on asyncio has eager tasks for that.
"""

import asyncio
from collections.abc import Awaitable, Generator
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


def begun(awaitable: Awaitable[Result]) -> "asyncio.Future[Result]":
    """Run *awaitable* up to where it first waits, by the caller's task, and the rest by one of its own.

    What never waits is done when this returns. What is of one task alone, such as `asyncio.timeout`, must not be begun
    before the first waiting and ended after it.
    """
    done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
    running = awaitable.__await__()
    try:
        waits = next(running)
    except StopIteration as ended:
        done.set_result(ended.value)
    except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to whoever asks for the result
        done.set_exception(error)
    else:
        rest = asyncio.ensure_future(_Rest(running, waits))
        rest.add_done_callback(lambda _: running.close())  # It hears of a cancelling before its task's first turn, too.
        return rest
    return done


class _Rest(Generic[Result]):
    """What is left of something that waits."""

    def __init__(self, running: Generator[Any, Any, Result], waits: Any) -> None:
        self._running = running
        self._waits = waits

    def __await__(self) -> Generator[Any, Any, Result]:
        try:
            while True:
                try:
                    yield self._waits
                except BaseException as error:  # noqa: BLE001 - it is raised where it waits, cancellation too
                    self._waits = self._running.throw(error)
                else:
                    self._waits = next(self._running)
        except StopIteration as ended:
            result: Result = ended.value
            return result
