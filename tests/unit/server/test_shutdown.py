"""Waits end before the server waits for them."""

import signal
import threading
from collections.abc import Callable

from penstock.server.shutdown import before_shutdown


def test_the_action_is_called_before_the_handler_that_was_there_and_can_be_taken_back() -> None:
    called: list[str] = []
    acted = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: called.append("server"))
    try:
        forget = before_shutdown(acted.set)
        signal.raise_signal(signal.SIGTERM)
        assert acted.wait(300)
        assert called == ["server"]
        acted.clear()
        forget()
        signal.raise_signal(signal.SIGTERM)
        assert called == ["server", "server"]
        assert not acted.is_set()
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_handler_is_wrapped_once() -> None:
    called: list[str] = []
    before = signal.signal(signal.SIGTERM, lambda *_: called.append("server"))
    try:
        taken_back = [before_shutdown(lambda: None) for _ in range(3)]
        signal.raise_signal(signal.SIGTERM)
        assert called == ["server"]
        for forget in taken_back:
            forget()
    finally:
        signal.signal(signal.SIGTERM, before)


def test_outside_the_main_thread_signals_are_left_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    taken_back: list[Callable[[], None]] = []
    thread = threading.Thread(target=lambda: taken_back.append(before_shutdown(list)))
    thread.start()
    thread.join()
    taken_back[0]()
    assert signal.getsignal(signal.SIGTERM) is before
