"""A processor of a subscription that is killed: `python -m tests.processing.subscriber HUB SUBSCRIPTION`."""

import os
import sys
import time
from collections.abc import Sequence
from typing import Any

from penstock.processing import LocalProcessor, SubscriptionSource
from penstock.processing.checkpoints import SubscriptionCheckpoints


def handle(stream: str, events: Sequence[Any]) -> None:
    for event in events:
        time.sleep(0.002)
        os.write(1, f"{stream} {event.data['n']}\n".encode())  # At once: other threads write, too.


def main(url: str, subscription: str) -> None:
    source = SubscriptionSource(url, subscription, batch_limit=20, commit_timeout=2)
    with LocalProcessor(handle, source, checkpoints=SubscriptionCheckpoints(source), commit_interval=0.05):
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
