"""Feeds go to a real Kafka and come back, byte for byte."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.client import Client
from penstock.core.event import NewEvent
from penstock.errors import BadParameter
from penstock.spark.pipelines import Feed, Kafka, forward, import_, watch
from penstock.testing.live_hub import LiveHub
from tests.exhaustive import exhaustive

EVENTS = [b'{"n":  %d, "at": 1.50}' % n for n in range(90)]
Run = Callable[..., Any]


@pytest.fixture
def source(client: Client, hub: LiveHub, event_type: str) -> dict[str, str]:
    """A feed whose events have keys and headers."""
    name = f"{event_type}-keyed"
    client.create_event_type(name, partition_count=2, partition_strategy="hash", partition_key_fields=["n"])
    client.publish(
        name, (NewEvent(event, key=f"k{n % 5}", headers={"ce_id": f"i{n}"}) for n, event in enumerate(EVENTS))
    )
    return {"url": hub.url, "eventType": name}


@pytest.fixture
def there(client: Client, hub: LiveHub, event_type: str) -> Feed:
    """A feed for what is imported."""
    client.create_event_type(
        f"{event_type}.there", partition_count=3, partition_strategy="hash", partition_key_fields=["n"]
    )
    return Feed(hub.url, f"{event_type}.there")


@pytest.fixture
def forwarded(spark: SparkSession, source: dict[str, str], tmp_path: Path) -> Run:
    def forwarding(to: Kafka, **more: Any) -> Any:
        query = forward(spark, to, checkpoint=str(tmp_path / "out"), **(source | more))
        return watch(query, lambda _: None)

    return forwarding


@pytest.fixture
def imported(spark: SparkSession, there: Feed, tmp_path: Path) -> Run:
    def importing(origin: Kafka, **more: Any) -> Any:
        return watch(import_(spark, origin, there, checkpoint=str(tmp_path / "in"), **more), lambda _: None)

    return importing


@pytest.fixture
def records(spark: SparkSession, kafka: str) -> Callable[[str], list[Any]]:
    """What is in a topic: each record's key, value, headers and place, in the order of its partition."""

    def read(name: str) -> list[Any]:
        options = {"kafka.bootstrap.servers": kafka, "subscribe": name, "includeHeaders": "true"}
        found = spark.read.format("kafka").options(**options).load()
        return (
            found.selectExpr("string(key) key", "value", "headers", "partition", "offset").orderBy("offset").collect()
        )

    return read


@pytest.fixture
def returned(kafka: str, forwarded: Run, imported: Run, there: Feed) -> Callable[[str], str]:
    """Forwards and imports what there is, and returns in which topic it was meanwhile."""

    def returning(layout: str) -> str:
        to = Kafka(kafka, f"{there.event_type}-{layout}")
        forwarded(to, layout=layout)
        imported(to, layout=layout)
        return str(to.topic)

    return returning


@pytest.fixture
def read(spark: SparkSession, there: Feed) -> Callable[[], list[Any]]:
    """What is in the feed, in the order of its partitions."""

    def rows() -> list[Any]:
        options = {"url": there.url, "eventType": there.event_type, "includeHeaders": "true"}
        return spark.read.format("penstock").options(**options).load().orderBy("partition", "offset").collect()

    return rows


def write(rows: DataFrame, kafka: str, name: str) -> None:
    rows.write.format("kafka").options(**{"kafka.bootstrap.servers": kafka, "topic": name}).save()


def headers(record: Any) -> dict[str, str]:
    return {each["key"]: each["value"].decode() for each in record.headers}


def test_records_are_the_events_with_their_keys_and_say_where_they_are_from(
    kafka: str, forwarded: Run, records: Run, source: dict[str, str]
) -> None:
    report = forwarded(Kafka(kafka))

    assert (report.events, report.gap) == (90, 0)
    found = records(source["eventType"])
    assert Counter(bytes(record.value) for record in found) == Counter(EVENTS)
    places = {(headers(each)["penstock-partition"], headers(each)["penstock-offset"]) for each in found}
    assert len(places) == 90, "by its origin a repeat is recognised"
    for record in found:
        number = json.loads(record.value)["n"]
        assert record.key == f"k{number % 5}"
        assert headers(record)["penstock-feed"] == source["eventType"]
        assert headers(record)["penstock-id"] == headers(record)["ce_id"] == f"i{number}"
    for key in {record.key for record in found}:
        numbers = [json.loads(record.value)["n"] for record in found if record.key == key]
        assert numbers == sorted(numbers), "those of a key are in their order"


def test_there_and_back_nothing_is_lost_and_nothing_twice(
    kafka: str, forwarded: Run, imported: Run, there: Feed, read: Run
) -> None:
    to = Kafka(kafka, f"{there.event_type}-raw")
    forwarded(to)
    report = imported(to)
    imported(to)

    found = read()
    assert (report.events, report.gap) == (90, 0)
    assert Counter(row.data.encode() for row in found) == Counter(EVENTS)
    assert {row.key for row in found} == {f"k{n}" for n in range(5)}
    assert len({(row.headers["kafka-partition"], row.headers["kafka-offset"]) for row in found}) == 90
    assert {row.headers["kafka-topic"] for row in found} == {to.topic}
    assert all(row.headers["penstock-id"] == f"i{json.loads(row.data)['n']}" for row in found)


@pytest.mark.parametrize("layout", ["stream-span", exhaustive("summary")])
def test_spans_and_summaries_are_keyed_by_their_stream(returned: Run, records: Run, read: Run, layout: str) -> None:
    name = returned(layout)

    for record in records(name):
        assert record.key == json.loads(record.value)["s"]
        assert headers(record)["penstock-offsets"]
    found = read()
    expected = EVENTS if layout == "stream-span" else EVENTS[-5:]
    assert Counter(row.data.encode() for row in found) == Counter(expected)
    assert all(row.headers["stream-index"] for row in found)


@pytest.mark.exhaustive
def test_headers_of_strangers_are_taken_as_far_as_they_are_texts(
    spark: SparkSession, kafka: str, imported: Run, there: Feed, read: Run
) -> None:
    strange = """array(
        struct('a' AS key, CAST('1' AS binary) AS value), struct('a' AS key, CAST('2' AS binary) AS value),
        struct('none' AS key, CAST(NULL AS binary) AS value), struct('bytes' AS key, X'41FF' AS value),
        struct('kafka-offset' AS key, CAST('old' AS binary) AS value))"""
    made = spark.range(1).selectExpr("CAST(NULL AS string) AS key", "'{\"n\": 1}' AS value", f"{strange} AS headers")
    write(made, kafka, f"{there.event_type}-strange")

    imported(Kafka(kafka, f"{there.event_type}-strange"))

    [row] = read()
    assert row.key == "1", "as the event type says, since it has none of its own"
    assert row.headers["a"] == "2", "the last one counts"
    assert row.headers["kafka-offset"] == "0"
    assert row.headers["bytes"] == "A\ufffd"
    assert "none" not in row.headers


def test_a_record_that_is_no_event_ends_the_import_or_is_set_apart(
    spark: SparkSession, kafka: str, there: Feed, read: Run, tmp_path: Path
) -> None:
    origin = Kafka(kafka, f"{there.event_type}-wrong")
    values = spark.createDataFrame([('{"n": 1}',), ("{",), (None,)], "value string").coalesce(1)
    write(values, kafka, str(origin.topic))

    failing = import_(spark, origin, there, checkpoint=str(tmp_path / "failing"))
    with pytest.raises(Exception, match="a row is no valid event"):
        watch(failing, lambda _: None)
    assert read() == []

    patient = Feed(there.url, there.event_type, {"onInvalid": "reject"})
    watch(import_(spark, origin, patient, checkpoint=str(tmp_path / "patient")), lambda _: None)
    assert [row.data for row in read()] == ['{"n": 1}']


def test_wrong_options_are_told(spark: SparkSession, kafka: str, there: Feed, tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match="option brokers is 'localhost'; allowed: addresses with ports"):
        Kafka("localhost")
    with pytest.raises(BadParameter, match="option topic is missing; allowed: the topic to read"):
        import_(spark, Kafka(kafka), there, checkpoint=str(tmp_path))
