"""A processor that ends gives back at once what it was sent of a subscription, and says where it has failed."""

import time
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import pytest

from penstock.client import Client
from penstock.errors import StreamExhausted
from penstock.processing.engine.outcome import Outcome, retry
from penstock.processing.engine.rules import Rules
from penstock.processing.runners.local import Local
from penstock.processing.sources.subscription import SubscriptionSource
from penstock.testing.live_hub import LiveHub

BROKEN = "order.placed-3"
PARKING = {"penstock/park-after-attempts": "2"}


@pytest.fixture
def client(hub: LiveHub) -> Iterator[Client]:
    with Client(hub.url) as client:
        client.create_event_type(
            "order.placed", partition_count=4, partition_strategy="hash", partition_key_fields=["customer"]
        )
        client.publish("order.placed", [{"customer": f"{number % 10}"} for number in range(400)])
        yield client


@pytest.fixture
def subscription(client: Client) -> str:
    return client.subscriptions.create("shop", ["order.placed"], read_from="begin", annotations=PARKING)[0].id


def test_who_starts_again_after_a_failure_need_not_wait_until_the_time_to_commit_is_over(
    hub: LiveHub, subscription: str
) -> None:
    def fails(stream: str, events: Sequence[Any]) -> None:
        raise ValueError("broken")

    rules = Rules(attempts_max=2)
    with pytest.raises(StreamExhausted), Local(fails, SubscriptionSource(hub.url, subscription), rules=rules) as first:
        assert first.wait(300)

    seen: dict[str, int] = {}
    with Local(
        lambda stream, events: seen.update({stream: len(events)}), SubscriptionSource(hub.url, subscription)
    ) as second:
        second.wait_until_caught_up(300)
    assert len(seen) == 10


def test_who_is_stopped_before_all_is_handled_has_not_failed_but_where_a_stream_fails(
    hub: LiveHub, client: Client, subscription: str
) -> None:
    begun: dict[str, str] = {}

    def handler(stream: str, events: Sequence[Any]) -> Outcome:
        begun[stream] = events[0].tranche
        if stream == BROKEN:
            raise ValueError("broken")
        return retry(60)

    for _ in range(2):
        begun.clear()
        with Local(handler, SubscriptionSource(hub.url, subscription, batch_limit=20)):
            wait_for(begun, 10)
    with client.subscription(subscription, batch_limit=20) as batches:
        found = islice(batches, len(set(begun.values())))
        sizes = {f"{batch.event_type}/{batch.partition}": len(batch.events) for batch in found}
    one_by_one = {tranche for tranche, size in sizes.items() if size == 1}
    assert (sizes.keys(), one_by_one) == (set(begun.values()), {begun[BROKEN]})


def wait_for(begun: dict[str, str], streams: int) -> None:
    deadline = time.monotonic() + 300
    while len(begun) < streams:
        assert time.monotonic() < deadline
        time.sleep(0.02)
