"""Ctrl-C stops a consumer at first, and interrupts the program at the second time."""

import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.client.subscriptions.consumer import handle_interrupt


@pytest.fixture(autouse=True)
def default() -> Iterator[None]:
    """As in a program: Spark, where it has run in this process, has left a handler of its own."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_first_ctrl_c_calls_back_and_the_second_raises() -> None:
    calls: list[str] = []
    with handle_interrupt(lambda: calls.append("called")):
        signal.raise_signal(signal.SIGINT)
        assert calls == ["called"]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)

    assert calls == ["called"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_raises_again_after_the_block() -> None:
    with pytest.raises(ValueError, match="broken"), handle_interrupt(lambda: None):
        raise ValueError("broken")

    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_sigint_handler_of_the_program_is_kept() -> None:
    came: list[int] = []

    def own(number: int, _: Any) -> None:
        came.append(number)

    before = signal.signal(signal.SIGINT, own)
    try:
        with handle_interrupt(lambda: came.append(-1)):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert came == [signal.SIGINT]


def test_sigint_handler_is_kept_in_another_thread() -> None:
    seen: list[Any] = []

    def run() -> None:
        with handle_interrupt(lambda: None):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]
