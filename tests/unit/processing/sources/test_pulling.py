import threading

import pytest

from penstock.processing.sources.pulling import Pulling


def test_what_is_slow_is_waited_for_so_long_and_comes_with_a_later_call() -> None:
    ready, calls = threading.Event(), []

    def pull() -> int:
        ready.wait(10)
        calls.append(threading.current_thread())
        return len(calls)

    pulling = Pulling(pull)
    assert pulling.take(0.01) is None
    assert pulling.take(0.01) is None
    ready.set()
    assert pulling.take(10) == 1, "it was called once"
    assert pulling.take(0.0) == 2, "to wait for nothing is to wait until it comes"
    pulling.close()
    assert threading.current_thread() not in calls


def test_what_it_raises_is_raised_and_it_is_called_again() -> None:
    answers = iter([ValueError("broken"), 7])

    def pull() -> int:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    pulling = Pulling(pull)
    with pytest.raises(ValueError, match="broken"):
        pulling.take(0.0)
    assert pulling.take(0.0) == 7
    with pytest.raises(StopIteration):
        pulling.take(0.0)


def test_who_waits_is_woken_when_it_is_closed() -> None:
    found: list[object] = []
    blocked, is_called = threading.Event(), threading.Event()

    def pull() -> int:
        is_called.set()
        blocked.wait(30)
        return 1

    pulling = Pulling(pull)
    waiting = threading.Thread(target=lambda: found.append(pulling.take(0.0)))
    waiting.start()
    is_called.wait(10)
    pulling.close()
    waiting.join(300)
    blocked.set()
    assert found == [None]
    assert pulling.take(0.0) is None
