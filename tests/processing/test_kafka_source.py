"""Topics of Kafka as a source: records, StreamSpans and summaries, and what becomes of records that are gone."""

import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import BadParameter, EventsLost, InvalidRecord, RequirementMissing, Unavailable
from penstock.processing import InlineProcessor, LocalProcessor
from penstock.processing.checkpoints import MemoryCheckpoints
from penstock.processing.sources import KafkaSource, ReadRequest
from tests.kafka import KafkaBroker
from tests.processing.office import until
from tests.processing.source_places import create, send


@pytest.fixture
def name(kafka: str) -> str:
    """A topic with one partition."""
    found = f"orders-{time.monotonic_ns()}"
    create(kafka, found, 1)
    return found


def read_all(source: KafkaSource) -> list[Any]:
    seen: list[Any] = []
    with source:
        InlineProcessor(lambda _, events: seen.extend(events), source, checkpoints=MemoryCheckpoints()).drain()
    return seen


def test_event_has_all_that_the_record_has(kafka: str, name: str) -> None:
    before = datetime.now(UTC).timestamp()
    send(kafka, name, [("7", '{"n": 1}')], headers=[("ce_type", b"order.placed"), ("odd", b"\xff"), ("none", None)])
    send(kafka, name, [(None, '{"n": 2}'), ("8", None)])

    first, second, third = sorted(read_all(KafkaSource(kafka, name)), key=lambda event: event.index)

    assert (first.stream, first.index, first.kind, first.key) == (f"{name}-7", 0, "order.placed", "7")
    origin = {"kafka-topic": name, "kafka-partition": "0", "kafka-offset": "0"}
    assert (first.data, first.headers) == ({"n": 1}, {"ce_type": "order.placed", "odd": "�"} | origin)
    assert (first.tranche, first.numbering) == (f"{name}/0", f"{name}/0")
    assert abs(first.received_at.timestamp() - before) < 600
    assert (second.stream, second.kind, second.key, second.data) == (f"{name}-0_", name, None, {"n": 2})
    assert (third.stream, third.data) == (f"{name}-8", None)
    assert {event.stream for event in read_all(KafkaSource(kafka, name, is_hashed=False))} == {
        f"{name}-0_7", f"{name}-0_", f"{name}-0_8",
    }  # fmt: skip


def span(stream: str, index: int, *numbers: int) -> tuple[str, str]:
    events = [{"c": "Added", "t": "2026-11-20T10:00:00Z", "d": {"n": n}, "m": {"by": "me"}} for n in numbers]
    return stream, json.dumps({"s": stream, "i": index, "e": events})


def test_spans_are_streams_with_their_own_indices_and_repeats_are_passed_over(kafka: str, name: str) -> None:
    send(kafka, name, [span("order-7", 0, 10, 11), span("order-8", 5, 20), span("order-7", 2, 12)])
    send(kafka, name, [("order-7", None), span("order-7", 0, 10, 11), span("order-7", 3, 13)])
    source = KafkaSource(kafka, name, layout="stream-span")
    assert (source.is_dense, source.is_by_stream) == (False, True)

    seen = read_all(source)

    numbers = {
        stream: [(e.index, e.data["n"]) for e in seen if e.stream == stream] for stream in ("order-7", "order-8")
    }
    assert numbers == {"order-7": [(0, 10), (1, 11), (2, 12), (3, 13)], "order-8": [(5, 20)]}
    first = next(event for event in seen if event.stream == "order-7")
    assert (first.kind, first.key, first.tranche, first.numbering) == ("Added", "7", f"{name}/0", "")
    headers = {"ce_type": "Added", "ce_time": "2026-11-20T10:00:00Z", "stream-index": "0", "by": "me"}
    assert first.headers.items() >= headers.items()


def test_summaries_are_read_by_their_index(kafka: str, name: str) -> None:
    summaries = [{"s": "order-7", "i": i, "u": [{"c": "Summary", "d": {"total": i}}]} for i in (3, 9)]
    send(kafka, name, [("order-7", json.dumps(each)) for each in summaries])
    seen = read_all(KafkaSource(kafka, name, layout="summary"))
    assert [(event.stream, event.index, event.kind, event.data) for event in seen] == [
        ("order-7", 3, "Summary", {"total": 3}), ("order-7", 9, "Summary", {"total": 9}),
    ]  # fmt: skip


def test_record_that_is_no_span_is_reported_behind_those_before_it(kafka: str, name: str) -> None:
    send(kafka, name, [span("order-7", 0, 1), ("order-7", '{"n": 1}'), span("order-7", 1, 2)])
    with KafkaSource(kafka, name, layout="stream-span") as source:
        [batch] = source.read({f"{name}/0": ReadRequest(0, 10)}, 0.0)
        assert ([item.index for item in batch.items], batch.end) == ([0], 1)
        with pytest.raises(InvalidRecord, match=rf"no StreamSpan and no summary.*{name}/0, 1"):
            source.read({f"{name}/0": ReadRequest(batch.end, 10)}, 0.0)
        [rest] = source.read({f"{name}/0": ReadRequest(2, 10)}, 0.0)
        assert ([item.index for item in rest.items], rest.end) == ([1], 3)


def delete_before(kafka: str, name: str, offset: int) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    place, admin = TopicPartition(name, 0, offset), AdminClient({"bootstrap.servers": kafka})
    admin.delete_records([place])[place].result(300)


def test_records_that_are_gone_end_the_processor_or_are_passed_over_on_demand(
    kafka: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    send(kafka, name, [("7", json.dumps({"n": n})) for n in range(10)])
    tranche = f"{name}/0"
    with KafkaSource(kafka, name) as source:
        source.read({tranche: ReadRequest(2, 1)}, 0.0)
        delete_before(kafka, name, 6)
        with pytest.raises(EventsLost, match="retention has overtaken the processor") as caught:
            source.read({tranche: ReadRequest(1, 10)}, 0.0)
        assert (caught.value.event_type, caught.value.partition, caught.value.lost) == (name, 0, 5)
        with pytest.raises(EventsLost):
            source.reread(tranche, ReadRequest(3, 10))
        assert source.behind({tranche: 1}) == {tranche: 4}
    with KafkaSource(kafka, name, fail_on_loss=False) as source:
        [batch] = source.read({tranche: ReadRequest(1, 10)}, 0.0)
        assert [item.data["n"] for item in batch.items] == [6, 7, 8, 9]  # type: ignore[attr-defined]
    assert f"up to 5 events of '{name}', partition 0, are lost" in caplog.text
    assert [event.data["n"] for event in read_all(KafkaSource(kafka, name))] == [6, 7, 8, 9]


def test_retention_that_overtakes_a_reader_is_noticed(kafka: str, name: str) -> None:
    send(kafka, name, [("7", json.dumps({"n": n, "much": "x" * 100_000})) for n in range(40)])
    with KafkaSource(
        kafka, name, options={"queued.max.messages.kbytes": 200, "fetch.message.max.bytes": 200_000}
    ) as source:
        [batch] = source.read({f"{name}/0": ReadRequest(0, 1)}, 0.0)
        position = batch.end
        delete_before(kafka, name, 40)

        def read_on() -> None:
            nonlocal position
            while True:
                for each in source.read({f"{name}/0": ReadRequest(position, 1)}, 0.0):
                    position = each.end

        with pytest.raises(EventsLost, match="retention has overtaken"):
            read_on()


def test_open_transaction_is_waited_for_and_an_aborted_one_passed_over(kafka: str, name: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka, "transactional.id": name})
    producer.init_transactions(300)
    with KafkaSource(kafka, name) as source:
        seen: list[int] = []
        checkpoints = MemoryCheckpoints()
        processor = InlineProcessor(lambda _, e: seen.extend(x.data["n"] for x in e), source, checkpoints=checkpoints)
        for n, end in ((1, producer.abort_transaction), (2, producer.commit_transaction)):
            producer.begin_transaction()
            producer.produce(name, json.dumps({"n": n}), "7")
            assert producer.flush(300) == 0
            processor.drain()
            assert seen == []
            end(300)
        until(lambda: processor.drain() or seen)
        assert (seen, source.behind(checkpoints.positions())) == ([2], {f"{name}/0": 0})


def test_partition_that_is_added_is_read_whole(kafka: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from confluent_kafka.admin import AdminClient, NewPartitions

    monkeypatch.setattr("penstock.processing.sources.kafka.LOOK_INTERVAL", 0.0)
    seen: list[int] = []
    with KafkaSource(kafka, name, start="latest") as source:
        processor = InlineProcessor(lambda _, events: seen.extend(e.data["n"] for e in events), source)
        send(kafka, name, [("7", '{"n": 0}')])
        processor.drain()
        admin = AdminClient({"bootstrap.servers": kafka})
        admin.create_partitions([NewPartitions(name, 2)])[name].result(300)
        until(lambda: len(source.tranches()) == 2)
        send(kafka, name, [("7", '{"n": 1}')], partition=1)
        until(lambda: processor.drain() or len(seen) == 1)
    assert seen == [1]


def test_unknown_topic_is_refused(kafka: str) -> None:
    with (
        KafkaSource(kafka, "nothing-here") as source,
        pytest.raises(BadParameter, match="a topic that the brokers have"),
    ):
        source.tranches()


def test_broker_that_is_away_is_not_waited_for_by_behind() -> None:
    with (
        KafkaSource("127.0.0.1:1", "orders") as source,
        pytest.raises(Unavailable, match="Kafka does not answer") as caught,
    ):
        source.behind({})
    assert caught.value.retryable


def test_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(RequirementMissing, match=r"confluent-kafka, to read Kafka,.*penstock-hub\[kafka\]"):
        KafkaSource("localhost:9092", "orders")


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        ((7, "orders"), {}, "bootstrap_servers is 7"),
        (("localhost:9092",), {}, "topics is (); allowed: the name of one topic at least"),
        (("localhost:9092", ["orders"]), {}, "not in a list: 'orders', 'payments'"),
        (("localhost:9092", ""), {}, "topics is ''"),
        (("localhost:9092", "orders"), {"start": "first"}, "start is 'first'"),
        (("localhost:9092", "orders"), {"layout": "avro"}, "layout is 'avro'; allowed: raw, stream-span, summary"),
        (("localhost:9092", "orders"), {"options": {"enable.auto.commit": True}}, "options is 'enable.auto.commit'"),
        (("localhost:9092", "orders"), {"options": {"sasl.passwort": "secret"}}, 'property: "sasl.passwort"'),
        (("localhost:9092", "orders"), {"options": "sasl"}, "options is 'sasl'; allowed: a mapping"),
        (("localhost:9092", "orders"), {"is_hashed": 1}, "is_hashed is 1"),
    ],
)  # fmt: skip
def test_wrong_argument_of_a_kafka_source_is_refused(arguments: Any, options: Any, said: str) -> None:
    with pytest.raises(BadParameter) as caught:
        KafkaSource(*arguments, **options)
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)


def test_spans_that_pipelines_write_are_read_as_the_events_they_were_made_of(kafka: str, name: str) -> None:
    from penstock.spark.pipelines.spans import SpanEvent, Spans

    time_ = datetime(2026, 11, 20, 10, tzinfo=UTC)
    items = [
        SpanEvent("order", 0, n, str(n % 3), {"ce_id": f"i{n}"}, f'{{"n": {n}}}', time_, "Placed") for n in range(90)
    ]
    records = list(Spans("stream-span", frozenset(["order"])).spans(items))
    send(kafka, name, [(record.key, record.value) for record in records])

    seen = read_all(KafkaSource(kafka, name, layout="stream-span"))

    assert len(records) == 3
    assert sorted((e.stream, e.data["n"], e.kind, e.headers["ce_id"]) for e in seen) == sorted(
        (f"order-{n % 3}", n, "Placed", f"i{n}") for n in range(90)
    )


@pytest.mark.exhaustive
def test_processor_goes_on_when_a_killed_broker_is_back(tmp_path: Path) -> None:
    broker, seen = KafkaBroker(tmp_path), list[int]()
    try:
        broker.start()
        create(broker.address, "orders", 3)
        source = KafkaSource(broker.address, "orders")
        with LocalProcessor(lambda _, events: seen.extend(event.data["n"] for event in events), source):
            for start in (0, 100):
                records = [(f"{n % 7}", json.dumps({"n": n})) for n in range(start, start + 100)]
                send(broker.address, "orders", records)
                until(lambda: len(seen) == start + 100)  # noqa: B023 - It is called at once.
                broker.kill()
                with pytest.raises(Unavailable):
                    source.behind({})
                if not start:
                    broker.start()
    finally:
        broker.stop()
    assert sorted(seen) == list(range(200))


def test_options_authenticate_and_a_refusal_is_named(broker: KafkaBroker, name: str) -> None:
    right = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "hub",
        "sasl.password": "secret",
    }
    send(broker.sasl_address, name, [("7", '{"n": 1}')], options=right)
    source = KafkaSource(broker.sasl_address, name, options=right)
    assert [event.data["n"] for event in read_all(source)] == [1]
    wrong = right | {"sasl.password": "guess"}
    with KafkaSource(broker.sasl_address, name, options=wrong) as source, pytest.raises(Unavailable) as caught:
        source.behind({})
    assert "Authentication failed" in str(caught.value)
    assert "guess" not in str(caught.value)
