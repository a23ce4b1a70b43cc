"""`handles` makes a handler of a function of one event, or of a stream and its events."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.errors import BadParameter
from penstock.processing import handles
from penstock.processing.event_handler import EventHandler, Terminated, end_on_signals
from penstock.processing.runners.inline import InlineProcessor
from penstock.processing.sources import MemorySource

made = partial(handles, "order.placed", group="billing")


def run(handler: EventHandler, *events: Any, attempts: int = 0) -> InlineProcessor:
    source = MemorySource()
    source.append("a", [{"n": event} for event in events])
    processor = InlineProcessor(handler.handler, source)
    processor.step()
    for _ in range(attempts):
        processor.advance(60)
        processor.step()
    return processor


@pytest.mark.parametrize("is_async", [False, True], ids=["a function", "a coroutine function"])
def test_failing_event_comes_again_and_those_before_it_do_not(is_async: bool) -> None:
    seen: list[int] = []

    def handle(event: Any) -> None:
        seen.append(event.data["n"])
        if seen == [1, 2, 3] or seen[3:] == [3]:
            raise ValueError("not yet")

    async def awaited(event: Any) -> None:
        await asyncio.sleep(0)
        handle(event)

    processor = run(made()(awaited if is_async else handle), 1, 2, 3, 4, attempts=2)

    assert seen == [1, 2, 3, 3, 3, 4]
    assert processor.engine.is_idle


def test_decorated_function_is_called_as_before() -> None:
    @made()
    def double(event: int) -> int:
        """Double it."""
        return 2 * event

    assert double(4) == 8
    assert (double.__name__, double.__doc__, double.group) == ("double", "Double it.", "billing")


def test_function_of_a_stream_and_its_events_is_called_with_spans() -> None:
    seen: list[Any] = []

    @made()
    def handle(stream: str, events: Any) -> int:
        seen.append((stream, [event.data["n"] for event in events]))
        return int(events[0].next)

    run(handle, 1, 2, attempts=1)

    assert seen == [("a", [1, 2]), ("a", [2])]


def test_function_with_a_default_beside_the_event_takes_one_event() -> None:
    seen: list[int] = []

    @made()
    def handle(event: Any, verbose: bool = False) -> None:
        assert not verbose
        seen.append(event.data["n"])

    run(handle, 1, 2)

    assert seen == [1, 2]


def test_result_of_a_function_of_one_event_is_a_failure_that_says_why() -> None:
    [failing] = run(made()(lambda event: event.index), 1).engine.busy.failing.values()

    assert failing.detail is not None
    assert "returned int: a handler of one event returns nothing" in failing.detail


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "no event type": (lambda: handles(group="billing"), "event_types is"),
    "a list of event types": (lambda: handles(["order.placed"], group="billing"), "event_types is"),  # type: ignore[arg-type]
    "a function of nothing": (lambda: made()(lambda: None), "a function of one event, handle"),
    "a function of three": (lambda: made()(lambda _, __, ___: None), "a function of one event, handle"),
    "no function": (lambda: made()(3), "a function of one event, handle"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize(("call", "says"), WRONG.values(), ids=WRONG)
def test_wrong_use_is_refused(call: Callable[[], Any], says: str) -> None:
    with pytest.raises(BadParameter, match=says):
        call()


@pytest.fixture
def _usual_signals() -> Iterator[None]:
    """The handlers that a program has which sets none; those who run tests may have set others."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_usual_signals")
@pytest.mark.parametrize(("number", "raised"), [(signal.SIGTERM, Terminated), (signal.SIGINT, KeyboardInterrupt)])
def test_signal_ends_the_block_and_the_handlers_before_are_put_back(number: int, raised: type[BaseException]) -> None:
    before = signal.getsignal(number)

    with pytest.raises(raised), end_on_signals():
        signal.raise_signal(number)

    assert signal.getsignal(number) is before


@pytest.mark.usefixtures("_usual_signals")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_whose_exception_a_finalizer_drops_ends_the_wait(number: int) -> None:
    class Finalized:
        def __del__(self) -> None:
            signal.raise_signal(number)

    def wait() -> None:
        with end_on_signals() as signals:
            Finalized()
            signals.wait(SimpleNamespace(wait=lambda _: False))  # type: ignore[arg-type]

    with pytest.raises(Terminated):
        wait()
