"""`penstock retention`: what is kept for how long, and the default of the hub."""

from contextlib import closing
from pathlib import Path

import pytest

from penstock.core.events.event import NewEvent
from penstock.hub.hub import Hub
from penstock.storage import open_store
from penstock.testing.factories import an_event_type
from tests.cli.command import Command

WAIT = {"groups": ["billing"], "retention_time": 604_800_000}


@pytest.fixture
def database(tmp_path: Path) -> str:
    """A database with one event type without retention, and one with."""
    url = f"sqlite:///{tmp_path}/hub.db"
    store = open_store(url)
    store.migrate()
    hub = Hub(store)
    hub.registry.create(an_event_type("click"))
    options = {"retention_time": 86_400_000, "retention_bytes": 1_500_000, "retention_wait": WAIT}
    hub.registry.create(an_event_type("order.placed", options=options))
    hub.log.publish("order.placed", [NewEvent.of(b"{}")] * 3)
    hub.stop()
    return url


def test_default_is_shown_and_replaced_as_people_write_it(penstock: Command, database: str) -> None:
    says = "Event types that set no retention keep their events "
    for options, told in (
        ((), "for ever"),
        (("--time", "36h"), "for 1.5 d"),
        (("--size", "10GB"), "up to 10 GB each"),
        (("--time", "90s", "--size", "500kB"), "for 1.5 min, up to 500 kB each"),
        ((), "for 1.5 min, up to 500 kB each"),
        (("--none",), "for ever"),
    ):
        assert penstock("retention", "default", *options, PENSTOCK_DATABASE=database).out == f"{says}{told}\n"
    shown = penstock("retention", "default", "--time", "2s", "-o", "json", PENSTOCK_DATABASE=database).json
    assert shown == {"retention_time": 2_000, "retention_bytes": None}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--time", "30"), "'30' has no unit"),
        (("--size", "10"), "'10' is not a size such as 500MB or 10GB"),
        (("--size", "0GB"), "'0GB' is not a size"),
        (("--none", "--size", "1GB"), "--none goes with neither --time nor --size"),
    ],
)
def test_wrong_default_is_refused_and_changes_nothing(
    penstock: Command, database: str, options: tuple[str, ...], says: str
) -> None:
    refused = penstock("retention", "default", *options, PENSTOCK_DATABASE=database)

    assert refused.status != 0
    assert says in refused.err
    assert penstock("retention", "default", PENSTOCK_DATABASE=database).out.endswith("for ever\n")


def test_list_has_what_holds_for_each_event_type_and_what_it_has(penstock: Command, database: str) -> None:
    penstock("retention", "default", "--size", "2GB", PENSTOCK_DATABASE=database)

    table = penstock("retention", "list", PENSTOCK_DATABASE=database, COLUMNS="200").out.splitlines()
    click, order = penstock("retention", "list", "-o", "json", PENSTOCK_DATABASE=database).json

    assert [line.split()[:-2] for line in table if "order.placed" in line] == [
        ["order.placed", "delete", "1", "d", "1.5", "MB", "billing", "3"]
    ]
    assert [line.split() for line in table if "click" in line] == [["click", "delete", "-", "2", "GB", "-", "0", "-"]]
    assert (click["retention_time"], click["retention_bytes"], click["retention_wait"]) == (None, 2 * 10**9, None)
    assert (click["events"], click["oldest_received_at"]) == (0, None)
    assert (order["retention_time"], order["retention_bytes"]) == (86_400_000, 1_500_000)
    assert order["retention_wait"] == WAIT | {"retention_bytes": None}
    assert order["events"] == 3
    assert order["oldest_received_at"].endswith("Z")


def test_list_does_not_count_events_that_were_removed_one_by_one(penstock: Command, database: str) -> None:
    with closing(open_store(database)) as store, store.write() as tx:
        [partition_id] = tx.registry.get("order.placed").partition_ids
        tx.log.find_heads([partition_id], lock=True)
        tx.removal.remove(partition_id, [0, 2])

    _, order = penstock("retention", "list", "-o", "json", PENSTOCK_DATABASE=database).json

    assert order["events"] == 1


def test_hub_without_event_types_says_so(penstock: Command, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/empty.db"
    penstock("migrate", PENSTOCK_DATABASE=url)

    assert penstock("retention", "list", PENSTOCK_DATABASE=url).out == "There are no event types.\n"
