"""A hub that is killed and started again loses no event, and sends nothing again that was committed."""

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.client import Client
from penstock.processing.engine import Rules
from penstock.testing.live_hub import LiveHub, live_hub
from tests.client.consuming import EVENTS, Running, Seen, create_filled, put, subscribe, unconsumed, until
from tests.unit.client.kinds import Kind

pytestmark = pytest.mark.usefixtures("short_lease")


@pytest.fixture
def hub(migrated_url: str) -> Iterator[LiveHub]:
    with live_hub(migrated_url) as hub:
        yield hub


def test_handlers_continue_while_the_hub_is_restarted(hub: LiveHub, kind: Kind) -> None:
    seen, goes_on, halted = Seen(), threading.Event(), threading.Semaphore(0)
    halts = threading.Event()

    def handle(event: Any) -> None:
        if halts.is_set():
            halted.release()
            goes_on.wait(300)
        seen(event)

    with Client(hub.url) as client:
        name = create_filled(client, partitions=2)
        wanted = subscribe(client, name)
        with Running(kind, hub.url, wanted, handle, rules=Rules(concurrency=4), commit_timeout=30):
            seen.wait_for(EVENTS)
            until(lambda: unconsumed(client, wanted) == 0)
            halts.set()
            put(client, name, range(EVENTS, EVENTS + 20))
            for _ in range(4):
                assert halted.acquire(timeout=300)
            hub.kill()
            hub.start()
            put(client, name, range(EVENTS + 20, EVENTS + 40))
            goes_on.set()
            seen.wait_for(EVENTS + 40)

        times = Counter(seen.numbers)
        assert sorted(times) == list(range(EVENTS + 40)), "none is lost"
        assert {times[number] for number in range(EVENTS)} == {1}, "committed events do not come again"
        assert seen.is_in_order
        assert unconsumed(client, wanted) == 0
