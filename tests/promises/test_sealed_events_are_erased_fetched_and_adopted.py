"""Sealed events are erased for good, moved back into the database, and made feeds of once the database is lost."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.cold.parquet import FileWriter
from penstock.cold.storage import DirectoryStorage
from penstock.core.events.event import NewEvent
from penstock.errors import ColdFileDamaged, ColdTierUnsuitable, CursorExpired, EventTypeExists
from penstock.hub.cold.adopting import adopt
from penstock.hub.cold.fetching import fetch
from penstock.hub.cold.files import find_unknown, list_files, verify
from penstock.hub.cold.relinking import find_replacements, relink
from penstock.hub.cold.replacing import replace_by_empty
from penstock.hub.cold.sealing import ABANDONED_SECONDS, Sealer
from penstock.hub.erasure import Erasures
from penstock.hub.hub import Hub
from penstock.hub.subscriptions.dead_letters import DEAD_LETTERS
from penstock.storage import open_store
from penstock.storage.log.erasure import StoredErasure
from penstock.testing.clock import VirtualClock
from tests.exhaustive import ON_SQLITE
from tests.promises.backup import Backup
from tests.promises.scene import NAME, Follower, create, event, rows_of, until
from tests.sealing import EVENT_ROWS, files_of, paths_in, read_rows, seal, sealing_hub, sweep

PARTITIONS = 2


@pytest.fixture
def hub(url: str, root: Path, clock: VirtualClock) -> Iterator[Hub]:
    """A hub whose event type has sealed events, and some that are not."""
    with sealing_hub(url, root.as_uri(), clock=clock) as hub:
        create(hub, partitions=PARTITIONS)
        publish(hub, clock, range(60))
        seal(hub)
        publish(hub, clock, range(60, 90))
        yield hub


def publish(hub: Hub, clock: VirtualClock, numbers: range) -> None:
    """Publish numbers, three a second."""
    for start in range(0, len(numbers), 3):
        clock.advance(seconds=1)
        hub.log.publish(NAME, [numbered(n) for n in numbers[start : start + 3]])


def numbered(n: int) -> NewEvent:
    """Return the event of a number: some have a key, some have headers."""
    given: dict[str, Any] = {"key": f"key-{n % 5}"} if n % 4 else {}
    if n % 7 == 0:
        given |= {"headers": {"trace": f"{n}"}}
    return event({"n": n}, n % PARTITIONS, **given)


def bytes_in(root: Path) -> bytes:
    """Return what all files of the cold tier have, decompressed."""
    return b"\n".join(repr(pq.read_table(path).to_pylist()).encode() for path in sorted(root.rglob("*.parquet")))


# Erasure


def test_events_of_a_key_are_erased_from_files_and_database_and_others_stay(hub: Hub, root: Path) -> None:
    before = read_rows(hub, PARTITIONS)
    request = hub.erasures.request(NAME, "key-1")

    hub.erasures.run()

    found = hub.erasures.find(NAME, request.id)
    gone = [each for each in before if each[2] == b"key-1"]
    assert found.finished_at is not None
    assert found.erased.events == len(gone) > 0
    assert read_rows(hub, PARTITIONS) == [each for each in before if each not in gone]
    assert b"key-1" not in bytes_in(root)
    assert b"key-2" in bytes_in(root)
    assert paths_in(root) == {each.path for each in files_of(hub.store, None)}


def test_events_that_were_sealed_and_are_still_in_the_database_are_erased_from_both_and_counted_once(
    hub: Hub, url: str, root: Path
) -> None:
    before = read_rows(hub, PARTITIONS)
    hub.cold.sealer.run()  # Without a sweep.
    request = hub.erasures.request(NAME, "key-1")

    hub.erasures.run()

    erased = hub.erasures.find(NAME, request.id).erased.events
    assert erased == sum(each[2] == b"key-1" for each in before)
    assert b"key-1" not in bytes_in(root)
    assert rows_of(url, "SELECT count(*) FROM penstock_event WHERE key = 'key-1'") == [(0,)]
    sweep(hub.store)
    assert read_rows(hub, PARTITIONS) == [each for each in before if each[2] != b"key-1"]


def test_events_published_after_the_request_stay(hub: Hub, clock: VirtualClock) -> None:
    hub.erasures.request(NAME, "key-1")
    publish(hub, clock, range(90, 100))
    seal(hub)

    hub.erasures.run()

    found = [row[5] for row in read_rows(hub, PARTITIONS) if row[2] == b"key-1"]
    assert found == [b'{"n": 91}']


@ON_SQLITE
def test_file_whose_events_are_all_erased_is_read_as_empty(url: str, root: Path, clock: VirtualClock, hub: Hub) -> None:
    create(hub, "order.paid", partitions=1)
    hub.log.publish("order.paid", [event({"n": n}, key="key-1") for n in range(9)] + [event({"n": 9}, key="key-2")])
    clock.advance(seconds=1)
    seal(hub)
    hub.erasures.request("order.paid", "key-1")
    hub.erasures.run()

    assert [row[5] for row in read_rows(hub, 1, "order.paid")] == [b'{"n": 9}']
    follower = Follower(hub, (0,), "order.paid")
    assert follower.all(3) == [{"n": 9}]
    assert hub.log.find_offsets_since("order.paid", 1)[1] in ([0], [9])


@ON_SQLITE
def test_dead_letters_of_the_key_are_erased_from_files(hub: Hub, root: Path, clock: VirtualClock) -> None:
    create(hub, DEAD_LETTERS, partitions=1)
    for n in range(6):
        letter = {"event_type": NAME if n % 2 else "another.one", "n": n}
        hub.log.publish(DEAD_LETTERS, [event(letter, key="key-1")])
    clock.advance(seconds=1)
    seal(hub)
    request = hub.erasures.request(NAME, "key-1")
    hub.erasures.run()

    assert hub.erasures.find(NAME, request.id).erased.dead_letters == 3
    assert [row[1] for row in read_rows(hub, 1, DEAD_LETTERS)] == [0, 2, 4]


def test_erasure_that_has_begun_shows_no_event_again_though_a_file_has_it(hub: Hub) -> None:
    before = read_rows(hub, PARTITIONS)
    feed = hub.registry.load(NAME)
    gone = [row[1] for row in before if row[0] == 0 and row[2] == b"key-1" and row[1] < 29]
    with hub.store.write() as tx:
        tx.removal.remove(feed.partition_ids[0], gone)

    assert read_rows(hub, PARTITIONS) == [row for row in before if (row[0], row[1]) not in {(0, each) for each in gone}]


@ON_SQLITE
def test_damaged_file_stops_the_erasures_of_no_other_event_type(hub: Hub, root: Path) -> None:
    create(hub, "order.paid", partitions=1)
    hub.log.publish("order.paid", [event({"n": n}, key="key-1") for n in range(9)])
    (root / files_of(hub.store)[0].path).unlink()
    stuck = hub.erasures.request(NAME, "key-1")
    other = hub.erasures.request("order.paid", "key-1")

    hub.erasures.run()

    assert hub.erasures.find(NAME, stuck.id).finished_at is None
    assert hub.erasures.find("order.paid", other.id).finished_at is not None


@ON_SQLITE
def test_erasure_is_finished_once_the_events_of_a_lost_file_are_given_up(
    hub: Hub, root: Path, clock: VirtualClock
) -> None:
    lost = next(each for each in list_files(hub.store) if each.partition == 0)
    (root / lost.file.path).unlink()
    request = hub.erasures.request(NAME, "key-1")
    hub.erasures.run()
    assert hub.erasures.find(NAME, request.id).finished_at is None

    assert replace_by_empty(hub.store, lost, clock) == lost.file.content.events

    hub.erasures.run()
    assert hub.erasures.find(NAME, request.id).finished_at is not None
    rows = read_rows(hub, PARTITIONS)
    assert not any(lost.file.start <= row[1] < lost.file.stop for row in rows if row[0] == 0)
    assert {row[0] for row in rows} == {0, 1}
    assert [*verify(hub.store)] == []


def test_events_that_are_fetched_while_their_key_is_erased_are_erased(
    hub: Hub, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_files = Erasures._list_files
    fetched = []

    def fetch_first(self: Erasures, *args: Any) -> Any:
        if not fetched:
            fetched.append(fetch(hub.store, NAME, clock))
        return list_files(self, *args)

    monkeypatch.setattr(Erasures, "_list_files", fetch_first)
    request = hub.erasures.request(NAME, "key-1")
    for _ in range(2):
        hub.erasures.run()

    assert hub.erasures.find(NAME, request.id).finished_at is not None
    assert fetched[0] > 0
    assert not [row for row in read_rows(hub, PARTITIONS) if row[2] == b"key-1"]


def test_erasure_waits_for_the_file_that_a_killed_hub_was_writing_and_deletes_it_once_it_is_given_up(
    hub: Hub, url: str, root: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(hub, clock, range(90, 120))
    with sealing_hub(url, root.as_uri(), clock=clock) as killed, monkeypatch.context() as patch:
        patch.setattr(Sealer, "_record", crash)
        patch.setattr("penstock.hub.cold.sealing.give_up", lambda *_: None)  # A killed process does not tidy up.
        with pytest.raises(CrashError):
            killed.cold.sealer.run()
    [writing] = files_of(hub.store, "writing")
    assert writing.path in paths_in(root)
    request = hub.erasures.request(NAME, "key-1")

    hub.erasures.run()

    waiting = hub.erasures.find(NAME, request.id)
    assert waiting.finished_at is None
    assert writing.path in (hub.erasures.find_wait(waiting) or "")
    assert not [row for row in read_rows(hub, PARTITIONS) if row[2] == b"key-1"]
    clock.advance(seconds=ABANDONED_SECONDS + 1)
    hub.cold.sealer.run({"no.event.type"})
    hub.erasures.run()
    finished = hub.erasures.find(NAME, request.id)
    assert finished.finished_at is not None
    assert hub.erasures.find_wait(finished) is None
    assert b"key-1" not in bytes_in(root)
    assert paths_in(root) == {each.path for each in files_of(hub.store, None)}


class CrashError(BaseException):
    """The process ends here, as far as the hub is concerned."""


def crash(*_: object) -> None:
    raise CrashError


def test_files_that_wait_to_be_deleted_are_deleted_before_an_erasure_is_finished(
    hub: Hub, root: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("penstock.hub.cold.fetching.delete_files", lambda *_: None)
        fetch(hub.store, NAME, clock)
    assert files_of(hub.store, "removed")
    assert b"key-1" in bytes_in(root)
    request = hub.erasures.request(NAME, "key-1")

    hub.erasures.run()

    assert hub.erasures.find(NAME, request.id).finished_at is not None
    assert paths_in(root) == set()
    assert files_of(hub.store, "removed") == []


def test_range_whose_events_are_erased_after_it_was_read_is_not_written(
    hub: Hub, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(hub, clock, range(90, 120))
    encode, requests = Sealer._encode, list[StoredErasure]()
    written = note_written(monkeypatch)

    def encode_and_erase(self: Sealer, wanted: Any) -> Any:
        encoded = encode(self, wanted)
        if not requests:
            requests.append(hub.erasures.request(NAME, "key-1"))
            hub.erasures.run()
            assert hub.erasures.find(NAME, requests[0].id).finished_at is not None
            written.clear()
        return encoded

    monkeypatch.setattr(Sealer, "_encode", encode_and_erase)
    seal(hub)

    assert requests and written
    assert "key-1" not in {key for body in written for key in keys_of(body)}


def test_file_that_another_erasure_replaces_after_it_was_read_is_not_replaced_by_one_with_erased_events(
    hub: Hub, url: str, root: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish, requests = FileWriter.finish, list[StoredErasure]()
    written = note_written(monkeypatch)

    def finish_and_erase_another(*given: Any) -> Any:
        finished = finish(*given)
        if not requests:
            requests.append(hub.erasures.request(NAME, "key-2"))
            hub.erasures.run()
            assert hub.erasures.find(NAME, requests[0].id).finished_at is not None
            written.clear()
        return finished

    hub.erasures.request(NAME, "key-1")
    monkeypatch.setattr(FileWriter, "finish", finish_and_erase_another)
    with sealing_hub(url, root.as_uri(), clock=clock) as other:
        other.erasures.run()

    assert requests
    assert "key-2" not in {key for body in written for key in keys_of(body)}


def note_written(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the contents of the events' files that are written from now on."""
    write, written = DirectoryStorage.write, list[Any]()

    def write_and_note(self: DirectoryStorage, path: str, body: Any) -> None:
        if path.endswith(".parquet"):
            written.append(body)
        write(self, path, body)

    monkeypatch.setattr(DirectoryStorage, "write", write_and_note)
    return written


def keys_of(body: Any) -> set[str]:
    return {*pq.read_table(pa.BufferReader(body))["key"].to_pylist()}


@pytest.mark.parametrize("deletes", ["erasure", "fetch"])
@ON_SQLITE
def test_hub_closes_files_that_another_process_has_deleted_in_its_next_round(
    hub: Hub, url: str, root: Path, clock: VirtualClock, deletes: str
) -> None:
    with sealing_hub(url, root.as_uri(), clock=clock, after=None) as other:
        read_rows(other, PARTITIONS)
        if deletes == "erasure":
            hub.erasures.request(NAME, "key-1")
            hub.erasures.run()
        else:
            fetch(hub.store, NAME, clock)
        until(lambda: len(deleted_and_open(root)) == PARTITIONS, "only the other hub has them open")

        other.cold.sealer.run()

        until(lambda: not deleted_and_open(root), "nobody has them open")
        assert read_rows(other, PARTITIONS) == read_rows(hub, PARTITIONS)


def deleted_and_open(root: Path) -> list[str]:
    """Return the deleted files of a directory that this process has open."""
    opened = [str(each.resolve()) for each in Path("/proc/self/fd").iterdir()]
    return [each for each in opened if each.startswith(f"{root}/") and each.endswith(" (deleted)")]


# Fetching


def test_fetched_events_are_in_the_database_as_they_were(hub: Hub, url: str, root: Path, clock: VirtualClock) -> None:
    before = read_rows(hub, PARTITIONS)
    hub.erasures.request(NAME, "key-1")
    hub.erasures.run()
    left = [each for each in before if each[2] != b"key-1"]

    assert fetch(hub.store, NAME, clock) == len([each for each in left if each[1] < 29])

    assert paths_in(root) == set()
    assert files_of(hub.store, None) == []
    assert len(rows_of(url, EVENT_ROWS)) == len(left)
    with closing(open_store(url)) as store:
        assert read_rows(Hub(store), PARTITIONS) == left
    seal(hub)
    assert read_rows(hub, PARTITIONS) == left


def test_interrupted_fetch_loses_nothing_and_goes_on(
    hub: Hub, url: str, root: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.hub.cold.fetching.FETCHED_EVENTS", 7)
    before = read_rows(hub, PARTITIONS)

    class Interrupt(BaseException): ...

    def interrupt(_: int) -> None:
        raise Interrupt

    for _ in range(3):
        with pytest.raises(Interrupt):
            fetch(hub.store, NAME, clock, interrupt)
        sweep(hub.store)
        assert read_rows(hub, PARTITIONS) == before
    seal(hub)  # Someone seals again meanwhile.
    assert read_rows(hub, PARTITIONS) == before
    fetch(hub.store, NAME, clock)

    assert read_rows(hub, PARTITIONS) == before
    assert len(rows_of(url, EVENT_ROWS)) == 90
    assert files_of(hub.store) == []


# Adopting


@pytest.fixture
def new_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/new.db"


def test_feeds_are_rebuilt_from_the_files_of_a_lost_database(
    hub: Hub, root: Path, clock: VirtualClock, new_url: str
) -> None:
    seal(hub)
    hub.erasures.request(NAME, "key-1")
    hub.erasures.run()
    before = read_rows(hub, PARTITIONS)
    follower = Follower(hub)
    follower.page(5)

    with sealing_hub(new_url, root.as_uri(), clock=clock) as other:
        adopted = adopt(other.store, clock)

        # The last event of each partition had not been sealed: it is lost with the database.
        assert [(each.partition, each.start, each.stop) for each in adopted] == [(0, 0, 44), (1, 0, 44)]
        assert read_rows(other, PARTITIONS) == [each for each in before if each[1] < 44]
        follower.hub = other
        with pytest.raises(CursorExpired):
            follower.page(5)
        publish(other, clock, range(100, 120))
        seal(other)
        assert [row[1] for row in read_rows(other, PARTITIONS)][-10:] == [*range(44, 54)]
        with pytest.raises(ColdTierUnsuitable, match="has a cold tier already"):
            adopt(other.store, clock)


def test_files_from_before_a_restored_backup_or_an_adoption_are_adopted_too(
    hub: Hub, root: Path, clock: VirtualClock, new_url: str, tmp_path: Path
) -> None:
    with hub.store.write() as tx:
        tx.registry.raise_epochs()
    publish(hub, clock, range(90, 120))
    clock.advance(seconds=1)
    seal(hub)
    before = [row for row in read_rows(hub, PARTITIONS) if row[1] < 59]
    for number in range(2):
        with sealing_hub(new_url.replace("new", f"new{number}"), root.as_uri(), clock=clock) as other:
            adopted = adopt(other.store, clock)
            assert [each.start for each in adopted] == [0, 0]
            assert read_rows(other, PARTITIONS)[: len(before) // 2] == before[: len(before) // 2]


@ON_SQLITE
def test_leftovers_of_killed_hubs_and_older_versions_of_files_are_not_adopted(
    hub: Hub, root: Path, clock: VirtualClock, new_url: str
) -> None:
    seal(hub)
    old = {path: path.read_bytes() for path in root.rglob("*.parquet")}
    hub.erasures.request(NAME, "key-1")
    hub.erasures.run()
    before = read_rows(hub, PARTITIONS)
    for path, body in old.items():
        path.write_bytes(body)
    (root / NAME / "0" / "0-1-aa.parquet.part").write_bytes(b"PAR1")

    with sealing_hub(new_url, root.as_uri(), clock=clock) as other:
        adopt(other.store, clock)

        assert read_rows(other, PARTITIONS) == [each for each in before if each[1] < 44]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def flip(path: Path) -> None:
    body = bytearray(path.read_bytes())
    body[20:40] = bytes(20)
    path.write_bytes(body)


@pytest.mark.parametrize(
    "damage",
    [(Path.unlink, "offsets 29 to .* are in no file"), (cut, "cannot be read"), (flip, "cannot be read")],
    ids=["missing", "cut", "flipped"],
)
@ON_SQLITE
def test_missing_or_damaged_file_is_an_error_unless_that_is_accepted(
    hub: Hub, root: Path, clock: VirtualClock, new_url: str, damage: tuple[Callable[[Path], Any], str]
) -> None:
    publish(hub, clock, range(90, 120))
    seal(hub)
    publish(hub, clock, range(120, 150))
    seal(hub)
    before = read_rows(hub, PARTITIONS)
    middle = next(each for each in files_of(hub.store) if each.start == 29)
    act, says = damage
    act(root / middle.path)

    with sealing_hub(new_url, root.as_uri(), clock=clock) as other:
        with pytest.raises(ColdFileDamaged, match=says):
            adopt(other.store, clock)
        assert other.store.cold is not None and files_of(other.store, None) == []
        adopted = adopt(other.store, clock, accepts_missing=True)

        assert adopted[0].missing == [(29, middle.stop)]
        left = [each for each in before if (each[0] or not 29 <= each[1] < middle.stop) and each[1] < 74]
        assert read_rows(other, PARTITIONS) == left
        assert Follower(other, (0, 1)).all(7) == Follower(other, (0, 1)).all(1_000)


@ON_SQLITE
def test_adoption_is_refused_where_there_is_nothing_to_adopt_or_names_are_taken(
    hub: Hub, root: Path, clock: VirtualClock, new_url: str, tmp_path: Path
) -> None:
    seal(hub)

    with (
        sealing_hub(new_url, (tmp_path / "nothing").as_uri()) as other,
        pytest.raises(ColdTierUnsuitable, match="there is no cold tier to adopt"),
    ):
        adopt(other.store, clock)
    with sealing_hub(new_url, root.as_uri()) as other:
        create(other, partitions=1)
        with pytest.raises(EventTypeExists):
            adopt(other.store, clock)
        assert files_of(other.store, None) == []


# Restored backups


@pytest.fixture
def restored(url: str, hub: Hub, root: Path, clock: VirtualClock) -> Iterator[tuple[Hub, list[Any]]]:
    """A hub whose database was restored from a backup after events were erased, and the feed after that erasure."""
    hub.erasures.request(NAME, "key-2")
    hub.erasures.run()
    seal(hub)
    hub.stop()
    backup = Backup(url)
    with sealing_hub(url, root.as_uri(), clock=clock) as other:
        for key in ("key-1", "key-3"):
            clock.advance(seconds=1)
            other.erasures.request(NAME, key)
            other.erasures.run()
        after = read_rows(other, PARTITIONS)
    backup.put_back()
    with sealing_hub(url, root.as_uri(), clock=clock) as other:
        with other.store.write() as tx:
            tx.registry.raise_epochs()
        yield other, after


def test_files_that_erasure_has_replaced_since_the_backup_are_relinked(
    restored: tuple[Hub, list[Any]], root: Path, clock: VirtualClock
) -> None:
    hub, after = restored
    missing = {each.path for each in verify(hub.store)}
    unknown = find_unknown(hub.store)
    with pytest.raises(ColdFileDamaged):
        read_rows(hub, PARTITIONS)

    replacements = find_replacements(hub.store, unknown)

    assert {each.missing.file.path for each in replacements} == missing != set()
    assert {each.path for each in replacements} == set(unknown)
    for each in replacements:
        assert relink(hub.store, each, clock)
        assert not relink(hub.store, each, clock), "another file has taken its place"
    assert [row for row in read_rows(hub, PARTITIONS) if row[1] < 44] == [row for row in after if row[1] < 44]
    assert list(verify(hub.store)) == find_unknown(hub.store) == []
    clock.advance(seconds=61)
    seal(hub)
    assert paths_in(root) == {each.path for each in files_of(hub.store, None)}
    fetch(hub.store, NAME, clock)
    assert [row for row in read_rows(hub, PARTITIONS) if row[1] < 44] == [row for row in after if row[1] < 44]


@ON_SQLITE
def test_file_with_erased_events_is_not_relinked(hub: Hub, root: Path, clock: VirtualClock) -> None:
    before = {path: path.read_bytes() for path in root.rglob("*.parquet")}
    hub.erasures.request(NAME, "key-1")
    hub.erasures.run()
    for each in files_of(hub.store):
        (root / each.path).unlink()
    for path, body in before.items():
        path.write_bytes(body)

    replacements = find_replacements(hub.store, find_unknown(hub.store))

    assert len(replacements) == PARTITIONS
    assert not any(relink(hub.store, each, clock) for each in replacements)


@ON_SQLITE
def test_files_of_another_event_type_of_the_same_name_are_not_relinked(
    hub: Hub, root: Path, clock: VirtualClock
) -> None:
    old = {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*.parquet")}
    hub.registry.delete(NAME)
    clock.advance(seconds=1)
    create(hub, partitions=PARTITIONS)
    publish(hub, clock, range(60))
    for _ in range(2):
        seal(hub)
        clock.advance(seconds=61)
    for each in files_of(hub.store):
        (root / each.path).unlink()
    for path, body in old.items():
        (root / path).write_bytes(body)

    assert set(find_unknown(hub.store)) == set(old)
    assert find_replacements(hub.store, [*old]) == []
