"""A hub that is killed and started again loses no event, and sends nothing again that was committed."""

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.client import Client, RetryPolicy
from penstock.testing.live_hub import LiveHub, live_hub
from tests.client.consuming import EVENTS, Running, Seen, create_filled, put, subscribe, unconsumed
from tests.unit.client.kinds import Kind

pytestmark = pytest.mark.usefixtures("short_lease")
SOON = RetryPolicy(max_delay_seconds=0.2)


@pytest.fixture
def hub(migrated_url: str) -> Iterator[LiveHub]:
    with live_hub(migrated_url) as hub:
        yield hub


class Halting:
    """Handles batches, but halts in each of two partitions before the second batch, until `goes_on` is set."""

    def __init__(self) -> None:
        self.seen = Seen()
        self.busy = Counter[int]()
        self.overlaps = 0
        self._guard = threading.Lock()
        self._halted = threading.Barrier(3)
        self.committed, self.goes_on = threading.Event(), threading.Event()

    def __call__(self, batch: Any) -> None:
        with self._guard:
            self.overlaps += self.busy[batch.partition]
            self.busy[batch.partition] += 1
        if batch.partition in self.seen.by_partition and not self.goes_on.is_set():
            self.committed.wait(300)
            self._halted.wait(300)
            self.goes_on.wait(300)
        self.seen(batch)
        with self._guard:
            self.busy[batch.partition] -= 1

    def progress(self, consumed: Any) -> None:
        """Let it halt once a batch of each partition is committed."""
        if consumed.batches >= 2:
            self.committed.set()

    def wait(self) -> None:
        """Wait until it has halted in two partitions."""
        self._halted.wait(300)


def test_handlers_continue_while_the_hub_is_restarted(hub: LiveHub, kind: Kind) -> None:
    handler = Halting()
    with Client(hub.url) as client:
        name = create_filled(client, partitions=2)
        wanted = subscribe(client, name)
        options: Any = {"workers": 2, "batch_limit": 10, "retry": SOON, "commit_timeout": 30}
        with Running(kind, client, wanted, handler, progress=handler.progress, **options):
            handler.wait()
            before = list(handler.seen.numbers)
            hub.kill()
            hub.start()
            put(client, name, range(EVENTS, EVENTS + 20))
            handler.goes_on.set()
            handler.seen.wait_for(EVENTS + 20)

        assert len(before) == 20, "a batch of each partition, which was committed"
        times = Counter(handler.seen.numbers)
        assert sorted(times) == list(range(EVENTS + 20)), "none is lost"
        assert [number for number in before if times[number] != 1] == [], "committed events do not come again"
        assert handler.overlaps == 0
        assert unconsumed(client, wanted) == 0
