"""Processing keeps time as the hub does: microseconds since 1970."""

import time

from penstock.processing.clock import system_clock


def test_it_is_now() -> None:
    before = time.time()

    assert before - 1 <= system_clock() / 1_000_000 <= time.time() + 1
