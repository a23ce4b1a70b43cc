import datetime as dt
import json
import logging
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable

from penstock.errors import BadParameter, DatabaseUnavailable
from penstock.processing.sources.categories import PAGE_ROWS, PAGE_ROWS_MAX, CategoryRange, choose_rows, translate_error
from penstock.spark.columns import QueryColumn, some_of
from penstock.spark.foreign.messagedb import (
    SCHEMA,
    CategoryQuery,
    CategoryStream,
    FirstRange,
    MessageDatabase,
    Places,
    cut_at,
    end_batch,
    next_end,
    plan_ranges,
    ranges_between,
    read_range,
    to_batch,
)
from penstock.spark.foreign.query import encode_offset, parse_query
from penstock.spark.foreign.stream import ForeignStreamReader

LEAST = {"url": "postgresql://reader@localhost:1/events", "category": "account"}
QUERY = parse_query(CategoryQuery, LEAST)


@pytest.mark.parametrize("places", [{}, {"account": 17}, {"account": FirstRange(3, 17), "payment": FirstRange(1, 1)}])
def test_offsets_come_back_as_they_were(places: Places) -> None:
    assert QUERY.decode(json.loads(json.dumps(encode_offset(places)))) == places


def test_the_first_micro_batch_says_itself_where_it_began() -> None:
    first = {"account": end_batch(FirstRange(3, 3), 17)}

    assert first == {"account": FirstRange(3, 17)}
    assert ranges_between({"account": 9}, first) == [CategoryRange("account", 3, 17)]
    assert end_batch(first["account"], 20) == 20, "the second one does not"


@pytest.mark.parametrize(
    ("start", "end", "ranges"),
    [
        (
            {"account": FirstRange(3, 17), "payment": 12},
            {"account": 20, "payment": 12},
            [CategoryRange("account", 17, 20)],
        ),
        ({"account": FirstRange(3, 17)}, {"account": FirstRange(3, 17)}, []),
        ({}, {"account": 17}, [CategoryRange("account", 1, 17)]),
    ],
    ids=["from the end before", "nothing new", "an added category from its first event"],
)
def test_micro_batch_reads_what_lies_between_two_offsets(
    start: Places, end: Places, ranges: list[CategoryRange]
) -> None:
    assert ranges_between(start, end) == ranges


class Positions(MessageDatabase):
    """The global positions of each category's events."""

    def __init__(self, **positions: list[int]) -> None:
        self.positions = positions
        self.counted = 0

    @property
    def ends(self) -> dict[str, int]:
        return {category: max(each, default=0) + 1 for category, each in self.positions.items()}

    def of(self, stretch: CategoryRange) -> list[int]:
        positions = self.positions[stretch.category]
        return positions[bisect_left(positions, stretch.start) : bisect_left(positions, stretch.end)]

    def count(self, stretch: CategoryRange, most: int | None = None) -> int:
        self.counted += 1
        return len(self.of(stretch)[:most])

    def find_behind(self, stretch: CategoryRange, events: int) -> int:
        return [*self.of(stretch), stretch.end][min(events, len(self.of(stretch)))]


SOME = Positions(account=[3, 5, 6, 20], payment=[4, 7])
NEW = {"account": 1, "payment": 5}


@pytest.mark.parametrize(
    ("start", "store", "events_max", "end"),
    [
        (NEW, SOME, None, {"account": 21, "payment": 8}),
        (NEW, SOME, 3, {"account": 6, "payment": 8}),
        ({"account": 5}, Positions(account=SOME.positions["account"]), 3,
         {"account": 21}),
        ({"account": 4}, Positions(account=SOME.positions["account"]), 2,
         {"account": 20}),
        ({"account": 17, "payment": 9}, Positions(account=[], payment=[3]), 10, None),
        ({"account": 9}, Positions(payment=[4, 7]), None, {"payment": FirstRange(1, 8)}),
        ({"account": 4}, Positions(account=[3], payment=[]), None,
         {"account": 4, "payment": FirstRange(1, 1)}),
        ({"account": FirstRange(4, 4), "payment": FirstRange(8, 8)}, SOME, None, {"account": FirstRange(4, 21),
         "payment": FirstRange(8, 8)}),
    ],
    ids=[
        "all there is", "one category leaves its share to the other", "as many as it may take", "fewer than there are",
        "an empty category and lost events", "a category added, another left out", "an empty category added",
        "the first says where it began",
    ],
)  # fmt: skip
def test_micro_batch_ends_at_heads_or_where_its_limit_does(
    start: Places, store: Positions, events_max: int | None, end: Places | None
) -> None:
    assert next_end(start, store.ends, events_max, store) == end


def test_nothing_new_is_no_batch_and_nothing_is_counted() -> None:
    store = Positions(account=[3])

    assert next_end({"account": 4}, store.ends, 10, store) is None
    assert store.counted == 0


def test_stretch_whose_events_were_deleted_is_still_cut_completely() -> None:
    assert cut_at(CategoryRange("payment", 1, 9), [2, 2], SOME) == [
        CategoryRange("payment", 1, 9),
        CategoryRange("payment", 9, 9),
    ]


@given(
    st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(1, 300), unique=True), min_size=1),
    st.integers(1, 40),
    st.integers(1, 9),
)
def test_micro_batch_after_micro_batch_every_event_is_read_once(
    positions: dict[str, list[int]], most: int, tasks: int
) -> None:
    store = Positions(**{category: sorted(each) for category, each in positions.items()})
    places, read = dict.fromkeys(positions, FirstRange(1, 1)), []
    while (end := next_end(places, store.ends, most, store)) is not None:
        planned = plan_ranges(ranges_between(places, end), store, min_tasks=tasks, cores=2)
        events = [(piece.category, each) for task in planned for piece in task for each in store.of(piece)]
        assert 0 < len(events) <= most
        read += events
        places = end

    assert sorted(read) == sorted((category, each) for category in positions for each in positions[category])


class Store(MessageDatabase):
    """Events at every third global position, each a text of a size."""

    def __init__(self, size: int) -> None:
        self.text = "x" * size
        self.asked: list[tuple[int, int]] = []

    def read_page(self, stretch: CategoryRange, names: Sequence[str], rows: int) -> list[tuple[Any, ...]]:
        assert list(names) == ["global_position", "data"]
        self.asked.append((stretch.start, rows))
        positions = range(-(-stretch.start // 3) * 3, stretch.end, 3)
        return [(position, position, self.text) for position in positions[:rows]]


def columns(*names: str) -> list[QueryColumn]:
    return [QueryColumn(name, True) for name in names]


def read(store: Store, start: int, end: int) -> list[pa.RecordBatch]:
    return list(read_range(store, CategoryRange("account", start, end), columns("global_position", "data")))


def test_a_stretch_is_read_page_by_page_each_event_once() -> None:
    batches = read(Store(10), 1, 30_000)

    positions = [position for batch in batches for position in batch.column("global_position").to_pylist()]
    assert positions == list(range(3, 30_000, 3))
    assert len(batches) > 2


def test_pages_grow_with_small_events_and_shrink_with_large_ones() -> None:
    small, large = Store(10), Store(100_000)
    read(small, 1, 300_000)
    read(large, 1, 2_000)

    assert [rows for _, rows in small.asked][:3] == [PAGE_ROWS, 2 * PAGE_ROWS, 4 * PAGE_ROWS]
    assert max(rows for _, rows in small.asked) == PAGE_ROWS_MAX
    assert large.asked[1] == (1501, 41)


def test_a_page_is_never_without_rows() -> None:
    assert choose_rows(1, 1 << 30) == 1


def test_a_stretch_that_is_empty_is_asked_for_once_at_most() -> None:
    store = Store(1)

    assert read(store, 7, 9) == []
    assert read(store, 7, 7) == []
    assert store.asked == [(7, PAGE_ROWS)]


def test_null_columns_stay_null_and_times_are_utc() -> None:
    row = (9, "account-1", None, dt.datetime(2026, 11, 20, 10, 0, 0, 7))  # noqa: DTZ001 - as PostgreSQL says it
    batch = to_batch([(3, None, *row)], "account", columns("category", "position", "stream", "metadata", "received_at"))

    [found] = batch.to_pylist()
    assert found == {
        "category": "account",
        "position": 9,
        "stream": "account-1",
        "metadata": None,
        "received_at": dt.datetime(2026, 11, 20, 10, 0, 0, 7, tzinfo=dt.UTC),
    }
    assert batch.schema.field("metadata").type == pa.string()


@pytest.mark.parametrize(
    "error",
    [
        psycopg.OperationalError("connection refused"),
        psycopg.errors.AdminShutdown("terminating connection"),
        psycopg.errors.CannotConnectNow("the database system is starting up"),
        psycopg.InterfaceError("the connection is closed"),
    ],
)
def test_unavailable_database_is_a_retryable_error(error: psycopg.Error) -> None:
    found = translate_error(error, "message_store")

    assert isinstance(found, DatabaseUnavailable)
    assert found.retryable
    assert str(error) in str(found)


@pytest.mark.parametrize(
    "error",
    [
        psycopg.errors.UndefinedTable('relation "message_store.messages" does not exist\nLINE 3'),
        psycopg.errors.UndefinedFunction("function message_store.category(text) does not exist"),
        psycopg.errors.InvalidSchemaName('schema "message_store" does not exist'),
    ],
)
def test_database_without_messagedb_is_reported(error: psycopg.Error) -> None:
    found = translate_error(error, "message_store")

    assert isinstance(found, BadParameter)
    assert "schema is 'message_store'; allowed: one in which MessageDB is installed" in str(found)
    assert "does not exist" in str(found)


def test_other_database_error_is_passed_on() -> None:
    error = psycopg.errors.InsufficientPrivilege("permission denied for table messages")

    assert translate_error(error, "message_store") is error


def reader(heads: dict[str, int], **options: str) -> ForeignStreamReader:
    made = ForeignStreamReader(parse_query(CategoryQuery, LEAST | options), some_of(SCHEMA, SCHEMA))
    set_heads(made, heads)
    return made


def set_heads(reader: ForeignStreamReader, heads: dict[str, int]) -> None:
    assert isinstance(reader.driver, CategoryStream)
    reader.driver.database.list_heads = lambda _: heads  # type: ignore[method-assign]


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
    set_heads(stream, {"account": 40})

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
