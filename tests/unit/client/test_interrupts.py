import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.client.interrupts import interrupts


@pytest.fixture(autouse=True)
def default() -> Iterator[None]:
    """As in a program: Spark, where it has run in this process, has left a handler of its own."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def test_the_first_ctrl_c_calls_and_the_second_raises() -> None:
    calls: list[str] = []
    with interrupts(lambda: calls.append("called")):
        interrupt()
        assert calls == ["called"]
        with pytest.raises(KeyboardInterrupt):
            interrupt()

    assert calls == ["called"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_afterwards_ctrl_c_raises_as_ever() -> None:
    with pytest.raises(ValueError, match="broken"), interrupts(lambda: None):
        raise ValueError("broken")

    with pytest.raises(KeyboardInterrupt):
        interrupt()


def test_a_handler_of_somebody_else_stays() -> None:
    came: list[int] = []

    def own(number: int, _: Any) -> None:
        came.append(number)

    before = signal.signal(signal.SIGINT, own)
    try:
        with interrupts(lambda: came.append(-1)):
            interrupt()
    finally:
        signal.signal(signal.SIGINT, before)
    assert came == [signal.SIGINT]


def test_in_another_thread_nothing_changes() -> None:
    seen: list[Any] = []

    def run() -> None:
        with interrupts(lambda: None):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]
