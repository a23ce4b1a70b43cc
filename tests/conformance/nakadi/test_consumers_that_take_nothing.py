"""Consumers that have stopped to read hold up nobody who takes their partitions from them."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx2
import pytest

from tests.nakadi import Nakadi, business, offset
from tests.subscribing import Consumer, Subscription, numbered, subscribe

EVENTS = 48
PADDING = "x" * 700_000
"""All events are more than lies between a hub and a client: in buffers of sockets, and in pieces made ahead."""
AT_ONCE_S = 55.0
"""Less than the minute for which what was sent may be committed."""


@contextmanager
def stuck(nakadi: Nakadi, commit_timeout: int = 60) -> Iterator[tuple[Subscription, Consumer]]:
    """Have a stream whose consumer takes its first batch, and nothing of what is sent to it from then on."""
    created = numbered(nakadi)
    for number in range(EVENTS):
        created.publish(business(n=number, padding=PADDING, meta={"partition": "0"}))
    subscription = subscribe(created)
    asked = {"batch_limit": 1, "max_uncommitted_events": EVENTS, "commit_timeout": commit_timeout}
    with subscription.stream(headers={"Accept-Encoding": "identity"}, **asked) as consumer:
        consumer.batch()
        time.sleep(1.5)  # By now all those buffers are full.
        yield subscription, consumer


def soon(act: Callable[[], bool]) -> None:
    """Do it until it succeeds, which must be soon."""
    began = time.monotonic()
    while not act():
        assert time.monotonic() - began < AT_ONCE_S
        time.sleep(0.2)
    assert time.monotonic() - began < AT_ONCE_S


def test_its_cursors_are_reset(nakadi: Nakadi) -> None:
    with stuck(nakadi) as (subscription, _):
        soon(lambda: subscription.patch(subscription.cursor(7)).status_code == 204)
        assert subscription.committed() == [offset(7)]
        with subscription.stream(batch_limit=1) as another:
            assert another.batch().numbers == [8]


def test_its_partitions_are_given_back(nakadi: Nakadi) -> None:
    with stuck(nakadi) as (subscription, consumer):
        path = f"{subscription.path}/streams/{consumer.id}/release"
        soon(lambda: subscription.http.post(path, json={}).status_code == 204)
        with subscription.stream(batch_limit=1) as another:
            assert another.batch().numbers == [0]


def test_its_subscription_is_deleted(nakadi: Nakadi) -> None:
    """It finds that it was cut off, since what was to tell it why is behind what it has not taken."""
    with stuck(nakadi) as (subscription, consumer):
        subscription.drop()
        time.sleep(2.5)
        with pytest.raises(httpx2.RemoteProtocolError, match="incomplete"):
            consumer.batches(EVENTS)


def test_it_goes_on_where_nobody_wants_its_partitions(nakadi: Nakadi) -> None:
    """One that handles a batch for long reads nothing meanwhile."""
    with stuck(nakadi) as (subscription, consumer):
        with subscription.asked() as refused:
            assert refused.status_code == 409, "each partition is somebody's"
        subscription.http.post(f"{subscription.path}/streams/{consumer.id}/lease")
        time.sleep(2.5)
        assert [each.numbers for each in consumer.batches(EVENTS - 1)] == [[n] for n in range(1, EVENTS)]
        consumer.done(consumer.seen[-1])


@pytest.mark.parametrize("how", ["extends its lease", "commits"])
def test_it_goes_on_as_long_as_it_says_that_it_is_there(nakadi: Nakadi, how: str) -> None:
    """It reads nothing for longer than a stream is left to one of which nothing is heard."""
    with stuck(nakadi, commit_timeout=3) as (subscription, consumer):
        for number in range(7):
            if how == "commits":
                consumer.done(subscription.cursor(number))
            else:
                answer = subscription.http.post(f"{subscription.path}/streams/{consumer.id}/lease")
                assert answer.status_code == 204, answer.text
            time.sleep(2)
        assert [each.numbers for each in consumer.batches(EVENTS - 1)] == [[n] for n in range(1, EVENTS)]
        consumer.done(consumer.seen[-1])
