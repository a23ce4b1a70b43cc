"""Feeds as the store knows them, made by hand or in a real store."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from penstock.core.events.event import NewEvent
from penstock.core.registry.definition import PENSTOCK, Limits
from penstock.core.registry.event_type import EventType, StoredFeed
from penstock.hub.admin.settings import Settings
from penstock.hub.background import Clock
from penstock.hub.log.publish import NewEvents, Prepared, prepare
from penstock.hub.registry import Registry
from penstock.storage.log.events import Block, Frame, PartitionHead
from penstock.storage.store import Store
from penstock.storage.subscriptions import StoredSubscription
from penstock.testing.clock import START_AT
from penstock.testing.factories import an_event_type

NAME = "order.placed"
JOINED = Frame("", "\n", "")


def make_registry(store: Any, clock: Clock, limits: Limits = PENSTOCK) -> Registry:
    """Return the registry of another hub on *store*."""
    return Registry(store, clock, Settings(store, lambda: None), limits)


def a_feed(partition_count: int = 1, *, epoch: int = 1, revision: int = 1, **definition: Any) -> StoredFeed:
    """Return a feed whose partitions have the store's numbers from 100 on."""
    return StoredFeed(
        id=1,
        epoch=epoch,
        revision=revision,
        event_type=EventType.parse(an_event_type(NAME, partition_count=partition_count, **definition)),
        partition_ids=tuple(range(100, 100 + partition_count)),
        created_at=START_AT,
        updated_at=START_AT,
    )


def make_heads(feed: StoredFeed, *next_offsets: int, floor: int = 0) -> dict[int, PartitionHead]:
    """Return the heads of *feed*, whose partitions end at *next_offsets*."""
    return {
        partition_id: PartitionHead(feed.revision, floor, next_offset, START_AT)
        for partition_id, next_offset in zip(feed.partition_ids, next_offsets, strict=True)
    }


def create_feed(store: Store, name: str = NAME, partition_count: int = 1, **definition: Any) -> StoredFeed:
    """Create an event type in *store*, its partitions chosen by who publishes, and return its feed."""
    given = {"partition_count": partition_count, "partition_strategy": "user_defined"} | definition
    with store.write() as tx:
        tx.registry.insert(EventType.parse(an_event_type(name, **given)), START_AT)
    return find_feed(store, name)


def recreate_feed(store: Store, name: str = NAME, partition_count: int = 1, **definition: Any) -> StoredFeed:
    """Drop an event type of *store*, and create another one of that name, as another process does it."""
    with store.write() as tx:
        tx.registry.delete(name)
    return create_feed(store, name, partition_count, **definition)


def raise_epochs(store: Store) -> None:
    """Change all event types, as after a backup was put back."""
    with store.write() as tx:
        tx.registry.raise_epochs()


def find_feed(store: Store, name: str = NAME) -> StoredFeed:
    """Return the feed as *store* has it."""
    with store.read() as tx:
        feed = tx.registry.find(name)
    assert feed is not None
    return feed


def prepare_events(feed: StoredFeed, *events: NewEvent, at: int = START_AT) -> Prepared:
    """Return *events* ready to be appended."""
    return prepare(feed, NewEvents(events), at)


def read_data(store: Store, partition_id: int) -> list[str]:
    with store.read() as tx:
        head = tx.log.find_heads([partition_id])[partition_id]
        body = (
            tx.log.read_lines(partition_id, head.floor, head.next_offset, JOINED, None).body
            if head.next_offset
            else b""
        )
    return body.decode().splitlines()


def into_outbox(store: Store, rows: Sequence[tuple[str, str]]) -> None:
    """Commit rows of event type and data to the outbox, for partition 0, as a service does."""
    with closing(sqlite3.connect(store.url.removeprefix("sqlite:///"))) as service:
        sql = 'INSERT INTO penstock_outbox (event_type, data, "partition") VALUES (?, ?, 0)'
        service.executemany(sql, rows)
        service.commit()


def fill_feed(store: Store, *, partition_count: int, events: int) -> StoredFeed:
    """Create a feed with so many events in each partition, one a second."""
    feed = create_feed(store, partition_count=partition_count)
    with store.write() as tx:
        tx.log.append(
            Block(partition_id, n, START_AT + n * 1_000_000, [(None, None, None, b"{}")])
            for partition_id in feed.partition_ids
            for n in range(events)
        )
    return feed


def insert_subscription(store: Store, name: str, event_type_id: int) -> None:
    """Create a subscription that has not begun."""
    definition = {"owning_application": "shop", "event_types": [NAME], "consumer_group": "default"}
    with store.write() as tx:
        tx.subscriptions.insert(
            StoredSubscription(name, definition, START_AT, START_AT, 0, None), name, [event_type_id]
        )
