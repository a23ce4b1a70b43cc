"""`penstock cold`: the files of the cold tier are listed, verified, moved back and adopted."""

import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from deltalake import DeltaTable

from penstock.cli.serve import StorageOptions, start
from penstock.core.events.event import NewEvent
from penstock.core.registry.definition import PENSTOCK
from penstock.errors import RequirementMissing
from penstock.hub.cold.erasing import erase_sealed
from penstock.testing.clock import VirtualClock
from penstock.testing.live_hub import live_hub
from tests.cli.command import Command
from tests.promises.scene import create, until
from tests.sealing import files_of, read_rows, seal, sealing_hub

EVENTS = 12


class Scene(NamedTuple):
    """A database with sealed events, and the directory of its cold tier."""

    database: str
    root: Path

    @property
    def given(self) -> dict[str, str]:
        """The environment of commands."""
        return {"PENSTOCK_DATABASE": self.database, "PENSTOCK_COLD": self.root.as_uri()}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene(f"sqlite:///{tmp_path}/hub.db", tmp_path / "cold")
    clock = VirtualClock()
    with sealing_hub(scene.database, scene.root.as_uri(), clock=clock) as hub:
        create(hub, "order.placed", partitions=1)
        for start in (0, EVENTS // 2):
            hub.log.publish(
                "order.placed", [NewEvent.of(b'{"n": %d}' % n, partition=0) for n in range(start, start + EVENTS // 2)]
            )
            clock.advance(seconds=1)
            seal(hub)
    return scene


def test_files_are_listed_with_their_events(penstock: Command, scene: Scene) -> None:
    shown = penstock("cold", "list", **scene.given).out
    assert "order.placed" in shown
    assert "2 files with 11 events: 89 B of data in" in shown

    found = penstock("cold", "list", "order.placed", "-o", "json", **scene.given).json
    assert [(each["start"], each["stop"], each["events"]) for each in found] == [(0, 5, 5), (5, 11, 6)]
    assert {(scene.root / each["path"]).stat().st_size for each in found} == {each["file_bytes"] for each in found}


def test_database_without_a_cold_tier_has_no_files(penstock: Command, tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path}/new.db"
    penstock("migrate", "--database", database)

    assert penstock("cold", "list", "--database", database).out == "No events are in files of a cold tier.\n"


def test_damaged_and_unknown_files_are_told_and_unknown_ones_removed(penstock: Command, scene: Scene) -> None:
    assert penstock("cold", "verify", **scene.given).out == "2 of 2 files have the events that were sealed in them\n"
    first, _ = sorted(scene.root.rglob("*.parquet"))
    body = first.read_bytes()
    first.write_bytes(body[:-9])
    unknown = first.with_name(f"{first.stem[:-12]}{'0' * 12}.parquet")
    unknown.write_bytes(body)

    done = penstock("cold", "verify", "-o", "json", **scene.given)

    assert done.status == 1
    path = first.relative_to(scene.root).as_posix()
    assert [each["path"] for each in done.json["damaged"]] == [path]
    assert done.json["unknown"] == [f"order.placed/0/{unknown.name}"]
    first.write_bytes(body)
    penstock("cold", "verify", "--remove-unknown", **scene.given)
    assert sorted(scene.root.rglob("*.parquet")) == sorted({first, *scene.root.rglob("*.parquet")} - {unknown})


def test_files_that_have_replaced_missing_ones_are_told_kept_and_relinked(penstock: Command, scene: Scene) -> None:
    database = Path(scene.database.removeprefix("sqlite:///"))
    backup = database.read_bytes()
    with sealing_hub(scene.database, scene.root.as_uri()) as hub:
        hub.log.publish("order.placed", [NewEvent.of(b'{"n": 99}', partition=0, key="Ada")])
        [first, _] = files_of(hub.store)
        erase_sealed(
            hub.store, first, lambda batch: batch.column("offset").to_pylist()[:2], VirtualClock(), lambda *_: 0
        )
        replacement, _ = (each.path for each in files_of(hub.store))
    database.write_bytes(backup)

    said = penstock("restored", "--yes", **scene.given).err
    assert "  penstock cold verify --relink --cold URL\n" in said
    assert "use a copy of these files too" in said
    done = penstock("cold", "verify", "--remove-unknown", "-o", "json", **scene.given)

    assert done.status == 1
    assert done.json["damaged"] == [{"path": first.path, "reason": "it is not there"}]
    assert done.json["unknown"] == []
    assert done.json["replaced"] == [{"missing": first.path, "replacement": replacement, "relinked": False}]
    assert "replaced by" in penstock("cold", "verify", **scene.given).out
    done = penstock("cold", "verify", "--relink", **scene.given)
    assert (done.status, done.out.partition("\n")[0]) == (0, "2 of 2 files have the events that were sealed in them")
    assert penstock("cold", "verify", **scene.given).out == "2 of 2 files have the events that were sealed in them\n"
    with sealing_hub(scene.database, scene.root.as_uri()) as hub:
        assert [row[1] for row in read_rows(hub, 1, "order.placed")] == [*range(2, EVENTS)]


def test_events_of_lost_and_damaged_files_are_given_up_if_somebody_says_so(penstock: Command, scene: Scene) -> None:
    first, second = sorted(scene.root.rglob("*.parquet"))
    first.unlink()
    second.write_bytes(second.read_bytes()[:-9])
    refused = penstock("cold", "verify", "--accept-missing", **scene.given)
    assert refused.status == 1
    assert "Give up 11 events of 2 files for ever: order.placed/0/0" in refused.err
    assert "nobody said yes, nothing was given up" in refused.err

    done = penstock("cold", "verify", "--accept-missing", "--yes", **scene.given)

    assert done.status == 0
    assert "gave up 11 events; readers pass over them" in done.out
    assert penstock("cold", "verify", **scene.given).out == "2 of 2 files have the events that were sealed in them\n"
    with sealing_hub(scene.database, scene.root.as_uri(), after=None) as hub:
        assert [row[1] for row in read_rows(hub, 1)] == [EVENTS - 1]


def test_file_that_comes_back_after_its_events_were_given_up_is_not_adopted(
    penstock: Command, scene: Scene, tmp_path: Path
) -> None:
    first, _ = sorted(scene.root.rglob("*.parquet"))
    body = first.read_bytes()
    first.unlink()
    penstock("cold", "verify", "--accept-missing", "--yes", **scene.given)

    first.write_bytes(body)
    found = penstock(
        "cold", "adopt", "-o", "json", **scene.given | {"PENSTOCK_DATABASE": f"sqlite:///{tmp_path}/new.db"}
    )

    assert [(each["start"], each["stop"]) for each in found.json] == [(0, EVENTS - 1)]
    with sealing_hub(f"sqlite:///{tmp_path}/new.db", scene.root.as_uri(), after=None) as hub:
        assert [row[1] for row in read_rows(hub, 1)] == [*range(EVENTS // 2 - 1, EVENTS - 1)]


def test_sealed_events_are_moved_back(penstock: Command, scene: Scene) -> None:
    assert penstock("cold", "fetch", "order.placed", "--yes", **scene.given).out == (
        "moved 11 events of order.placed into the database\n"
    )

    assert not [*scene.root.rglob("*.parquet")]
    with sealing_hub(scene.database, None) as hub:
        assert files_of(hub.store, None) == []
        hub.start()


def test_files_are_adopted_by_a_new_database(penstock: Command, scene: Scene, tmp_path: Path) -> None:
    given = scene.given | {"PENSTOCK_DATABASE": f"sqlite:///{tmp_path}/new.db"}

    shown = penstock("cold", "adopt", "-o", "json", **given).json

    assert shown == [{"event_type": "order.placed", "partition": 0, "start": 0, "stop": 11, "files": 2, "missing": []}]


def test_adoption_without_files_says_that_there_are_no_events_and_a_second_one_is_refused(
    penstock: Command, scene: Scene, tmp_path: Path
) -> None:
    given = scene.given | {"PENSTOCK_DATABASE": f"sqlite:///{tmp_path}/new.db"}
    for each in scene.root.rglob("*.parquet"):
        each.unlink()

    assert "The cold tier has no events" in penstock("cold", "adopt", **given).out
    again = penstock("cold", "adopt", **given)
    assert again.status
    assert "this database has a cold tier already" in again.err


@pytest.mark.parametrize(
    ("cold", "says"),
    [
        ("ftp://here/there", "file:///DIRECTORY or s3://BUCKET/PREFIX"),
        ("s3://key:secret@", "file:///DIRECTORY or s3://BUCKET/PREFIX"),
        ("s3://key:secret@bucket/cold?endpint=here", "file:///DIRECTORY or s3://BUCKET/PREFIX"),
        ("s3://key:se/secret@bucket/cold", "file:///DIRECTORY or s3://BUCKET/PREFIX"),
        ("s3://bucket/cold?endpoint=https://key:secret@here", "file:///DIRECTORY or s3://BUCKET/PREFIX"),
        ("file:///nowhere/at/all", "there is no cold tier at file:///nowhere/at/all"),
    ],
)
def test_wrong_cold_tier_is_refused_without_its_secret(penstock: Command, scene: Scene, cold: str, says: str) -> None:
    failed = penstock("cold", "verify", **scene.given | {"PENSTOCK_COLD": cold})

    assert failed.status
    assert says in failed.err
    assert "secret" not in failed.err


def test_tables_without_their_library_say_what_to_install(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "penstock.cold.tables", raising=False)
    monkeypatch.setitem(sys.modules, "deltalake", None)
    storage = StorageOptions(scene.database, scene.root.as_uri(), cold_tables="delta")

    with pytest.raises(RequirementMissing) as failed:
        start(storage, True, PENSTOCK, 60.0)

    assert failed.value.detail.startswith("deltalake, for the tables of a cold tier, is needed, none found")
    assert "pip install 'penstock-hub[delta]'" in failed.value.detail


def test_served_hub_keeps_tables_of_what_it_has_sealed(scene: Scene) -> None:
    options = ["--cold", scene.root.as_uri(), "--cold-after", "never", "--cold-tables", "delta"]
    log = scene.root / "order.placed" / "_delta_log"

    with live_hub(scene.database, options=options):
        until(lambda: [*log.glob("*.json")], "the sealed events are a table")

    assert DeltaTable(scene.root / "order.placed").to_pyarrow_table().num_rows == EVENTS - 1
