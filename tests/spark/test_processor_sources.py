"""Processors and projections on Spark read tables, Kafka and MessageDB as they read feeds."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.client import Client
from penstock.errors import BadParameter, EventsLost
from penstock.processing import DatabaseCheckpoints, InlineProcessor, Projection, Rules, StreamEvent
from penstock.processing.engine import Backoff
from penstock.processing.sources import IterableSource
from penstock.spark.pipelines import Kafka, ingest
from penstock.spark.processors.processor import SparkProcessor
from penstock.spark.processors.sources.kafka import SparkKafkaSource
from penstock.spark.processors.sources.messagedb import SparkMessagedbSource
from penstock.spark.processors.sources.source import SparkSource
from penstock.spark.processors.sources.table import TableSource
from penstock.spark.projections.database import DatabaseTarget
from penstock.spark.projections.project import project
from penstock.testing.live_hub import LiveHub
from tests.exhaustive import exhaustive
from tests.spark.categories import Categories
from tests.spark.growing_table import GrowingTable
from tests.spark.recording import RecordingHandler
from tests.spark.tables import rows_of

RULES = Rules(backoff=Backoff(first_seconds=0.05, max_seconds=0.2))


@pytest.fixture
def handler(tmp_path: Path) -> RecordingHandler:
    return RecordingHandler(tmp_path / "handled")


@pytest.fixture
def checkpoints(tmp_path: Path) -> DatabaseCheckpoints:
    return DatabaseCheckpoints(f"sqlite:///{tmp_path}/checkpoints.db", "numbers")


COLUMNS = pa.schema(
    [
        ("partition", pa.int32()), ("place", pa.int64()), ("customer", pa.string()), ("type", pa.string()),
        ("payload", pa.struct([("n", pa.int64())])), ("said", pa.map_(pa.string(), pa.string())),
        ("taken", pa.timestamp("us", "UTC")),
    ]
)  # fmt: skip


class Numbers(GrowingTable):
    """A table of Parquet that grows: numbers in two partitions, with ten keys."""

    def __init__(self, path: Path, *, step: int = 1) -> None:
        super().__init__(path, COLUMNS)
        self.step = step

    def append(self, numbers: range) -> None:
        """Add numbers; their indices have holes where the step is more than one."""
        self.write(
            {
                "partition": n % 2,
                "place": n // 2 * self.step,
                "customer": f"c{n % 10}",
                "type": "number.added",
                "payload": {"n": n},
                "said": [("tenant", "x"), ("none", None)],
                "taken": n,
            }
            for n in numbers
        )

    def source(self, **more: Any) -> TableSource:
        """Return it as a source."""
        columns: dict[str, Any] = {
            "tranche": "partition", "index": "place", "stream": "customer", "kind": "type", "data": "payload",
            "headers": "said", "received": "taken",
        }  # fmt: skip
        return TableSource(self.frame, **columns | more)

    def events(self, numbers: range) -> list[StreamEvent]:
        """Return the same as events."""
        return [
            StreamEvent(
                f"{n % 2}_c{n % 10}", n // 2 * self.step, "number.added", b'{"n":%d}' % n, f"c{n % 10}",
                '{"tenant":"x"}', f"{n % 2}", n,
            )
            for n in numbers
        ]  # fmt: skip


@pytest.fixture
def numbers(tmp_path: Path) -> Numbers:
    return Numbers(tmp_path / "numbers")


def handled_inline(events: list[StreamEvent], folder: Path) -> dict[str, list[list[Any]]]:
    """Return what a handler in this process is given of the same events."""
    handler = RecordingHandler(folder)
    InlineProcessor(handler, IterableSource([events])).drain()
    return handler.events()


def run(spark: SparkSession, handler: Any, source: SparkSource, **more: Any) -> SparkProcessor:
    """Handle what there is, and commit it."""
    with SparkProcessor(spark, handler, source, rules=more.pop("rules", RULES), **more) as running:
        running.wait_until_caught_up(300)
    return running


@pytest.mark.exhaustive
def test_growing_table_is_handled_as_the_same_events_in_a_process(
    spark: SparkSession, numbers: Numbers, handler: RecordingHandler, tmp_path: Path
) -> None:
    numbers.append(range(100))
    with SparkProcessor(spark, handler, numbers.source(), rules=RULES) as running:
        running.wait_until_caught_up(300)
        numbers.append(range(100, 140))
        running.wait_until_caught_up(300)
    assert handler.events() == handled_inline(numbers.events(range(140)), tmp_path / "inline")
    assert running.engine.positions() == {"0": 70, "1": 70}
    assert running.engine.handled == 140


@pytest.mark.exhaustive
@pytest.mark.parametrize("step", [1, 1_000_003])
def test_read_ahead_is_limited_by_events_though_indices_have_gaps(
    spark: SparkSession, tmp_path: Path, handler: RecordingHandler, step: int
) -> None:
    numbers = Numbers(tmp_path / "numbers", step=step)
    numbers.append(range(120))
    processor = SparkProcessor(spark, handler, numbers.source(), rules=Rules(events_ahead=25))
    rounds, before = 0, 0
    while processor.step():
        assert processor.engine.handled - before <= 50, "of two tranches"
        before = processor.engine.handled
        rounds += 1
    assert rounds >= 3
    assert handler.numbers() == {f"{k % 2}_c{k}": [n for n in range(120) if n % 10 == k] for k in range(10)}


def test_rows_removed_before_they_were_handled_hold_the_position(
    spark: SparkSession, numbers: Numbers, handler: RecordingHandler, checkpoints: DatabaseCheckpoints
) -> None:
    numbers.append(range(20))
    broken = handler.break_stream("1_c3")
    processor = SparkProcessor(spark, handler, numbers.source(), checkpoints=checkpoints, rules=RULES)
    processor.step()
    for part in numbers.folder.iterdir():
        part.unlink()
    numbers.append(range(14, 20))
    broken.unlink()
    while (found := processor.engine.busy.failing.get("1_c3")) is None or found.tag != "gone":
        processor.step()
    assert "1_c3 from 1 up to 7: its events are not there any more" in str(found.detail)
    processor._progress.commit()
    processor.close()
    assert checkpoints.positions() == {"0": 10, "1": 0}
    assert "1_c3" not in handler.numbers()


@pytest.mark.exhaustive
def test_parked_stream_of_a_table_is_read_again(
    spark: SparkSession, numbers: Numbers, handler: RecordingHandler, checkpoints: DatabaseCheckpoints
) -> None:
    numbers.append(range(60))
    broken = handler.break_stream("1_c3")
    rules = Rules(attempts_max=1, exhausted="park")
    run(spark, handler, numbers.source(), checkpoints=checkpoints, rules=rules)
    [parked] = checkpoints.parked()
    assert (parked.stream, parked.events) == ("1_c3", 6)
    broken.unlink()
    checkpoints.ask("1_c3", "retry")
    processor = SparkProcessor(spark, handler, numbers.source(), checkpoints=checkpoints, rules=rules)
    while checkpoints.parked():
        processor.step()
    assert handler.numbers()["1_c3"] == [3, 13, 23, 33, 43, 53]


@pytest.mark.parametrize("more", [exhaustive(range(0)), range(22, 26)], ids=["rows twice", "as many as are missing"])
def test_repeated_row_neither_fills_a_gap_nor_makes_one(
    spark: SparkSession, numbers: Numbers, handler: RecordingHandler, more: range
) -> None:
    numbers.append(range(20))
    numbers.append(range(18, 20))
    processor = SparkProcessor(spark, handler, numbers.source(has_holes=False, tranche=[], index="payload.n"))
    if more:
        numbers.append(more)  # Two are missing, and two there twice.
        processor.step()
        assert handler.events() == {}
        numbers.append(range(20, 22))
    while processor.step():
        pass
    end = more.stop or 20
    assert handler.numbers() == {f"c{k}": [n for n in range(end) if n % 10 == k] for k in range(10)}


def test_processor_from_the_latest_index_handles_later_rows(
    spark: SparkSession, numbers: Numbers, handler: RecordingHandler
) -> None:
    numbers.append(range(20))
    processor = SparkProcessor(spark, handler, numbers.source(start="latest", is_hashed=True))
    processor.step()
    numbers.append(range(20, 25))
    processor.step()
    assert handler.numbers() == {f"c{n % 10}": [n] for n in range(20, 25)}


@pytest.mark.exhaustive
def test_new_tranches_are_handled_whole_by_a_processor_from_the_latest_index(
    spark: SparkSession, numbers: Numbers, handler: RecordingHandler
) -> None:
    numbers.append(range(5))
    source = numbers.source(tranche="customer", is_hashed=True, start="latest")
    with SparkProcessor(spark, handler, source, rules=RULES) as running:
        running.wait_until_caught_up(300)
        numbers.append(range(5, 30))
        running.wait_until_caught_up(300)
    assert handler.numbers() == {f"c{k}": [n for n in range(5, 30) if n % 10 == k] for k in range(10)}
    assert running.engine.positions().keys() == {f"c{k}" for k in range(10)}


def test_unusable_tables_and_arguments_are_refused(
    spark: SparkSession, numbers: Numbers, handler: RecordingHandler
) -> None:
    numbers.append(range(4))

    def wrong(frame: Callable[[SparkSession], DataFrame], **columns: Any) -> None:
        given: dict[str, Any] = {"index": "place", "stream": "customer"}
        SparkProcessor(spark, handler, TableSource(frame, **given | columns)).step()

    with pytest.raises(BadParameter, match="frame is 'a stream'; allowed: a data frame"):
        wrong(lambda spark: spark.readStream.format("rate").load())
    with pytest.raises(
        BadParameter, match="index is 'string'; allowed: whole numbers from 0, such as bigint; of a time from 1970"
    ):
        wrong(numbers.frame, index="customer")
    for start in ("earliest", "latest"):
        with pytest.raises(BadParameter, match="index is '-1 in the tranche 1'; allowed: whole numbers from 0; of a t"):
            wrong(numbers.frame, index="place - partition", tranche="partition", start=start)
    with pytest.raises(BadParameter, match="data is 'bigint'; allowed: JSON as a text or bytes"):
        wrong(numbers.frame, data="place")
    with pytest.raises(BadParameter, match="headers is 'int'"):
        wrong(numbers.frame, headers="partition")
    with pytest.raises(Exception, match="parameter index is '0, of two events in c0'; allowed: an index of one event"):
        wrong(numbers.frame, stream="'c0'")


class Sum(msgspec.Struct):
    total: int = 0
    streams: list[str] = []


def added(state: Sum, event: StreamEvent) -> Sum:
    streams = state.streams if event.stream in state.streams else sorted([*state.streams, event.stream])
    return Sum(state.total + event.data["n"], streams)


def remainder(event: StreamEvent) -> int:
    return int(event.data["n"] % 3)


SUMS = Projection("sums", Sum, added, key=remainder)


@pytest.mark.exhaustive
def test_projection_of_a_table_with_negative_indices_is_refused_and_keeps_nothing(
    spark: SparkSession, numbers: Numbers, sqlite_url: str
) -> None:
    numbers.append(range(4))
    target = DatabaseTarget(SUMS, sqlite_url)
    with pytest.raises(BadParameter, match="index is '-3 in the tranche 0'; allowed: whole numbers from 0"):
        project(spark, target, numbers.source(index="place - 3"))
    assert DatabaseCheckpoints(sqlite_url, "sums_v1").positions() == {}
    assert project(spark, target, numbers.source()).events == 4


@pytest.mark.exhaustive
def test_projection_of_a_table_has_each_event_once_over_rounds(
    spark: SparkSession, numbers: Numbers, sqlite_url: str
) -> None:
    for many in (range(90), range(90, 120)):
        numbers.append(many)
        done = project(spark, DatabaseTarget(SUMS, sqlite_url), numbers.source(), events_per_round=40)
        assert (done.events, done.rounds) == (len(many), -(-len(many) // 40))
    found = rows_of(sqlite_url, f"SELECT * FROM {SUMS.table.name} ORDER BY 1")
    streams = json.dumps(sorted(f"{k % 2}_c{k}" for k in range(10)), separators=(",", ":"))
    assert [(key, total, json.dumps(json.loads(each), separators=(",", ":"))) for key, total, each, *_ in found] == [
        (key, sum(n for n in range(120) if n % 3 == key), streams) for key in range(3)
    ]


@pytest.mark.exhaustive
def test_lake_has_the_streams_of_the_feed_it_was_made_from(
    spark: SparkSession, client: Client, hub: LiveHub, handler: RecordingHandler, tmp_path: Path
) -> None:
    name = f"order.kept-{time.monotonic_ns()}"
    client.create_event_type(name, partition_count=2, partition_strategy="hash", partition_key_fields=["n"])
    lake = str(tmp_path / "lake")
    source = TableSource(
        lambda spark: spark.read.parquet(lake),
        tranche=["event_type", "partition"], index="offset", stream="concat(event_type, '-', key)", is_hashed=True,
        key="key", kind="kind", data="data", received="received_at", has_holes=False,
    )  # fmt: skip
    client.publish(name, [{"n": n} for n in range(80)])
    assert ingest(spark, lake, url=hub.url, eventType=name).awaitTermination(300)
    processor = run(spark, handler, source)
    assert handler.numbers() == {f"{name}-{n}": [n] for n in range(80)}
    assert set(processor.engine.positions()) == {f"{name}/0", f"{name}/1"}


def test_records_of_kafka_are_handled_by_key_and_resumed(
    spark: SparkSession, kafka: str, handler: RecordingHandler, checkpoints: DatabaseCheckpoints
) -> None:
    name = f"numbers-{time.monotonic_ns()}"

    def send(numbers: range) -> None:
        rows = spark.range(numbers.start, numbers.stop, 1, 1).selectExpr(
            "concat('c', id % 10) AS key",
            "concat('{\"n\": ', id, '}') AS value",
            "array(struct('ce_type' AS key, CAST('number.added' AS binary) AS value)) AS headers",
        )
        options = {
            "kafka.bootstrap.servers": kafka,
            "kafka.delivery.timeout.ms": "600000",  # By default two minutes, which a busy machine can take.
            "topic": name,
            "includeHeaders": "true",
        }
        rows.write.format("kafka").options(**options).save()

    with pytest.raises(BadParameter, match=f"topic is '{name}'; allowed: a topic that the brokers have"):
        SparkProcessor(spark, handler, SparkKafkaSource(Kafka(kafka, name))).step()
    send(range(100))
    broken = handler.break_stream(f"{name}-c3")
    processor = SparkProcessor(
        spark, handler, SparkKafkaSource(Kafka(kafka, name)), checkpoints=checkpoints, rules=Rules(events_ahead=30)
    )
    while processor.engine.handled < 50:
        processor.step()
    processor._progress.commit()
    broken.unlink()
    kept = {name: int(at) for name, at in checkpoints.positions().items()}
    before = handler.events()
    send(range(100, 130))
    run(spark, handler, SparkKafkaSource(Kafka(kafka, name)), checkpoints=checkpoints)

    found = handler.events()
    streams = {f"{name}-c{k}": [n for n in range(130) if n % 10 == k] for k in range(10)}
    assert {stream: [e[4]["n"] for e in events[len(before.get(stream, [])) :]] for stream, events in found.items()} == {
        stream: [
            event[4]["n"] for event in sorted({json.dumps(e): e for e in events}.values(), key=lambda e: e[1])
            if event[1] >= kept[event[6]]
        ]
        for stream, events in found.items()
    }, "exactly what was not committed comes again"  # fmt: skip
    assert {stream: sorted({e[4]["n"] for e in events}) for stream, events in found.items()} == streams
    stream, index, kind, key, _, headers, tranche, received = found[f"{name}-c7"][0]
    assert (stream, kind, key, tranche) == (f"{name}-c7", "number.added", "c7", f"{name}/{headers['kafka-partition']}")
    assert (str(index), headers["ce_type"]) == (headers["kafka-offset"], "number.added")
    assert abs(received / 1_000_000 - time.time()) < 600

    checkpoints.move({tranche: 10_000})
    with pytest.raises(EventsLost, match="10000 was wanted next, and the partition ends at offset"):
        run(spark, handler, SparkKafkaSource(Kafka(kafka, name)), checkpoints=checkpoints)


def test_categories_of_a_messagedb_are_handled_by_stream(
    spark: SparkSession,
    message_db_url: str,
    handler: RecordingHandler,
    checkpoints: DatabaseCheckpoints,
    tmp_path: Path,
) -> None:
    categories = Categories(message_db_url)
    for category in ("account", "other", "payment", "account"):
        categories.fill(category, 40)
    rules = Rules(events_ahead=30)
    run(
        spark, handler, SparkMessagedbSource(message_db_url, "account", "payment"), checkpoints=checkpoints, rules=rules
    )
    categories.write("account-3", range(100, 103))
    run(
        spark, handler, SparkMessagedbSource(message_db_url, "account", "payment"), checkpoints=checkpoints, rules=rules
    )

    with categories.transaction() as connection:
        rows = connection.execute(
            "SELECT stream_name, global_position, data::text, (extract(epoch FROM time) * 1000000)::bigint,"
            " category(stream_name) FROM messages WHERE category(stream_name) <> 'other' ORDER BY global_position"
        ).fetchall()
    events = [
        StreamEvent(stream, at, "Added", data.encode(), stream.partition("-")[2], None, category, received)
        for stream, at, data, received, category in rows
    ]
    found = handled_inline(events, tmp_path / "inline")
    assert handler.events() == found
    assert len(found["account-3"]) == 11
