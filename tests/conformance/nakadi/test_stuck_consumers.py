"""A consumer that stops reading its stream does not keep its partitions from others.

The unit tests of the server show when a hub gives up on one.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import pytest

from tests.conformance.nakadi.hubs import ON_SQLITE
from tests.nakadi import EventType, Nakadi, business, offset
from tests.subscribing import Consumer, Subscription, numbered, subscribe

pytestmark = ON_SQLITE
EVENTS = 48
PADDING = "x" * 700_000
"""All events together exceed the buffers between a hub and a client: those of sockets, and pieces made ahead."""
HOUR_SECONDS = 3_600


@pytest.fixture(scope="module")
def large(nakadi_http: httpx2.Client) -> EventType:
    """An event type whose events exceed the buffers between a hub and a client."""
    created = numbered(Nakadi(nakadi_http))
    for number in range(EVENTS):
        created.publish(business(n=number, padding=PADDING, meta={"partition": "0"}))
    return created


@contextmanager
def stuck(created: EventType, commit_timeout: int = HOUR_SECONDS) -> Iterator[tuple[Subscription, Consumer]]:
    """Have a stream whose consumer takes its first batch and nothing after it.

    Its commit timeout is longer than the time limit of a test, so a test that waited for it would fail.
    """
    subscription = subscribe(created)
    asked = {"batch_limit": 1, "max_uncommitted_events": EVENTS, "commit_timeout": commit_timeout}
    with subscription.stream(headers={"Accept-Encoding": "identity"}, **asked) as consumer:
        consumer.batch()
        time.sleep(1.5)  # Most likely all buffers are full by then; there is no signal of it.
        yield subscription, consumer


def first_of_another(subscription: Subscription) -> list[int]:
    with subscription.stream(batch_limit=1) as another:
        return another.batch().numbers


def test_cursors_of_a_stuck_consumer_are_reset(large: EventType) -> None:
    with stuck(large) as (subscription, _):
        while subscription.patch(subscription.cursor(7)).status_code != 204:
            time.sleep(0.2)
        assert subscription.committed() == [offset(7)]
        assert first_of_another(subscription) == [8]


def test_stream_of_a_stuck_consumer_is_released(large: EventType) -> None:
    with stuck(large) as (subscription, consumer):
        path = f"{subscription.path}/streams/{consumer.id}/release"
        while subscription.http.post(path, json={}).status_code != 204:
            time.sleep(0.2)
        assert first_of_another(subscription) == [0]


def test_subscription_of_a_stuck_consumer_is_deleted_and_its_stream_ends(large: EventType) -> None:
    """It is cut off, or is sent the reason, if the hub has not noticed yet that it takes nothing."""
    with stuck(large) as (subscription, consumer):
        subscription.drop()
        try:
            assert consumer.reason() == "The subscription was deleted"
        except httpx2.RemoteProtocolError as error:
            assert "incomplete" in str(error)  # noqa: PT017 - either is right


def test_stuck_consumer_keeps_its_partitions_if_it_reads_on(large: EventType) -> None:
    """A consumer that takes long for a batch reads nothing meanwhile."""
    with stuck(large) as (subscription, consumer):
        subscription.refuse(409)
        subscription.http.post(f"{subscription.path}/streams/{consumer.id}/lease")
        assert [each.numbers for each in consumer.batches(EVENTS - 1)] == [[n] for n in range(1, EVENTS)]
        consumer.done(consumer.seen[-1])


@pytest.mark.exhaustive
@pytest.mark.parametrize("how", ["extends its lease", "commits"])
def test_stuck_consumer_that_sends_heartbeats_keeps_its_partitions_beyond_its_commit_timeout(
    large: EventType, how: str
) -> None:
    with stuck(large, commit_timeout=5) as (subscription, consumer):
        for number in range(4):
            if how == "commits":
                consumer.done(subscription.cursor(number))
            else:
                answer = subscription.http.post(f"{subscription.path}/streams/{consumer.id}/lease")
                assert answer.status_code == 204, answer.text
            time.sleep(2)
        assert [each.numbers for each in consumer.batches(EVENTS - 1)] == [[n] for n in range(1, EVENTS)]
        consumer.done(consumer.seen[-1])
