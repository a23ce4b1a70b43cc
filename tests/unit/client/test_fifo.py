"""A lock that is had in the order in which it was asked for."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from penstock.client.fifo import FifoLock


def queued(lock: FifoLock) -> int:
    return len(lock._queue)


def wait_for(condition: Callable[[], bool]) -> None:
    waited = threading.Event()
    for _ in range(2_000):
        if condition():
            return
        waited.wait(0.005)
    raise AssertionError("it has not come to that")


def test_those_who_wait_get_it_in_their_order() -> None:
    lock, order = FifoLock(), list[int]()
    assert lock.acquire()

    def work(number: int) -> None:
        assert lock.acquire()
        order.append(number)
        lock.release()

    with ThreadPoolExecutor(5) as threads:
        for number in range(5):
            threads.submit(work, number)
            wait_for(lambda number=number: queued(lock) == number + 1)  # type: ignore[misc]
        lock.release()

    assert order == [0, 1, 2, 3, 4]
    assert lock.acquire(lambda: True)


def test_who_gives_up_leaves_the_queue_to_those_behind() -> None:
    lock = FifoLock()
    assert lock.acquire()
    gives_up = threading.Event()

    with ThreadPoolExecutor(2) as threads:
        impatient: Future[bool] = threads.submit(lock.acquire, gives_up.is_set)
        wait_for(lambda: queued(lock) == 1)
        patient: Future[bool] = threads.submit(lock.acquire)
        wait_for(lambda: queued(lock) == 2)
        gives_up.set()
        assert impatient.result(timeout=5) is False
        assert not patient.done()
        lock.release()
        assert patient.result(timeout=300) is True


def test_one_that_is_free_is_had_by_who_would_give_up() -> None:
    lock = FifoLock()

    assert lock.acquire(lambda: True)
    assert not lock.acquire(lambda: True)
    lock.release()
    assert lock.acquire(lambda: True)


def test_an_interruption_leaves_no_lock_that_nobody_has() -> None:
    lock = FifoLock()
    assert lock.acquire()

    def interrupted() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lock.acquire(interrupted)

    lock.release()
    assert lock.acquire(lambda: True)
