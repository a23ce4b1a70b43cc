"""The watch of the event loop, with processor time that is moved by hand."""

import asyncio

from penstock.server import metrics
from penstock.server.metrics import StallWatch


class ThreadTime:
    """Processor time of a thread."""

    def __init__(self) -> None:
        self.seconds = 5.0

    def __call__(self) -> float:
        return self.seconds


def test_watch_measures_what_a_callback_takes_and_stops_without_requests() -> None:
    time = ThreadTime()
    watch = StallWatch(time)

    async def main() -> None:
        watch.notice()
        asyncio.get_running_loop().call_soon(lambda: setattr(time, "seconds", time.seconds + 0.07))
        await asyncio.sleep(3 * metrics.TICK_SECONDS)
        watch.notice()
        await asyncio.sleep(3 * metrics.TICK_SECONDS)

    asyncio.run(main())
    asyncio.run(main())  # An application may be served again, by another loop.

    assert round(watch.seconds_max, 3) == 0.07


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
