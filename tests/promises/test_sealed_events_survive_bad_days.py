"""Clocks jump, listings are stale, names are used again, files go while they are read: no sealed event is lost."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.cold.storage import DirectoryStorage, StoredObject
from penstock.errors import ColdFileDamaged, ColdTierUnavailable, CursorExpired
from penstock.hub.cold.adopting import adopt
from penstock.hub.cold.fetching import fetch
from penstock.hub.cold.files import attach, delete_unknown, find_unknown, verify
from penstock.hub.cold.relinking import find_replacements, relink
from penstock.hub.hub import Hub
from penstock.hub.log.compaction import Compactor
from penstock.hub.log.read import WantedPartition
from penstock.storage.cold.manifest import ColdRepository
from penstock.testing.clock import VirtualClock
from penstock.testing.factories import a_business_event
from tests.exhaustive import ON_SQLITE, seeds
from tests.promises.backup import Backup
from tests.promises.scene import JOINED, NAME, Follower, create, event, seeded
from tests.reading import open_settled
from tests.sealing import Row, files_of, paths_in, read_rows, seal, sealing_hub, sweep

PARTITIONS = 2
DAY = 86_400


@pytest.fixture
def hub(url: str, root: Path, clock: VirtualClock) -> Iterator[Hub]:
    """A hub that seals when it is told to, and an event type with sealed events, and some that are not."""
    with sealing_hub(url, root.as_uri(), clock=clock) as hub:
        create(hub, partitions=PARTITIONS)
        publish(hub, clock, range(40))
        seal(hub)
        publish(hub, clock, range(40, 60))
        yield hub


def publish(hub: Hub, clock: VirtualClock, numbers: range) -> None:
    for n in numbers:
        clock.advance(seconds=1)
        hub.log.publish(NAME, [event({"n": n}, n % PARTITIONS, key=f"key-{n % 3}")])


def with_retention(hub: Hub, seconds: float) -> None:
    known = hub.registry.load(NAME)
    hub.registry.replace(NAME, known.event_type.whole | {"options": {"retention_time": int(seconds * 1_000)}})


def settle(hub: Hub, clock: VirtualClock) -> None:
    """Seal, and delete files that are not needed any more."""
    for _ in range(3):
        seal(hub)
        clock.advance(seconds=3_700)


# Clocks


@pytest.mark.parametrize("seed", seeds(1, 20))
def test_clocks_that_jump_by_days_end_events_by_their_age_and_no_others(url: str, root: Path, seed: int) -> None:
    chance, clock, skewed = seeded(seed), VirtualClock(), VirtualClock()
    retention, count = 0.5 * DAY, 0
    with (
        sealing_hub(url, root.as_uri(), clock=clock, after=DAY, file_bytes=100) as hub,
        sealing_hub(url, root.as_uri(), clock=skewed, after=DAY, file_bytes=100) as other,
    ):
        create(hub, partitions=PARTITIONS, options={"retention_time": int(retention * 1_000)})
        expected: list[Row] = []
        for _ in range(30):
            for each in (clock, skewed):
                each.advance(seconds=chance.choice([1, 60, 3_600, DAY, 3 * DAY, -3_600, -2 * DAY]))
            one, now = chance.choice([(hub, clock), (other, skewed)])
            match chance.choice(["publish", "publish", "seal", "seal", "retention", "sweep"]):
                case "publish":
                    hub.log.publish(NAME, [event({"n": n}, n % PARTITIONS) for n in range(count, count + 6)])
                    count += 6
                    found = read_rows(hub, PARTITIONS)
                    assert len(found) == len(expected) + 6
                    expected = found
                case "seal":
                    one.cold.sealer.run()
                case "retention":
                    one.admin.retention.run()
                    expected = [row for row in expected if row[-1] >= now() / 1e6 - retention]
                case "sweep":
                    sweep(one.store)
            assert [read_rows(each, PARTITIONS) for each in (hub, other)] == [expected, expected]
        settle(hub, clock)
        assert list(verify(hub.store)) == find_unknown(hub.store) == []
        assert paths_in(root) == {each.path for each in files_of(hub.store, None)}


def test_clock_that_is_set_back_by_days_delays_neither_sealing_nor_deletion(
    hub: Hub, root: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Crash(BaseException): ...

    def crash(*_: Any, **__: Any) -> None:
        raise Crash

    before = read_rows(hub, PARTITIONS)
    clock.advance(seconds=10 * DAY)
    with monkeypatch.context() as patch:
        patch.setattr(ColdRepository, "seal", crash)
        patch.setattr("penstock.hub.cold.sealing.give_up", lambda *_: None)
        with pytest.raises(Crash):
            hub.cold.sealer.run()
    with hub.store.write() as tx:
        tx.cold.give_up([files_of(hub.store)[0].path], "removed", clock())
    [abandoned] = files_of(hub.store, "writing")
    clock.advance(seconds=-9 * DAY)

    settle(hub, clock)

    assert read_rows(hub, PARTITIONS) == before
    assert [each.stop for each in files_of(hub.store)] == [19, 29, 19, 29]
    assert not (root / abandoned.path).exists()
    assert files_of(hub.store, "writing") == files_of(hub.store, "removed") == []


# Compaction


def test_sealed_events_of_an_event_type_that_is_compacted_since_stay_until_they_expire(
    url: str, root: Path, clock: VirtualClock
) -> None:
    with sealing_hub(url, root.as_uri(), clock=clock) as hub:
        create(hub, category="business", enrichment_strategies=["metadata_enrichment"])
        compactor = Compactor(hub.store, clock)
        for start, policy, key in ((0, "delete", {}), (10, "compact_and_delete", {"partition_compaction_key": "a"})):
            known = hub.registry.load(NAME)
            hub.registry.replace(NAME, known.event_type.whole | {"cleanup_policy": policy})
            metadata = {"partition": "0", **key}
            hub.log.publish(NAME, [event(a_business_event(n, metadata=metadata)) for n in range(start, start + 10)])
            clock.advance(seconds=7_200)
            seal(hub)
            compactor.run()

        assert [each.stop for each in files_of(hub.store)] == [9]
        assert [row[1] for row in read_rows(hub, 1)] == [*range(10), 19]
        with_retention(hub, 7_201)
        hub.admin.retention.run()
        settle(hub, clock)
        assert [row[1] for row in read_rows(hub, 1)] == [19]
        assert paths_in(root) == set()


# Listings


@ON_SQLITE
def test_stale_listing_makes_no_file_unknown_that_counts(
    hub: Hub, root: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_retention(hub, 40)
    old = [*DirectoryStorage.list(DirectoryStorage(root))]
    seal(hub)
    hub.erasures.request(NAME, "key-1")
    hub.erasures.run()  # The listing has files that were replaced, and lacks those that replaced them.
    expected = read_rows(hub, PARTITIONS)
    monkeypatch.setattr(DirectoryStorage, "list", lambda *_: iter(old))

    assert find_unknown(hub.store) == []
    delete_unknown(hub.store, find_unknown(hub.store))

    assert read_rows(hub, PARTITIONS) == expected
    assert list(verify(hub.store)) == []
    assert paths_in(root) == {each.path for each in files_of(hub.store, None)}


def test_file_that_counts_by_now_is_not_deleted_as_unknown(hub: Hub, root: Path, clock: VirtualClock) -> None:
    seal(hub)
    file = files_of(hub.store)[0]

    delete_unknown(hub.store, [file.path])  # Another process has taken it meanwhile.

    assert (root / file.path).exists()
    assert list(verify(hub.store)) == []


def adopted(tmp_path: Path, clock: VirtualClock, number: int = 0, **options: Any) -> list[Any]:
    """Adopt the files in a new database, and return the feed there."""
    with sealing_hub(f"sqlite:///{tmp_path}/new{number}.db", (tmp_path / "cold").as_uri(), clock=clock) as other:
        adopt(other.store, clock, **options)
        return read_rows(other, PARTITIONS)


@ON_SQLITE
def test_adoption_passes_over_files_that_a_stale_listing_still_has(
    hub: Hub, root: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seal(hub)
    old = [*DirectoryStorage.list(DirectoryStorage(root))]
    hub.erasures.request(NAME, "key-1")
    hub.erasures.run()
    new = [*DirectoryStorage.list(DirectoryStorage(root))]
    expected = [row for row in read_rows(hub, PARTITIONS) if row[1] < 29]
    monkeypatch.setattr(DirectoryStorage, "list", lambda *_: iter([*old, *new]))

    assert adopted(tmp_path, clock) == expected


@ON_SQLITE
def test_adoption_stops_if_the_listing_lacks_files(
    hub: Hub, root: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seal(hub)
    expected = [row for row in read_rows(hub, PARTITIONS) if row[1] < 29]
    all_files = {each.path: each for each in DirectoryStorage.list(DirectoryStorage(root))}
    last = next(each.path for each in files_of(hub.store) if each.start == 19)

    def without(*paths: str) -> list[StoredObject]:
        return [each for path, each in all_files.items() if path not in paths]

    publish(hub, clock, range(60, 80))
    seal(hub)
    all_files |= {each.path: each for each in DirectoryStorage.list(DirectoryStorage(root))}
    listings = [without(last), without(last)]
    with monkeypatch.context() as patch:
        patch.setattr(DirectoryStorage, "list", lambda *_: iter(listings.pop(0)))
        with pytest.raises(ColdFileDamaged, match=r"offsets 19 to 28 of order\.placed, partition 0, are in no file"):
            adopted(tmp_path, clock)
    newest = max(each.path for each in files_of(hub.store))
    listings = [without(newest), without()]
    with monkeypatch.context() as patch:
        patch.setattr(DirectoryStorage, "list", lambda *_: iter(listings.pop(0)))
        with pytest.raises(ColdTierUnavailable, match="files have appeared"):
            adopted(tmp_path, clock, 1)
    assert adopted(tmp_path, clock, 2)[: len(expected) // 2] == expected[: len(expected) // 2]


# Names and lost timelines


@ON_SQLITE
def test_of_two_event_types_of_one_name_the_later_one_is_adopted_though_its_clock_was_set_back(
    hub: Hub, root: Path, clock: VirtualClock, tmp_path: Path
) -> None:
    old = {path: path.read_bytes() for path in root.rglob("*.parquet")}
    hub.registry.delete(NAME)
    clock.advance(seconds=-5 * DAY)
    create(hub, partitions=PARTITIONS)
    publish(hub, clock, range(100, 120))
    seal(hub)
    expected = [row for row in read_rows(hub, PARTITIONS) if row[1] < 9]
    for path, body in old.items():
        path.write_bytes(body)

    assert adopted(tmp_path, clock) == expected


@pytest.mark.parametrize("sealed_before", [19, 25])
def test_files_of_the_timeline_before_a_restored_backup_are_not_adopted_where_a_later_one_has_events(
    hub: Hub, url: str, clock: VirtualClock, tmp_path: Path, sealed_before: int
) -> None:
    cold = (tmp_path / "cold").as_uri()
    hub.stop()
    backup = Backup(url)
    with sealing_hub(url, cold, clock=clock) as lost:
        publish(lost, clock, range(1_000, 1_000 + 2 * (sealed_before - 19)))
        seal(lost)
        publish(lost, clock, range(2_000, 2_040))
        seal(lost)
        lost.erasures.request(NAME, "key-1")  # Its files have a higher revision.
        lost.erasures.run()
    backup.put_back()
    with sealing_hub(url, cold, clock=clock) as other:
        with other.store.write() as tx:
            tx.registry.raise_epochs()
        for each in find_replacements(other.store, find_unknown(other.store)):
            assert relink(other.store, each, clock)
        publish(other, clock, range(3_000, 3_010))
        seal(other)
        publish(other, clock, range(4_000, 4_010))
        clock.advance(seconds=-1_000)
        seal(other)
        expected = read_rows(other, PARTITIONS)
        stop = max(each.stop for each in files_of(other.store))
    assert adopted(tmp_path, clock) == [row for row in expected if row[1] < stop]


# Erasure and retention meanwhile


def test_events_of_a_key_that_are_published_and_sealed_while_it_is_erased_stay(
    hub: Hub, url: str, root: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read_rows(hub, PARTITIONS)
    write, meanwhile = DirectoryStorage.write, iter(range(100, 130, 6))
    with sealing_hub(url, root.as_uri(), clock=clock) as other:
        other.cold.sealer.run()

        def publish_first(self: DirectoryStorage, path: str, body: Any) -> None:
            if (first := next(meanwhile, None)) is not None:
                publish(other, clock, range(first, first + 6))
                seal(other)
            write(self, path, body)

        request = hub.erasures.request(NAME, "key-1")
        monkeypatch.setattr(DirectoryStorage, "write", publish_first)
        for _ in range(3):
            hub.erasures.run()

    assert hub.erasures.find(NAME, request.id).finished_at is not None
    rows = read_rows(hub, PARTITIONS)
    assert [row for row in rows if row[1] < 30] == [row for row in before if row[2] != b"key-1"]
    later = [int(row[5][6:-1]) for row in rows if row[1] >= 30]
    assert sorted(later) == [*range(100, 130)]


def test_reader_in_a_file_that_retention_deletes_is_told_what_is_lost(
    hub: Hub, url: str, root: Path, clock: VirtualClock
) -> None:
    with sealing_hub(url, root.as_uri(), clock=clock) as other:
        reading = open_settled(other, NAME, None, [WantedPartition("cursor0", 0, "_first")], 100)
        [track] = reading.tracks
        follower = Follower(other)
        follower.page(5)
        with_retention(hub, 19)
        hub.admin.retention.run()
        for _ in range(2):
            hub.cold.sealer.run()
            clock.advance(seconds=61)
        assert [each.start for each in files_of(hub.store)] == [20, 20]
        assert paths_in(root) == {each.path for each in files_of(hub.store)}

        with pytest.raises(CursorExpired):  # A page that was begun before.
            other.log.reader.read_next_lines(reading, track, JOINED)
        with pytest.raises(CursorExpired) as caught:
            follower.page(5)
        assert caught.value.lost == 15


@pytest.mark.parametrize("seed", seeds(1, 20))
def test_relinked_files_have_what_was_sealed_and_not_erased_since_the_backup(
    url: str, clock: VirtualClock, tmp_path: Path, seed: int
) -> None:
    chance, cold = seeded(seed), (tmp_path / "cold").as_uri()
    count, erased = 0, list[bytes]()

    def act(hub: Hub) -> None:
        nonlocal count
        match chance.choice(["publish", "publish", "seal", "seal", "erase", "fetch"]):
            case "publish":
                size = chance.randint(1, 12)
                publish(hub, clock, range(count, count + size))
                count += size
            case "seal":
                seal(hub) if chance.random() < 0.7 else hub.cold.sealer.run()
                clock.advance(seconds=chance.choice([0, 61]))
            case "erase":
                erased.append(b"key-%d" % chance.randrange(3))
                hub.erasures.request(NAME, erased[-1].decode())
                hub.erasures.run()
            case "fetch" if chance.random() < 0.3:
                fetch(hub.store, NAME, clock)

    with sealing_hub(url, cold, clock=clock) as hub:
        create(hub, partitions=PARTITIONS)
        attach(hub.store)
        for _ in range(chance.randint(3, 12)):
            act(hub)
        before = read_rows(hub, PARTITIONS)
        sealed = {(each.partition_id, n) for each in files_of(hub.store) for n in range(each.start, each.stop)}
        ids = hub.registry.load(NAME).partition_ids
    backup = Backup(url)
    erased.clear()
    with sealing_hub(url, cold, clock=clock) as lost:
        for _ in range(chance.randint(1, 8)):
            act(lost)
    backup.put_back()
    with sealing_hub(url, cold, clock=clock) as other:
        with other.store.write() as tx:
            tx.registry.raise_epochs()
        replacements = find_replacements(other.store, find_unknown(other.store))
        for each in replacements:
            assert relink(other.store, each, clock)
        missing = {each.path for each in verify(other.store)}
        gone = {
            (each.partition_id, n)
            for each in files_of(other.store)
            if each.path in missing
            for n in range(each.start, each.stop)
        }
        if gone:  # They were moved back into the database that was lost.
            return
        found = read_rows(other, PARTITIONS)
        kept = [row for row in before if row[2] not in erased or (ids[row[0]], row[1]) not in sealed]
        assert {row[:2] for row in kept} <= {row[:2] for row in found}
        assert found == [row for row in before if row in found]
        if replacements:
            assert not [row for row in found if row not in kept and (ids[row[0]], row[1]) in sealed]
        settle(other, clock)
        assert read_rows(other, PARTITIONS) == found
