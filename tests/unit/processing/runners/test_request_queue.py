"""Requests to the thread that alone may use an object."""

import threading

import pytest

from penstock.processing.runners.background import ProcessorEnded, RequestQueue

SOON_SECONDS = 300.0


def test_request_is_carried_out_by_the_loop_and_answered() -> None:
    woken = threading.Event()
    asking, over = RequestQueue(woken.set), threading.Event()
    did: list[str] = []

    def loop() -> None:
        while not over.is_set():
            woken.wait(SOON_SECONDS)
            woken.clear()
            asking.serve()

    def do() -> int:
        did.append(threading.current_thread().name)
        return 7

    thread = threading.Thread(target=loop, name="loop")
    thread.start()
    assert asking.run(do) == 7
    assert did == ["loop"]
    with pytest.raises(ZeroDivisionError):
        asking.run(lambda: 1 // 0)
    over.set()
    woken.set()
    thread.join()


def test_request_to_an_ended_loop_returns() -> None:
    asking = RequestQueue(lambda: None)
    waiting = threading.Event()

    def ask() -> None:
        with pytest.raises(ProcessorEnded):
            asking.run(lambda: None)
        waiting.set()

    thread = threading.Thread(target=ask)
    thread.start()
    while not waiting.wait(0.01):  # It may ask after this or before.
        asking.close()
    thread.join()
    with pytest.raises(ProcessorEnded):
        asking.run(lambda: None)
