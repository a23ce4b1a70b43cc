"""Arguments of processors, projections and their sources are checked before Spark, a broker or a database is asked."""

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import pytest

from penstock.errors import BadParameter
from penstock.processing.sources import MemorySource
from penstock.spark.pipelines.kafka import Kafka
from penstock.spark.processors.processor import SparkProcessor
from penstock.spark.processors.session import check_sendable
from penstock.spark.processors.sources.kafka import SparkKafkaSource
from penstock.spark.processors.sources.messagedb import SparkMessagedbSource
from penstock.spark.processors.sources.table import TableSource
from penstock.spark.projections.project import project

HUB: Final = "http://localhost:8080"
STORE: Final = "postgresql://localhost/message_store"
SESSION: Final[Any] = SimpleNamespace(conf=SimpleNamespace(get=lambda *_: "false"), range=print, createDataFrame=print)
NO_COLUMNS: Final[list[Any]] = [5, b"x", ["x"]]


def table_source(**options: Any) -> TableSource:
    return TableSource(**{"frame": lambda spark: spark.range(1), "index": "id", "stream": "id", **options})


def kafka_source(**options: Any) -> SparkKafkaSource:
    return SparkKafkaSource(**{"kafka": Kafka("localhost:9092", "orders"), **options})


def messagedb_source(url: Any = STORE, category: Any = "account", **options: Any) -> SparkMessagedbSource:
    return SparkMessagedbSource(url, category, **options)


@pytest.mark.parametrize(
    ("build", "name", "values"),
    [
        (table_source, "frame", [None, "orders", lambda: None]),
        (table_source, "index", [None, *NO_COLUMNS]),
        (table_source, "stream", [None, *NO_COLUMNS]),
        (table_source, "data", [None, *NO_COLUMNS]),
        (table_source, "tranche", [None, 5, [5], {"a"}]),
        (table_source, "key", NO_COLUMNS),
        (table_source, "kind", NO_COLUMNS),
        (table_source, "headers", NO_COLUMNS),
        (table_source, "received", NO_COLUMNS),
        (table_source, "is_hashed", [None, 1, "yes"]),
        (table_source, "has_holes", [None, 0, "no"]),
        (table_source, "start", ["now", None]),
        (kafka_source, "kafka", [None, "localhost:9092", Kafka]),
        (kafka_source, "is_hashed", [None, 1, "yes"]),
        (kafka_source, "fail_on_loss", [None, 0, "no"]),
        (kafka_source, "start", ["now", None]),
        (messagedb_source, "schema", [None, 5, ""]),
        (messagedb_source, "retry_timeout", [None, "60", -1, float("nan")]),
        (messagedb_source, "start", ["now", None]),
    ],
)
def test_source_refuses_argument_of_the_wrong_kind(build: Callable[..., Any], name: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(BadParameter, match="allowed: ") as refused:
            build(**{name: value})
        assert refused.value.parameter == name


@pytest.mark.parametrize("value", [None, 5, b"x"])
def test_messagedb_source_refuses_address_and_categories_that_are_not_texts(value: Any) -> None:
    with pytest.raises(BadParameter, match=r"url .*; allowed: postgresql://"):
        messagedb_source(url=value)
    with pytest.raises(BadParameter, match=r"categories is .*; allowed: a list of texts"):
        messagedb_source(category=value)


@pytest.mark.parametrize("columns", ["a", ["a", "b"], ()], ids=["one", "several", "none"])
def test_table_source_takes_any_number_of_tranche_columns(columns: Any) -> None:
    table_source(tranche=columns)


def handle(stream: str, events: Any) -> None: ...


@pytest.mark.parametrize("value", [None, handle, HUB, SimpleNamespace], ids=["None", "handle", "url", "class"])
def test_processor_and_projection_refuse_a_session_of_another_kind(value: Any) -> None:
    message = r"spark is .*; allowed: a session of Spark's, such as penstock\.spark\.session\("
    with pytest.raises(BadParameter, match=message):
        SparkProcessor(value, handle, HUB, "order.placed")
    with pytest.raises(BadParameter, match=message):
        project(value, value, HUB, "order.placed")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((handle, table_source(), "order.placed"), "event_types is"),
        ((lambda _: None, table_source()), r"handler is '<lambda>\(_\)'; allowed: .* takes \(stream, events\)"),
        ((handle, MemorySource()), r"source is .*; allowed: the hub's address, or a source that Spark reads"),
        ((handle, HUB, ["order.placed"]), r"event_types is .*\['order.placed'\].*; allowed: the names of event types"),
    ],
    ids=["event types beside a source", "handler of one argument", "another source", "a list of event types"],
)
def test_processor_refuses_arguments_of_another_kind(given: tuple[Any, ...], message: str) -> None:
    with pytest.raises(BadParameter, match=message):
        SparkProcessor(SESSION, *given)


def test_processor_refuses_other_checkpoints_and_a_source_that_another_one_has() -> None:
    source = table_source()
    with pytest.raises(BadParameter, match=r"checkpoints is .*; allowed: DatabaseCheckpoints"):
        SparkProcessor(SESSION, handle, source, checkpoints="sqlite:///shop.db")  # type: ignore[arg-type]
    SparkProcessor(SESSION, handle, source)
    with pytest.raises(BadParameter, match="one for each processor"):
        SparkProcessor(SESSION, handle, source)


class Locked:
    """A handler that has a lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __call__(self, stream: str, events: Any) -> None: ...


def test_processor_names_the_function_that_spark_cannot_send_to_executors() -> None:
    message = r"is '{}'; allowed: what Spark can send to executors, which has failed: .*lock.* be made in the function"
    with pytest.raises(BadParameter, match="handler " + message.format("Locked")):
        SparkProcessor(SESSION, Locked(), HUB, "order.placed")
    lock = threading.Lock()

    def classify(error: Exception) -> str:
        with lock:
            return str(error)

    with pytest.raises(BadParameter, match="classify " + message.format(".*classify")):
        SparkProcessor(SESSION, handle, HUB, "order.placed", classify=classify)


def test_lambda_and_missing_function_can_be_sent_to_executors() -> None:
    check_sendable("handler", lambda stream, events: None)  # noqa: ARG005
    check_sendable("classify", None)
