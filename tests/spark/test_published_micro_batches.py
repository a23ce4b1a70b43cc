"""A micro-batch that Spark publishes is in the feed once, whatever fails."""

import http.client
import random
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, rand, struct

from penstock.client import Client
from penstock.errors import BatchFenced
from penstock.spark.publishing import HubBatches, QueryBatch
from penstock.testing.live_hub import LiveHub
from tests.failing import has_code
from tests.faults.proxy import Held, Line, Visit, cut, lost, twice, unanswered
from tests.spark.events import events_in
from tests.spark.republishing import BATCH, EVENTS, Republished

Publish = Callable[[range], None]
WHOLE = Counter(range(EVENTS))
RANDOM_FAULTS = 8
KILLS_MAX = 10
"""So often a hub is killed at most, until that was in the middle of a batch: a slow machine may look too late."""


@contextmanager
def settings(spark: SparkSession, **values: str) -> Iterator[None]:
    """Set settings of Spark, with `_` for each dot, as long as the block runs."""
    named = {f"spark.sql.{name.replace('_', '.')}": value for name, value in values.items()}
    before = {name: spark.conf.get(name) for name in named}
    for name, value in named.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, was in before.items():
            spark.conf.set(name, was or "")


def with_random_member(rows: DataFrame) -> DataFrame:
    """Return rows that are others each time they are made."""
    return rows.selectExpr("get_json_object(data, '$.n') AS n").select(
        struct(col("n").cast("bigint").alias("n"), rand().alias("r")).alias("data")
    )


def interrupt(stream: Republished, hub: LiveHub) -> None:
    """Make a query fail at the end of its second batch."""
    with Line(hub.port) as line:
        line.does(lost, to=stream.completes(1))
        with pytest.raises(StreamingQueryException):
            stream.run(url=line.url, retryTimeout="0")


@pytest.mark.exhaustive
@pytest.mark.parametrize("is_heard", [True, False], ids=["the hub knows", "the hub does not know"])
def test_driver_killed_at_the_end_of_a_batch_publishes_it_once(
    republished: Republished, publish: Publish, hub: LiveHub, *, is_heard: bool
) -> None:
    """Its tasks are done, and Spark has not noted the batch, whether or not the hub has heard of its end."""
    with Line(hub.port) as line, republished.driver(line.url) as driver:

        def die(visit: Visit) -> None:
            visit.body()
            if is_heard:
                visit.forward()
            driver.kill("all")
            visit.hang_up()

        line.does(die, to=republished.completes(1))
        driver.has_succeeded()
        assert line.left == 0, driver.output[-3_000:]
    assert republished.stored().total() == (EVENTS if is_heard else BATCH)
    publish(range(EVENTS, EVENTS + 10))

    republished.run()

    assert republished.stored() == Counter(range(EVENTS + 10))


@pytest.mark.exhaustive
def test_task_killed_after_sending_events_is_retried_without_repeats(republished: Republished, hub: LiveHub) -> None:
    with Line(hub.port) as line, republished.driver(line.url) as driver:

        def die(visit: Visit) -> None:
            visit.forward()
            driver.kill_sender(visit)
            visit.hang_up()

        line.does(die, die, to=republished.sends_events)
        assert driver.has_succeeded(), driver.output[-3_000:]
        assert line.left == 0, "no attempt has died"

    assert republished.stored() == WHOLE


def test_batches_become_visible_whole_and_once_though_answers_are_lost(republished: Republished, hub: LiveHub) -> None:
    heads: list[int] = []
    done = threading.Event()

    def look() -> None:
        with Client(hub.url) as reader:
            while not done.wait(0.01):
                # The hub reads all heads in one statement.
                heads.append(sum(each.head for each in reader.partitions(republished.target)))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        with Line(hub.port) as line:
            line.does(lost, unanswered, twice, to=republished.completes())
            line.does(lost, unanswered, twice, to=republished.sends_events)
            republished.run(url=line.url)
            assert line.left == 0
    finally:
        done.set()
        thread.join()

    assert set(heads) <= {0, BATCH, EVENTS}
    assert len(set(heads)) > 1, "nobody has looked meanwhile"
    republished.forget_commit(1)  # As if the driver had died before it noted the batch.
    republished.run()
    assert republished.stored() == WHOLE
    check_late_task(republished)


def check_late_task(stream: Republished) -> None:
    """Check that tasks of batches that are published, or were overtaken, can publish nothing more."""
    late = HubBatches(stream.options["url"], 0)
    name = QueryBatch(stream.target, stream.group, 1, stream.group.removeprefix("spark."))
    assert late.open(name) is None, "it is settled"

    ahead = name._replace(number=2)
    upload = late.open(ahead)
    assert upload is not None
    late.put(stream.target, upload, 0, b'{"data":{"n":999}}', rejects=False)
    late.publish(name._replace(number=3), [])
    late.put(stream.target, upload, 1, b'{"data":{"n":999}}', rejects=False)
    with pytest.raises(BatchFenced, check=has_code("batch-superseded")):
        late.publish(ahead, [])
    assert stream.stored() == WHOLE


@pytest.mark.exhaustive
def test_requests_with_random_faults_publish_each_event_once(republished: Republished, hub: LiveHub) -> None:
    fates = random.choices([lost, unanswered, twice, cut], k=RANDOM_FAULTS)
    with Line(hub.port) as line:
        line.does(*fates, to=lambda visit: visit.method in ("PUT", "POST") and random.random() < 0.5)
        republished.run(url=line.url)

    assert republished.stored() == WHOLE, fates


@pytest.mark.exhaustive
@pytest.mark.parametrize("setting", [{"shuffle_partitions": "7"}, {"adaptive_enabled": "false"}], ids=str)
def test_interrupted_batch_is_completed_under_other_settings(
    republished: Republished, spark: SparkSession, hub: LiveHub, setting: dict[str, str]
) -> None:
    republished.change = lambda rows: rows.repartition(col("data"))
    interrupt(republished, hub)
    republished.options["minPartitions"] = "7"  # As if there were other cores, or files cut otherwise.
    with settings(spark, **setting):
        republished.run()

    assert republished.stored() == WHOLE


@pytest.mark.exhaustive
def test_batch_of_a_nondeterministic_query_is_published_once(republished: Republished, hub: LiveHub) -> None:
    republished.change = with_random_member
    interrupt(republished, hub)
    republished.run()
    republished.forget_commit(1)
    republished.run()

    assert republished.stored() == WHOLE


@pytest.mark.exhaustive
def test_batch_uses_partitions_that_are_added_before_its_end(
    republished: Republished, client: Client, hub: LiveHub
) -> None:
    def grow(visit: Visit) -> None:
        client.grow_partitions(republished.target, 8)
        visit.forward()
        visit.hang_up()  # A repeat finds it published.

    with Line(hub.port) as line:
        line.does(grow, to=republished.completes(1))
        republished.run(url=line.url)
        assert line.left == 0

    assert republished.stored() == WHOLE
    assert any(each.head for each in client.partitions(republished.target) if each.partition >= 4)


@pytest.mark.exhaustive
def test_query_in_two_drivers_at_once_publishes_each_event_once(republished: Republished, hub: LiveHub) -> None:
    with Line(hub.port) as line:
        held = Held(before=True)
        line.does(held, to=republished.completes(1))
        with republished.driver(line.url) as first:
            try:
                held.wait()
                with republished.driver(hub.url) as second:
                    assert second.has_succeeded(), second.output[-3_000:]
                assert first.is_running, "it is still at its second batch"
            finally:
                held.let_go()
            first.has_succeeded()

    assert republished.stored() == WHOLE


def test_query_without_its_checkpoint_is_refused_under_its_producer_group(republished: Republished) -> None:
    republished.run(producerGroup=republished.target)
    shutil.rmtree(republished.checkpoint)

    refusal = r"belongs to query .*, which published batch 1 last"
    with pytest.raises(StreamingQueryException, match=refusal) as refused:
        republished.run(producerGroup=republished.target)
    assert "a new producer group" in str(refused.value)
    assert "DELETE .../producers/{group}/batches" in str(refused.value)
    assert republished.stored() == WHOLE


@pytest.mark.exhaustive
def test_batches_and_tasks_without_rows_are_published(republished: Republished) -> None:
    republished.change = lambda rows: rows.where("get_json_object(data, '$.n') < 90").repartition(5)
    republished.run()

    assert [(each["batch"], each["state"], each["events"]) for each in republished.batches()] == [
        (1, "published", 0), (0, "published", 90),
    ]  # fmt: skip
    assert republished.stored() == Counter(range(90))


def test_hub_killed_within_a_large_batch_publishes_the_rest_once(spark: SparkSession, own_hub: LiveHub) -> None:
    """Pieces of 5000 on SQLite: some are in the feed when the hub dies, and the others come once."""
    count = 40_000
    with Client(own_hub.url) as client, Line(own_hub.port) as line:
        died: list[int] = []

        def forward(visit: Visit) -> None:
            with suppress(OSError, http.client.HTTPException):
                visit.forward()

        def publish(name: str) -> None:
            def die(visit: Visit) -> None:
                visit.body()
                threading.Thread(target=forward, args=[visit], daemon=True).start()
                while not (stored := sum(each.head for each in client.partitions(name))):
                    pass
                own_hub.kill()
                died.append(stored)
                own_hub.start()
                visit.hang_up()

            client.create_event_type(name, partition_count=2)
            line.does(die, to=lambda visit: visit.method == "PUT" and "/batches/" in visit.path)
            rows = spark.range(0, count, 1, 2).selectExpr("to_json(named_struct('n', id)) AS data")
            sink: dict[str, Any] = {"url": line.url, "eventType": name, "retryTimeout": "60 seconds"}
            rows.write.format("penstock").mode("append").options(**sink).save()

        for number in range(KILLS_MAX):
            name = f"large-{number}"
            publish(name)
            assert Counter(event.data["n"] for event in events_in(client, name)) == Counter(range(count))
            assert len(died) == number + 1
            if died[-1] < count:
                return
    raise AssertionError("each time it was killed too late")
