import threading

import pytest

from penstock.spark.processors.processor import looking

SOON_SECONDS = 300.0


def test_periodic_check_runs_until_its_block_ends() -> None:
    looks, has_looked = [0], threading.Semaphore(0)

    def look() -> None:
        looks[0] += 1
        has_looked.release()

    with looking(look, 0.001):
        for _ in range(3):
            assert has_looked.acquire(timeout=SOON_SECONDS)

    assert looks[0] >= 3
    assert "penstock-look" not in {each.name for each in threading.enumerate()}


def test_error_in_the_block_is_raised_and_ends_the_periodic_check() -> None:
    before = threading.active_count()
    with pytest.raises(ValueError, match="broken"), looking(lambda: None, 60.0):
        raise ValueError("broken")

    assert threading.active_count() == before
