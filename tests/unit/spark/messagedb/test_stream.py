import logging

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from penstock.spark.columns import some_of
from penstock.spark.messagedb.columns import SCHEMA
from penstock.spark.messagedb.options import parse_category_options
from penstock.spark.messagedb.stream import CategoryStreamReader

LEAST = {"url": "postgresql://reader@localhost:1/events", "category": "account"}


def reader(heads: dict[str, int] | None = None, **options: str) -> CategoryStreamReader:
    made = CategoryStreamReader(parse_category_options(LEAST | options), some_of(SCHEMA, SCHEMA))
    if heads is not None:
        made._database.heads = lambda _: heads  # type: ignore[method-assign]
    return made


def test_messagedb_stream_reads_to_the_head_and_reports_it() -> None:
    stream = reader({"account": 21})
    start = stream.initialOffset()

    assert start == {"account": {"from": 1, "next": 1}}
    assert stream.latestOffset(start, ReadAllAvailable()) == {"account": {"from": 1, "next": 21}}
    assert stream.latestOffset({"account": 21}, ReadAllAvailable()) == {"account": 21}
    assert stream.reportLatestOffset() == {"account": 21}


def test_messagedb_available_now_ends_at_the_heads_of_its_start() -> None:
    stream = reader({"account": 21})
    stream.prepareForTriggerAvailableNow()
    stream._database.heads = lambda _: {"account": 40}  # type: ignore[method-assign]

    assert stream.latestOffset({"account": 5}, ReadAllAvailable()) == {"account": 21}
    assert stream.latestOffset({"account": 21}, ReadAllAvailable()) == {"account": 21}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, []),
        ({"startingOffsets": "latest"}, ["the query goes on from its checkpoint, which wins: startingOffsets counts"]),
        ({"category": "payment"}, ["the checkpoint has account, too; category wins", "does not have payment"]),
    ],
)
def test_messagedb_conflict_of_checkpoint_and_options_is_logged_once(
    caplog: pytest.LogCaptureFixture, options: dict[str, str], said: list[str]
) -> None:
    stream = reader({options.get("category", "account"): 21}, **options)
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        for _ in range(2):
            stream.latestOffset({"account": 21}, ReadAllAvailable())

    assert len(caplog.messages) == len(said)
    assert all(part in message for part, message in zip(said, caplog.messages, strict=True))


def test_category_that_ends_before_the_query_position_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        reader({"account": 5}).latestOffset({"account": 21}, ReadAllAvailable())

    [message] = caplog.messages
    assert "'account' ends at global position 5, before 21, where the query is: events were deleted" in message
