"""Batches of idempotent producers, and a log that has some of them."""

from collections.abc import Sequence
from typing import Any

from penstock.core.events.event import NewEvent
from penstock.core.producers import MODULUS, ProducerStamp, ProducerState, digests_of
from penstock.core.registry.event_type import StoredFeed
from penstock.errors import InvalidEvent
from penstock.hub.committer import judge, record
from penstock.hub.log.publish import (
    NewEvents,
    NumberedBatch,
    Prepared,
    ProducerName,
    PublishRequest,
    RequestResult,
    Unpublishable,
    append_rows,
    digest_input,
    lock_heads,
)
from penstock.storage.producers import BatchRef, Producer
from penstock.storage.store import Store
from penstock.testing.clock import START_AT
from penstock.testing.factories import a_new_event
from tests.unit.hub.feeds import prepare_events

UNFIT = InvalidEvent(line=1, reason="it is no good")


def make_events(letters: str, partition: int = 0) -> list[NewEvent]:
    """Return an event for each letter."""
    return [a_new_event({"n": letter}, partition=partition) for letter in letters]


def a_batch(feed: StoredFeed, epoch: int, sequence: int, letters: str, **others: Any) -> PublishRequest:
    """Return a request of a producer; *others* are group, partition, trims, deadline, and fits."""
    partition, group = others.get("partition", 0), others.get("group", "g")
    events = make_events(letters, partition)
    stamped = NumberedBatch(
        ProducerName(feed.name, partition, group),
        ProducerStamp(epoch, sequence),
        digests_of(map(digest_input, events)),
        others.get("trims", False),
        others.get("deadline"),
    )
    found = prepare_events(feed, *events) if others.get("fits", True) else Unpublishable(feed, UNFIT)
    return PublishRequest(feed.name, NewEvents(events, partition=partition), found, stamped=stamped)


def a_publish(feed: StoredFeed, letters: str, partition: int = 0, **others: Any) -> PublishRequest:
    """Return a request without a producer."""
    events = make_events(letters, partition)
    return PublishRequest(feed.name, NewEvents(events), prepare_events(feed, *events), **others)


def settle(
    store: Store,
    *requests: PublishRequest,
    moved: Sequence[Prepared] = (),
    at: int = START_AT,
    modulus: int = MODULUS,
) -> list[RequestResult]:
    """Append requests in one transaction, as the committer does, behind what was moved."""
    with store.write() as tx:
        verdicts = judge(tx, requests, moved, modulus)
        batches = [*moved, *(verdict.appends for verdict in verdicts)]
        heads = lock_heads(tx, batches)
        results = append_rows(tx, batches, heads, at)[len(moved) :]
        return record(tx, verdicts, results, at, modulus)


def fill_log(store: Store, feed: StoredFeed) -> None:
    """Make a log: offset 0 is nobody's, epoch 2 has u and v, epoch 3 has a to c, and after one of nobody d and e."""
    for request in (
        a_publish(feed, "x"),
        a_batch(feed, 2, 0, "uv"),
        a_batch(feed, 3, 0, "abc"),
        a_publish(feed, "y"),
        a_batch(feed, 3, 3, "de"),
    ):
        settle(store, request)


def find_producer(store: Store, feed: StoredFeed, group: str = "g", partition: int = 0) -> Producer | None:
    """Return what is known of a producer."""
    key = (feed.partition_ids[partition], group)
    with store.read() as tx:
        return tx.producers.find([key])[key]


def change(store: Store, feed: StoredFeed, group: str = "g", **changes: Any) -> Producer:
    """Change a producer as somebody else does, and return what it is then."""
    producer = find_producer(store, feed, group)
    assert producer is not None
    producer = producer._replace(**changes)
    with store.write() as tx:
        tx.producers.update(producer)
    return producer


def expire(store: Store, feed: StoredFeed, group: str = "g") -> None:
    """Let a producer expire, as the sweeper does."""
    producer = find_producer(store, feed, group)
    assert producer is not None
    change(
        store,
        feed,
        group,
        state=ProducerState(producer.state.epoch, 0, 0, is_expired=True),
        claim_id=None,
        is_pinned=False,
    )


def forget_batches(store: Store, feed: StoredFeed, epoch: int, *numbers: int, group: str = "g") -> None:
    """Forget batches of a producer, by the numbers of their first events."""
    producer = find_producer(store, feed, group)
    assert producer is not None
    with store.write() as tx:
        tx.producers.sweep([BatchRef(producer.id, epoch, number) for number in numbers], 0)
