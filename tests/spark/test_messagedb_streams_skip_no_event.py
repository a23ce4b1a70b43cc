import json
import random
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from penstock.testing.postgres import PostgresCluster
from tests.exhaustive import exhaustive
from tests.promises.scene import seeded
from tests.spark.categories import Categories, CategoryQuery, write


@pytest.fixture
def categories(message_db_url: str) -> Categories:
    return Categories(message_db_url)


@pytest.fixture
def query(spark: SparkSession, categories: Categories, tmp_path: Path) -> CategoryQuery:
    return CategoryQuery(spark, {"url": categories.url, "category": "account,payment"}, tmp_path)


def offsets(progress: dict[str, Any], which: str = "endOffset") -> dict[str, Any]:
    given = progress["sources"][0][which]
    parsed: dict[str, Any] = json.loads(given) if isinstance(given, str) else given
    return parsed


def test_a_transaction_that_is_open_is_not_skipped_while_another_category_goes_on(
    query: CategoryQuery, categories: Categories
) -> None:
    categories.write("payment-1")
    with categories.transaction() as late:
        write(late, "account-1")  # It has global position 2 ...
        categories.write("payment-1", range(5))  # ... and those have 3 to 7, and are committed first.
        query.run()
        assert query.places == [("payment", position) for position in (1, 3, 4, 5, 6, 7)]

    [progress, *_] = query.run()

    assert query.batches[-1][1] == [("account", 2)]
    assert offsets(progress) == {"account": {"from": 1, "next": 3}, "payment": 8}


def test_within_a_category_who_writes_waits_until_the_transaction_before_has_ended(
    query: CategoryQuery, categories: Categories
) -> None:
    with categories.transaction() as first:
        write(first, "account-1")
        second = threading.Thread(target=categories.write, args=["account-2"])
        second.start()
        second.join(0.3)
        assert second.is_alive()
        query.run()
        assert query.places == []
    second.join(300)

    query.run()

    assert query.places == [("account", 1), ("account", 2)]


@pytest.mark.exhaustive
def test_a_position_that_was_rolled_back_is_a_hole_and_no_problem(query: CategoryQuery, categories: Categories) -> None:
    categories.write("account-1")
    with categories.transaction() as failed:
        write(failed, "account-1")
        categories.write("payment-1")
        query.run()
        failed.rollback()
    categories.write("account-1")

    query.run()

    assert query.places == [("account", 1), ("account", 4), ("payment", 3)]


@pytest.mark.exhaustive
def test_whatever_transactions_do_a_stream_that_runs_meanwhile_has_every_event_once(
    query: CategoryQuery, categories: Categories
) -> None:
    seed = seeded().getrandbits(32)

    def work(number: int) -> None:
        chance = random.Random(f"{seed}-{number}")
        for _ in range(40):
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
            worker.join(300)
        running.processAllAvailable()
    finally:
        running.stop()

    assert query.places == [place for place in categories.places() if place[0] != "other"]
    assert len(query.batches) > 10


@pytest.mark.parametrize("where", ["earliest", exhaustive("latest"), exhaustive('{"account": 11}')])
@pytest.mark.parametrize("number", [exhaustive(0), 1])
def test_a_micro_batch_that_is_run_again_holds_the_same_rows(
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
def test_what_is_available_is_read_in_batches_no_larger_than_asked_for(
    query: CategoryQuery, categories: Categories
) -> None:
    categories.fill("account", 230)
    categories.fill("other", 30)
    categories.fill("payment", 20)

    progress = query.run(maxEventsPerTrigger="100")

    assert [each["numInputRows"] for each in progress if each["numInputRows"]] == [100, 100, 50]
    assert offsets(progress[0]) == {"account": {"from": 1, "next": 81}, "payment": {"from": 1, "next": 281}}
    assert offsets(progress[0], "latestOffset") == {"account": 231, "payment": 281}
    assert query.places == [place for place in categories.places() if place[0] != "other"]


@pytest.mark.exhaustive
def test_what_comes_while_available_events_are_read_is_left_for_the_next_run(
    query: CategoryQuery, categories: Categories
) -> None:
    categories.write("account-1", range(20))

    class Interrupting(list[Any]):
        def append(self, batch: Any) -> None:
            super().append(batch)
            categories.write("account-1", range(10))

    query.batches = Interrupting()
    query.run(maxEventsPerTrigger="5")

    assert query.places == [("account", position) for position in range(1, 21)]


@pytest.mark.exhaustive
def test_a_new_stream_from_the_latest_position_reads_only_what_comes(
    query: CategoryQuery, categories: Categories
) -> None:
    categories.write("account-1", range(5))
    query.run(startingOffsets="latest")
    categories.write("account-1", range(2))
    categories.write("payment-1")

    query.run(startingOffsets="latest")

    assert query.places == [("account", 6), ("account", 7), ("payment", 8)]


@pytest.mark.exhaustive
def test_a_category_that_is_added_is_read_from_its_beginning(query: CategoryQuery, categories: Categories) -> None:
    categories.write("other-1", range(3))
    categories.write("account-1")
    query.run()

    query.run(category="account,other")

    assert [places for _, places in query.batches] == [[("account", 4)], [("other", 1), ("other", 2), ("other", 3)]]


@pytest.mark.exhaustive
def test_a_category_whose_events_are_gone_is_empty_and_goes_on_with_those_that_come(
    query: CategoryQuery, categories: Categories
) -> None:
    categories.write("account-1", range(3))
    query.run()
    with categories.transaction() as connection:
        connection.execute("DELETE FROM messages")
    query.run()
    categories.write("account-1")

    query.run()

    assert query.places == [("account", position) for position in (1, 2, 3, 4)]


@pytest.mark.parametrize("how", [exhaustive("restart"), "kill"])
def test_a_stream_waits_for_a_database_that_restarts_and_goes_on(
    query: CategoryQuery, categories: Categories, postgres_cluster: PostgresCluster, how: str
) -> None:
    categories.write("account-1", range(10))
    running = query.start()
    try:
        running.processAllAvailable()
        if how == "restart":
            postgres_cluster.restart()
        else:
            postgres_cluster.kill()
            postgres_cluster.start()
        categories.write("account-1", range(7))
        running.processAllAvailable()
    finally:
        running.stop()

    assert query.places == categories.places()
    assert len(query.places) == 17


@pytest.mark.exhaustive
def test_a_stream_whose_database_stays_away_ends_with_a_clear_error(
    query: CategoryQuery, categories: Categories, postgres_cluster: PostgresCluster
) -> None:
    categories.write("account-1")
    query.run()
    postgres_cluster.stop()

    with pytest.raises(StreamingQueryException, match=r"the database cannot be used now: .*refused"):
        query.run(retrySeconds="0.5")
