"""Whatever fails, each row is in the feed once: the digest of idempotent publishing, 5.5, for protocol D."""

import json
import random
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, rand, struct

import penstock.spark
from penstock.client import Client
from penstock.core.event import NewEvent
from penstock.core.partitioning import hash_partition
from penstock.errors import ProducerFenced
from penstock.spark.publishing import BatchName, HubBatches, Place
from penstock.testing.live_hub import LiveHub
from tests.exhaustive import exhaustive
from tests.faults.proxy import Fate, Line, Visit, cut, is_batch, lost, passed, twice, unanswered
from tests.spark.republishing import EVENTS, Driver, Republished, run_twice

BATCH = 100


def is_count(visit: Visit) -> bool:
    return visit.method == "PUT" and visit.path.endswith("/counts")


def is_second_count(visit: Visit) -> bool:
    return is_count(visit) and visit.path.endswith("/batches/1/counts")


def batches(republished: Republished) -> list[dict[str, Any]]:
    """Return the ledger, the newest first."""
    address = f"{republished.options['url']}/event-types/{republished.target}/producers/{republished.group}/batches"
    told: list[dict[str, Any]] = httpx.get(address).json()["items"]
    return told


def test_s1_tasks_that_die_behind_what_they_sent(directly: Republished, whole: Counter[int], hub: LiveHub) -> None:
    with Line(hub.port) as line:
        driver = Driver(directly, line.url)

        def die(visit: Visit) -> None:
            visit.forward()
            driver.kill_asker(visit)
            visit.hang_up()

        line.does(die, die, to=is_batch)
        said = driver.ended()
        assert line.left == 0, "no attempt has died"

    assert driver.process.returncode == 0, said[-3_000:]
    assert directly.stored == whole


@pytest.mark.exhaustive
@pytest.mark.parametrize("is_heard", [False, True], ids=["S3", "S4"])
def test_the_driver_dies_at_the_end_of_a_batch(
    directly: Republished, whole: Counter[int], hub: LiveHub, *, is_heard: bool
) -> None:
    """Killed when its tasks are done and the hub does not know that (S3), or does, and Spark has not noted it (S4)."""
    with Line(hub.port) as line:
        driver = Driver(directly, line.url)

        def die(visit: Visit) -> None:
            visit.body()
            if is_heard:
                visit.forward()
            driver.kill()
            visit.hang_up()

        line.does(die, to=is_second_count)
        driver.ended()
        assert line.left == 0, "it has come to its end"
    assert sum(directly.stored.values()) == 2 * BATCH
    assert batches(directly)[0]["state"] == ("published" if is_heard else "publishing")

    directly.run()

    assert directly.stored == whole


def test_the_driver_dies_in_the_middle_of_a_batch(directly: Republished, whole: Counter[int], hub: LiveHub) -> None:
    with Line(hub.port) as line:
        driver = Driver(directly, line.url)

        def die(visit: Visit) -> None:
            visit.forward()
            driver.kill()
            visit.hang_up()

        line.does(die, to=lambda visit: is_batch(visit) and visit.headers["producer-epoch"] == "1")
        driver.ended()
        assert line.left == 0
    assert BATCH < sum(directly.stored.values()) < 2 * BATCH, "a part of it is in the feed"

    directly.run()

    assert directly.stored == whole


@pytest.mark.parametrize("fate", [unanswered, exhaustive(twice)], ids=["lost", "doubled"])
def test_s5_the_answers_are_lost(directly: Republished, whole: Counter[int], hub: LiveHub, fate: Fate) -> None:
    with Line(hub.port) as line:
        line.does(fate, fate, to=is_count)
        line.does(fate, fate, fate, to=is_batch)
        directly.run(url=line.url)
        assert line.left == 0

    assert directly.stored == whole


@pytest.mark.exhaustive
@pytest.mark.parametrize("fate", [lost, unanswered, twice, cut], ids=["lost", "unanswered", "twice", "cut"])
def test_any_request_may_be_lost(directly: Republished, whole: Counter[int], hub: LiveHub, fate: Fate) -> None:
    with Line(hub.port) as line:
        line.does(*[fate] * 4, to=lambda visit: visit.method in ("PUT", "POST") and random.random() < 0.5)
        directly.run(url=line.url)

    assert directly.stored == whole


def interrupted(republished: Republished, hub: LiveHub, *, sent: bool = True) -> None:
    """Let a query fail in its third batch: at the end, or behind the first part that it has *sent*."""
    with Line(hub.port) as line:
        if sent:
            line.does(lost, to=lambda visit: visit.path.endswith("/batches/2/counts"))
        else:
            third = lambda visit: is_batch(visit) and visit.headers["producer-epoch"] == "2"  # noqa: E731
            line.does(passed, lost, lost, lost, to=third)
        with pytest.raises(StreamingQueryException):
            republished.run(url=line.url, retrySeconds="0")
    assert batches(republished)[0]["state"] == "publishing"


@pytest.mark.parametrize(
    "setting",
    [("spark.sql.shuffle.partitions", "3"), exhaustive(("spark.sql.adaptive.enabled", "false"))],
    ids=["shuffle", "no adaption"],
)
def test_s6_a_replay_under_other_settings(
    directly: Republished, whole: Counter[int], spark: SparkSession, hub: LiveHub, setting: tuple[str, str]
) -> None:
    directly.change = lambda rows: rows.repartition(col("data"))
    interrupted(directly, hub)
    directly.options["minPartitions"] = "7"  # As if there were other cores, or files cut otherwise.
    before = spark.conf.get(setting[0])
    spark.conf.set(*setting)
    try:
        directly.run()
    finally:
        spark.conf.set(setting[0], before or "")

    assert directly.stored == whole


def test_s7_a_query_that_does_not_say_the_same_twice(directly: Republished, whole: Counter[int], hub: LiveHub) -> None:
    directly.change = lambda rows: rows.selectExpr("get_json_object(data, '$.n') AS n").select(
        struct(col("n").cast("bigint").alias("n"), rand().alias("r")).alias("data")
    )
    interrupted(directly, hub)

    with pytest.raises(
        StreamingQueryException, match=r"batch 2 of 'spark\..*' was made anew.*event 0 of it in"
    ) as told:
        directly.run()

    assert "mode=staged" in str(told.value)
    assert directly.stored == whole, "nothing is stored twice"


@pytest.mark.exhaustive
def test_a_batch_that_was_begun_otherwise_is_forgotten_on_demand(
    directly: Republished, client: Client, hub: LiveHub
) -> None:
    """What is in the feed of it stays: its events come again, as the hint says."""
    interrupted(directly, hub)
    group = directly.group
    directly.direct = False
    with pytest.raises(StreamingQueryException, match="has begun batch 2 in mode direct"):
        directly.run()

    address = f"{hub.url}/event-types/{directly.target}/producers/{group}/batches?unfinished=true"
    assert httpx.delete(address).json() == {"forgotten": 3}
    directly.run()

    assert directly.stored == Counter(range(EVENTS)) + Counter(range(200, EVENTS))


@pytest.mark.exhaustive
@pytest.mark.parametrize("sent", [False, True], ids=["in part", "to its end"])
def test_s8_the_target_has_more_partitions_by_now(
    spark: SparkSession, client: Client, hub: LiveHub, republished: Republished, tmp_path: Path, *, sent: bool
) -> None:
    """By a key: the hub itself would place the rest of the batch in other partitions by now."""
    target = f"{republished.target}.by-key"
    client.create_event_type(target, partition_count=4, partition_strategy="hash", partition_key_fields=["n"])
    directly = Republished(spark, republished.options, target, tmp_path / "by-key", direct=True)
    interrupted(directly, hub, sent=sent)
    client.grow_partitions(target, 8)
    directly.run()

    assert directly.stored == Counter(range(EVENTS))
    assert not any(each.head for each in client.partitions(target) if each.partition >= 4)

    client.publish(republished.options["eventType"], [NewEvent(b'{"n": %d}' % n, partition=0) for n in range(300, 400)])
    directly.run()

    assert directly.stored == Counter(range(400))
    assert any(each.head for each in client.partitions(target) if each.partition >= 4)


def test_s9_a_task_of_a_batch_before_sends_late(directly: Republished, whole: Counter[int], hub: LiveHub) -> None:
    directly.run()
    late = HubBatches(hub.url, 0)
    name = BatchName(directly.target, directly.group, 1, directly.group.removeprefix("spark."))
    begun = late.begin(name)
    assert begun.epoch is not None
    for partition in range(4):
        with pytest.raises(ProducerFenced):
            late.send(name, begun.epoch, Place(partition, 0), memoryview(b'{"data":{"n":999}}\n'))

    assert directly.stored == whole


@pytest.mark.exhaustive
def test_s10_the_same_query_runs_twice(directly: Republished, whole: Counter[int], hub: LiveHub) -> None:
    run_twice(directly, hub, is_second_count)

    assert directly.stored == whole


@pytest.mark.exhaustive
def test_s11_the_checkpoint_is_gone(directly: Republished, whole: Counter[int]) -> None:
    directly.run(producerGroup=directly.target)
    shutil.rmtree(directly.checkpoint)

    with pytest.raises(StreamingQueryException, match=r"is the producer group of the query .*whose last batch was 2"):
        directly.run(producerGroup=directly.target)
    assert directly.stored == whole


@pytest.mark.exhaustive
def test_s12_batches_and_tasks_without_rows(directly: Republished) -> None:
    directly.change = lambda rows: rows.where("get_json_object(data, '$.n') < 120").repartition(5)
    directly.run()

    told = batches(directly)
    assert [(each["batch"], each["state"]) for each in told] == [(n, "published") for n in (2, 1, 0)]
    assert [each["events"] for each in told] == [0, 20, 100]
    assert directly.stored == Counter(range(120))


def test_s15_who_reads_meanwhile_sees_no_event_twice(directly: Republished, whole: Counter[int], hub: LiveHub) -> None:
    seen: Counter[int] = Counter()
    with Line(hub.port) as line, Client(hub.url) as reader:
        line.does(*[unanswered] * 4, to=is_batch)
        query = directly.start(url=line.url)
        for page in reader.feed(directly.target).follow():
            seen.update(event.data["n"] for event in page.events)
            if seen.total() >= EVENTS:
                break
        assert query.awaitTermination(300)
        assert line.left == 0

    assert seen == whole
    assert directly.stored == whole


def test_rows_that_are_not_laid_out_are_refused(spark: SparkSession, republished: Republished) -> None:
    rows = spark.range(3).selectExpr("to_json(named_struct('n', id)) AS data")
    writer = rows.write.format("penstock").mode("append").options(**republished.options, mode="direct")

    with pytest.raises(Exception, match=r"write what penstock\.spark\.direct\(rows, \.\.\.\) returns"):
        writer.save()


def test_a_job_is_published_in_order_once(spark: SparkSession, client: Client, republished: Republished) -> None:
    """By its key into partitions, and there sorted; a job that is run again under its name publishes nothing."""
    target = f"{republished.target}.job"
    client.create_event_type(target, partition_count=3, partition_strategy="hash", partition_key_fields=["k"])
    rows = (
        spark.range(5_000)
        .selectExpr("-id AS at", "named_struct('n', id, 'k', concat('k', id % 10)) AS data")
        .repartition(4)
    )
    sink = {"url": republished.options["url"], "eventType": target, "producerGroup": "job", "batchId": "7"}
    for _ in range(2):
        penstock.spark.direct(rows, orderBy="at", **sink).save()

    found = spark.read.format("penstock").options(url=sink["url"], eventType=target).load()
    events = [(row["partition"], json.loads(row["data"])) for row in found.orderBy("partition", "offset").collect()]
    assert len(events) == 5_000
    for partition in range(3):
        numbers = [event["n"] for at, event in events if at == partition]
        assert numbers == sorted(numbers, reverse=True)
    assert all(at == hash_partition((event["k"],), 3) for at, event in events)


@pytest.mark.parametrize(
    ("select", "sink", "said"),
    [
        ("data", {"orderBy": "time"}, "option orderBy is 'time'; allowed: columns that have an order: data"),
        ("data, struct(data) AS x", {"orderBy": "x"}, "option orderBy is 'x'"),
        ("data, 1 AS x", {}, "column x int is no part of an event"),
        ("data", {"onInvalid": "reject"}, "fail in mode direct"),
        ("data", {"eventType": "no.such"}, "no.such"),
        ("'[]' AS data", {"producerGroup": "g", "batchId": "0"}, "a row is no valid event"),
    ],
)  # fmt: skip
def test_what_cannot_be_published_is_told(
    spark: SparkSession, republished: Republished, select: str, sink: dict[str, str], said: str
) -> None:
    rows = spark.range(3).selectExpr("to_json(named_struct('n', id)) AS data").selectExpr(*select.split(", "))
    sink = {"url": republished.options["url"], "eventType": republished.target, **sink}

    with pytest.raises(Exception, match=re.escape(said)):
        penstock.spark.direct(rows, **sink).save()
    assert republished.stored == Counter()
