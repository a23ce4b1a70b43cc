"""`penstock erase`: asks, waits until the events of a key are erased, and reports."""

from contextlib import closing
from pathlib import Path

import pytest

from penstock.client import Client
from penstock.storage import open_store
from penstock.testing.live_hub import live_hub
from tests.cli.command import Command


def test_events_of_a_key_are_erased_and_counted(at_hub: Command, client: Client, orders: str) -> None:
    client.publish(orders, [{"order_id": f"{n % 3}"} for n in range(9)])

    asked = at_hub("erase", orders, "--key", "1", stdin="n\n")
    erased = at_hub("erase", orders, "--key", "1", "--yes")
    again = at_hub("erase", orders, "--key", "1", "--yes", "-o", "json").json

    assert asked.status != 0
    assert erased.out.startswith(
        f"erased 3 events, 0 parked keys, 0 rejected rows, 0 dead letters of {orders}, as erasure "
    )
    assert (again["state"], again["erased"]["events"]) == ("finished", 0)
    assert "has nothing with the key '1'" in at_hub("erase", orders, "--key", "1", "--yes").err
    assert "has nothing" not in erased.err


def test_unknown_event_type_is_said_before_anything_is_asked(at_hub: Command) -> None:
    refused = at_hub("erase", "nothing.here", "--key", "1")

    assert refused.status == 1
    assert "there is no event type 'nothing.here'" in refused.err


def test_for_what_an_erasure_waits_is_said_and_reported(
    penstock: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, path = f"sqlite:///{tmp_path}/waiting.db", "orders/0/file.parquet"
    with live_hub(database) as hub, Client(hub.url) as client, closing(open_store(database)) as store:
        client.create_event_type("orders", partition_count=1, partition_strategy="random")
        client.publish("orders", [{"n": 1}])
        with store.write() as tx:
            tx.cold.begin(path, tx.registry.get("orders").partition_ids[0], 0, 1, 0)
        told = list[str]()

        def end_the_wait(text: str) -> None:
            told.append(text)
            with store.write() as tx:
                tx.cold.give_up([path], "writing", 0)
                tx.cold.forget([path])
            client.erase("orders", "2")  # Has the hub go on at once.

        monkeypatch.setattr("penstock.cli.output.tell", end_the_wait)
        erased = penstock.at(hub.url)("erase", "orders", "--key", "1", "--yes", "-o", "json").json

    assert [each.startswith(f"the erasure goes on later: a hub is writing {path};") for each in told] == [True]
    assert (erased["state"], erased["waits_for"]) == ("finished", None)
