"""A Delta table of sealed events has those of the files that count, each once, whatever becomes of hubs and files."""

import json
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable

from penstock.cold import tables
from penstock.cold.tables import CHECKPOINT_COMMITS, LOG
from penstock.hub.cold import fetching
from penstock.hub.cold.adopting import adopt
from penstock.hub.cold.fetching import fetch
from penstock.hub.cold.files import verify
from penstock.hub.cold.sealing import ABANDONED_SECONDS, KEPT_SECONDS
from penstock.hub.cold.tables import update_tables
from penstock.hub.hub import Hub
from penstock.storage import Store, open_store
from penstock.storage.cold import tier
from penstock.storage.cold.tier import ColdTier
from penstock.testing.clock import VirtualClock
from tests.promises.processes import FORKSERVER, run_processes, seal_forever
from tests.promises.scene import NAME, PATIENCE_SECONDS, create, event, until
from tests.s3 import cold_url
from tests.sealing import files_of, seal, sealing_hub

PARTITIONS = 2
Row = tuple[int, int, str]
"""An event: partition, offset and data."""


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/hub.db"


@pytest.fixture
def hub(database: str, root: Path, clock: VirtualClock) -> Iterator[Hub]:
    """A hub with tables, which updates them only when it is told to."""
    with sealing_hub(database, root.as_uri(), clock=clock, has_tables=True) as hub:
        yield hub


def schema(**types: Any) -> dict[str, str]:
    return {"type": "json_schema", "schema": json.dumps({"type": "object", "properties": types})}


def define(hub: Hub, **types: Any) -> None:
    """Create the event type, or give it another schema."""
    with hub.store.read() as tx:
        is_there = tx.registry.find(NAME) is not None
    if is_there:
        hub.registry.replace(NAME, hub.registry.load(NAME).event_type.whole | {"schema": schema(**types)})
    else:
        create(hub, partitions=PARTITIONS, schema=schema(**types), compatibility_mode="none")


def publish_and_seal(hub: Hub, clock: VirtualClock, *data: Mapping[str, Any]) -> None:
    """Publish events to both partitions, with a key each of three, and seal all but the last of each partition."""
    for partition in range(PARTITIONS):
        hub.log.publish(NAME, [event(each, partition, key=f"key-{n % 3}") for n, each in enumerate(data)])
    clock.advance(seconds=1)
    seal(hub)


def numbers(start: int, stop: int) -> list[dict[str, int]]:
    return [{"n": n} for n in range(start, stop)]


def open_another(hub: Hub, cold: str | None = None) -> Store:
    """Return another store on the database and the cold tier of a hub, as a hub has that starts."""
    assert hub.store.cold is not None
    return open_store(hub.store.url, cold or hub.store.cold.url, has_tables=True)


def open_table(hub: Hub) -> DeltaTable:
    assert hub.store.cold is not None
    location, options = hub.store.cold._storage.locate(NAME)
    return DeltaTable(location, storage_options=options)


def rows_in(hub: Hub) -> list[Row]:
    """Return the events that the table has, as the library and DuckDB read them."""
    events = open_table(hub).to_pyarrow_dataset()
    found = duckdb.sql('SELECT partition, "offset", data FROM events ORDER BY ALL').fetchall()
    columns = ["partition", "offset", "data"]
    assert sorted(tuple(each.values()) for each in events.to_table(columns).to_pylist()) == found
    return found


def rows_sealed(hub: Hub) -> list[Row]:
    """Return the events of the files that the manifest names."""
    cold = hub.store.cold
    assert cold is not None
    batches = [batch for file in files_of(hub.store) for batch in cold.read_batches(file)]
    rows = [row for batch in batches for row in batch.select(["partition", "offset", "data"]).to_pylist()]
    return sorted(tuple(each.values()) for each in rows)


def typed_in(hub: Hub) -> list[Any]:
    """Return the typed columns of the first partition, in the order of the events."""
    table = open_table(hub).to_pyarrow_table(filters=[("partition", "=", 0)]).sort_by("offset")
    return table["typed"].to_pylist() if "typed" in table.column_names else []


def test_table_follows_sealing_erasure_retention_fetching_and_drop(hub: Hub, clock: VirtualClock) -> None:
    define(hub, n={"type": "integer"})
    assert update_tables(hub.store)
    for start in (0, 10, 20):
        publish_and_seal(hub, clock, *numbers(start, start + 10))
        assert update_tables(hub.store)
        assert rows_in(hub) == rows_sealed(hub)
    assert len(rows_in(hub)) == PARTITIONS * 29

    hub.erasures.request(NAME, "key-1")
    hub.erasures.run()
    found = rows_in(hub)  # Without another update: the old files are gone.
    assert found == rows_sealed(hub)
    assert len(found) == PARTITIONS * 20

    definition = hub.registry.load(NAME).event_type.whole
    hub.registry.replace(NAME, definition | {"options": definition["options"] | {"retention_time": 1_500}})
    hub.admin.retention.run()
    seal(hub)
    assert update_tables(hub.store)
    assert 0 < len(rows_in(hub)) < len(found)
    assert rows_in(hub) == rows_sealed(hub)
    clock.advance(seconds=KEPT_SECONDS + 1)
    hub.cold.sealer.run()
    assert rows_in(hub) == rows_sealed(hub)

    fetch(hub.store, NAME, clock)
    assert update_tables(hub.store)
    assert rows_in(hub) == rows_sealed(hub) == []

    seal(hub)
    assert update_tables(hub.store)
    assert rows_in(hub) == rows_sealed(hub) != []
    hub.registry.delete(NAME)
    assert update_tables(hub.store)
    assert rows_in(hub) == []


def test_table_in_a_bucket_follows_sealing_and_erasure(database: str, bucket: str, clock: VirtualClock) -> None:
    with sealing_hub(database, cold_url(bucket), clock=clock, has_tables=True) as hub:
        define(hub, n={"type": "integer"})
        publish_and_seal(hub, clock, *numbers(0, 10))
        assert update_tables(hub.store)
        assert update_tables(open_another(hub, cold_url(bucket)))
        assert len(rows_in(hub)) == PARTITIONS * 9
        hub.erasures.request(NAME, "key-1")
        hub.erasures.run()

        assert rows_in(hub) == rows_sealed(hub)
        assert len(rows_in(hub)) == PARTITIONS * 6


def test_event_type_of_the_name_of_a_dropped_one_goes_on_with_its_table(hub: Hub, clock: VirtualClock) -> None:
    define(hub, n={"type": "integer"})
    publish_and_seal(hub, clock, *numbers(0, 5))
    update_tables(hub.store)
    hub.registry.delete(NAME)
    define(hub, n={"type": "string"})
    publish_and_seal(hub, clock, {"n": "a"}, {"n": "b"})

    assert update_tables(hub.store)

    assert rows_in(hub) == rows_sealed(hub)
    assert typed_in(hub) == [{"n": "a"}]


def test_new_members_become_columns_that_older_events_lack(hub: Hub, clock: VirtualClock) -> None:
    lines = {"type": "array", "items": {"type": "object", "properties": {"price": {"type": "integer"}}}}
    more = {"type": "object", "properties": {"amount": {"type": "integer"}, "price": {"type": "integer"}}}
    define(hub, n={"type": "integer"}, lines=lines)
    publish_and_seal(hub, clock, {"n": 0, "lines": [{"price": 1}]}, {"n": 1})
    update_tables(hub.store)
    define(hub, a={"type": "boolean"}, n={"type": "integer"}, lines={"type": "array", "items": more})
    publish_and_seal(hub, clock, {"n": 2, "a": True, "lines": [{"price": 2, "amount": 3}]}, {"n": 3})

    assert update_tables(hub.store)

    assert rows_in(hub) == rows_sealed(hub)
    assert typed_in(hub) == [
        {"n": 0, "lines": [{"price": 1, "amount": None}], "a": None},
        {"n": 1, "lines": None, "a": None},
        {"n": 2, "lines": [{"price": 2, "amount": 3}], "a": True},
    ]


def test_members_with_several_types_or_unreadable_names_are_in_data_alone(hub: Hub, clock: VirtualClock) -> None:
    define(hub, n={"type": "integer"}, cents={"type": "integer"}, Id={"type": "string"}, **{"a b": {"type": "integer"}})
    publish_and_seal(hub, clock, {"n": 0, "cents": 1}, {"n": 1})
    update_tables(hub.store)
    assert typed_in(hub) == [{"n": 0, "cents": 1, "Id": None}]
    for later in range(2):  # The second time, nothing but files changes.
        define(hub, n={"type": "integer"}, cents={"type": "string"}, id={"type": "string"})
        publish_and_seal(hub, clock, {"n": 2 + later, "cents": "1"})

        assert update_tables(hub.store)

        assert rows_in(hub) == rows_sealed(hub)
        assert typed_in(hub) == [{"n": n} for n in range(2 + later)]
    other = open_another(hub)
    publish_and_seal(hub, clock, {"n": 4, "cents": "1"})
    version = open_table(hub).version()
    assert update_tables(other)
    assert open_table(hub).version() == version + 1
    assert typed_in(hub) == [{"n": n} for n in range(4)]


def test_files_without_typed_columns_are_in_the_table(hub: Hub, clock: VirtualClock) -> None:
    define(hub)
    publish_and_seal(hub, clock, *numbers(0, 3))
    update_tables(hub.store)
    assert typed_in(hub) == []
    define(hub, n={"type": "integer"})
    publish_and_seal(hub, clock, *numbers(3, 6))

    assert update_tables(hub.store)

    assert rows_in(hub) == rows_sealed(hub)
    assert typed_in(hub) == [None, None, {"n": 2}, {"n": 3}, {"n": 4}]


def test_log_has_nothing_of_the_events(hub: Hub, root: Path, clock: VirtualClock) -> None:
    define(hub, name={"type": "string"})
    publish_and_seal(hub, clock, {"name": "Ada"}, {"name": "Bob"}, {"name": "Cyd"})

    assert update_tables(hub.store)

    log = b"".join(each.read_bytes() for each in (root / NAME / LOG).iterdir())
    assert not any(each in log for each in (b"key-", b"Ada", b"Bob", b"minValues"))
    columns = open_table(hub).to_pyarrow_table(filters=[("key", "=", "key-1")])
    assert columns.num_rows == PARTITIONS, "without statistics no file is passed over"


def test_commits_of_many_updates_end_in_a_checkpoint(hub: Hub, root: Path, clock: VirtualClock) -> None:
    define(hub, n={"type": "integer"})
    for n in range(0, 3 * CHECKPOINT_COMMITS + 3, 3):
        hub.log.publish(NAME, [event({"n": each}) for each in range(n, n + 3)])
        clock.advance(seconds=1)
        hub.cold.sealer.run()
        assert update_tables(hub.store)

    assert [*(root / NAME / LOG).glob("*.checkpoint.parquet")] != []
    assert rows_in(hub) == rows_sealed(hub)


def test_sealing_and_erasing_go_on_while_the_table_cannot_be_written(
    hub: Hub, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    define(hub, n={"type": "integer"})
    publish_and_seal(hub, clock, *numbers(0, 10))
    update_tables(hub.store)

    def fail(*given: Any, **named: Any) -> None:
        raise OSError("the log cannot be written")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", fail)
    publish_and_seal(hub, clock, *numbers(10, 20))
    request = hub.erasures.request(NAME, "key-1")
    hub.erasures.run()

    assert hub.erasures.find(NAME, request.id).finished_at is not None
    assert not update_tables(hub.store)
    assert hub.store.cold is not None and hub.store.cold.tables is not None
    assert hub.store.cold.tables.failures > 1
    monkeypatch.undo()
    assert update_tables(hub.store)
    assert rows_in(hub) == rows_sealed(hub)
    assert len(rows_in(hub)) == PARTITIONS * 13


def test_erasure_goes_on_though_storage_that_hangs_keeps_the_table_from_being_written(
    hub: Hub, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    define(hub, n={"type": "integer"})
    publish_and_seal(hub, clock, *numbers(0, 10))
    update_tables(hub.store)
    answers = threading.Event()

    def hang(*given: Any, **named: Any) -> None:
        answers.wait()
        raise OSError("it has not answered")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", hang)
    monkeypatch.setattr(tables, "WAIT_SECONDS", 0.0)
    monkeypatch.setattr(ColdTier, "update_table", with_limit(ColdTier.update_table, 0.01))
    request = hub.erasures.request(NAME, "key-1")
    hub.erasures.run()

    assert hub.erasures.find(NAME, request.id).finished_at is not None
    monkeypatch.undo()
    answers.set()
    until(lambda: update_tables(hub.store), "the table is updated")
    assert rows_in(hub) == rows_sealed(hub)
    assert len(rows_in(hub)) == PARTITIONS * 6


def with_limit(update: Callable[..., None], seconds: float) -> Callable[..., None]:
    """Return *update* with that limit of time, while other writes have theirs."""

    def limited(*given: Any) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tier, "WRITE_SECONDS", seconds)
            update(*given)

    return limited


def test_table_that_was_deleted_is_made_anew_within_an_hour(
    hub: Hub, root: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    define(hub, n={"type": "integer"})
    publish_and_seal(hub, clock, *numbers(0, 5))
    update_tables(hub.store)
    shutil.rmtree(root / NAME / LOG)
    assert update_tables(hub.store)
    assert not (root / NAME / LOG).exists(), "the storage is not asked each time"
    monkeypatch.setattr(tables, "RECHECK_SECONDS", 0.0)

    assert update_tables(hub.store)

    assert rows_in(hub) == rows_sealed(hub)


def test_hub_that_starts_registers_what_a_killed_one_has_sealed(
    database: str, root: Path, hub: Hub, clock: VirtualClock
) -> None:
    define(hub, n={"type": "integer"})
    publish_and_seal(hub, clock, *numbers(0, 10))
    update_tables(hub.store)
    publish_and_seal(hub, clock, *numbers(10, 20))
    assert len(rows_in(hub)) < len(rows_sealed(hub))

    with sealing_hub(database, root.as_uri(), clock=clock, after=None, has_tables=True, starts=True):
        until(lambda: rows_in(hub) == rows_sealed(hub), "the table has the files of the manifest")


def test_running_hub_seals_into_the_table(database: str, root: Path) -> None:
    with sealing_hub(database, root.as_uri(), has_tables=True, starts=True) as hub:
        define(hub, n={"type": "integer"})
        hub.log.publish(NAME, [event(each) for each in numbers(0, 10)])

        until(lambda: (root / NAME / LOG).exists() and len(rows_in(hub)) == 9, "the table has the sealed events")


def test_table_that_two_hubs_change_at_once_has_each_file_once(
    hub: Hub, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    define(hub, n={"type": "integer"})
    publish_and_seal(hub, clock, *numbers(0, 10))
    update_tables(hub.store)
    publish_and_seal(hub, clock, *numbers(10, 20))
    commit, overtaken = DeltaTable.create_write_transaction, list[int]()

    def overtake(table: DeltaTable, *given: Any, **named: Any) -> None:
        """Have the other hub erase and update between this one's look at the manifest and its commit."""
        if not overtaken:
            overtaken.append(table.version())
            hub.erasures.request(NAME, "key-1")
            hub.erasures.run()
        commit(table, *given, **named)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", overtake)
    assert update_tables(open_another(hub))

    assert overtaken == [0]
    assert rows_in(hub) == rows_sealed(hub)
    assert len(rows_in(hub)) == PARTITIONS * 13


def test_table_is_right_after_hubs_that_updated_it_were_killed(database: str, root: Path) -> None:
    chance, ahead, count = random.Random(1), 0.0, 0
    with sealing_hub(database, root.as_uri(), has_tables=True) as hub:
        define(hub, n={"type": "integer"})
        for _ in range(2):
            ahead += ABANDONED_SECONDS + 100
            began = FORKSERVER.Event()
            given = (database, root.as_uri(), ahead, chance.getrandbits(32), began)
            with run_processes(partial(seal_forever, has_tables=True), given, given) as processes:
                assert began.wait(PATIENCE_SECONDS)
                ends = time.monotonic() + chance.uniform(0.0, 0.3)
                while time.monotonic() < ends:
                    hub.log.publish(NAME, [event({"n": n}, n % PARTITIONS) for n in range(count, count + 10)])
                    count += 10
                for each in processes:
                    each.kill()
        assert update_tables(hub.store)
        assert rows_in(hub) == rows_sealed(hub) != []
        assert list(verify(hub.store)) == []


def test_hub_of_another_database_does_not_touch_the_tables(
    hub: Hub, root: Path, tmp_path: Path, clock: VirtualClock
) -> None:
    define(hub, n={"type": "integer"})
    publish_and_seal(hub, clock, *numbers(0, 10))
    update_tables(hub.store)
    found = rows_in(hub)

    with sealing_hub(f"sqlite:///{tmp_path}/other.db", root.as_uri(), has_tables=True) as other:
        assert not update_tables(other.store)

    assert rows_in(hub) == found


def test_events_that_were_fetched_and_sealed_again_are_in_the_table_once(
    hub: Hub, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    define(hub, n={"type": "integer"})
    publish_and_seal(hub, clock, *numbers(0, 10))
    update_tables(hub.store)
    monkeypatch.setattr(fetching, "FETCHED_EVENTS", 4)

    def interrupt(events: int) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        fetch(hub.store, NAME, clock, interrupt)
    publish_and_seal(hub, clock, {"n": 10})

    assert update_tables(hub.store, clock)

    found = rows_in(hub)
    assert [row[:2] for row in found] == [
        (partition, offset) for partition in range(PARTITIONS) for offset in range(10)
    ]
    assert found == rows_sealed(hub)
    assert list(verify(hub.store)) == []
    clock.advance(seconds=KEPT_SECONDS + 1)
    seal(hub)
    assert files_of(hub.store, "removed") == []


def test_adopted_events_are_in_the_table_once(hub: Hub, root: Path, tmp_path: Path, clock: VirtualClock) -> None:
    define(hub, n={"type": "integer"})
    publish_and_seal(hub, clock, *numbers(0, 10))
    with sealing_hub(f"sqlite:///{tmp_path}/new.db", root.as_uri(), clock=clock, has_tables=True) as new:
        adopt(new.store, clock)
        publish_and_seal(new, clock, *numbers(10, 13))

        assert update_tables(new.store, clock)

        assert rows_in(new) == rows_sealed(new)
        assert len(rows_in(new)) == len({row[:2] for row in rows_in(new)}) == PARTITIONS * 11
