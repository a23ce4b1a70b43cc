"""`FifoLock` is acquired in the order of the requests."""

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from penstock.client.producers.turns import FifoLock


def wait_for_queue(lock: FifoLock, length: int) -> None:
    while len(lock._queue) != length:
        time.sleep(0.002)


def test_waiting_threads_acquire_the_lock_in_their_order() -> None:
    lock, order = FifoLock(), list[int]()
    assert lock.acquire()

    def work(number: int) -> None:
        assert lock.acquire()
        order.append(number)
        lock.release()

    with ThreadPoolExecutor(5) as threads:
        for number in range(5):
            threads.submit(work, number)
            wait_for_queue(lock, number + 1)
        lock.release()

    assert order == [0, 1, 2, 3, 4]
    assert lock.acquire(lambda: True)


def test_thread_that_gives_up_leaves_the_queue() -> None:
    lock = FifoLock()
    assert lock.acquire()
    gives_up = threading.Event()

    with ThreadPoolExecutor(2) as threads:
        impatient: Future[bool] = threads.submit(lock.acquire, gives_up.is_set)
        wait_for_queue(lock, 1)
        patient: Future[bool] = threads.submit(lock.acquire)
        wait_for_queue(lock, 2)
        gives_up.set()
        assert impatient.result(timeout=300) is False
        assert not patient.done()
        lock.release()
        assert patient.result(timeout=300) is True


def test_free_lock_is_acquired_though_the_caller_would_give_up() -> None:
    lock = FifoLock()

    assert lock.acquire(lambda: True)
    assert not lock.acquire(lambda: True)
    lock.release()
    assert lock.acquire(lambda: True)


def test_interrupted_acquire_leaves_the_queue() -> None:
    lock = FifoLock()
    assert lock.acquire()

    def interrupted() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lock.acquire(interrupted)

    lock.release()
    assert lock.acquire(lambda: True)
