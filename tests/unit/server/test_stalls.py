"""The watch of the event loop: with clocks that are moved by hand, and with real ones."""

import asyncio
import json
import time

import pytest

from penstock.server import metrics
from penstock.server.metrics import Clocks, StallWatch

ATTEMPTS = 100
"""On a busy machine the loop waits for a processor most of the time, which is left out."""


class HandClocks:
    """Clocks that are moved by hand, and at each reading by what a tick takes."""

    def __init__(self) -> None:
        self.now = Clocks(5.0, 2.0, 1.0)

    def __call__(self) -> Clocks:
        self.pass_time(elapsed=metrics.TICK_SECONDS)
        return self.now

    def pass_time(self, *, elapsed: float = 0.0, used: float = 0.0, waited: float = 0.0) -> None:
        self.now = Clocks(self.now.elapsed + elapsed, self.now.used + used, self.now.waited + waited)


@pytest.mark.parametrize(
    ("passed", "stall"),
    [
        ({"elapsed": 0.07, "used": 0.08}, 0.08),
        ({"elapsed": 0.07, "used": 0.07, "waited": 0.05}, 0.03),
        ({"elapsed": 0.07, "used": 0.02}, 0.02),
        ({"elapsed": 0.07, "used": 0.3, "waited": 0.0}, 0.08),
    ],
    ids=["in this process", "waiting for a processor", "another program", "several threads"],
)
def test_watch_measures_what_this_process_keeps_the_loop_waiting(passed: dict[str, float], stall: float) -> None:
    clocks = HandClocks()
    watch = StallWatch(clocks)

    async def main() -> None:
        watch.notice()
        asyncio.get_running_loop().call_soon(lambda: clocks.pass_time(**passed))
        await asyncio.sleep(3 * metrics.TICK_SECONDS)
        watch.notice()
        await asyncio.sleep(3 * metrics.TICK_SECONDS)

    asyncio.run(main())
    asyncio.run(main())  # An application may be served again, by another loop.

    assert round(watch.seconds_max, 3) == stall


def test_watch_sees_a_worker_thread_that_holds_the_interpreters_lock() -> None:
    watch = StallWatch()
    text = "[" + "{}," * 1_000_000 + "{}]"

    async def main() -> None:
        for _ in range(ATTEMPTS):
            watch.notice()
            await asyncio.to_thread(json.loads, text)
            await asyncio.sleep(3 * metrics.TICK_SECONDS)
            if watch.seconds_max > 2 * metrics.TICK_SECONDS:
                return

    started = time.process_time()
    asyncio.run(main())

    assert 2 * metrics.TICK_SECONDS < watch.seconds_max <= time.process_time() - started


def test_watch_of_a_hub_that_waits_has_no_timer() -> None:
    watch = StallWatch()

    async def main() -> bool:
        watch.notice()
        for _ in range(100):
            await asyncio.sleep(metrics.IDLE_TICKS * metrics.TICK_SECONDS / 10)
            if not watch.runs:
                return True
        return False

    assert asyncio.run(main())
