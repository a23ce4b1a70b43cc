"""Processing keeps time as the hub does: microseconds since 1970."""

import time

from penstock.processing.database import system_clock


def test_clock_gives_the_current_time() -> None:
    before = time.time()

    assert before - 1 <= system_clock() / 1_000_000 <= time.time() + 1
