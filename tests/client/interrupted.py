"""A process of its own that consumes a subscription while a signal ends it: a test's process would end with it.

    python -m tests.client.interrupted SIGINT HUB SUBSCRIPTION [SECONDS]

Its first handler raises the signal and goes on for a moment; with *SECONDS* the signal comes after so many instead. It
prints how many events were handled.
"""

import os
import signal
import sys
import time
from contextlib import suppress
from typing import Any

from penstock.client import Client
from penstock.processing import consuming  # noqa: F401 - it is loaded before the signal comes
from penstock.processing.engine import Rules


def main(name: str, hub: str, subscription: str, seconds: str = "") -> None:
    """Consume until the signal."""
    handled: list[int] = []
    number = signal.Signals[name]

    def handle(event: Any) -> None:
        if not (handled or seconds):
            os.kill(os.getpid(), number)
            time.sleep(0.2)
        handled.append(event.data["n"])

    with Client(hub) as client, suppress(KeyboardInterrupt):  # It may come before consuming has begun.
        if seconds:
            signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), number))
            signal.setitimer(signal.ITIMER_REAL, float(seconds))
        client.consume(subscription, handle, rules=Rules(concurrency=1), batch_limit=10, commit_timeout=5)
    print(len(handled), len(set(handled)))  # noqa: T201 - its parent reads it


if __name__ == "__main__":
    main(*sys.argv[1:])
