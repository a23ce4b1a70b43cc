"""The low-level stream of an event type: batches, keep-alives and limits, where it begins, and how it ends."""

import gzip
import json
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import httpx2
import pytest

from tests.conformance.nakadi.hubs import ON_SQLITE, block, unblock
from tests.nakadi import (
    BEFORE_FIRST,
    FIRST,
    STREAM,
    STREAM_BYTES,
    EventType,
    Line,
    Nakadi,
    business,
    json_schema,
    lines_of,
    offset,
    problem,
)

pytestmark = ON_SQLITE
PARTITIONS = 8
ALL = [str(number) for number in range(PARTITIONS)]
LONG_SECONDS = 3_000
"""A flush timeout that ends no test: whatever waited for it would run into the time limit of the test."""


def create(nakadi: Nakadi, *numbers: int, partition: int = 0) -> EventType:
    """Create an event type of eight partitions, one of which has events with these numbers."""
    traits = {"partition_strategy": "user_defined", "compatibility_mode": "forward", "schema": json_schema("{}")}
    created = nakadi.create(category="business", partitions=PARTITIONS, **traits)
    if numbers:
        put(created, *numbers, partition=partition)
    return created


def put(created: EventType, *numbers: int, partition: int = 0) -> None:
    created.publish(*(business(n=number, meta={"partition": str(partition)}) for number in numbers))


def numbers(line: Line) -> list[int]:
    return [event["n"] for event in line.events or []]


def answer_of(created: EventType, cursors: Any = None, **arguments: Any) -> httpx2.Response:
    with created.streaming(cursors, **arguments) as answer:
        answer.read()
    return answer


# Streams that end by the clock: all are read at once, since a second is the least that can be asked for.


class Timed(NamedTuple):
    """A stream that ends by the clock, and the lines of partition 3."""

    arguments: dict[str, int]
    events: int
    """How many events partition 3 has before it begins."""
    sent: list[list[int]]
    """The numbers of each line; none for a keep-alive."""
    others: int = 1
    """How many keep-alives each other partition is sent."""
    cursors: list[str] | None = ALL
    """The partitions that are read from their beginning; None for all from their end."""


WITHIN_2_S = {"batch_limit": 5, "batch_flush_timeout": 2, "stream_timeout": 2}
TIMED = {
    "a batch that is not full is sent after the flush timeout": Timed(WITHIN_2_S, 2, [[0, 1]]),
    "a full batch is sent at once": Timed(WITHIN_2_S, 8, [[0, 1, 2, 3, 4], [5, 6, 7]]),
    "without cursors it begins at the end": Timed(WITHIN_2_S, 2, [[]], cursors=None),
    "pending events are sent at the end": Timed(WITHIN_2_S | {"batch_limit": 100}, 3, [[0, 1, 2]]),
    "keep-alives in a row end it": Timed(
        {"batch_flush_timeout": 1, "stream_keep_alive_limit": 3, "stream_timeout": LONG_SECONDS}, 0, [[], [], []], 3
    ),
    "an event begins the row again": Timed(
        {"batch_flush_timeout": 1, "stream_keep_alive_limit": 2}, 1, [[0], [], []], cursors=["3"]
    ),
    "only the partitions of its cursors are read": Timed(
        {"batch_flush_timeout": 1, "stream_timeout": 1}, 0, [[]], cursors=["2", "3", "5"]
    ),
}


@pytest.fixture(scope="module")
def ended(nakadi_http: httpx2.Client) -> dict[str, tuple[list[Line], dict[str, str]]]:
    """The lines of each stream, and the newest offsets before it began."""

    def read(timed: Timed) -> tuple[list[Line], dict[str, str]]:
        created = create(Nakadi(nakadi_http), *range(timed.events), partition=3)
        cursors = timed.cursors and [{"partition": each, "offset": "BEGIN"} for each in timed.cursors]
        newest = created.newest()
        return created.lines(cursors, **timed.arguments), newest

    with ThreadPoolExecutor(len(TIMED)) as threads:
        return dict(zip(TIMED, threads.map(read, TIMED.values()), strict=True))


@pytest.mark.parametrize("name", TIMED)
def test_stream_that_ends_by_the_clock_sends(ended: dict[str, tuple[list[Line], dict[str, str]]], name: str) -> None:
    """EventStreamReadingAT.whenPushFewEventsAndReadThenGetEventsInStream, whenReadFromTheEndThenLatestOffsetsInStream.

    And whenReachKeepAliveLimitThenStreamIsClosed, whenPushedAmountOfEventsMoreThanBatchSizeAndReadThen….
    """
    timed, (lines, newest) = TIMED[name], ended[name]
    assert [numbers(line) for line in lines if line.partition == "3"] == timed.sent
    assert [line.events is None for line in lines if line.partition == "3"] == [not sent for sent in timed.sent]
    others = [line for line in lines if line.partition != "3"]
    assert sorted(line.partition for line in others) == sorted(
        [each for each in timed.cursors or ALL if each != "3"] * timed.others
    )
    assert all(line.events is None and line.offset == BEFORE_FIRST for line in others)
    last = [line.offset for line in lines if line.partition == "3"][-1]
    assert last == (newest["3"] if timed.events else BEFORE_FIRST)


# Streams that end by themselves


def test_stream_ends_after_stream_limit_events(nakadi: Nakadi) -> None:
    created = create(nakadi, *range(7))
    lines = created.lines(created.begin(1), batch_limit=2, stream_limit=5, stream_timeout=LONG_SECONDS)
    assert [numbers(line) for line in lines] == [[0, 1], [2, 3], [4]]
    assert [line.offset for line in lines] == [offset(1), offset(3), offset(4)]


@pytest.mark.parametrize("timeout", [-1, 0, 4_200, 4_201])
def test_stream_timeout_out_of_range_is_left_to_the_server_and_a_batch_has_one_event(
    nakadi: Nakadi, timeout: int
) -> None:
    created = create(nakadi, 0, 1)
    lines = created.lines(created.begin(1), stream_limit=2, stream_timeout=timeout)
    assert [numbers(line) for line in lines] == [[0], [1]]


@pytest.mark.parametrize(
    ("cursor", "wanted"),
    [
        ("BEGIN", [0, 1, 2]),
        ("begin", [0, 1, 2]),
        ("-1", [0, 1, 2]),
        (FIRST, [1, 2]),
        ("0", [1, 2]),
        ("001-0001-1", [2]),
    ],
)
def test_cursor_names_the_last_event_read(nakadi: Nakadi, cursor: str, wanted: list[int]) -> None:
    """TimelineConsumptionTest.testAllEventsConsumed, without timelines."""
    lines = create(nakadi, 0, 1, 2).lines([{"partition": "0", "offset": cursor}], stream_limit=len(wanted))
    assert [numbers(line) for line in lines] == [[number] for number in wanted]


def test_later_events_are_sent_at_once(nakadi: Nakadi) -> None:
    """The status comes before the first batch; a cursor may stand at the newest event."""
    created = create(nakadi, 7, partition=6)
    cursor = [{"partition": "6", "offset": offset(0)}]
    with created.streaming(cursor, batch_limit=1, stream_limit=2, batch_flush_timeout=LONG_SECONDS) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith(STREAM)
        lines = answer.iter_lines()
        for number in (0, 1):
            put(created, number, partition=6)
            assert json.loads(next(lines))["events"][0]["n"] == number
        assert list(lines) == []


def test_stream_above_its_memory_limit_is_sent_before_its_time(strict: Nakadi) -> None:
    """EventStreamReadingAT.whenMemoryOverflowEventsDumped."""
    created = strict.create()
    created.publish(*[{"foo": "x" * 1_000}] * 50)
    limits = {"batch_limit": 1_000, "batch_flush_timeout": LONG_SECONDS, "stream_timeout": LONG_SECONDS}
    with created.streaming(created.begin(1), **limits) as answer:
        found = json.loads(next(answer.iter_lines()))["events"]
    assert STREAM_BYTES / 1_100 < len(found) <= 50


# Encoding


def test_line_has_the_bytes_that_clients_compare(nakadi: Nakadi) -> None:
    """UserJourneyAT: the order of keys, no spaces, one line feed."""
    created = nakadi.create()
    created.publish('[{"foo":"a"},{"foo":"b"}]')
    wanted = '{"cursor":{"partition":"0","offset":"001-0001-000000000000000001"},"events":[{"foo":"a"},{"foo":"b"}]}\n'
    assert created.raw(2) == wanted


def test_stream_comes_in_chunks_each_of_which_can_be_read_at_once(nakadi: Nakadi) -> None:
    """EventStreamReadingAT.whenAcceptEncodingGzipReceiveCompressedStream: flushed after each batch."""
    for accept in ("identity", "gzip"):
        created, reader = create(nakadi), zlib.decompressobj(16 + zlib.MAX_WBITS)
        limits = {"batch_limit": 1, "stream_limit": 2, "batch_flush_timeout": LONG_SECONDS}
        with created.streaming(created.begin(1), headers={"Accept-Encoding": accept}, **limits) as answer:
            assert answer.headers["transfer-encoding"] == "chunked"
            assert "content-length" not in answer.headers
            assert answer.headers.get("content-encoding", "identity") == accept
            pieces = answer.iter_raw()
            for number in (0, 1):
                put(created, number)
                text = b""
                while not text.endswith(b"\n"):
                    piece = next(pieces)
                    text += piece if accept == "identity" else reader.decompress(piece)
                assert json.loads(text)["events"][0]["n"] == number


def test_compressed_stream_is_one_gzip_file(nakadi: Nakadi) -> None:
    created = create(nakadi, 0, 1)
    with created.streaming(created.begin(1), headers={"Accept-Encoding": "gzip"}, stream_limit=2) as answer:
        body = gzip.decompress(b"".join(answer.iter_raw()))
    assert [json.loads(line)["events"][0]["n"] for line in body.splitlines()] == [0, 1]


# Refusals

TOO_SHORT = "stream_timeout can't be lower than batch_flush_timeout"
PARAMETERS: list[tuple[dict[str, Any], int, str]] = [
    ({"batch_limit": 5, "stream_limit": 4}, 422, "stream_limit can't be lower than batch_limit"),
    ({"stream_timeout": 5}, 422, TOO_SHORT),
    ({"stream_timeout": 1, "batch_flush_timeout": 2}, 422, TOO_SHORT),
    ({"stream_timeout": 5, "batch_flush_timeout": 0}, 422, TOO_SHORT),
    ({"batch_limit": -1}, 422, "batch_limit can't be lower than 1"),
    ({"stream_limit": -1}, 422, "stream_limit can't be lower than batch_limit"),
    ({"batch_flush_timeout": -1}, 422, "batch_flush_timeout can't be lower than 0"),
    ({"stream_keep_alive_limit": -1}, 422, "stream_keep_alive_limit can't be lower than 0"),
    ({"batch_limit": "x"}, 400, ""),
    ({"stream_limit": "1.5"}, 400, ""),
    ({"stream_timeout": str(2**31)}, 400, ""),
]


@pytest.mark.parametrize(("arguments", "status", "detail"), PARAMETERS, ids=str)
def test_parameters_out_of_range_are_refused(
    nakadi: Nakadi, arguments: dict[str, Any], status: int, detail: str
) -> None:
    """EventStreamReadingAT.whenStreamLimitLowerThanBatchLimitThenUnprocessableEntity and …Timeout…."""
    assert detail in problem(answer_of(nakadi.create(), **arguments), status)["detail"]


UNREADABLE = "incorrect syntax of X-nakadi-cursors header"
CURSORS: list[tuple[Any, int, str]] = [
    ("x", 400, UNREADABLE),
    ("{}", 400, UNREADABLE),
    ('"0"', 400, UNREADABLE),
    ([{"partition": "very_wrong_partition", "offset": "3"}], 412, "non existing partition very_wrong_partition"),
    ([], 412, ""),
    ([None], 412, ""),
    ([{"partition": "0"}], 412, ""),
    ([{"offset": "BEGIN"}], 412, ""),
    ([{"partition": "0", "offset": "x"}], 412, ""),
    ([{"partition": "0", "offset": offset(2)}], 412, ""),
    ([{"partition": "0", "offset": "001-0002-000000000000000000"}], 412, ""),
    ([{"partition": "0", "offset": "BEGIN"}] * 2, 412, "has more than one cursor"),
]


@pytest.mark.parametrize(("cursors", "status", "detail"), CURSORS, ids=str)
def test_unusable_cursors_are_refused(nakadi: Nakadi, cursors: Any, status: int, detail: str) -> None:
    """EventStreamReadingAT.whenInvalidCursors…, whenIncorrectCursorsFormatThenBadRequest."""
    assert detail in problem(answer_of(create(nakadi, 0, 1), cursors), status)["detail"]


def test_header_with_the_cursors_is_known_in_any_case(nakadi: Nakadi) -> None:
    created = create(nakadi, 0)
    for name in ("X-NAKADI-CURSORS", "x-nakadi-cursors"):
        sent = {name: json.dumps(created.begin(1))}
        answer = created.http.get(f"{created.path}/events", params={"stream_limit": 1}, headers=sent)
        assert [numbers(line) for line in lines_of(answer)] == [[0]]


@pytest.mark.usefixtures("restored")
def test_first_refusal_is_of_the_block_then_event_type_cursors_and_parameters(nakadi: Nakadi) -> None:
    """EventStreamReadingAT.whenGetEventsWithUnknownTopicThenTopicNotFound."""
    nowhere, created = EventType(nakadi.http, nakadi.definition()["name"]), nakadi.create()
    wrong: dict[str, Any] = {"cursors": [{"partition": "9", "offset": "BEGIN"}], "batch_limit": 0}
    assert problem(answer_of(nowhere, **wrong), 404)["detail"] == "topic not found"
    problem(answer_of(created, **wrong), 412)
    problem(answer_of(created, batch_limit=0), 422)
    block(nakadi, nowhere.name)
    problem(answer_of(nowhere, **wrong), 403)


@pytest.mark.usefixtures("restored")
def test_block_ends_a_stream_silently_and_refuses_others(nakadi: Nakadi) -> None:
    """EventStreamReadingAT.whenReadEventsConsumerIsBlocked, whenReadEventsForBlockedConsumerThen403: 200, 403, 200."""
    created = nakadi.create()
    with created.streaming(batch_flush_timeout=LONG_SECONDS) as answer:
        lines = answer.iter_lines()
        created.publish({"foo": "a"})
        assert json.loads(next(lines))["events"] == [{"foo": "a"}]
        block(nakadi, created.name)
        assert list(lines) == []
    problem(created.get("/events"), 403)
    unblock(nakadi, created.name)
    assert created.events(1) == [{"foo": "a"}]
