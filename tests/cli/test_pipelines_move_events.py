"""`penstock spark`: pipelines in the foreground, for people and for programs."""

import json
import signal
import threading
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from penstock.client import Client
from penstock.testing.live_hub import LiveHub
from tests.cli.command import Command
from tests.kafka import connector


@pytest.fixture
def client(hub: LiveHub) -> Any:
    with Client(hub.url) as client:
        yield client


@pytest.fixture
def filled(client: Client, orders: str) -> str:
    client.publish(orders, [{"order_id": f"{n}"} for n in range(500)])
    return orders


def count(lake: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for file in lake.rglob("*.parquet"))


def test_feeds_go_into_a_lake_and_are_seen_among_the_groups(at_hub: Command, filled: str, tmp_path: Path) -> None:
    first = at_hub("spark", "ingest", filled, "--to", f"lake-{filled}", "--master", "local[2]")
    words = ("spark", "ingest", filled, "--to", f"lake-{filled}", "--master", "local[2]")
    again = at_hub(*words, "--from", "latest", "-o", "json")

    assert (first.status, again.status) == (0, 0), first.err + again.err
    assert first.out.startswith(f"lake-{filled} has 500 events in ")
    assert first.out.endswith("; gap 0\n")
    assert "gap 0  lag 0 s  500 events" in first.err
    assert again.out == "", "there was nothing to report"
    assert "warning" not in first.err
    assert again.err.splitlines() == [
        "warning: the query goes on from its checkpoint, which wins: startingOffsets counts for a new one alone"
    ]
    assert count(tmp_path / f"lake-{filled}") == 500
    [group] = at_hub("groups", "--event-type", filled, "-o", "json").json
    assert (group["name"], group["kind"], group["gap"]) == (f"lake:lake-{filled}", "spark", 0)


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_follows_is_ended_without_loss(
    at_hub: Command, client: Client, filled: str, tmp_path: Path, number: signal.Signals
) -> None:
    words = ("spark", "ingest", filled, "--to", "lake", "--follow", "--freshness", "1s", "-o", "json")
    with at_hub.start(*words, "--master", "local[2]") as process:
        assert process.stdout and process.stderr
        reported = json.loads(process.stdout.readline())
        assert (reported["events"], reported["gap"]) == (500, 0)
        client.publish(filled, [{"order_id": "last"}])
        assert json.loads(process.stdout.readline())["events"] == 501

        process.send_signal(number)
        said = threading.Timer(60, process.kill)
        said.start()
        try:
            assert b"ending when the micro-batch is done" in process.stderr.read()
            assert process.wait() == 0
        finally:
            said.cancel()

    assert count(tmp_path / "lake") == 501


@pytest.mark.exhaustive
def test_a_part_becomes_files(at_hub: Command, filled: str, tmp_path: Path) -> None:
    words = ("spark", "export", filled, "--to", "some", "--format", "json", "--master", "local[2]")

    done = at_hub(*words)
    twice = at_hub(*words)

    assert done.status == 0, done.err
    assert done.out.startswith("some has 500 events, in ")
    assert sum(len(file.read_text().splitlines()) for file in (tmp_path / "some").glob("*.json")) == 500
    assert twice.status == 1
    assert "already exists" in twice.err
    assert "--overwrite replaces it" in twice.err
    words_of_spark = Path(twice.err.rpartition(" Spark's own words are in ")[2].strip().rstrip("."))
    assert words_of_spark.stat().st_size > 0
    words_of_spark.unlink()


@pytest.mark.exhaustive
def test_feeds_go_to_kafka_and_come_back(at_hub: Command, client: Client, filled: str, kafka: str) -> None:
    words = ("--kafka", kafka, "--conf", f"spark.jars={connector()}", "--master", "local[2]")
    back = f"{filled}.back"
    client.create_event_type(back)

    there = at_hub("spark", "forward", filled, *words, "--as", back, "--checkpoint", f"{filled}-there")
    again = at_hub("spark", "import", back, *words, "--checkpoint", f"{filled}-back", "-o", "json")

    assert there.status == 0, there.err
    assert there.out.startswith("forwarded 500 events in ")
    assert again.status == 0, again.err
    assert [again.lines[-1][each] for each in ("events", "gap", "lag_seconds")] == [500, 0, 0.0]
    [group] = at_hub("groups", "--event-type", filled, "-o", "json").json
    assert (group["name"], group["gap"]) == (f"forward:{filled}-there", 0)
    came = at_hub("tail", back, "--from", "first", "--no-follow", "--headers", "-o", "json").lines
    assert sorted(int(each["data"]["order_id"]) for each in came) == [*range(500)]
    assert {each["headers"]["penstock-feed"] for each in came} == {filled}


def test_what_is_wrong_with_where_to_is_told_before_spark_is_started(
    at_hub: Command, hub: LiveHub, filled: str
) -> None:
    cases = {
        ("forward", filled): (2, "Missing option '--checkpoint'"),
        ("forward", filled, "--checkpoint", "x"): (2, "one of them must be given, and only one"),
        ("forward", filled, "--checkpoint", "x", "--kafka", "a:1", "--hub", "http://b"): (2, "and only one"),
        ("forward", filled, "--checkpoint", "x", "--kafka", "a"): (1, "option brokers is 'a'; allowed: addresses"),
        ("forward", filled, "b", "--checkpoint", "x", "--hub", "http://b"): (2, "only with --as"),
        ("forward", filled, "--checkpoint", "x", "--hub", hub.url): (1, "another feed than the one that is read"),
        ("forward", filled, "--checkpoint", "x", "--hub", "http://127.0.0.1:9"): (1, "Is the hub running?"),
        ("import", "no.such", "--checkpoint", "x", "--files", "."): (1, "there is no event type 'no.such'"),
        ("import", filled, "--checkpoint", "x", "--files", "nowhere"): (1, "there is nothing at nowhere"),
        ("import", filled, "--checkpoint", "x"): (2, "one of them must be given, and only one"),
    }
    for words, (status, said) in cases.items():
        done = at_hub("spark", *words)
        assert done.status == status, done.err
        assert said in " ".join(done.err.split()), done.err


def test_what_is_wrong_is_told_before_spark_is_started(at_hub: Command, filled: str) -> None:
    cases = {
        ("no.such", "--to", "lake"): (1, "penstock: there is no event type 'no.such'\n"),
        (filled, "--to", "lake", "--from", "nonsense"): (1, "penstock: option startingOffsets is 'nonsense'; allowed:"),
        (filled, "--to", "lake", "--option", "nonsense"): (2, "'nonsense' is not NAME=VALUE"),
        (filled, "--to", "lake", "--option", "some=thing"): (1, "some"),
        (filled,): (2, "Missing option '--to'"),
    }
    for words, (status, said) in cases.items():
        done = at_hub("spark", "ingest", *words)
        assert done.status == status, done.err
        assert said in done.err

    away = at_hub("spark", "ingest", filled, "--to", "lake", PENSTOCK_URL="http://127.0.0.1:9")
    assert away.status == 1
    assert "Is the hub running?" in away.err


@pytest.mark.exhaustive
def test_what_spark_refuses_is_told_without_a_trace(at_hub: Command, filled: str, tmp_path: Path) -> None:
    done = at_hub("spark", "ingest", filled, "--to", "lake", "--format", "delta", "--log", "spark.log")

    assert done.status == 1
    assert done.err.splitlines()[0] == (
        "penstock: a session of Spark with format('delta') is needed, none found; "
        "start it with PySpark 4.2, the newest that it has come to, and "
        "spark.jars.packages=io.delta:delta-spark_4.2_2.13:4.4.0"
    )
    assert (tmp_path / "spark.log").stat().st_size > 0
