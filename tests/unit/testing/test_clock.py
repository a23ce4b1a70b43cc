from concurrent.futures import ThreadPoolExecutor

from penstock.testing.clock import START_AT, VirtualClock


def test_virtual_clock_stands_still_until_advanced() -> None:
    clock = VirtualClock()

    assert [clock() for _ in range(3)] == [START_AT] * 3


def test_virtual_clock_counts_microseconds() -> None:
    clock = VirtualClock(0)

    clock.advance(microseconds=7)
    clock.advance(seconds=0.1)
    clock.advance(seconds=1, microseconds=1)

    assert clock() == 1_100_008
    assert isinstance(clock(), int)


def test_virtual_clock_adds_fractions_exactly() -> None:
    clock = VirtualClock()
    for _ in range(1000):
        clock.advance(seconds=0.001)

    assert clock() == START_AT + 1_000_000


def test_virtual_clock_can_be_set_back() -> None:
    clock = VirtualClock(10)

    assert clock.advance(microseconds=-3) == clock() == 7


def test_virtual_clock_loses_no_step_between_threads() -> None:
    clock = VirtualClock(0)
    with ThreadPoolExecutor(4) as threads:
        steps = [threads.submit(clock.advance, microseconds=1) for _ in range(1000)]

    assert clock() == 1000
    assert sorted(step.result() for step in steps) == list(range(1, 1001))
