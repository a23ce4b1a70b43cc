import datetime as dt
import json
import threading
from itertools import product
from typing import Any

import psycopg
import pytest
from psycopg import sql
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import spark_partition_id

from penstock.spark.messagedb.database import Database, query_of
from penstock.spark.messagedb.places import Stretch
from penstock.testing.postgres import PostgresCluster
from tests.spark.categories import Categories


@pytest.fixture
def categories(message_db_url: str) -> Categories:
    return Categories(message_db_url)


@pytest.fixture
def load(spark: SparkSession, categories: Categories) -> Any:
    def loading(category: str = "account", **options: str) -> DataFrame:
        return spark.read.format("messagedb").options(url=categories.url, category=category, **options).load()

    return loading


def test_an_event_is_a_row_of_all_that_the_store_has_of_it(categories: Categories, load: Any) -> None:
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


def test_several_categories_are_one_table_and_others_are_none_of_it(categories: Categories, load: Any) -> None:
    categories.write("account-1", range(3))
    categories.write("accounting-1")
    categories.write("payment-1", range(2))
    categories.write("account")  # A stream that is a whole category.
    categories.write("payment:command-1")

    rows = load("account,payment").orderBy("global_position").collect()

    expected = [
        ("account-1", 0),
        ("account-1", 1),
        ("account-1", 2),
        ("payment-1", 0),
        ("payment-1", 1),
        ("account", 0),
    ]
    assert [(row["stream"], row["position"]) for row in rows] == expected
    assert rows[0]["metadata"] is None
    assert json.loads(rows[2]["data"]) == {"n": 2}


def test_a_category_that_is_not_there_is_empty(categories: Categories, load: Any) -> None:
    assert load("nobody").count() == 0


def test_a_query_that_names_its_columns_has_these_in_their_order(spark: SparkSession, categories: Categories) -> None:
    categories.write("account-1", range(2))
    source = spark.read.format("messagedb").options(url=categories.url, category="account")

    rows = source.schema("data string, position bigint, category string").load().orderBy("position").collect()

    assert [tuple(row) for row in rows] == [('{"n": 0}', 0, "account"), ('{"n": 1}', 1, "account")]


def test_a_table_is_from_one_position_to_another(categories: Categories, load: Any) -> None:
    categories.write("account-1", range(10))

    rows = load(startingOffsets='{"account": 4}', endingOffsets='{"account": 7}').collect()

    assert sorted(row["global_position"] for row in rows) == [4, 5, 6]
    assert load(startingOffsets='{"account": -1}').count() == 0
    assert load(endingOffsets='{"account": 1000}').count() == 10


def test_a_large_category_is_read_by_several_tasks_each_event_once(categories: Categories, load: Any) -> None:
    categories.write("other-1", range(10))
    categories.fill("account", 3_000)
    categories.fill("other", 500)
    categories.fill("account", 2_000)

    events = load(minPartitions="4").select("global_position", spark_partition_id().alias("task"))

    assert events.selectExpr("count(*)", "count(DISTINCT global_position)").first() == (5_000, 5_000)
    assert [row["count"] for row in events.groupBy("task").count().collect()] == [1_250] * 4


@pytest.mark.parametrize("analyzed", ["never", "long ago", "now"])
def test_events_are_found_by_the_index_of_categories_alone(categories: Categories, analyzed: str) -> None:
    categories.fill("account", 200)
    if analyzed == "long ago":
        categories.analyze()
    categories.fill("other", 20_000)
    if analyzed == "now":
        categories.analyze()

    with psycopg.connect(categories.url, autocommit=True) as connection:
        for statement, category in product(["heads", "count", "behind", "page"], ["account", "other", "nobody"]):
            given = {"categories": [category], "category": category, "start": 1, "end": 20_000}
            given |= {"most": 1000, "events": 100, "rows": 1000}
            query = sql.SQL("EXPLAIN {}").format(query_of(statement, "message_store", ["data"]))
            plan = [line for (line,) in connection.execute(query, given)]

            [scan] = [line for line in plan if " on messages" in line]
            assert "using messages_category" in scan, (statement, category, plan)
            assert not [line for line in plan if "Filter" in line or "Sort" in line], (statement, category, plan)


def test_the_role_of_messagedb_itself_may_read(categories: Categories) -> None:
    categories.write("account-1", range(3))
    url = categories.url.replace("postgres@", "message_store@")

    with Database(url, "message_store", 0) as database:
        assert database.heads(["account", "nobody"]) == {"account": 4, "nobody": 1}
        assert database.page(Stretch("account", 2, 4), ["position"], 9) == [(2, 1), (3, 2)]


def test_messagedb_may_be_in_a_schema_of_another_name(categories: Categories, load: Any) -> None:
    categories.write("account-1", range(3))
    with psycopg.connect(categories.url) as connection:
        connection.execute('ALTER SCHEMA message_store RENAME TO "Events of ours"')

    assert load(schema="Events of ours").count() == 3


def test_a_database_without_messagedb_is_told_as_such(spark: SparkSession, postgres_url: str) -> None:
    source = spark.read.format("messagedb").options(url=postgres_url, category="account")

    with pytest.raises(PySparkException, match="option schema is 'message_store'; allowed: one in which MessageDB is"):
        source.load().count()


def test_a_database_that_stays_away_ends_the_query_with_a_clear_error_without_the_password(spark: SparkSession) -> None:
    url = "postgresql://reader:geheim@127.0.0.1:1/events"
    source = spark.read.format("messagedb").options(url=url, category="account", retrySeconds="0.2")

    with pytest.raises(PySparkException, match=r"the database cannot be used now: .*refused") as failed:
        source.load().count()

    assert "geheim" not in str(failed.value)


@pytest.mark.exhaustive
def test_a_batch_whose_database_is_killed_while_it_is_read_has_every_event_once(
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
