"""A process of its own that consumes a subscription while Ctrl-C interrupts it: a test's process would end with it.

    python -m tests.client.interrupted running HUB SUBSCRIPTION          Once, while a handler runs.
    python -m tests.client.interrupted anywhere HUB SUBSCRIPTION SEED N  N times, at random moments.

It prints the end of each consumer: its reason, its batches and events, and if its last handler has ended.
"""

import random
import signal
import sys
import time
from typing import Any

from penstock.client import Client


def running(client: Client, subscription: str) -> None:
    """Interrupt a consumer in its first handler, which goes on until it knows."""

    def handle(_: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        while not consumer.is_stopping:
            time.sleep(0.01)

    consumer = client.consumer(subscription, handle, batch_limit=10)
    consumed = consumer.run()
    print(consumed.reason, consumed.batches, consumed.events)  # noqa: T201 - its parent reads it


def seconds_to_the_first_batch(client: Client, subscription: str) -> float:
    began = time.monotonic()
    consumer = client.consumer(subscription, lambda _: consumer.stop(), batch_limit=1)
    consumer.run()
    return time.monotonic() - began


def anywhere(client: Client, subscription: str, seed: str, times: str) -> None:
    """Interrupt one consumer after the other, the sooner the likelier, most of them before their second batches."""
    chance = random.Random(seed)
    mean_seconds = seconds_to_the_first_batch(client, subscription)
    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    for _ in range(int(times)):
        begun: list[int] = []
        ended: list[int] = []

        def handle(batch: Any, begun: list[int] = begun, ended: list[int] = ended) -> None:
            begun.append(len(batch))
            time.sleep(0.002)
            ended.append(len(batch))

        consumer = client.consumer(subscription, handle, batch_limit=1, workers=2, commit_timeout=5)
        signal.setitimer(signal.ITIMER_REAL, 0.003 + chance.expovariate(1 / mean_seconds))
        consumed = consumer.run()
        print(consumed.reason, consumed.too_late, consumed.events == sum(ended) == sum(begun))  # noqa: T201


if __name__ == "__main__":
    play, hub, *rest = sys.argv[1:]
    with Client(hub) as client:
        {"running": running, "anywhere": anywhere}[play](client, *rest)
