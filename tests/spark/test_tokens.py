"""Queries send tokens to a hub that asks for them, follow a token file, and show no token."""

import io
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession

from penstock.client import Client, TokenFile
from penstock.core.access import Caller
from penstock.errors import BadParameter, Unauthenticated
from penstock.hub.admin.tokens import NewToken
from penstock.hub.hub import Hub
from penstock.spark.processors.processor import SparkProcessor
from penstock.spark.processors.sources.feeds import SparkFeedSource
from penstock.storage import open_store
from penstock.testing.live_hub import LiveHub, live_hub
from tests.exhaustive import exhaustive
from tests.served import until
from tests.spark.recording import RecordingHandler

SHOP = Caller("service", "shop")


@pytest.fixture(scope="module")
def closed_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    """A hub that asks for tokens."""
    folder = tmp_path_factory.mktemp("tokens")
    with live_hub(f"sqlite:///{folder}/hub.db", log=folder / "hub.log", options=["--auth", "token"]) as running:
        yield running


@pytest.fixture
def direct(closed_hub: LiveHub) -> Iterator[Hub]:
    found = Hub(open_store(closed_hub.database))
    yield found
    found.stop()


@pytest.fixture
def token(direct: Hub) -> NewToken:
    return direct.admin.tokens.create(SHOP)


@pytest.fixture
def shop(closed_hub: LiveHub, direct: Hub) -> Iterator[Client]:
    """A client of the same caller, with a token of its own."""
    with Client(closed_hub.url, auth=direct.admin.tokens.create(SHOP).secret) as client:
        yield client


@contextmanager
def event_log(spark: SparkSession, folder: Path) -> Iterator[None]:
    """Have Spark write its event log, of which its history and UI are made, into *folder* meanwhile."""
    jvm: Any = spark._jvm
    context: Any = spark.sparkContext._jsc.sc()
    conf = context.conf().clone().set("spark.eventLog.compress", "false")
    empty, place = jvm.scala.Option.empty(), jvm.java.net.URI(folder.as_uri())
    log = jvm.org.apache.spark.scheduler.EventLoggingListener(
        "tokens", empty, place, conf, context.hadoopConfiguration()
    )
    log.start()
    context.addSparkListener(log)
    try:
        yield
    finally:
        context.listenerBus().waitUntilEmpty()
        context.removeSparkListener(log)
        log.stop()


class Output:
    """What the driver and the executors of a session write to stderr from here on, at level INFO."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        process: Any = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
        self._file = Path(f"/proc/{process.pid}/fd/2")
        """The file in which pytest captures it: executors on this machine are children of the driver's JVM."""
        assert self._file.is_file(), "pytest has to capture output, so do not run this with -s"
        self._begin = self._file.stat().st_size

    def read(self) -> bytes:
        with self._file.open("rb") as file:
            file.seek(self._begin)
            return file.read()

    def read_all(self) -> bytes:
        """Return all of it, once something that an executor writes now is there."""
        mark = f"written by an executor after {len(self.read())} bytes"
        self._spark.sparkContext.parallelize([mark], 1).foreach(lambda text: sys.stderr.write(text + "\n"))
        until(lambda: mark.encode() in self.read())
        return self.read()


@contextmanager
def verbose(spark: SparkSession) -> Iterator[None]:
    """Have Spark log at level INFO meanwhile."""
    for level in ("WARN", "INFO"):  # PySpark begins with INFO and a filter, which only a change of the level removes.
        spark.sparkContext.setLogLevel(level)
    try:
        yield
    finally:
        spark.sparkContext.setLogLevel("WARN")


def explained(rows: Any) -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        rows.explain(extended=True)
    return out.getvalue()


def copy(spark: SparkSession, source: dict[str, str], sink: dict[str, str], folder: Path) -> Any:
    """Start a stream from a feed to another one, which goes on until it is stopped."""
    rows = spark.readStream.format("penstock").options(startingOffsets="earliest", **source).load().select("data")
    writer = rows.writeStream.format("penstock").options(**sink)
    return writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(processingTime="0 seconds").start()


def read_all(client: Client, event_type: str) -> list[Any]:
    with client.feed(event_type) as feed:
        return [event.data["n"] for event in feed.read(feed.cursors()).events]


@contextmanager
def publishing(client: Client, event_type: str) -> Iterator[None]:
    """Publish an event after the other meanwhile."""
    is_over = threading.Event()

    def publish() -> None:
        number = 0
        while not is_over.wait(0.01):
            client.publish(event_type, [{"n": number}])
            number += 1

    publisher = threading.Thread(target=publish)
    publisher.start()
    try:
        yield
    finally:
        is_over.set()
        publisher.join()


def is_refused(hub: LiveHub, token: NewToken) -> bool:
    with Client(hub.url, auth=token.secret) as client:
        try:
            client.event_types()
        except Unauthenticated:
            return True
    return False


def test_token_of_a_query_is_in_no_plan_event_log_checkpoint_or_output(
    spark: SparkSession, closed_hub: LiveHub, direct: Hub, shop: Client, tmp_path: Path
) -> None:
    token = direct.admin.tokens.create(SHOP)
    for name in ("taken", "copied"):
        shop.create_event_type(name, partition_count=1)
    shop.publish("taken", [{"n": 1}, {"n": 2}])
    asked = {"url": closed_hub.url, "token": token.secret}
    log = tmp_path / "log"
    log.mkdir()
    output = Output(spark)

    with event_log(spark, log), verbose(spark):
        rows = spark.read.format("penstock").options(eventType="taken", **asked).load()
        assert rows.count() == 2
        rows.select("data").write.format("penstock").mode("append").options(eventType="copied", **asked).save()
        query = copy(spark, asked | {"eventType": "taken"}, asked | {"eventType": "copied"}, tmp_path)
        query.processAllAvailable()
        progress = query.lastProgress.json
        query.stop()
        direct.admin.tokens.revoke(token.token.id)
        until(lambda: is_refused(closed_hub, token))
        with pytest.raises(PySparkException):
            rows.count()

    assert sorted(read_all(shop, "copied")) == [1, 1, 2, 2]
    places = [*log.rglob("*"), *(tmp_path / "checkpoint").rglob("*")]
    written = [each.read_bytes() for each in places if each.is_file()]
    assert len(written) > 5
    assert b"SparkListenerSQLExecutionStart" in b"".join(written)
    assert token.secret.encode() not in b"".join(written)
    assert token.secret not in explained(rows) + progress
    told = output.read_all()
    assert b"INFO" in told
    assert token.secret.encode() not in told


def test_running_stream_survives_a_rotated_token(
    spark: SparkSession, closed_hub: LiveHub, direct: Hub, shop: Client, tmp_path: Path
) -> None:
    for name in ("rotated", "survived"):
        shop.create_event_type(name, partition_count=1)
    shop.publish("rotated", [{"n": 1}])
    file, token = tmp_path / "token", direct.admin.tokens.create(SHOP)
    file.write_text(token.secret)
    asked = {"url": closed_hub.url, "tokenFile": str(file)}
    query = copy(spark, asked | {"eventType": "rotated"}, asked | {"eventType": "survived"}, tmp_path)
    try:
        query.processAllAvailable()

        file.write_text(direct.admin.tokens.rotate(token.token.id, overlap_seconds=3600).secret)
        direct.admin.tokens.revoke(token.token.id)
        until(lambda: is_refused(closed_hub, token))
        shop.publish("rotated", [{"n": 2}])
        until(lambda: read_all(shop, "survived") == [1, 2])
        assert query.isActive
    finally:
        query.stop()


def test_running_stream_fails_at_once_when_its_caller_loses_the_right_to_read(
    spark: SparkSession, closed_hub: LiveHub, direct: Hub, shop: Client, tmp_path: Path
) -> None:
    ours, both = ({"data_type": SHOP.data_type, "value": name} for name in ("shop", "reader"))
    lists = {"admins": [ours], "readers": [ours, both], "writers": [ours]}
    shop.create_event_type("kept", partition_count=1, authorization=lists)
    file = tmp_path / "token"
    file.write_text(direct.admin.tokens.create(Caller("service", "reader")).secret)
    rows = spark.readStream.format("penstock").options(url=closed_hub.url, eventType="kept", tokenFile=str(file))
    query = rows.load().writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        query.processAllAvailable()

        shop.replace_event_type(shop.event_type("kept") | {"authorization": lists | {"readers": [ours]}})
        with pytest.raises(StreamingQueryException, match="Access on VIEW event-type:kept denied"):
            query.awaitTermination(30)
    finally:
        query.stop()


@pytest.mark.parametrize("way", ["read", exhaustive("write")])
def test_running_stream_whose_token_is_revoked_by_another_process_fails_with_the_refusal(
    spark: SparkSession, closed_hub: LiveHub, direct: Hub, tmp_path: Path, way: str
) -> None:
    """Prints how long it takes. The time-outs are held by tests/unit/spark/test_authorization.py."""
    token = direct.admin.tokens.create(SHOP)
    refused, other = tmp_path / "token", tmp_path / "other"
    refused.write_text(token.secret)
    other.write_text(direct.admin.tokens.create(SHOP).secret)
    asked = [
        {
            "url": closed_hub.url,
            "eventType": f"revoked.{way}.{each}",
            "tokenFile": str(refused if each == way else other),
        }
        for each in ("read", "write")
    ]
    with Client(closed_hub.url, auth=TokenFile(other)) as client:
        for each in asked:
            client.create_event_type(each["eventType"], partition_count=1)
        query = copy(spark, *asked, tmp_path)
        try:
            with publishing(client, asked[0]["eventType"]):
                until(lambda: len(read_all(client, asked[1]["eventType"])) > 10)
                revoked_at = time.monotonic()
                direct.admin.tokens.revoke(token.token.id)
                with pytest.raises(
                    StreamingQueryException, match=f"the hub refuses the token in {refused}: write a valid"
                ):
                    query.awaitTermination(300)
            seconds = time.monotonic() - revoked_at
        finally:
            query.stop()
    sys.stdout.write(f"the query that {way}s ended {seconds:.1f} s after the revocation\n")


def test_processor_on_executors_sends_the_token_of_a_file(
    spark: SparkSession, closed_hub: LiveHub, shop: Client, token: NewToken, tmp_path: Path
) -> None:
    shop.create_event_type("handled", partition_count=1)
    shop.publish("handled", [{"n": 1}, {"n": 2}])
    file, handler = tmp_path / "token", RecordingHandler(tmp_path / "seen")
    file.write_text(token.secret)

    source = SparkFeedSource(closed_hub.url, "handled", auth=TokenFile(file))
    with SparkProcessor(spark, handler, source) as running:
        running.wait_until_caught_up(60)

    assert sorted(number for numbers in handler.numbers().values() for number in numbers) == [1, 2]
    with pytest.raises(BadParameter, match="executors send no other credentials"):
        SparkFeedSource(closed_hub.url, "handled", auth=("user", "geheim"))  # type: ignore[arg-type]
