from concurrent.futures import ThreadPoolExecutor

from penstock.testing.clock import START_AT, VirtualClock


def test_virtual_clock_stands_still_until_it_is_advanced_or_set_back_by_exact_microseconds() -> None:
    clock = VirtualClock()
    assert [clock() for _ in range(3)] == [START_AT] * 3

    for _ in range(1000):
        clock.advance(seconds=0.001)
    clock.advance(seconds=1, microseconds=8)

    assert clock() == START_AT + 2_000_008
    assert isinstance(clock(), int)
    assert clock.advance(microseconds=-9) == clock() == START_AT + 1_999_999


def test_virtual_clock_loses_no_step_between_threads() -> None:
    clock = VirtualClock(0)
    with ThreadPoolExecutor(4) as threads:
        steps = [threads.submit(clock.advance, microseconds=1) for _ in range(1000)]

    assert clock() == 1000
    assert sorted(step.result() for step in steps) == list(range(1, 1001))
