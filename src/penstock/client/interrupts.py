"""Has Ctrl-C call a function instead of raising an exception wherever the interpreter stands."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def interrupts(call: Callable[[], None]) -> Iterator[None]:
    """Within the block, have the first Ctrl-C *call*, between any two steps of the thread that is in the block.

    Further ones raise `KeyboardInterrupt` as ever. Nothing changes in threads other than the main one, which Ctrl-C
    does not reach, and where SIGINT has a handler of somebody else, who has decided what it does (as `asyncio.run`).
    """
    is_ours = threading.current_thread() is threading.main_thread()
    if not is_ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    came = False

    def heed(number: int, frame: Any) -> None:
        nonlocal came
        if came:
            signal.default_int_handler(number, frame)
        came = True
        call()

    signal.signal(signal.SIGINT, heed)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
