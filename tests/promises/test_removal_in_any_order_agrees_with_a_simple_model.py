"""Events are published, sealed, expire, are compacted and erased in any order, by hubs that crash: lists agree."""

import itertools
import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from penstock.cold import parquet
from penstock.core.log.cursor import FIRST, LAST, parse_cursor
from penstock.errors import CursorExpired
from penstock.hub import erasure
from penstock.hub.cold import fetching
from penstock.hub.cold.fetching import fetch
from penstock.hub.cold.files import find_unknown
from penstock.hub.cold.sealing import ABANDONED_SECONDS, KEPT_SECONDS, SealingOptions
from penstock.hub.hub import Hub
from penstock.hub.log import compaction, read
from penstock.hub.log.compaction import DELAY, DELETIONS_KEPT, LAG_MAX, Compactor
from penstock.hub.log.read import WantedPartition
from penstock.server.log.feeds import LineForm
from penstock.storage import open_store
from penstock.storage.cold import tier
from penstock.storage.cold.manifest import ManifestFile
from penstock.storage.cold.tier import ColdTier
from penstock.storage.store import Store
from penstock.testing.clock import VirtualClock
from penstock.testing.factories import a_business_event, a_new_event
from tests.exhaustive import examples, exhaustive
from tests.promises.scene import create
from tests.reading import open_settled
from tests.store_contract.database import purge
from tests.unit.hub.forwarding import ForwardingStore

COUNT = 2
SECOND = 1_000_000
RETENTION_SECONDS = 2 * DELETIONS_KEPT
POLICIES = {
    "delete": {"retention_time": int(RETENTION_SECONDS * 1_000)},
    "compact": {},
    "compact_and_delete": {"retention_time": int(RETENTION_SECONDS * 1_000)},
}
NAMES = itertools.count()
SEAL_AFTER: Final = 20.0
SEAL_BYTES: Final = 300
"""A file has about three events."""
DROPPED_MAX = 4
"""Of so many hubs threads and connections are there at once."""

partitions = st.integers(0, COUNT - 1)
keys = st.sampled_from("abcd")
times = st.sampled_from([0, 1, 30, DELAY + 1, LAG_MAX + 1, DELETIONS_KEPT, RETENTION_SECONDS, -30, -LAG_MAX])
batches = st.tuples(partitions, st.lists(keys, min_size=1, max_size=8), st.booleans(), times)
"""A partition, the keys of events, whether they are deleted, and how many seconds pass before."""
crashes = st.none() | st.tuples(st.integers(1, 9), st.booleans(), st.booleans())
"""Whether a hub crashes: at which of its transactions, whether that is committed, and whether others can follow.

If they can, the hub goes on as one that has not heard whether it was committed.
"""
Crash = tuple[int, bool, bool]


class Stored(NamedTuple):
    """An event of the model."""

    n: int
    key: str
    is_deletion: bool
    at: int
    """When it was received."""


class Reader:
    """Reads one partition, and keeps its cursor."""

    def __init__(self, partition: int, cursor: str, offset: int) -> None:
        self.partition, self.cursor, self.offset = partition, cursor, offset


class CrashError(Exception):
    """The hub is gone."""


class RemovalMachine(RuleBasedStateMachine):
    """Hubs on one database, one after the other, against a list per partition.

    The list has all events that were published. An operation may remove some of them, by a rule that is stated here;
    `_observe` asserts that the database has all others. Readers get what is in the database and above the floor.
    """

    def __init__(self, url: str, root: Path) -> None:
        super().__init__()
        self.url = url
        self.root = root
        self.dropped: list[Hub] = []
        self.name = f"feed.x{next(NAMES)}"
        self.clock = VirtualClock()
        self.hub = self.other = self._start_hub()
        self.model: list[list[Stored]] = [[] for _ in range(COUNT)]
        self.present: list[set[int]] = [set() for _ in range(COUNT)]
        """The offsets of the events that the database has, those below the floor included."""
        self.floors = [0] * COUNT
        self.erasures: list[tuple[str, list[int]]] = []
        """The erasures that are not finished: their keys, and the end of each partition."""
        self.requests: dict[str, set[tuple[int, int]]] = {}
        """The places of the events that each erasure erases, by its id: partition and offset."""
        self.erased = 0
        self.is_erased_at_once = True
        """Whether no erasure was interrupted: one that goes on may count events again, and fetching leaves some out."""
        self.readers: list[Reader] = []
        self.numbers = itertools.count()

    @initialize(policy=st.sampled_from(sorted(POLICIES)), given=st.lists(batches, min_size=2, max_size=8))
    def create(self, policy: str, given: list[tuple[int, list[str], bool, float]]) -> None:
        """Create an event type with some events: Hypothesis leaves out the rule that publishes in many examples."""
        self.policy = policy
        traits = {"cleanup_policy": policy, "options": POLICIES[policy]}
        if self.is_compacted:
            traits |= {"category": "business", "enrichment_strategies": ["metadata_enrichment"]}
        create(self.hub, self.name, partitions=COUNT, **traits)
        for each in given:
            self.publish(*each)

    @property
    def is_compacted(self) -> bool:
        return self.policy != "delete"

    # What comes

    @rule(batch=batches)
    def publish_later(self, batch: tuple[int, list[str], bool, float]) -> None:
        self.publish(*batch)

    def publish(self, partition: int, given: list[str], deletes: bool, seconds: float) -> None:
        """Publish events of these keys so many seconds later."""
        self.clock.advance(seconds=seconds)
        deletes = deletes and self.is_compacted
        own = self.model[partition]
        at = max(self.clock(), own[-1].at if own else 0)
        stored = [Stored(next(self.numbers), key, deletes, at) for key in given]
        events = [
            a_new_event(
                a_business_event(n, n=n, metadata={"partition": str(partition)} | self._key_member(key)),
                key=None if self.is_compacted else key,
                partition=partition,
            )
            for n, key, _, _ in stored
        ]
        if deletes:
            self.hub.log.submit(self.name, events, deletes=True).result(300)
        else:
            told = self.hub.log.publish(self.name, events)
            assert told.next_offsets == {partition: len(own) + len(given)}
        self.present[partition] |= {*range(len(own), len(own) + len(given))}
        own += stored

    def _key_member(self, key: str) -> dict[str, str]:
        return {"partition_compaction_key": key} if self.is_compacted else {}

    @rule(seconds=times)
    def let_time_pass(self, seconds: float) -> None:
        self.clock.advance(seconds=seconds)

    @rule()
    def restart(self) -> None:
        """The hub is dropped as it is, and another one takes over."""
        dropped, self.hub = self.hub, self._start_hub()
        if self.other is dropped:
            self.other = self.hub

    @rule()
    def ask_the_other_hub(self) -> None:
        """Two hubs run beside each other; each does what comes in turn."""
        if self.other is self.hub or self.other not in self.dropped:
            self.other = self._start_hub()
        self.hub, self.other = self.other, self.hub
        self.store = cast(ForwardingStore, self.hub.store)

    # What goes

    @rule(crash=crashes)
    def expire(self, crash: Crash | None) -> None:
        expired_at = self.clock() - int(RETENTION_SECONDS * SECOND)
        rises = self.policy != "compact"
        wanted = [
            max([floor, *(each + 1 for each in present if rises and own[each].at < expired_at)])
            for own, present, floor in zip(self.model, self.present, self.floors, strict=True)
        ]

        is_done = self._run(self.hub.admin.retention.run, crash)

        heads = self._find_heads()
        for partition, lowest in enumerate(wanted):
            floor, before = heads[partition].floor, self.floors[partition]
            if is_done or floor != before:  # It may be above erased events of files, whose times nobody knows.
                assert lowest <= floor <= max(lowest, before, heads[partition].cold_stop)
                assert not self.present[partition] & {*range(lowest, floor)}
            self.floors[partition] = floor
        self._observe(lambda *_: False)

    @rule(events=st.integers(1, 9))
    def delete_expired(self, events: int) -> None:
        purge(self.hub.store, events)
        self._observe(lambda partition, offset: offset < self.floors[partition])

    @rule(key=keys)
    def request_erasure(self, key: str) -> None:
        requested = self.hub.erasures.request(self.name, key)
        self.erasures.append((key, [len(own) for own in self.model]))
        self.requests[requested.id] = self._find_erased(self.erasures[-1:])

    @rule(crash=crashes)
    def erase(self, crash: Crash | None) -> None:
        wanted = self._find_erased(self.erasures)

        is_done = self._run(self.hub.erasures.run, crash)

        self.erased += self._observe(lambda *place: place in wanted)
        self.is_erased_at_once &= is_done
        if is_done:
            assert not any(offset in self.present[partition] for partition, offset in wanted)
            self.erasures = []
            count = sum(each.erased.events for each in self.hub.erasures.list(self.name))
            assert count == self.erased or (not self.is_erased_at_once and count > self.erased)

    def _find_erased(self, erasures: list[tuple[str, list[int]]]) -> set[tuple[int, int]]:
        """Return the partitions and offsets of the events that erasures erase."""
        return {
            (partition, offset)
            for key, ends in erasures
            for partition, own in enumerate(self.model)
            for offset, each in enumerate(own[: ends[partition]])
            if each.key == key
        }

    @rule(crash=crashes)
    def compact(self, crash: Crash | None) -> None:
        removable = self._find_removable()

        self._run(lambda: Compactor(self.hub.store, self.clock).run(), crash)

        self._observe(lambda *place: place in removable)

    @rule()
    def compact_to_the_end(self) -> None:
        """Once all events are old, compaction leaves the newest event of each key, and deletions for a while."""
        latest = max([self.clock(), *(own[-1].at for own in self.model if own)])
        self.clock.advance(microseconds=latest + int(2 * LAG_MAX * SECOND) - self.clock())
        before: object = None
        while before != (before := [set(each) for each in self.present] + [self._find_progress()]):
            self.compact(None)
        if not self.is_compacted:
            return
        old = self.clock() - int((self._kept_seconds + LAG_MAX) * SECOND)
        for own, present, floor in zip(self.model, self.present, self.floors, strict=True):
            left = [own[offset] for offset in sorted(present) if floor <= offset < len(own) - 1]
            newest = {own[offset].key: own[offset].n for offset in sorted(present)}
            assert [each.n for each in left if newest[each.key] != each.n] == []
            assert [each.n for each in left if each.is_deletion and each.at < old] == []

    # The cold tier

    @rule(crash=crashes)
    def seal(self, crash: Crash | None) -> None:
        """Move what is old into files, and delete files whose events have expired."""
        self._run(self.hub.cold.sealer.run, crash)
        self._observe(lambda partition, offset: offset < self.floors[partition])

    @rule(crash=crashes)
    def fetch(self, crash: Crash | None) -> None:
        """Move what is in files into the database."""
        wanted = set() if self.is_erased_at_once else self._find_erased(self.erasures)
        is_done = self._run(lambda: fetch(self.hub.store, self.name, self.clock), crash)
        self._observe(lambda partition, offset: offset < self.floors[partition] or (partition, offset) in wanted)
        if is_done:
            assert all(head.cold_stop <= max(0, head.floor) for head in self._find_heads())

    # Who reads

    @rule(partition=partitions, last=st.booleans())
    def begin_to_read(self, partition: int, last: bool) -> None:
        offset = len(self.model[partition]) if last else self.floors[partition]
        self.readers = [*self.readers[-5:], Reader(partition, LAST if last else FIRST, offset)]
        self._read(self.readers[-1], 0)

    @rule(at=st.data(), size=st.integers(1, 9))
    def read_a_page(self, at: Any, size: int) -> None:
        if self.readers:
            self._read(at.draw(st.sampled_from(self.readers)), size)

    @rule()
    def read_to_the_end(self) -> None:
        for reader in self.readers:
            while reader.offset < len(self.model[reader.partition]):
                before = reader.offset
                self._read(reader, 7)
                assert reader.offset > before

    @invariant()
    def offsets_and_times_go_on(self) -> None:
        for head, own in zip(self._find_heads(), self.model, strict=True):
            assert (head.next_offset, head.received_at) == (len(own), own[-1].at if own else 0)

    @invariant()
    def no_file_has_events_of_finished_erasures(self) -> None:
        """Nor has one that does not count, or that nobody knows."""
        finished = [each.id for each in self.hub.erasures.list(self.name) if each.finished_at is not None]
        gone = {place for each in finished for place in self.requests[each]}
        if gone:
            for path in (self.root / self.name).rglob("*.parquet"):
                there = pq.ParquetFile(path).read(["offset"])["offset"].to_pylist()
                assert not gone & {(int(path.parent.name), each) for each in there}

    @invariant()
    def each_sealed_offset_is_in_one_file(self) -> None:
        with self.hub.store.read() as tx:
            for partition_id, head in tx.log.find_heads(tx.registry.get(self.name).partition_ids).items():
                at = head.floor
                for file in tx.cold.list([partition_id], "sealed"):
                    if file.stop > head.floor:
                        assert file.start <= at < file.stop
                        assert at in (file.start, head.floor)
                        at = file.stop
                assert at == max(head.floor, head.cold_stop)

    def teardown(self) -> None:
        if any(self.model):
            self.restart()
            self.erase(None)
            self.expire(None)
            self.compact_to_the_end()
            self.readers += [Reader(partition, FIRST, floor) for partition, floor in enumerate(self.floors)]
            self.read_to_the_end()
            self._finish_erasures()
        self.hub.registry.delete(self.name)
        for _ in range(3):
            while purge(self.hub.store, 99):
                pass
            self.clock.advance(seconds=ABANDONED_SECONDS + KEPT_SECONDS)
            self.hub.cold.sealer.run()
        assert [*self.root.rglob("*.parquet*")] == []
        assert find_unknown(self.hub.store) == []
        for each in self.dropped:
            each.stop()

    def _finish_erasures(self) -> None:
        """Erasures wait for files that hubs were writing when they crashed, until they are given up."""
        self.clock.advance(seconds=ABANDONED_SECONDS + 1)
        self.hub.cold.sealer.run()
        self.hub.erasures.run()
        assert all(each.finished_at is not None for each in self.hub.erasures.list(self.name))
        self.no_file_has_events_of_finished_erasures()

    # How that is done

    def _start_hub(self) -> Hub:
        """Start a hub; the one before is left as it is, and its threads and connections end later."""
        self.store = ForwardingStore(open_store(self.url, self.root.as_uri()))
        sealing = SealingOptions(SEAL_AFTER, SEAL_BYTES)
        self.dropped.append(Hub(cast(Store, self.store), clock=self.clock, sealing=sealing))
        if len(self.dropped) > DROPPED_MAX:
            self.dropped.pop(0).stop()
        return self.dropped[-1]

    def _run(self, act: Callable[[], object], crash: Crash | None) -> bool:
        """Do something; if the hub is to *crash*, start another one. Return whether everything was done."""
        left = itertools.count(-crash[0] + 1 if crash else 1)

        def strike() -> None:
            number = next(left)
            if number == 0 or (number > 0 and crash and not crash[2]):
                raise CrashError

        self.store.at_commit, self.store.after_commit = lambda: None, lambda: None
        if crash:
            self.store.__dict__["after_commit" if crash[1] else "at_commit"] = strike
        try:
            act()
        except CrashError:
            self.restart()
            return False
        self.store.at_commit, self.store.after_commit = lambda: None, lambda: None
        return True

    def _observe(self, may_go: Callable[[int, int], bool]) -> int:
        """Assert that only events are gone that may go, and that no other is there; return how many are gone."""
        count = 0
        for partition, present in enumerate(self._find_present()):
            gone = self.present[partition] - present
            assert present <= self.present[partition]
            assert [offset for offset in sorted(gone) if not may_go(partition, offset)] == []
            self.present[partition] = present
            count += len(gone)
        return count

    def _find_removable(self) -> set[tuple[int, int]]:
        """Return the partitions and offsets of the events that compaction may remove now."""
        now = self.clock()
        young, old = now - int(DELAY * SECOND), now - int(self._kept_seconds * SECOND)
        found = set()
        for partition, own in enumerate(self.model if self.is_compacted else []):
            present = sorted(each for each in self.present[partition] if each >= self.floors[partition])
            newest = {own[offset].key: offset for offset in present if own[offset].at < young}
            found |= {
                (partition, offset)
                for offset in present
                if offset < newest.get(own[offset].key, 0) or (own[offset].is_deletion and own[offset].at < old)
            } - {(partition, len(own) - 1)}
        return found

    @property
    def _kept_seconds(self) -> float:
        """How long deletions are kept."""
        return DELETIONS_KEPT if self.policy == "compact" else RETENTION_SECONDS

    def _read(self, reader: Reader, size: int) -> None:
        """Read a page as lines, as the server does; assert that it has what is left of its range, and nothing else."""
        try:
            reading = self._open(reader, size)
        except CursorExpired as expired:
            self._go_on(reader, expired)
            reading = self._open(reader, size)
        found, start = [], reader.offset
        for line in b"".join(LineForm(version=1, headers=None).pieces(self.hub.log.reader, reading)).splitlines():
            told = json.loads(line)
            if "data" in told:
                found.append(told["data"]["n"])
            else:
                reader.cursor = told["cursor"]
                [reader.offset] = parse_cursor(reader.cursor, "cursor", self.name).offsets
        own, present = self.model[reader.partition], self.present[reader.partition]
        passed = [own[offset] for offset in range(start, reader.offset) if offset in present]
        assert found == [each.n for each in passed if not each.is_deletion]

    def _go_on(self, reader: Reader, expired: CursorExpired) -> None:
        """Have a reader go on at the floor, without the offsets that it is told to have lost."""
        floor = self.floors[reader.partition]
        assert expired.fields["lost"] == floor - reader.offset > 0
        reader.cursor, reader.offset = expired.fields["first_available"], floor

    def _open(self, reader: Reader, size: int) -> Any:
        return open_settled(
            self.hub, self.name, COUNT, [WantedPartition("cursor", reader.partition, reader.cursor)], size
        )

    def _find_heads(self) -> list[Any]:
        feed, heads = self.hub.log.find_heads(self.name)
        return [heads[each] for each in feed.partition_ids]

    def _find_present(self) -> list[set[int]]:
        """Return the offsets of the events that the database, or a file, has."""
        with self.hub.store.read() as tx:
            return [
                {each.offset for each in tx.removal.list_keys(partition_id, 0, 1 << 39, 1 << 20)}
                | {each for file in tx.cold.list([partition_id], "sealed") for each in self._read_offsets(file)}
                for partition_id in tx.registry.get(self.name).partition_ids
            ]

    def _read_offsets(self, file: ManifestFile) -> set[int]:
        """Return the offsets of a file's range that it has, past everything that hubs have in memory."""
        batches = ColdTier.at(self.root.as_uri()).read_batches(file)
        found = {each for batch in batches for each in batch.column("offset").to_pylist()}
        return {each for each in found if file.start <= each < file.stop}

    def _find_progress(self) -> set[Any]:
        """Return how far each partition is compacted."""
        with self.hub.store.read() as tx:
            ids = tx.registry.get(self.name).partition_ids
            return {(each, tx.removal.find_compaction(each).progress) for each in ids}


@pytest.mark.parametrize("migrated_url", ["sqlite", exhaustive("migrated_postgres")], indirect=True)
def test_readers_agree_with_the_model_whatever_is_sealed_and_removed(
    migrated_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name, value in (
        (compaction, "KEYS_MAX", 3),
        (compaction, "STEP_EVENTS", 2),
        (compaction, "REMOVED_EVENTS", (1, 2)),
        (erasure, "STEP_OFFSETS", 3),
        (read, "SHARED_SECONDS", -1.0),  # Else erased events may be read for two seconds.
        (tier, "KNOWN_SECONDS", -1.0),
        (read, "CHUNK_ROWS", 3),
        (read, "CHUNK_ROWS_MAX", 3),
        (parquet, "GROUP_ROWS", 2),
        (fetching, "FETCHED_EVENTS", 2),
    ):
        monkeypatch.setattr(module, name, value)
    with closing(open_store(migrated_url)) as store:
        store.migrate()
    run_state_machine_as_test(
        lambda: RemovalMachine(migrated_url, tmp_path / "cold"),
        settings=settings(
            max_examples=examples(12, 400 if migrated_url.startswith("sqlite") else 100),
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.explicit, Phase.reuse, Phase.generate),  # To shrink forty steps takes minutes.
        ),
    )
