"""Has somebody look at a processor while its loop waits for others: for Spark, for the hub."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def looking(look: Callable[[], None], interval: float) -> Iterator[None]:
    """Have *look* called every so many seconds as long as the block runs, which leaves alone what is looked at."""
    is_over = threading.Event()

    def run() -> None:
        while not is_over.wait(interval):
            look()

    thread = threading.Thread(target=run, name="penstock-look", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
