"""`call_before_shutdown` acts on SIGTERM before the server's own handler."""

import signal
import threading
from collections.abc import Callable

from penstock.server.state import call_before_shutdown


def test_action_runs_before_the_servers_handler_until_it_is_taken_back() -> None:
    called: list[str] = []
    acted = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: called.append("server"))
    try:
        forget = call_before_shutdown(acted.set)
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


def test_servers_handler_is_called_once_for_several_actions() -> None:
    called: list[str] = []
    before = signal.signal(signal.SIGTERM, lambda *_: called.append("server"))
    try:
        taken_back = [call_before_shutdown(lambda: None) for _ in range(3)]
        signal.raise_signal(signal.SIGTERM)
        assert called == ["server"]
        for forget in taken_back:
            forget()
    finally:
        signal.signal(signal.SIGTERM, before)


def test_signal_handlers_are_kept_outside_the_main_thread() -> None:
    before = signal.getsignal(signal.SIGTERM)
    taken_back: list[Callable[[], None]] = []
    thread = threading.Thread(target=lambda: taken_back.append(call_before_shutdown(list)))
    thread.start()
    thread.join()
    taken_back[0]()
    assert signal.getsignal(signal.SIGTERM) is before
