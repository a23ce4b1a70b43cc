"""Whatever fails, each micro-batch is in the feed once: the digest of idempotent publishing, 5.5, for protocol S."""

import http.client
import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, rand, struct

from penstock.client import Client
from penstock.errors import BatchSuperseded
from penstock.spark.publishing import BatchName, HubBatches
from penstock.testing.live_hub import LiveHub
from tests.exhaustive import exhaustive
from tests.faults.proxy import Fate, Line, Visit, cut, lost, twice, unanswered
from tests.spark.republishing import Driver, Republished, run_twice


def is_commit(visit: Visit) -> bool:
    return visit.method == "PUT" and "/batches/" in visit.path


def is_second_commit(visit: Visit) -> bool:
    return is_commit(visit) and visit.path.endswith("/batches/1")


@pytest.mark.exhaustive
def test_s1_tasks_that_die_behind_what_they_handed_in(
    republished: Republished, whole: Counter[int], hub: LiveHub
) -> None:
    with Line(hub.port) as line:
        driver = Driver(republished, line.url)

        def die(visit: Visit) -> None:
            visit.forward()
            driver.kill_asker(visit)
            visit.hang_up()

        line.does(die, die, to=lambda visit: "/chunks/" in visit.path)
        said = driver.ended()
        assert line.left == 0, "no attempt has died"

    assert driver.process.returncode == 0, said[-3_000:]
    assert republished.stored == whole


@pytest.mark.parametrize("is_heard", [exhaustive(False), True], ids=["S3", "S4"])
def test_the_driver_dies_at_the_commit(
    republished: Republished, whole: Counter[int], hub: LiveHub, *, is_heard: bool
) -> None:
    """Killed before the hub has heard of it (S3), or after that, before Spark has noted it (S4)."""
    with Line(hub.port) as line:
        driver = Driver(republished, line.url)

        def die(visit: Visit) -> None:
            visit.body()
            if is_heard:
                visit.forward()
            driver.kill()
            visit.hang_up()

        line.does(die, to=is_second_commit)
        driver.ended()
        assert line.left == 0, "it has come to its end"
    assert sum(republished.stored.values()) == (200 if is_heard else 100)

    republished.run()

    assert republished.stored == whole


@pytest.mark.parametrize("fate", [unanswered, exhaustive(twice)], ids=["lost", "doubled"])
def test_s5_the_answers_to_commits_are_lost(
    republished: Republished, whole: Counter[int], hub: LiveHub, fate: Fate
) -> None:
    with Line(hub.port) as line:
        line.does(fate, fate, to=is_commit)
        republished.run(url=line.url)
        assert line.left == 0

    assert republished.stored == whole


@pytest.mark.exhaustive
@pytest.mark.parametrize("fate", [lost, unanswered, twice, cut], ids=["lost", "unanswered", "twice", "cut"])
def test_any_request_may_be_lost(republished: Republished, whole: Counter[int], hub: LiveHub, fate: Fate) -> None:
    with Line(hub.port) as line:
        line.does(*[fate] * 4, to=lambda visit: visit.method in ("PUT", "POST") and random.random() < 0.5)
        republished.run(url=line.url)

    assert republished.stored == whole


def interrupted(republished: Republished, hub: LiveHub) -> None:
    """Let a query fail in its third batch, when its tasks have handed in what they had."""
    with Line(hub.port) as line:
        line.does(lost, to=lambda visit: is_commit(visit) and visit.path.endswith("/batches/2"))
        with pytest.raises(StreamingQueryException):
            republished.run(url=line.url, retrySeconds="0")
        assert line.left == 0
    assert sum(republished.stored.values()) == 200


@pytest.mark.exhaustive
@pytest.mark.parametrize("setting", [("spark.sql.shuffle.partitions", "7"), ("spark.sql.adaptive.enabled", "false")])
def test_s6_a_replay_under_other_settings(
    republished: Republished, whole: Counter[int], spark: SparkSession, hub: LiveHub, setting: tuple[str, str]
) -> None:
    interrupted(republished, hub)
    republished.options["minPartitions"] = "7"  # As if there were other cores, or files cut otherwise.
    before = spark.conf.get(setting[0])
    spark.conf.set(*setting)
    try:
        republished.run()
    finally:
        spark.conf.set(setting[0], before or "")

    assert republished.stored == whole


@pytest.mark.exhaustive
def test_s7_a_query_that_does_not_say_the_same_twice(
    republished: Republished, whole: Counter[int], hub: LiveHub
) -> None:
    republished.change = lambda rows: rows.selectExpr("get_json_object(data, '$.n') AS n").select(
        struct(col("n").cast("bigint").alias("n"), rand().alias("r")).alias("data")
    )
    interrupted(republished, hub)
    republished.run()
    republished.forget_commit(2)
    republished.run()

    assert republished.stored == whole


@pytest.mark.exhaustive
def test_s8_the_target_has_more_partitions_by_now(
    republished: Republished, whole: Counter[int], client: Client, hub: LiveHub
) -> None:
    """What was handed in before it grew is given its partitions when it is published, after that."""

    def grow(visit: Visit) -> None:
        client.grow_partitions(republished.target, 8)
        visit.forward()
        visit.hang_up()  # And once more, by a repeat that finds it published.

    with Line(hub.port) as line:
        line.does(grow, to=lambda visit: is_commit(visit) and visit.path.endswith("/batches/2"))
        republished.run(url=line.url)
        assert line.left == 0

    assert republished.stored == whole
    assert any(each.head for each in client.partitions(republished.target) if each.partition >= 4)


@pytest.mark.exhaustive
def test_s10_the_same_query_runs_twice(republished: Republished, whole: Counter[int], hub: LiveHub) -> None:
    run_twice(republished, hub, is_second_commit)

    assert republished.stored == whole


def test_s9_a_task_of_a_batch_before_hands_in_late(republished: Republished, whole: Counter[int]) -> None:
    republished.run()
    late = HubBatches(republished.options["url"], 0)
    name = BatchName(republished.target, republished.group, 1, republished.group.removeprefix("spark."))
    assert late.open(name) is None, "it is settled"

    ahead = name._replace(number=3)
    upload = late.open(ahead)
    assert upload is not None
    late.put(republished.target, upload, 0, b'{"data":{"n":999}}', rejects=False)
    late.publish(name._replace(number=4), [])
    late.put(republished.target, upload, 1, b'{"data":{"n":999}}', rejects=False)
    with pytest.raises(BatchSuperseded):
        late.publish(ahead, [])

    assert republished.stored == whole


def test_s11_the_checkpoint_is_gone(republished: Republished, whole: Counter[int]) -> None:
    republished.run(producerGroup=republished.target)
    shutil.rmtree(republished.checkpoint)

    with pytest.raises(
        StreamingQueryException, match=r"is the producer group of the query .*whose last batch was 2"
    ) as told:
        republished.run(producerGroup=republished.target)
    assert "a producer group of its own" in str(told.value)
    assert "DELETE .../producers/{group}/batches" in str(told.value)
    assert republished.stored == whole


@pytest.mark.exhaustive
def test_s12_batches_and_tasks_without_rows(republished: Republished, hub: LiveHub) -> None:
    republished.change = lambda rows: rows.where("get_json_object(data, '$.n') < 120").repartition(5)
    republished.run()

    told = httpx.get(f"{hub.url}/event-types/{republished.target}/producers/{republished.group}/batches").json()
    assert [(each["batch"], each["state"]) for each in told["items"]] == [(n, "published") for n in (2, 1, 0)]
    assert sum(each["events"] for each in told["items"]) == 120
    assert republished.stored == Counter(range(120))


def test_s13_a_hub_that_dies_in_the_middle_of_a_large_batch_goes_on(
    spark: SparkSession, own_hub: LiveHub, tmp_path: Path
) -> None:
    """Pieces of 5000 on SQLite: some are in the feed when the hub dies, and the others come once."""
    with Client(own_hub.url) as client, Line(own_hub.port) as line:
        client.create_event_type("large", partition_count=2)
        rows = spark.range(0, 60_000, 1, 2).selectExpr("to_json(named_struct('n', id)) AS data")
        sink = {"url": line.url, "eventType": "large", "retrySeconds": "60"}
        died: list[int] = []

        def die(visit: Visit) -> None:
            visit.body()
            publishing = threading.Thread(target=lambda: suppressed(visit.forward), daemon=True)
            publishing.start()
            while not died:
                stored = sum(each.head for each in client.partitions("large"))
                if stored:
                    own_hub.kill()
                    died.append(stored)
            own_hub.start()
            visit.hang_up()

        line.does(die, to=is_commit)
        rows.write.format("penstock").mode("append").options(**sink).save()

        assert died
        assert died[0] < 60_000, "it was killed too late"
        found = spark.read.format("penstock").options(url=own_hub.url, eventType="large").load()
        assert found.selectExpr("count(*)", "count(DISTINCT data)").first() == (60_000, 60_000)


def suppressed(work: Callable[[], object]) -> None:
    with suppress(OSError, http.client.HTTPException):
        work()


def test_s15_who_reads_meanwhile_sees_whole_batches(
    republished: Republished, whole: Counter[int], hub: LiveHub
) -> None:
    seen: list[int] = []
    done = threading.Event()

    def look() -> None:
        with Client(republished.options["url"]) as reader:
            while not done.is_set():
                # One look at all heads: the hub reads them in one statement.
                seen.append(sum(each.head for each in reader.partitions(republished.target)))
                time.sleep(0.001)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        with Line(hub.port) as line:
            line.does(lost, unanswered, twice, to=is_commit)
            line.does(lost, unanswered, twice, to=lambda visit: "/chunks/" in visit.path)
            republished.run(url=line.url)
            assert line.left == 0
    finally:
        done.set()
        thread.join()

    assert set(seen) <= {0, 100, 200, 300}
    assert len(set(seen)) > 1, "nobody has looked meanwhile"
    assert republished.stored == whole
