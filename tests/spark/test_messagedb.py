"""format("messagedb") reads categories of a MessageDB as a table and as a stream, each event once."""

import datetime as dt
import itertools
import json
import random
import threading
import time
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import spark_partition_id

from penstock.processing.sources.categories import CategoryRange, compose_query
from penstock.spark.foreign import messagedb
from penstock.spark.foreign.messagedb import MessageDatabase
from penstock.testing.postgres import PostgresCluster
from tests.exhaustive import exhaustive
from tests.promises.scene import seeded
from tests.spark.categories import Categories, CategoryQuery, write
from tests.spark.queries import offsets_in


@pytest.fixture
def categories(message_db_url: str) -> Categories:
    return Categories(message_db_url)


@pytest.fixture
def load(spark: SparkSession, categories: Categories) -> Any:
    def loading(category: str = "account", **options: str) -> DataFrame:
        return spark.read.format("messagedb").options(url=categories.url, category=category, **options).load()

    return loading


@pytest.fixture
def query(spark: SparkSession, categories: Categories, tmp_path: Path) -> CategoryQuery:
    return CategoryQuery(spark, {"url": categories.url, "category": "account,payment"}, tmp_path)


def test_row_has_all_that_the_store_has_of_an_event(spark: SparkSession, categories: Categories, load: Any) -> None:
    number = "a5eb2a97-84d9-4ccf-8a56-7160338b11e2"
    with categories.transaction() as connection:
        given = [number, '{"b":1,"a":"é\\n"}', '{"c": null}']
        connection.execute("SELECT write_message(%s, 'account-7+1', 'Opened', %s, %s)", given)
        [(time,)] = connection.execute("SELECT time FROM messages").fetchall()

    [row] = load().collect()

    assert row.asDict() == {
        "category": "account",
        "stream": "account-7+1",
        "position": 0,
        "global_position": 1,
        "kind": "Opened",
        "id": number,
        "data": '{"a": "é\\n", "b": 1}',
        "metadata": '{"c": null}',
        "received_at": row["received_at"],
    }
    assert row["received_at"].astimezone(dt.UTC).replace(tzinfo=None) == time

    with psycopg.connect(categories.url) as connection:
        connection.execute('ALTER SCHEMA message_store RENAME TO "Events of ours"')
    source = spark.read.format("messagedb").options(url=categories.url, category="account", schema="Events of ours")
    chosen = source.schema("data string, position bigint, category string").load()
    assert chosen.collect() == [('{"a": "é\\n", "b": 1}', 0, "account")]


def test_table_has_the_chosen_categories_between_given_positions(categories: Categories, load: Any) -> None:
    categories.write("account-1", range(3))
    categories.write("accounting-1")
    categories.write("payment-1", range(2))
    categories.write("account")  # A stream that is a whole category.
    categories.write("payment:command-1")

    rows = load("account,nobody,payment").orderBy("global_position").collect()

    streams = [("account-1", 0), ("account-1", 1), ("account-1", 2), ("payment-1", 0), ("payment-1", 1), ("account", 0)]
    assert [(row["stream"], row["position"]) for row in rows] == streams
    assert rows[0]["metadata"] is None
    assert json.loads(rows[2]["data"]) == {"n": 2}
    part = load("account,payment", startingOffsets='{"account": 2, "payment": -1}', endingOffsets='{"account": 3}')
    assert [row["global_position"] for row in part.collect()] == [2], "-1 is the end"


@pytest.mark.exhaustive
def test_large_category_is_read_by_several_tasks_each_event_once(categories: Categories, load: Any) -> None:
    categories.write("other-1", range(10))
    categories.fill("account", 3_000)
    categories.fill("other", 500)
    categories.fill("account", 2_000)

    events = load(minPartitions="4").select("global_position", spark_partition_id().alias("task"))

    assert events.selectExpr("count(*)", "count(DISTINCT global_position)").first() == (5_000, 5_000)
    assert [row["count"] for row in events.groupBy("task").count().collect()] == [1_250] * 4


@pytest.mark.parametrize("analyzed", ["early", exhaustive("never")])
def test_events_are_found_by_the_index_of_categories_under_all_statistics(
    categories: Categories, analyzed: str
) -> None:
    categories.fill("account", 200)
    if analyzed == "early":
        categories.analyze()
    categories.fill("other", 20_000)
    check_plans(categories)
    categories.analyze()
    check_plans(categories)


def check_plans(categories: Categories) -> None:
    with psycopg.connect(categories.url, autocommit=True) as connection:
        for statement, category in product(["heads", "count", "behind", "page"], ["account", "other", "nobody"]):
            given = {"categories": [category], "category": category, "start": 1, "end": 20_000}
            given |= {"most": 1000, "events": 100, "rows": 1000}
            query = sql.SQL("EXPLAIN {}").format(compose_query(statement, "message_store", ["data::text"]))
            plan = [line for (line,) in connection.execute(query, given)]

            [scan] = [line for line in plan if " on messages" in line]
            assert "using messages_category" in scan, (statement, category, plan)
            assert not [line for line in plan if "Filter" in line or "Sort" in line], (statement, category, plan)


def test_role_of_messagedb_may_read(categories: Categories) -> None:
    categories.write("account-1", range(3))
    url = categories.url.replace("postgres@", "message_store@")

    with closing(
        MessageDatabase(messagedb.CategoryQuery(url=url, category=("account",), retry_timeout=0.0))
    ) as database:
        assert database.list_heads(["account", "nobody"]) == {"account": 4, "nobody": 1}
        assert database.read_page(CategoryRange("account", 2, 4), ["position"], 9) == [(2, 1), (3, 2)]


def test_database_without_messagedb_is_refused(spark: SparkSession, postgres_url: str) -> None:
    source = spark.read.format("messagedb").options(url=postgres_url, category="account")

    with pytest.raises(PySparkException, match="schema is 'message_store'; allowed: one in which MessageDB is"):
        source.load().count()


def test_unreachable_database_is_an_error_without_the_password(spark: SparkSession) -> None:
    url = "postgresql://reader:geheim@127.0.0.1:1/events"
    source = spark.read.format("messagedb").options(url=url, category="account", retryTimeout="0.2 seconds")

    with pytest.raises(PySparkException, match=r"the database cannot be used now: .*refused") as failed:
        source.load().count()

    assert "geheim" not in str(failed.value)


@pytest.mark.exhaustive
def test_batch_read_from_a_database_that_is_killed_has_every_event_once(
    postgres_cluster: PostgresCluster, categories: Categories, load: Any
) -> None:
    categories.fill("account", 100_000)
    read: list[Any] = []
    counting = load(minPartitions="4").selectExpr("count(*)", "count(DISTINCT global_position)", "count(data)")
    reading = threading.Thread(target=lambda: read.append(counting.first()))

    reading.start()
    for _ in range(3):
        postgres_cluster.kill()
        postgres_cluster.start()
    reading.join(300)

    assert read == [(100_000, 100_000, 100_000)]


def test_events_of_an_open_transaction_are_read_after_its_commit_and_other_categories_do_not_wait(
    query: CategoryQuery, categories: Categories
) -> None:
    categories.write("payment-1")
    with categories.transaction() as late:
        write(late, "account-1")  # It has global position 2 ...
        categories.write("payment-1", range(5))  # ... and those have 3 to 7, and are committed first.
        second = threading.Thread(target=categories.write, args=["account-2"])
        second.start()
        query.run()
        assert query.places == [("payment", position) for position in (1, 3, 4, 5, 6, 7)]
        assert second.is_alive(), "within a category MessageDB has writers wait for each other"
    second.join(300)

    [progress, *_] = query.run()

    assert query.batches[-1][1] == [("account", 2), ("account", 8)]
    assert offsets_in(progress) == {"account": {"from": 1, "next": 9}, "payment": 8}


@pytest.mark.exhaustive
def test_stream_has_every_event_once_beside_random_transactions(query: CategoryQuery, categories: Categories) -> None:
    seed = seeded().getrandbits(32)

    def work(number: int) -> None:
        chance, latest = random.Random(f"{seed}-{number}"), time.monotonic() + 300
        rounds = itertools.count()
        while next(rounds) < 40 or (len(query.batches) <= 10 and time.monotonic() < latest):
            with categories.transaction() as connection:
                # In one order, so that two transactions do not wait for each other.
                for category in sorted(chance.sample(["account", "payment", "other"], chance.randint(1, 3))):
                    for _ in range(chance.randint(1, 4)):
                        write(connection, f"{category}-{chance.randrange(3)}")
                    connection.execute("SELECT pg_sleep(%s)", [chance.random() / 10])  # So that others overtake it.
                if chance.random() < 0.3:
                    connection.rollback()

    workers = [threading.Thread(target=work, args=[number]) for number in range(4)]
    running = query.start()
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(600)
        running.processAllAvailable()
    finally:
        running.stop()

    assert query.places == [place for place in categories.places() if place[0] != "other"]
    assert len(query.batches) > 10


@pytest.mark.parametrize(
    ("where", "number"),
    [("earliest", 1), *(exhaustive(where, n) for where in ("latest", '{"account": 11}') for n in (0, 1))],
)
def test_micro_batch_that_is_run_again_has_the_same_rows(
    query: CategoryQuery, categories: Categories, where: str, number: int
) -> None:
    categories.write("account-1", range(20))
    query.run(startingOffsets=where)
    categories.write("account-1", range(20, 50))
    if number == 1:
        query.run(startingOffsets=where)
        categories.write("account-1", range(50, 60))
    before = query.batches[-1]

    query.forget_commit(number)
    query.run(startingOffsets="earliest")

    assert before[0] == number
    assert [places for batch, places in query.batches if batch == number] == [before[1], before[1]]
    assert query.batches[-1][0] == number + 1, "and then it goes on"
    assert len(query.batches[-1][1]) == (30 if number == 0 else 10)


@pytest.mark.exhaustive
def test_running_stream_waits_for_a_database_that_restarts(
    query: CategoryQuery, categories: Categories, postgres_cluster: PostgresCluster
) -> None:
    categories.write("account-1", range(10))
    running = query.start()
    try:
        running.processAllAvailable()
        postgres_cluster.kill()
        postgres_cluster.start()
        categories.write("account-1", range(7))
        running.processAllAvailable()
    finally:
        running.stop()

    assert query.places == categories.places()
    assert len(query.places) == 17
