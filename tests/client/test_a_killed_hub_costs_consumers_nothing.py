"""A hub that is killed and started again loses no event, and sends nothing again that was committed."""

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from penstock.client import AsyncClient, Client, RetryPolicy
from penstock.testing.live_hub import LiveHub, live_hub
from tests.client.consuming import EVENTS, Seen, filled, put, subscribe, unconsumed

SOON = RetryPolicy(max_delay=0.2)


@pytest.fixture
def hub(database_url: str) -> Iterator[LiveHub]:
    with live_hub(database_url) as hub:
        yield hub


class Halting:
    """Handles batches, but halts in each partition before the second one, until it is told to go on."""

    def __init__(self, committed: threading.Event, goes_on: threading.Event) -> None:
        self.seen = Seen()
        self.busy = Counter[int]()
        self.overlaps = 0
        self._guard = threading.Lock()
        self._halted = threading.Barrier(3)
        self._committed = committed
        self._goes_on = goes_on

    def __call__(self, batch: Any) -> None:
        with self._guard:
            self.overlaps += self.busy[batch.partition]
            self.busy[batch.partition] += 1
        if batch.partition in self.seen.by_partition and not self._goes_on.is_set():
            self._committed.wait(30)
            self._halted.wait(30)
            self._goes_on.wait(60)
        self.seen(batch)
        with self._guard:
            self.busy[batch.partition] -= 1

    def wait(self) -> None:
        """Wait until it has halted in two partitions."""
        self._halted.wait(30)


def test_handlers_go_on_while_the_hub_is_started_again(hub: LiveHub) -> None:
    committed, goes_on = threading.Event(), threading.Event()
    handler = Halting(committed, goes_on)
    told = []

    def progress(consumed: Any) -> None:
        told.append(consumed)
        if consumed.batches == 2:
            committed.set()

    with Client(hub.url) as client:
        name = filled(client, partitions=2)
        wanted = subscribe(client, name)
        consumer = client.consumer(
            wanted, handler, workers=2, batch_limit=10, progress=progress, retry=SOON, commit_timeout=30
        )
        thread = threading.Thread(target=consumer.run)
        thread.start()
        handler.wait()
        before = list(handler.seen.numbers)
        hub.kill()
        hub.start()
        put(client, name, range(EVENTS, EVENTS + 20))
        goes_on.set()
        handler.seen.wait_for(EVENTS + 20)
        consumer.stop()
        thread.join(300)

        assert not thread.is_alive()
        assert len(before) == 20, "a batch of each partition, which was committed"
        times = Counter(handler.seen.numbers)
        assert sorted(times) == list(range(EVENTS + 20)), "none is lost"
        assert [number for number in before if times[number] != 1] == [], "what was committed does not come again"
        assert handler.overlaps == 0
        assert unconsumed(client, wanted) == 0


def test_whoever_iterates_goes_on_after_what_was_committed(hub: LiveHub) -> None:
    with Client(hub.url) as client:
        wanted = subscribe(client, filled(client, partitions=1))
        seen = Seen()
        with client.subscription(wanted, batch_limit=10, max_uncommitted_events=10, retry=SOON) as stream:
            for batch in stream:
                seen(batch)
                batch.commit()
                if len(seen.numbers) == 60:
                    hub.kill()
                    hub.start()
                if len(seen.numbers) == EVENTS:
                    break

            assert "connection was lost" in (stream.reason or "")
        assert seen.is_in_order
        assert seen.numbers == list(range(EVENTS))
        assert unconsumed(client, wanted) == 0


@pytest.mark.anyio
async def test_async_handlers_go_on_while_the_hub_is_started_again(hub: LiveHub) -> None:
    seen, goes_on, halted, committed = Seen(), anyio.Event(), anyio.Event(), anyio.Event()
    busy, overlaps = Counter[int](), []

    def progress(consumed: Any) -> None:
        if consumed.batches >= 2:
            committed.set()

    async def handle(batch: Any) -> None:
        overlaps.append(busy[batch.partition])
        busy[batch.partition] += 1
        if batch.partition in seen.by_partition and not goes_on.is_set():
            await committed.wait()
            halted.set()
            await goes_on.wait()
        seen(batch)
        busy[batch.partition] -= 1
        if len(set(seen.numbers)) == EVENTS:
            consumer.stop()

    with Client(hub.url) as client:
        wanted = subscribe(client, filled(client, partitions=2))
        async with AsyncClient(hub.url) as async_client, anyio.create_task_group() as tasks:
            consumer = async_client.consumer(
                wanted, handle, workers=2, batch_limit=10, progress=progress, retry=SOON, commit_timeout=30
            )
            tasks.start_soon(consumer.run)
            await halted.wait()
            before = list(seen.numbers)
            await anyio.to_thread.run_sync(hub.kill)
            await anyio.to_thread.run_sync(hub.start)
            goes_on.set()

        times = Counter(seen.numbers)
        assert sorted(times) == list(range(EVENTS))
        assert [number for number in before if times[number] != 1] == []
        assert set(overlaps) == {0}
        assert unconsumed(client, wanted) == 0
