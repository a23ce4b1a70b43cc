"""A stream of a subscription by a clock that is moved by hand, over a hub on SQLite that does nothing by itself."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock.core.access import UNAUTHENTICATED, Resource
from penstock.core.events.event import NewEvent
from penstock.core.registry.definition import NAKADI
from penstock.core.subscriptions.assignment import FeedPartition
from penstock.core.subscriptions.definition import complete_subscription
from penstock.core.subscriptions.tokens import make_token
from penstock.hub.hub import Hub
from penstock.hub.log.read import Reader
from penstock.hub.subscriptions.commits import CursorCommit
from penstock.hub.subscriptions.consumer_stream import ConsumerStream, StreamServices
from penstock.hub.subscriptions.sessions import SubscriptionSnapshot
from penstock.storage import open_store
from penstock.testing.clock import VirtualClock
from penstock.testing.factories import an_event_type
from penstock.wire.subscriptions import RawStreamParameters, check_stream_parameters

NAME = "order.placed"


class Play:
    """A stream, and a clock that goes on by hand."""

    def __init__(self, scene: "Scene", *wants: int, **asked: Any) -> None:
        self.scene = scene
        self.now = 1_000.0
        self._told: list[str] = []
        hub, rules = scene.hub, check_stream_parameters(RawStreamParameters(**asked), NAKADI).rules
        hub.subscriptions.lease.renew()
        subscriptions = hub.subscriptions
        opened = subscriptions.sessions.open(
            scene.id,
            frozenset((NAME, each) for each in wants),
            batch_limit=rules.batch_limit,
            commit_ms=round(rules.commit_timeout * 1_000),
        )
        services = StreamServices(
            hub.store,
            Reader(hub.store, hub.registry),
            hub.log.watch,
            subscriptions.lease,
            subscriptions.local_streams,
            subscriptions.sessions,
            subscriptions.parked_keys,
            subscriptions.commits,
        )
        lapses = subscriptions.lease.lapses
        self.stream = ConsumerStream(
            services, opened, rules, lapses, check_access=self._allowed, clock=lambda: self.now
        )
        self.id = self.stream.session_id
        subscriptions.local_streams.notify_changed(scene.id)
        self._go_on()

    def take(self, after: float = 0.0) -> list[str]:
        """What is sent after so many seconds, until nothing more is to be done; it is closed when it is over."""
        self.now += after
        self._go_on()
        told, self._told = self._told, []
        return told

    def commit(self, number: int, partition: int = 0) -> bool:
        """Commit the event of that number, with its token; tell whether that has moved the position."""
        place = (NAME, partition)
        commit = CursorCommit(place, number + 1, make_token(self.stream.secret, place, number + 1))
        [moved] = self.scene.hub.subscriptions.commits.submit(self.scene.id, self.id, [commit]).result()
        if not self.stream.is_over:
            self._go_on()  # It hears of it at once.
        return moved

    def leave(self) -> None:
        """End, as a stream whose client has left."""
        self.stream.end("the client has left")
        self.stream.close()

    def _go_on(self) -> None:
        while True:
            for batches in self.stream.step():
                for place, position, events, debug, *_ in batches:
                    numbers = [json.loads(event)["n"] for event in events]
                    self._told.append(f"{place[1]}:{position - 1}{numbers}{'' if debug is None else f' {debug}'}")
            if self.stream.is_over:
                self.stream.close()
            if self.stream.is_over or not self.stream.has_work:
                return

    def _allowed(self) -> None:
        self.scene.hub.admin.permissions.check(UNAUTHENTICATED, "read", Resource("event_type", NAME))


class Scene:
    """A hub, and one subscription of one event type."""

    def __init__(self, hub: Hub, clock: VirtualClock, path: Path) -> None:
        self.hub = hub
        self.clock = clock
        self.path = path
        self.id = ""

    def subscribe(self, partitions: int = 1, **members: Any) -> "Scene":
        traits = {"partition_count": partitions, "partition_strategy": "user_defined"}
        self.hub.registry.create(an_event_type(NAME, **traits))
        given = {"owning_application": "shop", "event_types": [NAME], "read_from": "begin"} | members
        subscription, _ = self.hub.subscriptions.create(complete_subscription(given))
        self.id = subscription.id
        return self

    def put(self, *numbers: int, partition: int = 0) -> "Scene":
        events = [NewEvent.of(b'{"n":%d}' % number, partition=partition) for number in numbers]
        self.hub.log.publish(NAME, events)
        return self

    def hear(self) -> None:
        """Hear of what other hubs have done."""
        with self.hub.store.read() as tx:
            self.hub.subscriptions.local_streams.poll(tx)
            _, heads = self.hub.log.find_heads(NAME)
        self.hub.log.watch.notify_appended({partition_id: head.next_offset for partition_id, head in heads.items()})

    def look(self) -> SubscriptionSnapshot:
        return self.hub.subscriptions.sessions.snapshot(self.id)

    def offsets(self) -> dict[FeedPartition, int]:
        """The offsets wanted next."""
        return {slot.place: slot.offset for slot in self.look().slots}

    def owners(self) -> list[str | None]:
        return [slot.owner for slot in self.look().slots]

    def held_seconds(self) -> list[float]:
        """For how long each stream that has ended may still commit."""
        with self.hub.store.read() as tx:
            now = tx.now()
        return [(each.holds_until - now) / 1e6 for each in self.look().sessions if each.holds_until is not None]

    def lose(self, count: int, partition: int = 0) -> None:
        """Let retention remove the events of a partition below *count*."""
        with closing(sqlite3.connect(self.path)) as database:
            database.execute("UPDATE penstock_partition SET floor = ? WHERE number = ?", (count, partition))
            where = 'partition_id = (SELECT id FROM penstock_partition WHERE number = ?) AND "offset" < ?'
            database.execute(f"DELETE FROM penstock_event WHERE {where}", (partition, count))
            database.commit()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    path, clock = tmp_path / "hub.db", VirtualClock()
    store = open_store(f"sqlite:///{path}")
    store.migrate()
    hub = Hub(store, clock=clock)
    yield Scene(hub, clock, path)
    hub.stop()
