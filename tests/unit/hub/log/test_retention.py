"""Retention raises floors above events that are too old, or too many bytes, and waits for groups as told."""

from typing import Any

import pytest

from penstock.core.registry.retention import RetentionLimits
from penstock.errors import BadParameter
from penstock.hub.hub import Hub
from penstock.hub.log import retention as module
from penstock.hub.log.retention import Overtaken, RetentionRunner
from penstock.storage.groups import Position
from penstock.storage.log.removal import RemovalRepository
from penstock.storage.store import Store
from penstock.testing.clock import VirtualClock
from penstock.testing.factories import a_business_event, a_new_event
from tests.unit.hub.feeds import NAME, create_feed, find_feed
from tests.unit.hub.numbering import make_events

SECOND = 1_000_000
GROUP = "billing"


@pytest.fixture
def runner(hub: Hub, clock: VirtualClock) -> RetentionRunner:
    return RetentionRunner(hub.store, lambda: hub.admin.settings.current().retention, clock)


def publish(hub: Hub, letters: str, partition: int = 0) -> None:
    """Publish one event a letter, each of as many bytes as the next, in one commit."""
    hub.log.publish(NAME, make_events(letters, partition))


def floors(store: Store) -> list[int]:
    feed = find_feed(store)
    with store.read() as tx:
        heads = tx.log.find_heads(feed.partition_ids)
    return [heads[each].floor for each in feed.partition_ids]


def commit(store: Store, *offsets: int, group: str = GROUP, slice: str = "", epoch: int | None = None) -> None:
    """Store the next offset that *group* wants of each partition."""
    of = find_feed(store).epoch if epoch is None else epoch
    with store.write() as tx:
        tx.groups.lock(group, kind="processor", at=0)
        tx.groups.put(group, [Position(NAME, slice, number, of, each) for number, each in enumerate(offsets)], 0)


def size_of_one(store: Store) -> int:
    """Return the size of the first event of any partition; all have the same."""
    with store.read() as tx:
        return max(tx.removal.measure_size(each, 0, 1) for each in find_feed(store).partition_ids)


def change_options(hub: Hub, **options: Any) -> None:
    """Change the options of the event type."""
    feed = find_feed(hub.store)
    definition = feed.event_type.definition | {"options": feed.event_type.definition["options"] | options}
    with hub.store.write() as tx:
        found = tx.registry.find(NAME, lock=True)
        assert found is not None
        tx.registry.update(found, type(feed.event_type).of(definition, feed.partition_count), 0)


# Time


def test_events_expire_once_they_are_older_than_retention_time(
    hub: Hub, clock: VirtualClock, runner: RetentionRunner
) -> None:
    create_feed(hub.store, options={"retention_time": 10_000})
    publish(hub, "abc")
    clock.advance(seconds=4)
    publish(hub, "de")

    steps = []
    for _ in range(4):
        steps.append((runner.run(), floors(hub.store)))
        clock.advance(microseconds=6 * SECOND if len(steps) == 1 else 1)

    assert steps == [(False, [0]), (False, [0]), (True, [3]), (False, [3])]
    assert runner.expired == {NAME: 3}


def test_each_partition_expires_by_its_own_events(hub: Hub, clock: VirtualClock, runner: RetentionRunner) -> None:
    create_feed(hub.store, partition_count=3, options={"retention_time": 10_000})
    publish(hub, "abc", 0)
    clock.advance(seconds=8)
    publish(hub, "d", 0)
    publish(hub, "ef", 1)
    clock.advance(seconds=8)

    assert runner.run()

    assert floors(hub.store) == [3, 0, 0]


def test_emptied_partition_continues_at_its_floor(hub: Hub, clock: VirtualClock, runner: RetentionRunner) -> None:
    create_feed(hub.store, options={"retention_time": 10_000})
    publish(hub, "abc")
    clock.advance(seconds=11)
    assert runner.run()
    assert not runner.run()

    publish(hub, "d")

    [partition_id] = find_feed(hub.store).partition_ids
    with hub.store.read() as tx:
        assert tx.log.find_heads([partition_id])[partition_id][1:3] == (3, 4)


def test_event_types_without_retention_follow_the_setting(
    hub: Hub, clock: VirtualClock, runner: RetentionRunner
) -> None:
    create_feed(hub.store)
    create_feed(hub.store, "compacted", category="data", cleanup_policy="compact")
    create_feed(hub.store, "longer", options={"retention_time": 1_000_000})
    publish(hub, "abc")
    clock.advance(seconds=11)
    assert not runner.run()

    hub.admin.settings.replace_retention(RetentionLimits(time_ms=10_000))
    assert hub.admin.settings.current().retention == RetentionLimits(time_ms=10_000)
    assert runner.run()

    assert floors(hub.store) == [3]
    hub.admin.settings.replace_retention(RetentionLimits())
    assert hub.admin.settings.current().retention == RetentionLimits()


@pytest.mark.parametrize("limits", [RetentionLimits(time_ms=0), RetentionLimits(size=-1)])
def test_setting_that_is_no_limit_is_refused(hub: Hub, limits: RetentionLimits) -> None:
    with pytest.raises(BadParameter, match="retention_"):
        hub.admin.settings.replace_retention(limits)


# The clock


def test_clock_of_the_database_counts_if_it_is_behind(hub: Hub) -> None:
    create_feed(hub.store, options={"retention_time": 86_400_000})
    with hub.store.read() as tx:
        now = tx.now()
    ahead = VirtualClock(now)
    publisher = Hub(hub.store, clock=ahead)
    publisher.log.publish(NAME, make_events("abc"))
    ahead.advance(seconds=2 * 86_400)
    runner = RetentionRunner(hub.store, RetentionLimits, ahead)

    assert not runner.run()


# Size


@pytest.mark.parametrize(("less", "floor"), [(0, 5), (1, 6)])
def test_oldest_events_expire_until_the_size_is_kept(hub: Hub, runner: RetentionRunner, less: int, floor: int) -> None:
    create_feed(hub.store, options={"retention_bytes": 1_000_000})
    publish(hub, "abcdefghi")
    assert not runner.run()

    change_options(hub, retention_bytes=4 * size_of_one(hub.store) - less)

    assert runner.run()
    assert not runner.run()
    assert floors(hub.store) == [floor]


def test_events_that_were_received_first_expire_first_across_partitions(
    hub: Hub, clock: VirtualClock, runner: RetentionRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SEGMENT_EVENTS", 2)
    create_feed(hub.store, partition_count=3)
    publish(hub, "a", 2)
    size = size_of_one(hub.store)
    for letters, partition in (("bcde", 0), ("fghi", 1), ("jk", 0)):
        clock.advance(seconds=1)
        publish(hub, letters, partition)

    found = []
    for kept in (10, 8, 5, 3, 0):
        change_options(hub, retention_bytes=kept * size + size // 2)
        runner.run()
        found.append(floors(hub.store))

    assert found == [[0, 0, 1], [2, 0, 1], [4, 1, 1], [4, 3, 1], [6, 4, 1]]


def test_sizes_of_whole_segments_are_measured_once(
    hub: Hub, runner: RetentionRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SEGMENT_EVENTS", 2)
    create_feed(hub.store, options={"retention_bytes": 1_000_000})
    publish(hub, "abcde")
    measured: list[tuple[int, int]] = []
    original = RemovalRepository.measure_size

    def measure(self: Any, partition_id: int, start: int, stop: int) -> int:
        measured.append((start, stop))
        return original(self, partition_id, start, stop)

    monkeypatch.setattr(RemovalRepository, "measure_size", measure)
    for _ in range(2):
        runner.run()

    assert measured == [(0, 2), (2, 4), (4, 5), (4, 5)]


# Waiting for groups


def test_events_that_a_group_has_not_committed_are_kept(hub: Hub, clock: VirtualClock, runner: RetentionRunner) -> None:
    wait = {"groups": [GROUP, "audit"], "retention_time": 100_000}
    create_feed(hub.store, partition_count=2, options={"retention_time": 10_000, "retention_wait": wait})
    for partition in (0, 1):
        publish(hub, "abcdef", partition)
    clock.advance(seconds=11)
    commit(hub.store, 4, 6)

    assert not runner.run(), "a group that nobody has heard of has committed nothing"
    commit(hub.store, 2, 5, group="audit")
    commit(hub.store, 9, 3, group="audit", slice="another")

    assert runner.run()
    assert floors(hub.store) == [2, 3]
    assert runner.overtaken == {Overtaken(NAME, GROUP): 0, Overtaken(NAME, "audit"): 0}


def test_group_of_another_epoch_has_committed_nothing(hub: Hub, clock: VirtualClock, runner: RetentionRunner) -> None:
    wait = {"groups": [GROUP], "retention_time": 100_000}
    create_feed(hub.store, options={"retention_time": 10_000, "retention_wait": wait})
    publish(hub, "abcdef")
    clock.advance(seconds=11)
    commit(hub.store, 4, epoch=99)

    assert not runner.run()


@pytest.mark.parametrize("limit", ["retention_time", "retention_bytes"])
def test_group_that_lags_too_much_is_overtaken_and_that_is_counted(
    hub: Hub, clock: VirtualClock, runner: RetentionRunner, limit: str
) -> None:
    create_feed(hub.store)
    publish(hub, "abcd")
    value = 20_000 if limit == "retention_time" else 2 * size_of_one(hub.store)
    change_options(hub, retention_time=10_000, retention_wait={"groups": [GROUP, "swift"], limit: value})
    clock.advance(seconds=15)
    publish(hub, "ef")
    commit(hub.store, 1)
    commit(hub.store, 3, group="swift")
    clock.advance(seconds=6)

    assert runner.run()

    assert floors(hub.store) == [4]
    assert runner.overtaken == {Overtaken(NAME, GROUP): 3, Overtaken(NAME, "swift"): 1}


def test_slice_of_a_cursor_set_that_has_never_committed_wants_everything(
    hub: Hub, clock: VirtualClock, runner: RetentionRunner
) -> None:
    wait = {"groups": [GROUP], "retention_time": 100_000}
    create_feed(hub.store, options={"retention_time": 10_000, "retention_wait": wait})
    publish(hub, "abcdef")
    clock.advance(seconds=11)
    commit(hub.store, 4, slice="2/0")
    assert not runner.run()

    commit(hub.store, 3, slice="2/1")

    assert runner.run()
    assert floors(hub.store) == [3]


# Changes meanwhile


def test_event_type_that_is_changed_during_a_round_is_judged_by_the_next_one(
    hub: Hub, clock: VirtualClock, runner: RetentionRunner
) -> None:
    create_feed(hub.store, options={"retention_time": 10_000})
    publish(hub, "abc")
    clock.advance(seconds=11)

    def prolong(_: float) -> bool:
        change_options(hub, retention_time=100_000)
        return False

    assert not runner.run(prolong)
    assert not runner.run()
    assert floors(hub.store) == [0]


def test_longest_retention_time_keeps_everything_and_stops_no_other(
    hub: Hub, clock: VirtualClock, runner: RetentionRunner
) -> None:
    create_feed(hub.store, "a.long", options={"retention_time": 1 << 62})
    create_feed(hub.store, options={"retention_time": 10_000})
    publish(hub, "abc")
    clock.advance(seconds=11)

    assert runner.run()

    assert floors(hub.store) == [3]


def test_compacted_events_do_not_count_to_the_size(
    hub: Hub, runner: RetentionRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SEGMENT_EVENTS", 2)
    create_feed(
        hub.store,
        category="business",
        enrichment_strategies=["metadata_enrichment"],
        cleanup_policy="compact_and_delete",
        options={"retention_bytes": 1_000_000},
    )
    [partition_id] = find_feed(hub.store).partition_ids
    events = [a_business_event(n, metadata={"partition_compaction_key": str(n)}) for n in range(6)]
    hub.log.publish(NAME, [a_new_event(each, partition=0) for each in events])
    runner.run()
    with hub.store.write() as tx:
        tx.log.find_heads([partition_id], lock=True)
        tx.removal.remove(partition_id, [0, 1, 2])
    with hub.store.read() as tx:
        size = tx.removal.measure_size(partition_id, 0, 6)

    change_options(hub, retention_bytes=size)

    assert not runner.run()
