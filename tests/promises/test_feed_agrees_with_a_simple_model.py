"""Events are published, read, filtered, merged, split and removed in any order: the hub agrees with lists."""

import itertools
import json
from collections.abc import Sequence
from typing import Any, NamedTuple
from zlib import crc32

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from penstock.core.log.cursor import FIRST, LAST, parse_cursor
from penstock.errors import CursorExpired, PenstockError
from penstock.hub.hub import Hub
from penstock.hub.log.read import PageReading, WantedPartition
from penstock.server.log.feeds import LineForm
from penstock.storage.log.events import KindFilter, PartitionHead
from tests.exhaustive import examples
from tests.promises.scene import create, event, service
from tests.reading import open_settled
from tests.store_contract.database import purge

COUNT = 4
KINDS = (None, "parcel", "Letter")
NAMES = itertools.count()

given_events = st.lists(
    st.tuples(st.integers(0, COUNT - 1), st.sampled_from(KINDS), st.sampled_from([None, "a", "b", "ü", "long" * 9])),
    min_size=1,
    max_size=12,
)
wanted_kinds = st.none() | st.tuples(
    st.sets(st.sampled_from(["parcel", "letter", "DEFAULT"]), min_size=1), st.booleans()
)


class Stored(NamedTuple):
    """An event of the model."""

    n: int
    kind: str | None
    key: str | None


class Extent(NamedTuple):
    """The partitions of the feed and their heads, by number."""

    partition_ids: Sequence[int]
    heads: Sequence[PartitionHead]


class Consumer:
    """Reads one virtual partition at its own n, with its own filter, and keeps its cursor."""

    def __init__(self, n: int, partition: int, kinds: KindFilter | None, cursor: str, skipped: dict[int, int]) -> None:
        self.n, self.partition, self.kinds, self.cursor = n, partition, kinds, cursor
        self.skipped = skipped
        self.gone: set[int] = set()
        """The numbers of events that were removed before they were read."""
        self.found: dict[int, list[int]] = {p: [] for p in range(COUNT)}

    def lose(self, physical: int, stored: Stored) -> None:
        """Note that an event is removed."""
        if stored.n not in self.found[physical]:
            self.gone.add(stored.n)

    def wants(self, physical: int, offset: int, stored: Stored, name: str) -> bool:
        if stored.n in self.gone:
            return False
        if offset < self.skipped[physical] or physical % min(self.n, COUNT) != self.partition % min(self.n, COUNT):
            return False
        slices = max(1, self.n // COUNT)
        place = offset if stored.key is None else crc32(stored.key.encode())
        if slices > 1 and place % slices != self.partition // COUNT:
            return False
        kind = (stored.kind or name).lower()
        return self.kinds is None or (kind in self.kinds.kinds) != self.kinds.skip


class FeedMachine(RuleBasedStateMachine):
    """Two hubs on one database against a list per partition."""

    def __init__(self, hubs: tuple[Hub, Hub], url: str) -> None:
        super().__init__()
        self.hubs, self.url = hubs, url
        self.name = f"feed.x{next(NAMES)}"
        self.model: list[list[Stored]] = [[] for _ in range(COUNT)]
        self.floors = [0] * COUNT
        self.consumers: list[Consumer] = []
        self.numbers = itertools.count()

    @initialize()
    def create(self) -> None:
        create(self.hubs[0], self.name, partitions=COUNT)

    @rule(given=given_events, at=st.integers(0, 1))
    def publish(self, given: list[Any], at: int) -> None:
        told = self.hubs[at].log.publish(self.name, [self._event(*each) for each in given])

        assert told.next_offsets == {p: len(self.model[p]) for p in {p for p, _, _ in given}}

    @rule(given=given_events, at=st.integers(0, 1), bad=st.sampled_from(["[1]", "{", '{"a":1,"a":2}']))
    def publish_in_vain(self, given: list[Any], at: int, bad: str) -> None:
        events = [event({"n": -1}, p) for p, _, _ in given]
        broken = event({})
        with pytest.raises(PenstockError):
            self.hubs[at].log.publish(self.name, [*events, type(broken).of(bad.encode(), partition=0)])

    @rule(given=given_events)
    def commit_to_the_outbox(self, given: list[Any]) -> None:
        with service(self.url) as (database, connection):
            for partition, kind, key in given:
                stored = self._stored(partition, kind, key)
                headers = json.dumps({"ce_type": kind}) if kind else None
                data = json.dumps({"n": stored.n, "p": partition})
                database.insert(connection, self.name, data, key=key, headers=headers, partition=partition)
            connection.commit()

    @rule(given=given_events)
    def roll_back(self, given: list[Any]) -> None:
        with service(self.url) as (database, connection):
            for partition, _, _ in given:
                database.insert(connection, self.name, '{"n":-1}', partition=partition)
            connection.rollback()

    @rule(physical=st.integers(0, COUNT - 1), at=st.data())
    def remove_one_by_one(self, physical: int, at: Any) -> None:
        end = self._settle().heads[physical].next_offset
        if end <= self.floors[physical]:
            return
        offsets = sorted(at.draw(st.sets(st.integers(self.floors[physical], end - 1), min_size=1, max_size=9)))
        with self.hubs[0].store.write() as tx:
            partition_id = self._settle().partition_ids[physical]
            tx.log.find_heads([partition_id], lock=True)
            tx.removal.remove(partition_id, offsets)
        for consumer in self.consumers:
            for offset in offsets:
                consumer.lose(physical, self.model[physical][offset])

    @rule(physical=st.integers(0, COUNT - 1), at=st.data(), deletes=st.booleans())
    def expire(self, physical: int, at: Any, deletes: bool) -> None:
        end = self._settle().heads[physical].next_offset
        floor = self.floors[physical] = at.draw(st.integers(self.floors[physical], end))
        with self.hubs[1].store.write() as tx:
            tx.removal.raise_floor(self._settle().partition_ids[physical], floor)
        while deletes and purge(self.hubs[1].store, 4):
            pass

    @rule(n=st.sampled_from([1, 2, 4, 8, 12]), at=st.data(), kinds=wanted_kinds, last=st.booleans())
    def subscribe(self, n: int, at: Any, kinds: Any, last: bool) -> None:
        if len(self.consumers) == 6:
            self.consumers.pop(0)
        partition = at.draw(st.integers(0, n - 1))
        names = None
        if kinds is not None:
            chosen = frozenset(self.name if kind == "DEFAULT" else kind for kind in kinds[0])
            names = KindFilter(chosen, kinds[1], self.name)
        skipped = {p: len(self.model[p]) if last else self.floors[p] for p in range(COUNT)}
        consumer = Consumer(n, partition, names, LAST if last else FIRST, skipped)
        consumer.gone |= self._find_removed()
        self.consumers.append(consumer)
        self._read(consumer, 0, 0)

    @rule(at=st.data(), size=st.integers(1, 20), hub=st.integers(0, 1))
    def read_a_page(self, at: Any, size: int, hub: int) -> None:
        if self.consumers:
            self._read(at.draw(st.sampled_from(self.consumers)), size, hub)

    @rule(at=st.data(), hub=st.integers(0, 1))
    def read_to_the_end(self, at: Any, hub: int) -> None:
        if not self.consumers:
            return
        consumer = at.draw(st.sampled_from(self.consumers))
        while self._read(consumer, 7, hub):
            pass
        assert consumer.found == self._wanted(consumer)

    @invariant()
    def nobody_has_seen_another_history(self) -> None:
        for consumer in self.consumers:
            for physical, wanted in self._wanted(consumer).items():
                found = consumer.found[physical]
                assert wanted[: len(found)] == found

    def teardown(self) -> None:
        if any(self.model):
            heads = self.hubs[1].log.find_heads(self.name)[1]
            assert [head.next_offset for _, head in sorted(heads.items())] == [len(each) for each in self.model]

    def _read(self, consumer: Consumer, size: int, hub: int) -> int:
        """Read a page as lines, as the server does, and return how many events it has looked at."""
        try:
            reading = self._open(consumer, size, hub)
        except CursorExpired as expired:
            self._lose(consumer, expired)
            reading = self._open(consumer, size, hub)
        for line in b"".join(LineForm(version=1, headers=None).pieces(self.hubs[hub].log.reader, reading)).splitlines():
            told = json.loads(line)
            if "data" in told:
                consumer.found[told["data"]["p"]].append(told["data"]["n"])
            else:
                consumer.cursor = told["cursor"]
        return reading.tracks[0].scanned

    def _open(self, consumer: Consumer, size: int, hub: int) -> PageReading:
        wanted = [WantedPartition("cursor", consumer.partition, consumer.cursor)]
        return open_settled(self.hubs[hub], self.name, consumer.n, wanted, size, kinds=consumer.kinds)

    def _lose(self, consumer: Consumer, expired: CursorExpired) -> None:
        """Have a consumer go on where it is told to, without the events that it is told to have lost."""
        cursor = parse_cursor(consumer.cursor, "cursor", self.name)
        physical = range(consumer.partition % min(consumer.n, COUNT), COUNT, min(consumer.n, COUNT))
        behind = zip(physical, cursor.offsets, strict=True)
        assert expired.fields["lost"] == sum(max(0, self.floors[p] - offset) for p, offset in behind) > 0
        for each in physical:
            for stored in self.model[each][: self.floors[each]]:
                consumer.lose(each, stored)
        consumer.cursor = expired.fields["first_available"]

    def _settle(self) -> "Extent":
        """Move the outbox, so that the log is what the model is."""
        feed, heads = self.hubs[0].log.find_heads(self.name)
        return Extent(feed.partition_ids, [heads[each] for each in feed.partition_ids])

    def _find_removed(self) -> set[int]:
        """Return the numbers of the events that were removed one by one."""
        extent = self._settle()
        with self.hubs[0].store.read() as tx:
            holes = [tx.removal.list_holes(each, 0, 1 << 39) for each in extent.partition_ids]
        return {
            stored.n
            for events, own in zip(self.model, holes, strict=True)
            for start, stop in own
            for stored in events[start:stop]
        }

    def _wanted(self, consumer: Consumer) -> dict[int, list[int]]:
        return {
            p: [each.n for offset, each in enumerate(events) if consumer.wants(p, offset, each, self.name)]
            for p, events in enumerate(self.model)
        }

    def _stored(self, partition: int, kind: str | None, key: str | None) -> Stored:
        stored = Stored(next(self.numbers), kind, key)
        self.model[partition].append(stored)
        return stored

    def _event(self, partition: int, kind: str | None, key: str | None) -> Any:
        stored = self._stored(partition, kind, key)
        headers = {"ce_type": kind} if kind else None
        return event({"n": stored.n, "p": partition}, partition, key=key, headers=headers)


def test_two_hubs_agree_with_the_model(url: str, hub: Hub, other: Hub) -> None:
    count = examples(20, 500) if url.startswith("sqlite") else examples(8, 200)
    run_state_machine_as_test(
        lambda: FeedMachine((hub, other), url),
        settings=settings(
            max_examples=count,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.explicit, Phase.reuse, Phase.generate),  # To shrink thirty steps takes minutes.
        ),
    )
