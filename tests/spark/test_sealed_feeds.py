"""format("penstock") reads sealed events from the files of the cold tier itself, and the others from the hub."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.client import Client
from penstock.core.events.event import NewEvent
from penstock.errors import BadParameter
from penstock.testing.live_hub import live_hub
from tests.promises.scene import rows_of, until
from tests.sealing import EVENT_ROWS
from tests.spark.queries import Query

NAME = "order.placed"
SEALED, HOT = 600, 50
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}, "name": {"type": "string"}}}


class Scene(NamedTuple):
    """A hub whose sealed events can be read from their files alone: they lie elsewhere than it believes."""

    url: str
    cold: Path

    def load(self, spark: SparkSession, **options: str) -> DataFrame:
        given = {"url": self.url, "eventType": NAME, "coldTier": self.cold.as_uri(), "retryTimeout": "1 second"}
        return spark.read.format("penstock").options(**(given | options)).load()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("sealed")
    database, cold = f"sqlite:///{folder}/hub.db", folder / "cold"
    with live_hub(database, options=["--cold", cold.as_uri(), "--cold-after", "0s"]) as hub, Client(hub.url) as client:
        schema = {"type": "json_schema", "schema": json.dumps(SCHEMA)}
        client.create_event_type(NAME, partition_count=2, partition_strategy="user_defined", schema=schema)
        publish(client, range(SEALED))
        until(lambda: len(rows_of(database, EVENT_ROWS)) == 2, "all but the last events left the database")
    with live_hub(database, options=["--cold", cold.as_uri(), "--cold-after", "never"]) as hub:
        with Client(hub.url) as client:
            publish(client, range(SEALED, SEALED + HOT))
        cold.rename(folder / "moved")
        yield Scene(hub.url, folder / "moved")


def publish(client: Client, numbers: range) -> None:
    client.publish(
        NAME,
        (
            NewEvent(
                json.dumps({"n": n, "name": f"é{n}"} | ({"more": n} if n % 50 == 7 else {})).encode(),
                partition=n % 2,
                key=f"key-{n % 3}" if n % 4 else None,
            )
            for n in numbers
        ),
    )


def test_each_event_is_read_once_across_files_and_hub(spark: SparkSession, scene: Scene) -> None:
    rows = scene.load(spark).orderBy("partition", "offset").collect()

    numbers = [json.loads(row["data"])["n"] for row in rows]
    assert numbers == [*range(0, SEALED + HOT, 2), *range(1, SEALED + HOT, 2)]
    assert [row["offset"] for row in rows] == [*range((SEALED + HOT) // 2)] * 2
    assert {row["kind"] for row in rows} == {NAME}
    assert [row["key"] for row in rows] == [f"key-{n % 3}" if n % 4 else None for n in numbers]


def test_typed_columns_and_some_columns_alone_are_read_from_files(spark: SparkSession, scene: Scene) -> None:
    typed = scene.load(spark, payload="typed").select("data.n", "data.name").orderBy("n").collect()
    assert [tuple(row) for row in typed] == [(n, f"é{n}") for n in range(SEALED + HOT)]

    given = {"url": scene.url, "eventType": NAME, "coldTier": scene.cold.as_uri()}
    some = spark.read.format("penstock").schema("partition int, key string").options(**given).load()
    assert some.where("key = 'key-1'").count() == len([n for n in range(SEALED + HOT) if n % 4 and n % 3 == 1])


def test_members_that_no_schema_names_are_rescued_from_files(spark: SparkSession, scene: Scene) -> None:
    rows = (
        scene.load(spark, payload="both").select("data.n", "data.name", "rescued_data", "json").orderBy("n").collect()
    )

    for n, row in enumerate(rows):
        more = n if n % 50 == 7 else None
        assert (row["n"], row["name"], json.loads(row["rescued_data"] or "{}").get("more")) == (n, f"é{n}", more)
        assert json.loads(row["json"]).get("more") == more
    given = {"url": scene.url, "eventType": NAME, "coldTier": scene.cold.as_uri(), "payload": "typed"}
    named = spark.read.format("penstock").schema("data struct<n: bigint, more: bigint>").options(**given).load()
    assert named.selectExpr("sum(data.n)", "sum(data.more)").first() == (
        sum(range(SEALED + HOT)),
        sum(n for n in range(SEALED + HOT) if n % 50 == 7),
    )


def test_stream_begins_in_files_and_goes_on_at_the_hub(spark: SparkSession, scene: Scene, tmp_path: Path) -> None:
    options = {"url": scene.url, "eventType": NAME, "coldTier": scene.cold.as_uri(), "maxEventsPerTrigger": "170"}
    query = Query(spark, options, tmp_path)

    query.run()

    assert query.places == sorted((n % 2, n // 2) for n in range(SEALED + HOT))
    assert len(query.batches) == 4


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {"coldTier": "file:///nowhere/cold"},
            "parameter coldTier is 'file:///nowhere/cold'; allowed: the cold tier of the hub",
        ),
        ({"coldTier": "s3a://key:secret@bucket/cold"}, "file:///DIRECTORY or s3://BUCKET/PREFIX"),
    ],
)
def test_wrong_cold_tier_is_an_error_that_says_so(
    spark: SparkSession, scene: Scene, options: dict[str, str], says: str
) -> None:
    with pytest.raises((PySparkException, BadParameter)) as caught:
        scene.load(spark, **options).count()

    assert says in str(caught.value)
    assert "secret" not in str(caught.value)


def test_damaged_file_ends_the_query_and_is_named(spark: SparkSession, scene: Scene) -> None:
    [file, *_] = sorted(scene.cold.rglob("*.parquet"))
    body = file.read_bytes()
    file.write_bytes(body[: len(body) // 2])
    try:
        with pytest.raises(PySparkException, match=file.name):
            scene.load(spark).count()
    finally:
        file.write_bytes(body)
