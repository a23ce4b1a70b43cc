"""A range leaves the database once its file was read back and verified; whatever fails, each event is there once."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from penstock.cold.storage import DirectoryStorage
from penstock.errors import ColdFileDamaged, ColdTierUnavailable, ColdTierUnsuitable, CursorExpired, OutcomeUnknown
from penstock.hub.cold.files import attach, find_unknown, verify
from penstock.hub.cold.sealing import SealingOptions
from penstock.hub.hub import Hub
from penstock.storage import open_store
from penstock.storage.cold.manifest import ColdRepository
from penstock.storage.store import Store
from penstock.testing.clock import VirtualClock
from tests.exhaustive import ON_SQLITE
from tests.promises.disk import MIB, small_disk
from tests.promises.scene import NAME, create, event, rows_of, until
from tests.sealing import EVENT_ROWS, files_of, paths_in, read_rows, seal, sealing_hub, sweep
from tests.unit.hub.forwarding import ForwardingStore, lose_answer

PARTITIONS = 2


class Crash(BaseException):
    """The process ends here, as far as the hub is concerned."""


@pytest.fixture
def hub(url: str, root: Path, clock: VirtualClock) -> Iterator[Hub]:
    """A hub with a cold tier that seals when it is told to, and an event type with some events."""
    with sealing_hub(url, root.as_uri(), clock=clock) as hub:
        create(hub, partitions=PARTITIONS)
        publish(hub, clock, 40)
        yield hub


def publish(hub: Hub, clock: VirtualClock, count: int, first: int = 0, name: str = NAME) -> None:
    for n in range(first, first + count):
        clock.advance(seconds=1)
        key = f"key-{n % 3}" if n % 4 else None
        hub.log.publish(name, [event({"n": n}, n % PARTITIONS, key=key)])


@contextmanager
def crash_at(monkeypatch: pytest.MonkeyPatch, where: type, name: str, *, after: bool) -> Iterator[None]:
    """Crash the hub when it calls a method: before, or after it is done."""
    method = getattr(where, name)

    def crash(self: Any, *args: Any, **named: Any) -> None:
        if after:
            method(self, *args, **named)
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(where, name, crash)
        patch.setattr("penstock.hub.cold.sealing.give_up", lambda *_: None)  # A killed process does not tidy up.
        yield


# Crashes


@pytest.mark.parametrize(
    "step",
    [
        (ColdRepository, "begin", True),  # True: after it is done.
        (DirectoryStorage, "write", False),
        (DirectoryStorage, "write", True),
        (DirectoryStorage, "open", True),
        (ColdRepository, "seal", True),
        (ColdRepository, "set_stop", True),
    ],
)
def test_crash_while_sealing_loses_nothing_and_leaves_nothing_behind(
    hub: Hub,
    root: Path,
    clock: VirtualClock,
    monkeypatch: pytest.MonkeyPatch,
    step: tuple[type, str, bool],
) -> None:
    where, name, after = step
    hub.cold.sealer.run()
    publish(hub, clock, 20, first=40)
    before = read_rows(hub, PARTITIONS)

    with crash_at(monkeypatch, where, name, after=after), pytest.raises(Crash):
        hub.cold.sealer.run()
    assert read_rows(hub, PARTITIONS) == before
    sweep(hub.store)
    assert read_rows(hub, PARTITIONS) == before

    for _ in range(3):
        clock.advance(seconds=3_700)
        seal(hub)
    assert read_rows(hub, PARTITIONS) == before
    assert paths_in(root) == {each.path for each in files_of(hub.store)}
    assert find_unknown(hub.store) == []
    assert files_of(hub.store, "writing") == files_of(hub.store, "removed") == []


@pytest.mark.parametrize("number", range(1, 6))
def test_sealing_and_erasing_whose_commit_is_not_answered_lose_nothing(
    hub: Hub, url: str, root: Path, clock: VirtualClock, number: int
) -> None:
    store = ForwardingStore(open_store(url, root.as_uri()))
    with closing(store):
        other = Hub(cast(Store, store), clock=clock, sealing=SealingOptions(0.0))
        for act in (other.cold.sealer.run, other.erasures.run):
            before = read_rows(hub, PARTITIONS)
            if act == other.erasures.run:
                hub.erasures.request(NAME, "key-1")
                before = [each for each in before if each[2] != b"key-1"]
            numbers = count(1)
            store.after_commit = lambda numbers=numbers: lose_answer() if next(numbers) == number else None
            with suppress(OutcomeUnknown):
                act()
            store.after_commit = lambda: None
            for _ in range(3):
                seal(hub)
                hub.erasures.run()
                clock.advance(seconds=3_700)

            assert read_rows(hub, PARTITIONS) == before
            assert list(verify(hub.store)) == []
            assert paths_in(root) == {each.path for each in files_of(hub.store)}


def test_file_that_another_hub_gave_up_while_it_was_written_is_not_left_behind(
    hub: Hub, url: str, root: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read_rows(hub, PARTITIONS)
    write = DirectoryStorage.write
    with sealing_hub(url, root.as_uri(), clock=clock, after=None) as other, monkeypatch.context() as patch:
        other.cold.sealer.run()

        def write_late(self: DirectoryStorage, path: str, body: Any) -> None:
            if path.endswith(".parquet"):
                for _ in range(2):
                    clock.advance(seconds=3_700)
                    other.cold.sealer.run()
            write(self, path, body)

        patch.setattr(DirectoryStorage, "write", write_late)
        hub.cold.sealer.run()

    assert paths_in(root) == set()
    seal(hub)
    assert read_rows(hub, PARTITIONS) == before


def test_events_leave_the_database_once_sealed_but_for_the_last_of_each_partition(hub: Hub, url: str) -> None:
    assert len(rows_of(url, EVENT_ROWS)) == 40

    seal(hub)

    assert [offset for _, offset in rows_of(url, EVENT_ROWS)] == [19, 19]
    assert [(each.start, each.stop, each.content.events) for each in files_of(hub.store)] == [(0, 19, 19)] * 2


@ON_SQLITE
def test_file_that_reads_back_differently_is_not_recorded(
    hub: Hub, url: str, root: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read_rows(hub, PARTITIONS)
    write = DirectoryStorage.write

    def cut(self: DirectoryStorage, path: str, body: Any) -> None:
        write(self, path, body if path.endswith(".json") else bytes(body)[:-100])

    with monkeypatch.context() as patch:
        patch.setattr(DirectoryStorage, "write", cut)
        with pytest.raises(ColdTierUnavailable, match="cannot be read back"):
            hub.cold.sealer.run()

    assert files_of(hub.store) == []
    assert len(rows_of(url, EVENT_ROWS)) == 40
    clock.advance(seconds=61)
    seal(hub)
    assert paths_in(root) == {each.path for each in files_of(hub.store)}
    assert read_rows(hub, PARTITIONS) == before


def test_two_hubs_that_seal_at_once_write_one_history(url: str, hub: Hub, root: Path, clock: VirtualClock) -> None:
    before = read_rows(hub, PARTITIONS)
    with sealing_hub(url, root.as_uri(), clock=clock) as other:
        threads = [threading.Thread(target=seal, args=(each,)) for each in (hub, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seal(hub)

        assert [read_rows(each, PARTITIONS) for each in (hub, other)] == [before, before]
    assert [(each.start, each.stop) for each in files_of(hub.store)] == [(0, 19)] * 2
    clock.advance(seconds=61)
    hub.cold.sealer.run()
    assert paths_in(root) == {each.path for each in files_of(hub.store)}


def test_event_erased_while_its_range_is_being_sealed_is_in_no_file(
    hub: Hub, root: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = DirectoryStorage.write

    def erase_first(self: DirectoryStorage, path: str, body: Any) -> None:
        if path.endswith(".parquet") and not hub.erasures.list(NAME):
            hub.erasures.request(NAME, "key-1")
            hub.erasures.run()
        write(self, path, body)

    with monkeypatch.context() as patch:
        patch.setattr(DirectoryStorage, "write", erase_first)
        seal(hub)
    clock.advance(seconds=61)
    seal(hub)

    found = read_rows(hub, PARTITIONS)
    assert found and b"key-1" not in {key for _, _, key, *_ in found}
    assert paths_in(root) == {each.path for each in files_of(hub.store)}
    assert not [path for path in root.rglob("*.parquet") if b"key-1" in keys_in(path)]


def keys_in(path: Path) -> set[bytes]:
    import pyarrow.parquet as pq

    return {each.encode() for each in pq.read_table(path)["key"].to_pylist() if each}


def test_range_that_cannot_be_sealed_keeps_no_others_waiting(
    hub: Hub, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(hub, "a.first", partitions=PARTITIONS)
    publish(hub, clock, 10, name="a.first")
    write = DirectoryStorage.write

    def refuse(self: DirectoryStorage, path: str, body: Any) -> None:
        if path.startswith("a.first"):
            raise ValueError("these events cannot be written")
        write(self, path, body)

    with monkeypatch.context() as patch:
        patch.setattr(DirectoryStorage, "write", refuse)
        seal(hub)

    assert {each.path.partition("/")[0] for each in files_of(hub.store)} == {NAME}


# Trouble with the storage


def test_hot_events_are_read_and_published_while_the_storage_is_away(
    hub: Hub, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, root: Path, url: str
) -> None:
    seal(hub)
    publish(hub, clock, 20, first=40)
    before = read_rows(hub, PARTITIONS)

    def away(*_: Any) -> None:
        raise ColdTierUnavailable(location="here", reason="it is away", retry_after=5)

    with sealing_hub(url, root.as_uri(), clock=clock) as other, monkeypatch.context() as patch:
        patch.setattr(DirectoryStorage, "open", away)
        patch.setattr(DirectoryStorage, "write", away)
        with pytest.raises(ColdTierUnavailable) as caught:
            read_rows(other, PARTITIONS)
        assert caught.value.retry_after
        with pytest.raises(ColdTierUnavailable):
            other.cold.sealer.run()
        publish(other, clock, 2, first=60)
        assert other.log.find_offsets_since(NAME, clock() - 500_000)[1] == [31, 30]

    assert read_rows(hub, PARTITIONS)[: len(before) // 2] == before[: len(before) // 2]


@ON_SQLITE
def test_nothing_is_sealed_in_a_directory_in_place_of_the_mounted_one_and_reads_wait_for_that(
    hub: Hub, root: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.storage.cold.tier.AWAY_SECONDS", 0.0)
    before = read_rows(hub, PARTITIONS)
    seal(hub)
    aside = root.rename(root.with_name("aside"))
    root.mkdir()
    publish(hub, clock, 20, first=40)

    with pytest.raises(ColdTierUnavailable, match="mount it again"):
        read_rows(hub, PARTITIONS)
    with pytest.raises(ColdTierUnavailable, match="mount it again"):
        hub.cold.sealer.run()
    assert [*root.iterdir()] == []

    root.rmdir()
    aside.rename(root)
    seal(hub)
    assert [row for row in read_rows(hub, PARTITIONS) if row[1] < 20] == before
    assert paths_in(root) == {each.path for each in files_of(hub.store)}
    assert len(files_of(hub.store)) == 2 * PARTITIONS


@ON_SQLITE
def test_file_that_was_being_written_while_its_directory_was_unmounted_does_not_count(
    hub: Hub, root: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read_rows(hub, PARTITIONS)
    attach(hub.store)
    write = DirectoryStorage.write

    def unmount(self: DirectoryStorage, path: str, body: Any) -> None:
        root.rename(root.with_name("aside"))
        write(self, path, body)

    with monkeypatch.context() as patch:
        patch.setattr(DirectoryStorage, "write", unmount)
        with pytest.raises(ColdTierUnavailable, match="mount it again"):
            hub.cold.sealer.run()

    assert files_of(hub.store) == []
    assert read_rows(hub, PARTITIONS) == before


@ON_SQLITE
def test_sealing_to_a_full_disk_loses_nothing_and_goes_on_once_there_is_room(
    url: str, tmp_path: Path, clock: VirtualClock
) -> None:
    with (
        small_disk(tmp_path / "disk", MIB) as disk,
        sealing_hub(url, (disk.path / "cold").as_uri(), clock=clock) as hub,
    ):
        root = disk.path / "cold"
        create(hub, partitions=PARTITIONS)
        publish(hub, clock, 40)
        before = read_rows(hub, PARTITIONS)
        attach(hub.store)
        disk.fill(leave=0)

        with pytest.raises(ColdTierUnavailable):
            hub.cold.sealer.run()

        assert [*root.rglob("*.parquet*")] == []
        assert read_rows(hub, PARTITIONS) == before
        disk.make_room()
        clock.advance(seconds=61)
        seal(hub)
        assert read_rows(hub, PARTITIONS) == before
        assert paths_in(root) == {each.path for each in files_of(hub.store)} != set()
        assert find_unknown(hub.store) == []


@ON_SQLITE
def test_sealing_to_storage_that_hangs_is_given_up_and_goes_on_once_the_storage_is_back(
    hub: Hub, root: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read_rows(hub, PARTITIONS)
    attach(hub.store)
    write, is_back = DirectoryStorage.write, threading.Event()

    def hang(self: DirectoryStorage, path: str, body: Any) -> None:
        assert is_back.wait(300)
        write(self, path, body)

    with monkeypatch.context() as patch:
        patch.setattr(DirectoryStorage, "write", hang)
        patch.setattr("penstock.storage.cold.tier.WRITE_SECONDS", 0.01)
        for _ in range(2):
            with pytest.raises(ColdTierUnavailable, match=r"it has not finished within 0\.\d+ seconds"):
                hub.cold.sealer.run()
        with pytest.raises(ColdTierUnavailable, match="it has not finished what was asked of it before"):
            hub.cold.sealer.run()  # Threads do not pile up.
        assert hub.cold.sealer.overdue_since is not None
        assert read_rows(hub, PARTITIONS) == before
        is_back.set()
        until(lambda: not hub.store.cold._overdue, "what was written late is deleted")
    assert paths_in(root) == set()

    clock.advance(seconds=61)
    seal(hub)
    assert read_rows(hub, PARTITIONS) == before
    assert paths_in(root) == {each.path for each in files_of(hub.store)} != set()
    assert find_unknown(hub.store) == files_of(hub.store, "removed") == []


def flip(path: Path) -> None:
    body = bytearray(path.read_bytes())
    body[len(body) // 4] ^= 255
    path.write_bytes(body)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def replace(path: Path) -> None:
    pa.parquet.write_table(pa.table({"a": [1]}), path)


@ON_SQLITE
def test_file_of_another_partition_in_its_place_is_not_served(hub: Hub, url: str, root: Path) -> None:
    seal(hub)
    first, second = files_of(hub.store)
    (root / first.path).write_bytes((root / second.path).read_bytes())

    with sealing_hub(url, root.as_uri()) as other, pytest.raises(ColdFileDamaged, match="it is another file"):
        read_rows(other, 1)


@pytest.mark.parametrize("damage", [flip, cut, empty, replace, Path.unlink])
@ON_SQLITE
def test_damaged_file_is_named_and_not_served(
    hub: Hub, url: str, root: Path, clock: VirtualClock, damage: Callable[[Path], Any]
) -> None:
    seal(hub)
    file = files_of(hub.store)[0]
    damage(root / file.path)

    with sealing_hub(url, root.as_uri(), clock=clock) as other:
        with pytest.raises(ColdFileDamaged) as caught:
            read_rows(other, 1)
        assert caught.value.path == file.path
        assert [each.path for each in verify(other.store)] == [file.path]


@ON_SQLITE
def test_part_that_a_killed_hub_has_left_is_deleted_with_its_file(
    hub: Hub, root: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    attach(hub.store)
    with crash_at(monkeypatch, DirectoryStorage, "write", after=False), pytest.raises(Crash):
        hub.cold.sealer.run()
    [writing] = files_of(hub.store, "writing")
    part = root / writing.path
    part = part.with_name(f".{part.name}.0a1b2c3d.part")
    part.parent.mkdir(parents=True)
    part.write_bytes(b"PAR1")

    for _ in range(3):
        clock.advance(seconds=3_700)
        seal(hub)

    assert not part.exists()


@ON_SQLITE
def test_files_of_others_in_the_cold_tier_are_left_alone(hub: Hub, root: Path) -> None:
    seal(hub)
    others = [root / "backups" / "db.dump", root / "shop" / files_of(hub.store)[0].path, root / "a.parquet"]
    for each in others:
        each.parent.mkdir(parents=True, exist_ok=True)
        each.write_bytes(b"PAR1")

    assert find_unknown(hub.store) == []


@ON_SQLITE
def test_expiry_looks_into_more_files_than_fit_into_memory(
    hub: Hub, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.storage.cold.tier.GROUP_BYTES_MAX", 1)
    seal(hub)
    with_limits(hub, retention_time=20_500)

    hub.admin.retention.run()

    assert len(read_rows(hub, PARTITIONS)) == 21


# Whose cold tier it is


def test_hub_without_the_cold_tier_of_its_database_does_not_start(hub: Hub, url: str, root: Path) -> None:
    seal(hub)

    with sealing_hub(url, None) as other, pytest.raises(ColdTierUnsuitable, match="none was named") as caught:
        other.start()
    assert caught.value.fields["location"] == root.as_uri()


def test_cold_tier_of_another_database_is_refused(hub: Hub, root: Path, tmp_path: Path) -> None:
    seal(hub)

    url = f"sqlite:///{tmp_path}/other.db"
    with sealing_hub(url, root.as_uri()) as other:
        with pytest.raises(ColdTierUnsuitable, match="belongs to another database"):
            other.start()
        create(other, partitions=PARTITIONS)
        publish(other, VirtualClock(), 10)
        with pytest.raises(ColdTierUnsuitable, match="belongs to another database"):
            other.cold.sealer.run()
    assert paths_in(root) == {each.path for each in files_of(hub.store)}


def test_cold_tier_that_another_database_has_taken_at_the_same_time_is_not_used(hub: Hub, root: Path) -> None:
    attach(hub.store)
    (root / "penstock-cold-tier.json").write_text('{"id": "another", "layout": 1}')

    with pytest.raises(ColdTierUnsuitable, match="belongs to another database"):
        hub.cold.sealer.run()
    assert paths_in(root) == set()


@ON_SQLITE
def test_empty_storage_in_place_of_the_cold_tier_is_refused(hub: Hub, url: str, tmp_path: Path) -> None:
    seal(hub)

    with (
        sealing_hub(url, (tmp_path / "elsewhere").as_uri()) as other,
        pytest.raises(ColdTierUnsuitable, match="there is no cold tier"),
    ):
        other.start()


# The end of events


def test_expired_events_go_from_files_and_readers_are_told(hub: Hub, root: Path, clock: VirtualClock) -> None:
    with_limits(hub, retention_time=30_000)
    publish(hub, clock, 40, first=40)
    seal(hub)
    first = read_rows(hub, PARTITIONS)

    clock.advance(seconds=3)
    hub.admin.retention.run()
    rows = read_rows(hub, PARTITIONS)
    assert rows == [each for each in first if each[-1] * 1e6 >= clock() - 30_000_000]
    clock.advance(seconds=40)
    hub.admin.retention.run()
    for _ in range(2):
        seal(hub)
        clock.advance(seconds=61)

    assert read_rows(hub, PARTITIONS) == []
    assert paths_in(root) == set()
    assert files_of(hub.store, None) == []


def with_limits(hub: Hub, **options: Any) -> None:
    """Set options of the event type."""
    feed = hub.registry.load(NAME)
    hub.registry.replace(NAME, feed.event_type.whole | {"options": options})


def test_files_of_a_dropped_event_type_are_deleted_and_one_of_its_name_begins_empty(
    hub: Hub, root: Path, clock: VirtualClock
) -> None:
    seal(hub)
    hub.registry.delete(NAME)
    create(hub, partitions=PARTITIONS)

    assert read_rows(hub, PARTITIONS) == []
    publish(hub, clock, 20)
    before = read_rows(hub, PARTITIONS)
    for _ in range(2):
        seal(hub)
        clock.advance(seconds=61)

    assert read_rows(hub, PARTITIONS) == before
    assert paths_in(root) == {each.path for each in files_of(hub.store, None)}
    assert [each.stop for each in files_of(hub.store)] == [9, 9]


def test_files_of_a_dropped_event_type_are_deleted_if_the_last_events_were_erased_before(
    hub: Hub, root: Path, clock: VirtualClock
) -> None:
    for partition in range(PARTITIONS):
        hub.log.publish(NAME, [event({"n": 99}, partition, key="key-99")])
    clock.advance(seconds=1)
    seal(hub)
    hub.erasures.request(NAME, "key-99")
    hub.erasures.run()

    hub.registry.delete(NAME)
    for _ in range(2):
        seal(hub)
        clock.advance(seconds=61)

    assert paths_in(root) == set()
    assert files_of(hub.store, None) == []


def test_reader_whose_sealed_events_have_expired_is_told_how_many(hub: Hub, clock: VirtualClock) -> None:
    from tests.promises.scene import Follower

    seal(hub)
    follower = Follower(hub)
    follower.page(5)
    with_limits(hub, retention_time=10_000)
    hub.admin.retention.run()

    with pytest.raises(CursorExpired) as caught:
        follower.page(5)
    assert caught.value.lost == 10
