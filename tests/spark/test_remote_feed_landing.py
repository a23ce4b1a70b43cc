"""Streams of format("zeroeventhub") against the reference server, step by step as Spark takes them."""

import itertools
import json
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import zeroeventhub
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from penstock.client import Client
from penstock.errors import BadParameter, EventsLost, Unreachable
from penstock.spark.columns import some_of
from penstock.spark.foreign.query import parse_query
from penstock.spark.foreign.zeroeventhub import SCHEMA, FeedQuery, FeedStream
from tests.client.loopback import served
from tests.client.reference_server import ListReader, reference_app
from tests.client.splitting_server import SplittingFeed, splitting_app
from tests.failing import has_code
from tests.spark.remote_feeds import Steps

NOTHING: dict[str, Any] = {"landing": "none", "run": "none", "partitions": {}}


@pytest.fixture
def lists() -> ListReader:
    """What the reference server of ZeroEventHub has: 20 numbers, the even ones in partition 0, the odd ones in 1."""
    made = ListReader(2)
    for number in range(20):
        made.add(number % 2, {"n": number})
    return made


@pytest.fixture
def version_one(lists: ListReader, tmp_path: Path) -> Iterator[Steps]:
    with served(reference_app(lists)) as url:
        yield Steps(f"{url}/feed", tmp_path, partitionCount="2", pageSizeHint="4")


class SparseReader(ListReader):
    """One that sends the last event of each partition alone: the pages before that are empty, and lead one further."""

    async def get_data(
        self, cursors: Sequence[zeroeventhub.Cursor], headers: Sequence[str] | None, page_size: int | None
    ) -> AsyncGenerator[dict[str, Any], Any]:
        [asked] = cursors
        begin = 0 if asked.cursor == "_first" else int(asked.cursor)
        if begin + 1 < len(self.partitions[asked.partition_id]):
            self.requests += 1
            yield {"partition": asked.partition_id, "cursor": str(begin + 1)}
        else:
            async for line in super().get_data(cursors, headers, page_size):
                yield line


@pytest.fixture
def sparse(tmp_path: Path) -> Iterator[tuple[Steps, ListReader]]:
    lists = SparseReader(1)
    lists.add(0, *({"n": number} for number in range(50)))
    with served(reference_app(lists)) as url:
        yield Steps(f"{url}/feed", tmp_path, partitionCount="1", eventTypes="wanted"), lists


@pytest.fixture
def splitting() -> SplittingFeed:
    return SplittingFeed(0)


@pytest.fixture
def version_two(splitting: SplittingFeed, tmp_path: Path) -> Iterator[Steps]:
    with served(splitting_app(splitting)) as url:
        yield Steps(f"{url}/feed", tmp_path, retryTimeout="20 seconds")


def numbers(rows: list[tuple[int, int, str]]) -> list[int]:
    return sorted(json.loads(data)["n"] for _, _, data in rows)


def test_event_is_in_one_micro_batch_with_a_number_of_its_own(version_one: Steps, lists: ListReader) -> None:
    end, [first] = version_one.run()
    again = version_one.reader()
    for _ in range(2):  # As Spark does which runs the first micro-batch again: it has not kept where that began.
        assert version_one.rows(again, again.initialOffset(), end) == first
        again.commit(end)
    lists.add(1, {"n": 21})
    end, [second] = version_one.run(end)

    assert first == [(p, n, json.dumps({"n": 2 * n + p})) for p in (0, 1) for n in range(10)]
    assert second == [(1, 10, '{"n": 21}')]
    assert end["partitions"] == {
        "0": {"page": 0, "number": 10, "cursor": "10"},
        "1": {"page": 1, "number": 11, "cursor": "11"},
    }
    assert version_one.run(end) == (end, [])


def test_crash_before_spark_has_the_offset_loses_nothing(version_one: Steps, lists: ListReader) -> None:
    start, _ = version_one.run(events_max=8)
    lists.add(0, {"n": 20})
    version_one.reader().latestOffset(start, ReadMaxRows(8))

    end, batches = version_one.run(start)

    assert batches == [[(0, 10, '{"n": 20}')]]
    assert version_one.run(end) == (end, [])


def test_two_drivers_do_not_overwrite_the_pages_of_each_other(version_one: Steps, lists: ListReader) -> None:
    dead = version_one.reader()
    start, _ = version_one.run()
    lists.add(0, {"n": 20})
    alive = version_one.reader()
    end = alive.latestOffset(start, ReadAllAvailable())
    lists.add(0, {"n": 22})

    other = dead.latestOffset(start, ReadAllAvailable())

    assert version_one.rows(alive, start, end) == [(0, 10, '{"n": 20}')]
    assert version_one.rows(alive, start, other) == [(0, 10, '{"n": 20}'), (0, 11, '{"n": 22}')]


def test_micro_batch_is_replayed_from_its_pages_though_the_server_has_lost_them(
    version_one: Steps, lists: ListReader
) -> None:
    reader = version_one.reader()
    start = reader.initialOffset()
    done = list(version_one.micro_batches(reader, start, 6))
    for partition in lists.partitions:
        partition.clear()

    (before, _), (end, rows) = done[-2:]
    assert version_one.rows(version_one.reader(), before, end) == rows
    assert numbers([row for _, rows in done for row in rows]) == list(range(20))
    with pytest.raises(
        EventsLost,
        check=has_code("landed-page-missing"),
        match=r"/0/0 in .*, which this query has stored, no longer exists",
    ):
        version_one.rows(version_one.reader(), NOTHING, done[0][0])


def test_pages_of_earlier_runs_are_deleted_after_a_micro_batch_of_the_new_run(
    version_one: Steps, lists: ListReader, tmp_path: Path
) -> None:
    def runs() -> set[str]:
        return {page.parent.parent.name for page in tmp_path.rglob("*.arrow")}

    start, _ = version_one.run(events_max=8)
    lists.add(0, {"n": 20})
    killed = version_one.reader().latestOffset(start, ReadAllAvailable())
    frozen = version_one.reader()
    first = frozen.latestOffset(start, ReadAllAvailable())
    assert runs() == {start["run"], killed["run"], first["run"]}

    heir = version_one.reader()
    lists.add(0, {"n": 22})
    second = heir.latestOffset(first, ReadMaxRows(1))
    version_one.rows(frozen, start, first)
    frozen.commit(first)

    assert runs() == {first["run"], second["run"]}, "not those of one that has begun since"
    version_one.rows(heir, first, second)
    heir.commit(second)
    assert runs() == {second["run"]}


def test_limit_is_shared_by_all_partitions(version_one: Steps, lists: ListReader) -> None:
    lists.add(0, *({"n": number} for number in range(100, 140, 2)))
    _, batches = version_one.run(events_max=12)

    assert [[sum(row[0] == p for row in rows) for p in (0, 1)] for rows in batches] == [[6, 6], [8, 4], [12, 0], [4, 0]]


def test_events_after_the_end_of_a_partition_are_left_for_the_next_run(version_one: Steps, lists: ListReader) -> None:
    lists.add(0, *({"n": number} for number in range(100, 140, 2)))
    reader = version_one.reader()
    reader.prepareForTriggerAvailableNow()
    rows = []
    for end, batch in version_one.micro_batches(reader, reader.initialOffset(), 12):
        rows += batch
        if end["partitions"]["1"]["number"] == 10 and len(rows) == 36:
            lists.add(1, {"n": 21})

    assert {"n": 21} in lists.partitions[1]
    assert 21 not in numbers(rows)
    assert len(rows) == 40


def test_new_stream_from_the_end_has_all_events_after_its_start(version_one: Steps, lists: ListReader) -> None:
    end, [rows] = version_one.run(startingCursors="_last")
    assert rows == []
    assert {each["cursor"] for each in end["partitions"].values()} == {"10"}
    lists.add(0, {"n": 20})

    assert version_one.run(end, startingCursors="_last")[1] == [[(0, 0, '{"n": 20}')]]


def test_new_stream_begins_at_the_given_cursors(version_one: Steps) -> None:
    _, [rows] = version_one.run(startingCursors='{"1": "8"}')

    assert [row for row in rows if row[0] == 1] == [(1, 0, '{"n": 17}'), (1, 1, '{"n": 19}')]
    assert len(rows) == 12, "a partition that is left out begins at its first event"


def test_options_that_contradict_the_feed_or_the_checkpoint_are_refused(version_one: Steps) -> None:
    end, _ = version_one.run()
    with pytest.raises(BadParameter, match="option partitionCount is 3; allowed: 2, as in the checkpoint"):
        version_one.run(end, partitionCount="3")
    again = version_one.reader(partitionCount="3")
    again.partitions(again.initialOffset(), end)  # As Spark does where the first micro-batch is run again.
    with pytest.raises(BadParameter, match="option partitionCount is 3; allowed: 2, as in the checkpoint"):
        again.latestOffset(end, ReadAllAvailable())
    with pytest.raises(
        BadParameter, match=r"option startingCursors is 'that of partition 7'; allowed: .*partitions, 0, 1"
    ):
        version_one.run(startingCursors='{"7": "x"}')
    del version_one.options["partitionCount"]
    with pytest.raises(BadParameter, match="option partitionCount is missing; allowed: the number of partitions that"):
        version_one.run()


def test_checkpoint_wins_over_starting_cursors(version_one: Steps, caplog: pytest.LogCaptureFixture) -> None:
    end, _ = version_one.run()
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        assert version_one.run(end, startingCursors='{"0": "0"}') == (end, [])

    assert caplog.messages == [
        "the query goes on from its checkpoint, which wins: startingCursors counts for a new one alone"
    ]


def test_idle_query_polls_once_a_second(version_one: Steps) -> None:
    now, slept = [100.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    stream = FeedStream(parse_query(FeedQuery, version_one.options), clock=lambda: now[0], sleep=sleep)
    end = stream.advance(stream.begin(), 100)
    for seconds in (0.0, 0.25, 2.0):
        now[0] += seconds
        assert stream.advance(end, 100) == end

    assert slept == [0.75, 0.0]


def test_empty_pages_do_not_hide_an_event_of_a_filtered_feed(
    sparse: tuple[Steps, ListReader],
) -> None:
    assert sparse[0].run()[1] == [[(0, 0, '{"n": 49}')]]


def test_next_run_begins_at_a_false_end_of_the_feed(sparse: tuple[Steps, ListReader]) -> None:
    steps, _ = sparse
    del steps.options["eventTypes"]
    end, batches = steps.run()
    assert (batches, end["partitions"]["0"]["cursor"]) == ([[]], "3")

    for _ in range(20):
        end, batches = steps.run(end)
        if batches[0]:
            break

    assert batches == [[(0, 0, '{"n": 49}')]]


def test_long_search_returns_to_spark_and_is_resumed(
    sparse: tuple[Steps, ListReader],
) -> None:
    steps, lists = sparse
    ticks = itertools.count()
    stream = FeedStream(parse_query(FeedQuery, steps.options), clock=lambda: float(next(ticks)), sleep=lambda _: None)
    start = stream.begin()
    looks = 0
    while (end := stream.advance(start, 100)) == start:
        looks += 1

    assert looks > 3
    assert lists.requests == 50, "each page once"
    assert end.partitions[0].number == 1


def test_partitions_that_start_after_another_begin_at_its_end(version_two: Steps, splitting: SplittingFeed) -> None:
    splitting.add(0, *({"n": number} for number in range(5)))
    end, [first] = version_two.run()
    splitting.continue_in(0, 1, 2)
    splitting.add(1, {"n": 5}, {"n": 7})
    splitting.add(2, {"n": 6})
    end, batches = version_two.run(end)

    assert numbers(first) == [0, 1, 2, 3, 4]
    assert [sorted(rows) for rows in batches] == [[(1, 0, '{"n": 5}'), (1, 1, '{"n": 7}'), (2, 0, '{"n": 6}')]]
    assert version_two.run(end) == (end, [])
    _, anew = version_two.run()
    assert [{row[0] for row in rows} for rows in anew] == [{0}, {1, 2}], "never in one micro-batch with their parent"


def test_partitions_that_replace_another_go_on_at_its_cursor(version_two: Steps, splitting: SplittingFeed) -> None:
    splitting.add(0, *({"n": number} for number in range(5)))
    reader = version_two.reader()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    splitting.replace_by(0, 1, 2)
    splitting.add(2, {"n": 5})

    after = reader.latestOffset(end, ReadAllAvailable())

    assert version_two.rows(reader, end, after) == [(2, 0, '{"n": 5}')]
    assert after["partitions"].keys() == {"1", "2"}
    assert version_two.run(after) == (after, [])


def test_feed_with_a_new_token_alone_is_read_on(version_two: Steps, splitting: SplittingFeed) -> None:
    splitting.add(0, {"n": 0})
    reader = version_two.reader()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    splitting.generation += 1
    splitting.add(0, {"n": 1})

    after = reader.latestOffset(end, ReadAllAvailable())

    assert version_two.rows(reader, end, after) == [(0, 1, '{"n": 1}')]


def test_partitions_that_are_split_within_a_micro_batch_lose_nothing(
    version_two: Steps, splitting: SplittingFeed
) -> None:
    splitting.add(0, *({"n": number} for number in range(4)))

    def split(_: Request) -> Response:
        splitting.replace_by(0, 1, 2)
        splitting.add(1, {"n": 4})
        return PlainTextResponse("discover again", 409)

    reader = version_two.reader()
    start = reader.initialOffset()
    first = reader.latestOffset(start, ReadMaxRows(1))
    splitting.failures.append(split)
    rows = version_two.rows(reader, start, first)
    rows += [row for _, batch in version_two.micro_batches(reader, first) for row in batch]

    assert numbers(rows) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("starts_after", [True, False])
def test_batch_and_new_stream_begin_at_the_same_cursors(
    version_two: Steps, splitting: SplittingFeed, starts_after: bool
) -> None:
    splitting.add(0, *({"n": number} for number in range(4)))
    if starts_after:
        splitting.continue_in(0, 1, 2)
        cursors = {"0": "3", "1": "1"}
    else:
        splitting.replace_by(0, 1, 2)
        cursors = {"0": "3"}
    splitting.add(1, {"n": 4}, {"n": 5})
    splitting.add(2, {"n": 6})
    asked = {"startingCursors": json.dumps(cursors)}

    _, streamed = version_two.run(**asked)
    query = parse_query(FeedQuery, {"url": version_two.options["url"], **asked})
    columns = some_of(SCHEMA, SCHEMA)
    batch = [row for task in query.plan() for rows in query.read(columns, task) for row in rows.to_pylist()]

    assert sorted(json.loads(row["data"])["n"] for row in batch) == numbers([row for rows in streamed for row in rows])


@pytest.mark.parametrize("status", [429, 503])
def test_busy_server_is_asked_again_after_retry_after(
    version_two: Steps, splitting: SplittingFeed, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    splitting.add(0, {"n": 0})
    splitting.failures.append(lambda _: PlainTextResponse("later", status, {"Retry-After": "0"}))
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        assert version_two.run()[1] == [[(0, 0, '{"n": 0}')]]
    assert "trying again for up to 20 s" in caplog.text

    splitting.failures.append(lambda _: PlainTextResponse("later", status, {"Retry-After": "60"}))
    with pytest.raises(Exception, match=str(status)) as failed:
        version_two.run()
    assert failed.value.retry_after == 60  # type: ignore[attr-defined]


def test_refused_cursor_is_a_loss_that_fails_unless_allowed(
    version_two: Steps, splitting: SplittingFeed, caplog: pytest.LogCaptureFixture
) -> None:
    splitting.add(0, {"n": 0})
    end, _ = version_two.run()
    splitting.add(0, {"n": 1})
    for _ in range(2):
        splitting.failures.append(lambda _: PlainTextResponse("too old", 410))

    said = r"an unknown number of events of 'http.*', partition 0, .*: the server refuses the cursor '1': .*too old"
    with pytest.raises(EventsLost, match=said):
        version_two.run(end)
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        _, [rows] = version_two.run(end, failOnDataLoss="false")

    assert rows == [(0, 1, '{"n": 0}'), (0, 2, '{"n": 1}')], "from the first event on, under numbers of their own"
    assert "going on without them (failOnDataLoss=false)" in caplog.text


def test_feed_created_again_is_a_loss_that_fails_unless_allowed(
    client: Client, options: dict[str, str], publish: Callable[[range], None], tmp_path: Path
) -> None:
    publish(range(6))
    steps = Steps(f"{options['url']}/feeds/{options['eventType']}", tmp_path)
    end, [rows] = steps.run()
    assert numbers(rows) == list(range(6))
    client.delete_event_type(options["eventType"])
    client.create_event_type(options["eventType"], partition_count=2, partition_strategy="user_defined")
    publish(range(10, 12))

    with pytest.raises(EventsLost, match="the server refuses the cursor"):
        steps.run(end)
    _, [rows] = steps.run(end, failOnDataLoss="false")

    assert rows == [(0, 3, '{"n": 10}'), (1, 3, '{"n": 11}')]


def test_query_fails_where_the_server_stays_away(version_two: Steps, splitting: SplittingFeed) -> None:
    end, _ = version_two.run()
    version_two.options["url"] = "http://127.0.0.1:1/feed"

    with pytest.raises(Unreachable, match="refused"):
        version_two.run(end, retryTimeout="0.2 seconds")
