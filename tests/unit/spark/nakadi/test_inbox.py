import threading

from penstock.spark.nakadi.inbox import BoundedQueue


def test_inbox_put_waits_while_it_is_full() -> None:
    inbox: BoundedQueue[int] = BoundedQueue(10)
    assert inbox.put(0, 50), "one item is taken, however large"
    putting = threading.Thread(target=inbox.put, args=[1, 1])
    putting.start()
    putting.join(0.05)
    assert putting.is_alive()

    assert inbox.take(0) == 0
    putting.join(300)
    assert inbox.take(0) == 1


def test_closed_inbox_refuses_items_and_releases_waiting_threads() -> None:
    inbox: BoundedQueue[int] = BoundedQueue(10)
    inbox.put(0, 10)
    told: list[bool] = []
    putting = threading.Thread(target=lambda: told.append(inbox.put(1, 1)))
    putting.start()

    inbox.close()
    putting.join(300)

    assert told == [False]
    assert not inbox.put(2, 1)
