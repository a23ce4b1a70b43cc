"""Hubs that stream subscriptions on one database, as several processes do; and the database, written by hand."""

from collections.abc import Callable, Sequence
from typing import Any

from penstock.core.events.event import NewEvent
from penstock.core.registry.definition import PENSTOCK, Limits
from penstock.core.subscriptions.assignment import FeedPartition
from penstock.core.subscriptions.definition import complete_subscription
from penstock.core.subscriptions.delivery import DeliveryRules
from penstock.hub.hub import Hub
from penstock.hub.log.read import Reader
from penstock.hub.subscriptions.commits import CursorCommitter
from penstock.hub.subscriptions.consumer_stream import ConsumerStream, StreamServices
from penstock.hub.subscriptions.lease import HubLease
from penstock.hub.subscriptions.local_streams import LocalStreams
from penstock.hub.subscriptions.parked_keys import ParkedKeys
from penstock.hub.subscriptions.poison_events import PoisonEvents
from penstock.hub.subscriptions.sessions import OpenedSession, SessionEnd, Sessions
from penstock.storage import Store
from penstock.storage.subscriptions import StoredSlot
from penstock.testing.clock import VirtualClock
from tests.store_contract import database_at
from tests.unit.hub.feeds import NAME, create_feed

P: FeedPartition = (NAME, 0)
Q: FeedPartition = (NAME, 1)


def subscribed(store: Store, partitions: int = 2, **members: Any) -> str:
    """Create an event type, and a subscription that reads it from its beginning; return its id."""
    create_feed(store, partition_count=partitions)
    return subscribe(store, **members)


def subscribe(store: Store, group: str = "default", **members: Any) -> str:
    """Create a subscription of an event type that is there; return its id."""
    given = {"owning_application": "shop", "event_types": [NAME], "consumer_group": group, "read_from": "begin"}
    made, is_new = Hub(store, clock=VirtualClock()).subscriptions.create(complete_subscription(given | members))
    assert is_new
    return made.id


def sessions_of(store: Store, hub_id: str = "hub", limits: Limits = PENSTOCK) -> Sessions:
    return Sessions(store, PoisonEvents(VirtualClock(), limits), hub_id)


def parked_keys_of(store: Store) -> ParkedKeys:
    """Return the parked keys of a store, without streams to notify."""
    return ParkedKeys(store, VirtualClock(), lambda _: None)


def open_stream(
    sessions: Sessions, id: str, *wants: FeedPartition, batch_limit: int = 10, commit_timeout: float = 60
) -> OpenedSession:
    return sessions.open(id, frozenset(wants), batch_limit=batch_limit, commit_ms=round(commit_timeout * 1_000))


def an_end(hold_seconds: float = 0.0, retried: Sequence[int] = (), **sent: int) -> SessionEnd:
    """Say how a stream has ended: how far it was sent partitions p0, p1, …, and what it holds that for."""
    return SessionEnd({(NAME, int(name[1:])): each for name, each in sent.items()}, round(hold_seconds * 1e6), retried)


def read_slots(store: Store, id: str) -> list[StoredSlot]:
    with store.read() as tx:
        return list(tx.subscriptions.list_slots(id))


def read_owners(store: Store, id: str) -> list[str | None]:
    return [slot.owner for slot in read_slots(store, id)]


def read_offsets(store: Store, id: str) -> list[int]:
    """Return the offset wanted next of each partition."""
    return [slot.offset for slot in read_slots(store, id)]


def move(store: Store, id: str, **to: int) -> None:
    """Let a subscription stand elsewhere, in partitions p0, p1 and so on."""
    with store.write() as tx:
        slots = {slot.place: slot for slot in tx.subscriptions.list_slots(id)}
        moved = [slots[NAME, int(name[1:])]._replace(offset=offset) for name, offset in to.items()]
        tx.groups.put(id, [slot.position for slot in moved], 0)


def lose_hub(url: str, hub_id: str = "hub", *, seconds: float = 11.0) -> None:
    """Let a hub be one that was last seen so long ago."""
    database_at(url).run("UPDATE penstock_hub SET seen_at = seen_at - ? WHERE id = ?", round(seconds * 1e6), hub_id)


def let_time_pass(url: str, seconds: float) -> None:
    """Let streams that have ended have so much less time to commit."""
    database_at(url).run("UPDATE penstock_session SET holds_until = holds_until - ?", round(seconds * 1e6))


class Played:
    """One hub's part in streams, on a store that a test may have its say in, and a clock that goes on by hand."""

    def __init__(self, store: Any, hub_id: str = "hub", limits: Limits = PENSTOCK, clock: Any = None) -> None:
        self.now = 1_000.0
        self.store = store
        self.clock = clock or VirtualClock()
        self.sessions = sessions_of(store, hub_id, limits)
        self.local_streams = LocalStreams()
        self.lease = HubLease(store, self.local_streams, hub_id, sweep=self.sessions.sweep, monotonic=lambda: self.now)
        self.commits = CursorCommitter(
            store,
            self.clock,
            self.sessions,
            self.local_streams.has_sent,
            self.local_streams.notify_committed,
            strict=limits.strict,
        )
        self.parked_keys = parked_keys_of(store)
        self.hub = Hub(store, clock=self.clock)
        """It publishes, and wakes; its own threads are never started."""
        self.reader = Reader(store, self.hub.registry)

    def stream(
        self, id: str, *wants: FeedPartition, check_access: Callable[[], None] = lambda: None, **rules: Any
    ) -> ConsumerStream:
        given = {
            "max_uncommitted": 100,
            "batch_limit": 10,
            "flush_timeout": 30,
            "commit_timeout": 60,
            "bytes_max": 1 << 20,
        }
        asked = DeliveryRules(**given | rules)
        self.lease.renew()
        found = open_stream(
            self.sessions, id, *wants, batch_limit=asked.batch_limit, commit_timeout=asked.commit_timeout
        )
        services = StreamServices(
            self.store,
            self.reader,
            self.hub.log.watch,
            self.lease,
            self.local_streams,
            self.sessions,
            self.parked_keys,
            self.commits,
        )
        return ConsumerStream(
            services, found, asked, self.lease.lapses, check_access=check_access, clock=lambda: self.now
        )

    def publish(self, *numbers: int, partition: int = 0, name: str = NAME, keys: str | None = None) -> None:
        """Publish events; *keys* has the key of each, a letter each, and a dot for none."""
        events = [NewEvent.of(b'{"n":%d}' % number, partition=partition) for number in numbers]
        if keys is not None:
            events = [
                NewEvent.of(bytes(each.data), partition=partition, key=None if key == "." else key)
                for each, key in zip(events, keys, strict=True)
            ]
        self.hub.log.publish(name, events)

    def stop(self) -> None:
        self.commits.stop()
        self.lease.stop()


def deliver(stream: ConsumerStream, *, light: bool = False) -> list[str]:
    """Return in short what is sent now: partition, position, events, and what is said besides."""
    return [
        f"{place[1]}:{position}[{' '.join(str(each.decode()[5:-1]) for each in events)}]"
        + (f" {debug}" if debug else "")
        for batches in stream.step(light=light)
        for place, position, events, debug, *_ in batches
    ]
