import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from penstock.errors import BadOutcome, OutcomeUnknown
from penstock.processing.batcher import Batcher, KeyedBatcher
from tests.failing import has_code
from tests.processing.office import until


class Target:
    """Takes calls, each of which lasts until it is let go on; says what it was called with."""

    def __init__(self) -> None:
        self.calls: list[list[Any]] = []
        self.began = threading.Semaphore(0)
        self.go_on = threading.Semaphore(0)
        self.running = 0

    def __call__(self, items: list[Any]) -> list[str]:
        assert self.running == 0, "two calls at once"
        self.running += 1
        self.calls.append(items)
        self.began.release()
        assert self.go_on.acquire(timeout=300)
        self.running -= 1
        if "poison" in items:
            raise ValueError("poison")
        return [f"{item}!" for item in items]


def submitted(pool: ThreadPoolExecutor, batcher: Batcher[Any], *items: Any) -> list[Future[Any]]:
    """Have items handed in by threads, in this order."""
    found = []
    for item in items:
        count = len(batcher._gate._queue)
        found.append(pool.submit(batcher.submit, item))
        until(lambda: len(batcher._gate._queue) > count)  # noqa: B023 - It is called at once.
    return found


@pytest.fixture
def pool() -> Any:
    with ThreadPoolExecutor(16) as pool:
        yield pool


def test_items_of_a_running_call_go_together_into_the_next(pool: ThreadPoolExecutor) -> None:
    target = Target()
    batcher = Batcher(target, each=True)
    first = pool.submit(batcher.submit, 0)
    assert target.began.acquire(timeout=300)
    others = submitted(pool, batcher, 1, 2, 3)
    target.go_on.release(2)
    assert [each.result(300) for each in (first, *others)] == ["0!", "1!", "2!", "3!"]
    assert target.calls == [[0], [1, 2, 3]]


def test_all_items_of_a_call_share_its_error_and_the_next_call_is_made(pool: ThreadPoolExecutor) -> None:
    target = Target()
    batcher = Batcher(target, each=True, most=2)
    first = pool.submit(batcher.submit, 0)
    assert target.began.acquire(timeout=300)
    others = submitted(pool, batcher, 1, "poison", 3)
    target.go_on.release(3)
    assert first.result(300) == "0!"
    for other in others[:2]:
        with pytest.raises(ValueError, match="poison"):
            other.result(300)
    assert others[2].result(300) == "3!"
    assert target.calls == [[0], [1, "poison"], [3]]


def test_single_result_is_every_items_result() -> None:
    assert Batcher[int](sum).submit(7) == 7
    assert Batcher[int](lambda items: items).submit(7) == [7]


@pytest.mark.parametrize("returned", [None, [], [1, 2], "a"])
def test_results_of_another_number_are_refused(returned: Any) -> None:
    batcher = Batcher[int](lambda _: returned, each=True)
    with pytest.raises(BadOutcome, check=has_code("bad-results"), match="a call with 1 items has returned"):
        batcher.submit(7)


def test_call_that_returns_a_coroutine_has_written_nothing() -> None:
    async def write(items: list[int]) -> None:
        raise AssertionError(items)

    with pytest.raises(BadOutcome, check=has_code("bad-results"), match="a coroutine, which AsyncBatcher is for"):
        Batcher[int](lambda items: write(items)).submit(7)  # noqa: PLW0108 - One that is written so is refused at once.


def test_call_lingers_by_the_given_clock() -> None:
    now, waits = [100.0], []

    def wait(_: threading.Condition, seconds: float | None) -> None:
        assert seconds is not None
        waits.append(seconds)
        now[0] += 2.0

    batcher = Batcher[str](len, linger_seconds=5.0, clock=lambda: now[0], wait=wait)
    assert batcher.submit("a") == 1
    assert waits == [5.0, 3.0, 1.0]


def test_full_call_lingers_no_longer(pool: ThreadPoolExecutor) -> None:
    batcher = Batcher[int](sorted, linger_seconds=3600, most=3)
    others = submitted(pool, batcher, 3, 1)
    assert batcher.submit(2) == [1, 2, 3]
    assert [each.result(300) for each in others] == [[1, 2, 3]] * 2


def test_interrupted_waiter_takes_its_item_back() -> None:
    def wait(_: threading.Condition, __: float | None) -> None:
        raise KeyboardInterrupt

    calls: list[list[str]] = []
    batcher = Batcher[str](calls.append, linger_seconds=1.0, clock=lambda: 0.0, wait=wait)
    with pytest.raises(KeyboardInterrupt):
        batcher.submit("a")
    assert batcher._gate.first is None
    batcher._gate._linger_seconds = 0
    batcher.submit("b")
    assert calls == [["b"]]


def test_others_hear_that_the_calling_thread_was_interrupted(pool: ThreadPoolExecutor) -> None:
    began, go_on = threading.Event(), threading.Event()

    def call(items: list[str]) -> None:
        began.set()
        assert go_on.wait(300)
        if len(items) > 1:
            raise KeyboardInterrupt

    batcher = Batcher[str](call)
    pool.submit(batcher.submit, "a")
    assert began.wait(300)
    leader, follower = submitted(pool, batcher, "b", "c")
    go_on.set()
    assert isinstance(leader.exception(20), KeyboardInterrupt)
    with pytest.raises(OutcomeUnknown, match="interrupted"):
        follower.result(300)
    batcher.submit("d")


@pytest.mark.parametrize("most", [None, 1, 7])
def test_many_threads_have_each_item_written_once_in_their_order(most: int | None) -> None:
    written: list[tuple[int, int]] = []
    running = threading.Lock()

    def call(items: list[tuple[int, int]]) -> list[tuple[int, int]]:
        assert running.acquire(blocking=False), "two calls at once"
        written.extend(items)
        if items[0][1] % 5 == 0:
            running.release()
            raise ValueError("some fail")
        running.release()
        return items

    batcher = Batcher(call, each=True, most=most)

    def work(worker: int) -> None:
        for number in range(200):
            try:
                assert batcher.submit((worker, number)) == (worker, number)
            except ValueError:
                continue

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert sorted(written) == [(worker, number) for worker in range(8) for number in range(200)]
    for worker in range(8):
        assert [number for who, number in written if who == worker] == list(range(200))


def test_each_key_has_its_own_gate_which_is_forgotten_after_use(pool: ThreadPoolExecutor) -> None:
    both, calls = threading.Barrier(2, timeout=300), []

    def call(key: str, items: list[int]) -> str:
        calls.append((key, items))
        both.wait()
        return key

    batcher = KeyedBatcher[str, int](call)
    found = [pool.submit(batcher.submit, key, number) for number, key in enumerate("ab")]
    assert [each.result(300) for each in found] == ["a", "b"], "they go on beside each other"
    assert sorted(calls) == [("a", [0]), ("b", [1])]
    assert len(batcher) == 0


def test_key_of_a_failed_call_is_forgotten() -> None:
    def call(key: str, items: list[int]) -> None:
        raise ValueError(f"{key} {items}")

    batcher = KeyedBatcher[str, int](call)
    with pytest.raises(ValueError, match=r"a \[1\]"):
        batcher.submit("a", 1)
    assert len(batcher) == 0


def test_interrupted_waiter_leaves_the_call_to_the_next() -> None:
    is_waiting, is_behind, calls = threading.Event(), threading.Event(), list[list[str]]()

    def wait(condition: threading.Condition, seconds: float | None) -> object:
        if threading.current_thread() is first:
            is_waiting.set()
            while not is_behind.is_set():
                condition.wait(0.001)
            raise KeyboardInterrupt
        is_behind.set()
        return condition.wait(seconds)

    batcher = Batcher(calls.append, linger_seconds=0.01, wait=wait)

    def submit(item: str) -> None:
        with suppress(KeyboardInterrupt):
            batcher.submit(item)

    first, second = (threading.Thread(target=submit, args=[name], daemon=True) for name in ("first", "second"))
    first.start()
    assert is_waiting.wait(300)
    second.start()
    second.join(300)
    assert calls == [["second"]]
