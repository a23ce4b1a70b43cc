"""Commands with Spark, in the session that all tests here share; `tests/cli` has those that start one of their own."""

import re
from pathlib import Path
from uuid import uuid4

import pyarrow.parquet as pq
import pytest

from penstock.cli import spark_queries
from penstock.client import Client
from penstock.testing.live_hub import LiveHub
from tests.cli.command import Command, clean_environment
from tests.cli.demo import counted, gaps, left_running, mark


@pytest.fixture
def penstock(hub: LiveHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command, for the hub, which leaves the session running."""
    monkeypatch.setattr(spark_queries, "_stop_spark", lambda *_: None)
    return Command(tmp_path, clean_environment()).at(hub.url)


@pytest.mark.usefixtures("spark")
def test_ingested_feed_is_in_the_lake_and_among_the_groups(penstock: Command, client: Client, tmp_path: Path) -> None:
    orders = f"orders-{uuid4().hex}"
    client.create_event_type(orders, partition_count=4, partition_strategy="hash", partition_key_fields=["order_id"])
    client.publish(orders, [{"order_id": f"{n}"} for n in range(500)])
    lake = tmp_path / f"lake-{orders}"

    done = penstock.run_here("spark", "ingest", orders, "--to", lake)

    assert done.status == 0, done.err
    assert done.out.startswith(f"{lake} has 500 events in ")
    assert done.out.endswith("; gap 0\n")
    assert "gap 0  lag 0 s  500 events" in done.err
    assert "warning" not in done.err
    assert sum(pq.read_metadata(file).num_rows for file in lake.rglob("*.parquet")) == 500
    [group] = penstock("groups", "--event-type", orders, "-o", "json").json
    assert (group["name"], group["kind"], group["gap"]) == (f"lake:{lake.name}", "spark", 0)


@pytest.mark.usefixtures("spark")
def test_demo_publishes_each_event_once(penstock: Command) -> None:
    marked, directory = mark(penstock), penstock.directory / "demo"
    finished = marked.run_here("demo", "--directory", directory, "--rows", 1_000)

    assert finished.status == 0, finished.err
    assert left_running(marked) == []
    assert re.search(r"6 796 rows in, 6 796 rows out, each once; 1 000 of them departures", finished.out)
    assert "the last of each is what the lake adds up to" in finished.out
    assert gaps(finished.out) == {"delays:daily": 0, "lake:flights": 0}
    assert counted(directory) == 1_000
