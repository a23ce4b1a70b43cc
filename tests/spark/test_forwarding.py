"""A feed is forwarded to another hub, to a Nakadi and to Kafka, byte for byte, and imported from Kafka."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.client import Client
from penstock.core.events.event import NewEvent
from penstock.errors import BadParameter
from penstock.spark.pipelines import Files, HubFeed, Kafka, Nakadi, Report, forward, import_, watch
from penstock.testing.live_hub import LiveHub, live_hub
from tests.spark.events import events_in

EVENTS = [b'{"n":  %d, "at": 1.50}' % n for n in range(60)]
"""JSON as no encoder would write it."""
Forward = Callable[..., Report]
Import = Callable[..., Report]


@pytest.fixture
def source(client: Client, hub: LiveHub, event_type: str) -> dict[str, str]:
    """A feed whose events have keys and headers, also those of an earlier origin."""
    name = f"{event_type}-keyed"
    client.create_event_type(name, partition_count=3, partition_strategy="hash", partition_key_fields=["n"])
    older = {"penstock-feed": "older", "penstock-offset": "77"}
    client.publish(
        name, (NewEvent(event, key=f"k{n % 5}", headers={"ce_id": f"i{n}", **older}) for n, event in enumerate(EVENTS))
    )
    return {"url": hub.url, "eventType": name}


@pytest.fixture
def there(client: Client, hub: LiveHub, event_type: str) -> HubFeed:
    """A feed for what is forwarded or imported."""
    name = f"{event_type}.there"
    client.create_event_type(name, partition_count=2, partition_strategy="hash", partition_key_fields=["n"])
    return HubFeed(hub.url, name)


@pytest.fixture
def forwarding(spark: SparkSession, source: dict[str, str], tmp_path: Path) -> Forward:
    """Forwards the events that are there, from one checkpoint."""

    def forwarded(to: Any, **more: Any) -> Report:
        return watch(forward(spark, to, checkpoint=str(tmp_path / "out"), **(source | more)), lambda _: None)

    return forwarded


@pytest.fixture
def importing(spark: SparkSession, there: HubFeed, tmp_path: Path) -> Import:
    """Imports what is there, from one checkpoint."""

    def imported(origin: Any, to: HubFeed = there, **more: Any) -> Report:
        return watch(import_(spark, origin, to, checkpoint=str(tmp_path / "in"), **more), lambda _: None)

    return imported


def test_forwarded_feed_has_each_event_once_with_key_headers_and_origin(
    forwarding: Forward, client: Client, source: dict[str, str], there: HubFeed
) -> None:
    forwarding(there)
    forwarding(there)

    places: Counter[int] = Counter()
    origins = {}
    for event in events_in(client, source["eventType"]):
        origins[event.raw] = (source["eventType"], str(event.partition), str(places[event.partition]))
        places[event.partition] += 1
    found = events_in(client, there.event_type)
    assert sorted(event.raw for event in found) == sorted(EVENTS)
    order: dict[str, list[int]] = {}
    for event in found:
        n = event.data["n"]
        assert event.headers["ce_partitionkey"] == f"k{n % 5}"
        assert event.headers["penstock-id"] == event.headers["ce_id"] == f"i{n}"
        origin = tuple(event.headers[f"penstock-{name}"] for name in ("feed", "partition", "offset"))
        assert origin == origins[event.raw]
        order.setdefault(event.headers["ce_partitionkey"], []).append(n)
    assert all(numbers == sorted(numbers) for numbers in order.values()), "the events of a key are in their order"


@pytest.mark.exhaustive
def test_forwarded_events_keep_their_partition_where_producers_choose_it(
    forwarding: Forward, client: Client, hub: LiveHub, event_type: str, publish: Any
) -> None:
    chosen = f"{event_type}.chosen"
    client.create_event_type(chosen, partition_count=2, partition_strategy="user_defined")
    publish(range(20))

    forwarding(HubFeed(hub.url, chosen), eventType=event_type)

    assert {(event.partition, event.data["n"] % 2) for event in events_in(client, chosen)} == {(0, 0), (1, 1)}


def test_forwarded_spans_are_imported_as_the_events_they_were_made_of(
    forwarding: Forward, importing: Import, client: Client, source: dict[str, str], there: HubFeed, *, tmp_path: Path
) -> None:
    forwarding(there, layout="stream-span")
    spans = [event.raw.decode() for event in events_in(client, there.event_type)]
    assert {json.loads(span)["s"] for span in spans} == {f"{source['eventType']}-k{n}" for n in range(5)}

    back = HubFeed(there.url, f"{there.event_type}.back")
    client.create_event_type(back.event_type, partition_count=3)
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "spans.json").write_text("\n".join(spans) + "\n\n")
    importing(Files(str(tmp_path / "lines")), back, layout="stream-span")

    found = events_in(client, back.event_type)
    assert sorted(event.raw for event in found) == sorted(EVENTS)
    assert {event.headers["ce_id"] for event in found} == {f"i{n}" for n in range(60)}
    assert {event.headers["file-name"] for event in found} == {"spans.json"}


@pytest.fixture
def nakadi(tmp_path: Path) -> Iterator[LiveHub]:
    """A hub that keeps to Nakadi's limits and problems."""
    with live_hub(f"sqlite:///{tmp_path}/nakadi.db", options=["--nakadi-strict"]) as running:
        yield running


def test_nakadi_has_every_event_byte_for_byte(forwarding: Forward, nakadi: LiveHub) -> None:
    with Client(nakadi.url) as client:
        client.create_event_type("orders", partition_count=2)

        forwarding(Nakadi(nakadi.url, "orders"))

        assert sorted(event.raw for event in events_in(client, "orders")) == sorted(EVENTS)


@pytest.mark.exhaustive
def test_event_that_a_nakadi_refuses_fails_the_query_with_its_place(forwarding: Forward, nakadi: LiveHub) -> None:
    with Client(nakadi.url) as client:
        client.create_event_type("orders", schema={"properties": {"n": {"type": "integer", "maximum": 50}}})

    with pytest.raises(Exception, match=r"event \d+ of \d+ is refused: .*#/n"):
        forwarding(Nakadi(nakadi.url, "orders"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"layout": "avro"}, "option layout is 'avro'; allowed: raw, stream-span, summary"),
        ({"index": "n"}, "option index is 'n'; allowed: with layout stream-span or summary"),
        ({"payload": "typed"}, "option payload is 'typed'; allowed: json"),
        ({"splitpartitions": "true"}, "option splitPartitions is 'true'; allowed: false"),
    ],
)
def test_wrong_options_of_forwarding_are_refused(
    forwarding: Forward, there: HubFeed, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadParameter, match=message):
        forwarding(there, **given)


def test_feed_is_not_forwarded_to_itself(forwarding: Forward, source: dict[str, str]) -> None:
    with pytest.raises(BadParameter, match="another feed than the one that is read"):
        forwarding(HubFeed(f"{source['url']}/", source["eventType"]))


def records_in(spark: SparkSession, kafka: str, topic: str) -> list[Any]:
    """Return the key, value, headers and place of each record of a topic, in the order of their offsets."""
    options = {"kafka.bootstrap.servers": kafka, "subscribe": topic, "includeHeaders": "true"}
    found = spark.read.format("kafka").options(**options).load()
    return found.selectExpr("string(key) key", "value", "headers", "partition", "offset").orderBy("offset").collect()


def write_records(rows: DataFrame, kafka: str, topic: str) -> None:
    options = {"kafka.bootstrap.servers": kafka, "kafka.delivery.timeout.ms": "600000", "topic": topic}
    rows.write.format("kafka").options(**options).save()


def headers_of(record: Any) -> dict[str, str]:
    return {each["key"]: each["value"].decode() for each in record.headers}


def test_feed_goes_to_kafka_and_back_with_keys_headers_and_places(
    spark: SparkSession, kafka: str, forwarding: Forward, importing: Import, client: Client, *, source: dict[str, str],
    there: HubFeed,
) -> None:  # fmt: skip
    report = forwarding(Kafka(kafka))

    assert (report.events, report.gap) == (len(EVENTS), 0)
    records = records_in(spark, kafka, source["eventType"])
    assert Counter(bytes(record.value) for record in records) == Counter(EVENTS)
    places = {(headers_of(each)["penstock-partition"], headers_of(each)["penstock-offset"]) for each in records}
    assert len(places) == len(EVENTS), "by its origin a repeat is recognised"
    order: dict[str, list[int]] = {}
    for record in records:
        number, headers = json.loads(record.value)["n"], headers_of(record)
        assert record.key == f"k{number % 5}"
        assert headers["penstock-feed"] == source["eventType"]
        assert headers["penstock-id"] == headers["ce_id"] == f"i{number}"
        order.setdefault(record.key, []).append(number)
    assert all(numbers == sorted(numbers) for numbers in order.values()), "the records of a key are in their order"

    origin = Kafka(kafka, source["eventType"])
    report = importing(origin)
    importing(origin)

    found = events_in(client, there.event_type)
    assert (report.events, report.gap) == (len(EVENTS), 0)
    assert Counter(event.raw for event in found) == Counter(EVENTS)
    assert len({(event.headers["kafka-partition"], event.headers["kafka-offset"]) for event in found}) == len(EVENTS)
    for event in found:
        assert event.headers["ce_partitionkey"] == f"k{event.data['n'] % 5}"
        assert event.headers["kafka-topic"] == source["eventType"]
        assert event.headers["penstock-id"] == f"i{event.data['n']}"


@pytest.mark.exhaustive
@pytest.mark.parametrize("layout", ["stream-span", "summary"])
def test_spans_and_summaries_go_to_kafka_by_stream_and_back(
    spark: SparkSession, kafka: str, forwarding: Forward, importing: Import, client: Client, *, there: HubFeed,
    layout: str
) -> None:  # fmt: skip
    topic = Kafka(kafka, f"{there.event_type}-{layout}")
    forwarding(topic, layout=layout, index="n")
    importing(topic, layout=layout)

    for record in records_in(spark, kafka, str(topic.topic)):
        span = json.loads(record.value)
        assert record.key == span["s"]
        assert span["i"] == (span.get("e") or span["u"])[0]["d"]["n"], "the member that is the index"
        assert headers_of(record)["penstock-offsets"]
    found = events_in(client, there.event_type)
    assert Counter(event.raw for event in found) == Counter(EVENTS if layout == "stream-span" else EVENTS[-5:])
    assert all(event.headers["stream-index"] for event in found)


@pytest.mark.exhaustive
def test_headers_of_foreign_records_are_imported_as_texts(
    spark: SparkSession, kafka: str, importing: Import, client: Client, there: HubFeed
) -> None:
    strange = """array(
        struct('a' AS key, CAST('1' AS binary) AS value), struct('a' AS key, CAST('2' AS binary) AS value),
        struct('none' AS key, CAST(NULL AS binary) AS value), struct('bytes' AS key, X'41FF' AS value),
        struct('kafka-offset' AS key, CAST('old' AS binary) AS value))"""
    made = spark.range(1).selectExpr("CAST(NULL AS string) AS key", "'{\"n\": 1}' AS value", f"{strange} AS headers")
    write_records(made, kafka, f"{there.event_type}-strange")

    importing(Kafka(kafka, f"{there.event_type}-strange"))

    [event] = events_in(client, there.event_type)
    assert event.headers["ce_partitionkey"] == "1", "as the event type says, since it has none of its own"
    assert event.headers["a"] == "2", "the last one counts"
    assert event.headers["kafka-offset"] == "0"
    assert event.headers["bytes"] == "A\ufffd"
    assert "none" not in event.headers


@pytest.mark.exhaustive
def test_record_that_is_no_event_ends_the_import_or_is_rejected(
    spark: SparkSession, kafka: str, importing: Import, client: Client, there: HubFeed
) -> None:
    origin = Kafka(kafka, f"{there.event_type}-wrong")
    values = spark.createDataFrame([('{"n": 1}',), ("{",), (None,)], "value string").coalesce(1)
    write_records(values, kafka, str(origin.topic))

    with pytest.raises(Exception, match="a row is no valid event"):
        importing(origin)
    assert events_in(client, there.event_type) == []

    importing(origin, HubFeed(there.url, there.event_type, {"onInvalid": "reject"}))
    assert [event.raw for event in events_in(client, there.event_type)] == [b'{"n": 1}']


def test_wrong_options_of_kafka_are_refused(importing: Import) -> None:
    with pytest.raises(BadParameter, match="option brokers is 'localhost'; allowed: addresses with ports"):
        Kafka("localhost")
    with pytest.raises(BadParameter, match="option topic is missing; allowed: the topic to read"):
        importing(Kafka("localhost:9092"))
