"""`penstock spark`: pipelines in the foreground, for people and for programs.

What is ingested is tested in `tests/spark/test_commands.py`, in a session of Spark that runs already.
"""

import json
import signal
import threading
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from penstock.client import Client
from penstock.testing.live_hub import LiveHub
from tests.cli.command import Command, Result
from tests.kafka import connector


@pytest.fixture
def events(client: Client, orders: str) -> str:
    """The name of an event type with 500 events."""
    client.publish(orders, [{"order_id": f"{n}"} for n in range(500)])
    return orders


def count(lake: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for file in lake.rglob("*.parquet"))


def ingest(at_hub: Command, events: str, *options: str) -> Result:
    return at_hub("spark", "ingest", events, "--to", f"lake-{events}", "--master", "local[2]", *options)


@pytest.mark.exhaustive
def test_repeated_ingest_continues_from_its_checkpoint_and_warns(at_hub: Command, events: str, tmp_path: Path) -> None:
    first = ingest(at_hub, events)
    again = ingest(at_hub, events, "--from", "latest", "-o", "json")

    assert (first.status, again.status) == (0, 0), first.err + again.err
    assert again.out == "", "there was nothing to report"
    assert again.err.splitlines() == [
        "warning: the query goes on from its checkpoint, which wins: startingOffsets counts for a new one alone"
    ]
    assert count(tmp_path / f"lake-{events}") == 500


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_a_following_pipeline_without_loss(
    at_hub: Command, client: Client, events: str, tmp_path: Path, number: signal.Signals
) -> None:
    words = ("spark", "ingest", events, "--to", "lake", "--follow", "--freshness", "1s", "-o", "json")
    with at_hub.start(*words, "--master", "local[2]") as process:
        reported = json.loads(process.stdout.readline())
        assert (reported["events"], reported["gap"]) == (500, 0)
        client.publish(events, [{"order_id": "last"}])
        assert json.loads(process.stdout.readline())["events"] == 501

        process.send_signal(number)
        said = threading.Timer(300, process.kill)
        said.start()
        try:
            assert b"ending when the micro-batch is done" in process.stderr.read()
            assert process.wait() == 0
        finally:
            said.cancel()

    assert count(tmp_path / "lake") == 501


@pytest.mark.exhaustive
def test_exported_feed_is_written_to_files_once(at_hub: Command, events: str, tmp_path: Path) -> None:
    words = ("spark", "export", events, "--to", "some", "--format", "json", "--master", "local[2]")

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
def test_feed_is_forwarded_to_kafka_and_imported_again(
    at_hub: Command, client: Client, events: str, kafka: str
) -> None:
    words = ("--kafka", kafka, "--conf", f"spark.jars={connector()}", "--master", "local[2]")
    back = f"{events}.back"
    client.create_event_type(back)

    there = at_hub("spark", "forward", events, *words, "--as", back, "--checkpoint", f"{events}-there")
    again = at_hub("spark", "import", back, *words, "--checkpoint", f"{events}-back", "-o", "json")

    assert there.status == 0, there.err
    assert there.out.startswith("forwarded 500 events in ")
    assert again.status == 0, again.err
    assert [again.lines[-1][each] for each in ("events", "gap", "lag_seconds")] == [500, 0, 0.0]
    [group] = at_hub("groups", "--event-type", events, "-o", "json").json
    assert (group["name"], group["gap"]) == (f"forward:{events}-there", 0)
    came = at_hub("tail", back, "--from", "earliest", "--no-follow", "--headers", "-o", "json").lines
    assert sorted(int(each["data"]["order_id"]) for each in came) == [*range(500)]
    assert {each["headers"]["penstock-feed"] for each in came} == {events}


def test_unusable_target_or_source_is_refused_before_spark_starts(at_hub: Command, hub: LiveHub, events: str) -> None:
    cases = {
        ("forward", events): (2, "Missing option '--checkpoint'"),
        ("forward", events, "--checkpoint", "x"): (2, "one of them must be given, and only one"),
        ("forward", events, "--checkpoint", "x", "--kafka", "a:1", "--hub", "http://b"): (2, "and only one"),
        ("forward", events, "--checkpoint", "x", "--kafka", "a"): (1, "option brokers is 'a'; allowed: addresses"),
        ("forward", events, "b", "--checkpoint", "x", "--hub", "http://b"): (2, "only with --as"),
        ("forward", events, "--checkpoint", "x", "--hub", hub.url): (1, "another feed than the one that is read"),
        ("forward", events, "--checkpoint", "x", "--hub", "http://127.0.0.1:9"): (1, "Is the hub running?"),
        ("import", "no.such", "--checkpoint", "x", "--files", "."): (1, "there is no event type 'no.such'"),
        ("import", events, "--checkpoint", "x", "--files", "nowhere"): (1, "there is nothing at nowhere"),
        ("import", events, "--checkpoint", "x"): (2, "one of them must be given, and only one"),
    }
    for words, (status, said) in cases.items():
        done = at_hub.run_here("spark", *words)
        assert done.status == status, done.err
        assert said in " ".join(done.err.split()), done.err


def test_unusable_options_of_ingest_are_refused_before_spark_starts(at_hub: Command, events: str) -> None:
    cases = {
        ("no.such", "--to", "lake"): (1, "penstock: there is no event type 'no.such'\n"),
        (events, "--to", "lake", "--from", "nonsense"): (1, "penstock: option startingOffsets is 'nonsense'; allowed:"),
        (events, "--to", "lake", "--option", "nonsense"): (2, "'nonsense' is not NAME=VALUE"),
        (events, "--to", "lake", "--option", "some=thing"): (1, "some"),
        (events, "--to", "lake", "--option", "Token=secret"): (2, "would show in the list of processes"),
        (events,): (2, "Missing option '--to'"),
    }
    for words, (status, said) in cases.items():
        done = at_hub.run_here("spark", "ingest", *words)
        assert done.status == status, done.err
        assert said in done.err

    away = at_hub.run_here("spark", "ingest", events, "--to", "lake", PENSTOCK_URL="http://127.0.0.1:9")
    assert away.status == 1
    assert "Is the hub running?" in away.err


@pytest.mark.exhaustive
def test_refusal_of_spark_is_printed_without_a_traceback(at_hub: Command, events: str, tmp_path: Path) -> None:
    done = at_hub("spark", "ingest", events, "--to", "lake", "--format", "delta", "--log", "spark.log")

    assert done.status == 1
    assert done.err.splitlines()[0] == (
        "penstock: a session of Spark with format('delta') is needed, none found; "
        "start it with PySpark 4.2, the newest that it has come to, and "
        "spark.jars.packages=io.delta:delta-spark_4.2_2.13:4.4.0"
    )
    assert (tmp_path / "spark.log").stat().st_size > 0
