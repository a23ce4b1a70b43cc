"""The low-level stream: batches, keep-alives and limits, where it begins, and how it ends."""

import gzip
import json
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import httpx2
import pytest

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

PARTITIONS = 8
ALL = [str(number) for number in range(PARTITIONS)]
PLACED = {
    "category": "business",
    "partitions": PARTITIONS,
    "partition_strategy": "user_defined",
    "compatibility_mode": "forward",
    "schema": json_schema("{}"),
}


def put(created: EventType, partition: int, *numbers: int) -> None:
    """Publish events of these numbers to one partition."""
    created.publish(*(business(n=number, meta={"partition": str(partition)}) for number in numbers))


def numbers(line: Line) -> list[int]:
    return [event["n"] for event in line.events or []]


# What ends by the clock is read at once, since seconds are the least that can be asked for.


class Ended(NamedTuple):
    """A stream that has come to its end."""

    lines: list[Line]
    seconds: float
    newest: dict[str, str]
    """The newest offsets before it began."""


def read(nakadi: Nakadi, name: str) -> Ended:
    created, cursors, arguments = nakadi.create(**PLACED), None, TIMED[name]
    if name.startswith("from the end"):
        put(created, 1, 0, 1)
    newest, began_at = created.newest(), time.monotonic()
    if name in FILLED:
        put(created, 3, *range(FILLED[name]))
        cursors = created.begin(PARTITIONS)
    if name == "one event, then keep-alives":
        cursors = [{"partition": "3", "offset": "BEGIN"}]
    elif name == "some partitions":
        cursors = [{"partition": "2", "offset": BEFORE_FIRST}, {"partition": "5", "offset": "BEGIN"}]
    return Ended(created.lines(cursors, **arguments), time.monotonic() - began_at, newest)


TIMED: dict[str, dict[str, int]] = {
    "two events": {"batch_limit": 5, "stream_timeout": 2, "batch_flush_timeout": 2},
    "eight events": {"batch_limit": 5, "stream_timeout": 2, "batch_flush_timeout": 2},
    "from the end": {"batch_limit": 5, "stream_timeout": 2, "batch_flush_timeout": 2},
    "keep-alives": {"batch_flush_timeout": 1, "stream_keep_alive_limit": 3, "stream_timeout": 30},
    "some partitions": {"batch_flush_timeout": 1, "stream_timeout": 1},
    "an event ends a row of keep-alives": {"batch_flush_timeout": 1, "stream_keep_alive_limit": 2},
    "one event, then keep-alives": {"batch_limit": 5, "batch_flush_timeout": 1, "stream_keep_alive_limit": 2},
    "pending events at the end": {"batch_limit": 100, "batch_flush_timeout": 2, "stream_timeout": 2},
}
FILLED = {
    "two events": 2,
    "eight events": 8,
    "pending events at the end": 3,
    "an event ends a row of keep-alives": 1,
    "one event, then keep-alives": 1,
}


@pytest.fixture(scope="module")
def ended(nakadi_http: httpx2.Client) -> dict[str, Ended]:
    nakadi = Nakadi(nakadi_http)
    with ThreadPoolExecutor(len(TIMED)) as threads:
        return dict(zip(TIMED, threads.map(lambda name: read(nakadi, name), TIMED), strict=True))


def test_each_partition_has_a_line_when_it_is_time(ended: dict[str, Ended]) -> None:
    """4.2; EventStreamReadingAT.whenPushFewEventsAndReadThenGetEventsInStream."""
    lines = ended["two events"].lines
    assert sorted(line.partition for line in lines) == ALL
    found = {line.partition: line for line in lines}
    assert (numbers(found["3"]), found["3"].offset) == ([0, 1], offset(1))
    assert all(found[each].events is None and found[each].offset == BEFORE_FIRST for each in ALL if each != "3")


def test_a_batch_goes_out_when_it_is_full(ended: dict[str, Ended]) -> None:
    """4.2; EventStreamReadingAT.whenPushedAmountOfEventsMoreThanBatchSizeAndReadThenGetEventsInMultipleBatches."""
    lines = ended["eight events"].lines
    batches = [line for line in lines if line.partition == "3"]
    assert [numbers(line) for line in batches] == [[0, 1, 2, 3, 4], [5, 6, 7]]
    assert [line.offset for line in batches] == [offset(4), offset(7)]
    assert sorted(line.partition for line in lines) == sorted([*ALL, "3"])


def test_without_cursors_it_begins_at_the_end_of_all_partitions(ended: dict[str, Ended]) -> None:
    """4.2; EventStreamReadingAT.whenReadFromTheEndThenLatestOffsetsInStream."""
    found = ended["from the end"]
    assert {line.partition: line.offset for line in found.lines} == found.newest
    assert found.newest["1"] == offset(1)
    assert all(line.events is None for line in found.lines)


def test_keep_alives_in_a_row_end_it(ended: dict[str, Ended]) -> None:
    """4.2; EventStreamReadingAT.whenReachKeepAliveLimitThenStreamIsClosed: so many of each partition."""
    found = ended["keep-alives"]
    assert sorted(line.partition for line in found.lines) == sorted(ALL * 3)
    assert all(line.events is None for line in found.lines)
    assert 3 <= found.seconds < 10


def test_only_partitions_that_were_asked_for_are_read(ended: dict[str, Ended]) -> None:
    """4.2."""
    assert {line.partition for line in ended["some partitions"].lines} == {"2", "5"}
    assert 1 <= ended["some partitions"].seconds < 10


def test_what_waits_is_sent_at_the_end(ended: dict[str, Ended]) -> None:
    """4.2: non-empty batches are flushed."""
    lines = ended["pending events at the end"].lines
    assert [numbers(line) for line in lines if line.events] == [[0, 1, 2]]


def test_a_keep_alive_counts_only_in_a_row(ended: dict[str, Ended]) -> None:
    """4.2: on all partitions, that which had an event included."""
    lines = ended["an event ends a row of keep-alives"].lines
    at_three = [line.events is None for line in lines if line.partition == "3"]
    assert at_three == [False, True, True]


def test_a_line_with_events_is_no_keep_alive(ended: dict[str, Ended]) -> None:
    """4.2: neither where events were sent because it was time."""
    lines = ended["one event, then keep-alives"].lines
    assert [numbers(line) for line in lines] == [[0], [], []]


# What ends by itself


def test_it_ends_after_as_many_events_as_were_asked_for(nakadi: Nakadi) -> None:
    """4.2: stream_limit counts events."""
    created = nakadi.create(**PLACED)
    put(created, 0, *range(7))
    lines = created.lines(created.begin(1), batch_limit=2, stream_limit=5, stream_timeout=30)
    assert [numbers(line) for line in lines] == [[0, 1], [2, 3], [4]]
    assert [line.offset for line in lines] == [offset(1), offset(3), offset(4)]


@pytest.mark.parametrize("timeout", [-1, 0, 4_200, 4_201])
def test_a_time_that_is_none_is_left_to_the_server(nakadi: Nakadi, timeout: int) -> None:
    """4.2: about an hour, which nobody waits for."""
    created = nakadi.create(**PLACED)
    put(created, 0, 0)
    assert [numbers(line) for line in created.lines(created.begin(1), stream_limit=1, stream_timeout=timeout)] == [[0]]


def test_a_batch_has_one_event_unless_told(nakadi: Nakadi) -> None:
    """4.2."""
    created = nakadi.create(**PLACED)
    put(created, 0, 0, 1)
    assert [numbers(line) for line in created.lines(created.begin(1), stream_limit=2)] == [[0], [1]]


@pytest.mark.parametrize(
    ("cursor", "wanted"),
    [
        ("BEGIN", [0, 1, 2]),
        ("begin", [0, 1, 2]),
        (BEFORE_FIRST, [0, 1, 2]),
        ("-1", [0, 1, 2]),
        (FIRST, [1, 2]),
        ("0", [1, 2]),
        ("001-0001-1", [2]),
    ],
)
def test_a_cursor_names_what_was_read_last(nakadi: Nakadi, cursor: str, wanted: list[int]) -> None:
    """4.1."""
    created = nakadi.create(**PLACED)
    put(created, 0, 0, 1, 2)
    given = [{"partition": "0", "offset": cursor}]
    lines = created.lines(given, batch_limit=len(wanted), stream_limit=len(wanted))
    assert [numbers(line) for line in lines] == [wanted]


def test_every_offset_that_was_given_leads_on(nakadi: Nakadi) -> None:
    """4.1, 4.2; TimelineConsumptionTest.testAllEventsConsumed, without timelines."""
    created = nakadi.create(**PLACED)
    put(created, 0, *range(5))
    lines = created.lines(created.begin(1), stream_limit=5)
    for number, line in enumerate(lines[:-1]):
        rest = created.lines([{"partition": "0", "offset": line.offset}], stream_limit=4 - number)
        assert [numbers(each) for each in rest] == [[n] for n in range(number + 1, 5)]


def test_events_that_come_later_are_sent_at_once(nakadi: Nakadi) -> None:
    """4.2: the status comes before the first batch, and a full batch does not wait."""
    created = nakadi.create(**PLACED)
    with created.streaming(batch_limit=1, stream_limit=2, batch_flush_timeout=30) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith(STREAM)
        began_at, lines = time.monotonic(), answer.iter_lines()
        for number in (0, 1):
            put(created, 6, number)
            assert json.loads(next(lines))["events"][0]["n"] == number
        assert list(lines) == []
        assert time.monotonic() - began_at < 28


def test_a_line_is_byte_for_byte_what_clients_compare(nakadi: Nakadi) -> None:
    """4.2, 12; UserJourneyAT: key order, no spaces, one line feed."""
    created = nakadi.create()
    created.publish('[{"foo":"a"},{"foo":"b"}]')
    wanted = '{"cursor":{"partition":"0","offset":"001-0001-000000000000000001"},"events":[{"foo":"a"},{"foo":"b"}]}\n'
    assert created.raw(2) == wanted


# How it is sent: 0.3


def raw(created: EventType, accept: str) -> tuple[httpx2.Headers, bytes]:
    limits = {"batch_limit": 1, "stream_limit": 2}
    with created.streaming(created.begin(1), headers={"Accept-Encoding": accept}, **limits) as answer:
        return answer.headers, b"".join(answer.iter_raw())


def test_it_comes_in_chunks_without_a_length(nakadi: Nakadi) -> None:
    """0.3, 10: one client reads the chunks by itself."""
    created = nakadi.create(**PLACED)
    put(created, 0, 0, 1)
    headers, body = raw(created, "identity")
    assert headers["transfer-encoding"] == "chunked"
    assert "content-length" not in headers
    assert "content-encoding" not in headers
    assert body.count(b"\n") == 2


def test_it_is_compressed_where_that_is_asked_for(nakadi: Nakadi) -> None:
    """0.3; EventStreamReadingAT.whenAcceptEncodingGzipReceiveCompressedStream."""
    created = nakadi.create(**PLACED)
    put(created, 0, 0, 1)
    headers, body = raw(created, "gzip")
    assert (headers["transfer-encoding"], headers["content-encoding"]) == ("chunked", "gzip")
    assert [json.loads(line)["events"][0]["n"] for line in gzip.decompress(body).splitlines()] == [0, 1]


def test_each_batch_can_be_read_as_soon_as_it_has_come(nakadi: Nakadi) -> None:
    """0.3: flushed after every batch, compressed or not."""
    created = nakadi.create(**PLACED)
    reader = zlib.decompressobj(16 + zlib.MAX_WBITS)
    sent = {"Accept-Encoding": "gzip"}
    with created.streaming(
        created.begin(1), headers=sent, batch_limit=1, stream_limit=2, batch_flush_timeout=20
    ) as answer:
        pieces = answer.iter_raw()
        for number in (0, 1):
            put(created, 0, number)
            text = b""
            while not text.endswith(b"\n"):
                text += reader.decompress(next(pieces))
            assert json.loads(text)["events"][0]["n"] == number


# What is refused


@pytest.mark.parametrize(
    ("arguments", "detail"),
    [
        ({"batch_limit": 5, "stream_limit": 4}, "stream_limit can't be lower than batch_limit"),
        ({"stream_timeout": 5}, "stream_timeout can't be lower than batch_flush_timeout"),
        (
            {"stream_timeout": 1, "batch_flush_timeout": 2},
            "stream_timeout can't be lower than batch_flush_timeout",
        ),
        ({"stream_timeout": 5, "batch_flush_timeout": 0}, "stream_timeout can't be lower than batch_flush_timeout"),
        ({"batch_limit": 0}, ""),
        ({"batch_limit": -1}, "batch_limit can't be lower than 1"),
        ({"stream_limit": -1}, "stream_limit can't be lower than batch_limit"),
        ({"batch_flush_timeout": -1}, "batch_flush_timeout can't be lower than 0"),
        ({"stream_keep_alive_limit": -1}, "stream_keep_alive_limit can't be lower than 0"),
    ],
    ids=str,
)
def test_parameters_that_do_not_go_together_are_answered_422(
    nakadi: Nakadi, arguments: dict[str, int], detail: str
) -> None:
    """4.2; EventStreamReadingAT.whenStreamLimitLowerThanBatchLimitThenUnprocessableEntity and …Timeout…."""
    created = nakadi.create()
    with created.streaming(**arguments) as answer:
        answer.read()
        assert detail in problem(answer, 422)["detail"]


@pytest.mark.parametrize(
    "name", ["batch_limit", "stream_limit", "batch_flush_timeout", "stream_timeout", "stream_keep_alive_limit"]
)
def test_parameters_that_are_no_numbers_are_answered_400(nakadi: Nakadi, name: str) -> None:
    """6."""
    created = nakadi.create()
    for value in ("x", "1.5", str(2**31)):
        problem(created.get("/events", **{name: value}), 400)


@pytest.mark.parametrize("cursors", ["x", "[", "{}", '{"partition":"0","offset":"BEGIN"}', '"0"'])
def test_a_header_that_cannot_be_read_is_answered_400(nakadi: Nakadi, cursors: str) -> None:
    """4.2; EventStreamReadingAT.whenIncorrectCursorsFormatThenBadRequest."""
    with nakadi.create().streaming(cursors) as answer:
        answer.read()
        assert problem(answer, 400)["detail"] == "incorrect syntax of X-nakadi-cursors header"


@pytest.mark.parametrize(
    ("cursors", "detail"),
    [
        ([{"partition": "very_wrong_partition", "offset": "3"}], "non existing partition very_wrong_partition"),
        ([{"partition": "8", "offset": "BEGIN"}], "non existing partition 8"),
        ([], ""),
        ([None], ""),
        ([{"partition": "0"}], ""),
        ([{"offset": "BEGIN"}], ""),
        ([{"partition": None, "offset": "BEGIN"}], ""),
        ([{"partition": "0", "offset": "x"}], ""),
        ([{"partition": "0", "offset": "001-0001-000000000000000002"}], ""),
        ([{"partition": "0", "offset": "99"}], ""),
        ([{"partition": "0", "offset": "001-0002-000000000000000000"}], ""),
    ],
    ids=str,
)
def test_a_cursor_that_cannot_be_used_is_answered_412(nakadi: Nakadi, cursors: Any, detail: str) -> None:
    """4.2; 11, no. 6; EventStreamReadingAT.whenInvalidCursors…, TimelineConsumptionTest.…FromErroredPositionBlocked."""
    created = nakadi.create(**PLACED)
    put(created, 0, 0, 1)
    with created.streaming(cursors) as answer:
        answer.read()
        assert detail in problem(answer, 412)["detail"]


def test_a_cursor_at_the_newest_event_is_fine(nakadi: Nakadi) -> None:
    """4.2."""
    created = nakadi.create(**PLACED)
    put(created, 0, 0, 1)
    cursors = [{"partition": "0", "offset": offset(1)}]
    with created.streaming(cursors, stream_limit=1) as answer:
        put(created, 0, 2)
        answer.read()
        assert [numbers(line) for line in lines_of(answer)] == [[2]]


def test_the_name_of_the_header_may_be_written_in_any_case(nakadi: Nakadi) -> None:
    """4.2."""
    created = nakadi.create(**PLACED)
    put(created, 0, 0)
    for name in ("X-NAKADI-CURSORS", "x-nakadi-cursors", "X-Nakadi-Cursors"):
        answer = created.http.get(
            f"{created.path}/events", params={"stream_limit": 1}, headers={name: json.dumps(created.begin(1))}
        )
        assert [numbers(line) for line in lines_of(answer)] == [[0]]


def test_what_is_not_there_cannot_be_read(nakadi: Nakadi) -> None:
    """4.2; EventStreamReadingAT.whenGetEventsWithUnknownTopicThenTopicNotFound."""
    assert problem(EventType(nakadi.http, "nowhere").get("/events"), 404)["detail"] == "topic not found"


def test_what_is_wrong_is_told_in_this_order(nakadi: Nakadi, blocked: Any) -> None:
    """4.2: who is blocked, what is not there, cursors, parameters."""
    nowhere, created = EventType(nakadi.http, nakadi.definition()["name"]), nakadi.create()
    wrong: dict[str, Any] = {"cursors": [{"partition": "9", "offset": "BEGIN"}], "batch_limit": 0}
    for each, status in ((nowhere, 404), (created, 412)):
        with each.streaming(**wrong) as answer:
            answer.read()
            problem(answer, status)
    blocked(nowhere)
    with nowhere.streaming(**wrong) as answer:
        answer.read()
        problem(answer, 403)


# Who is blocked, and who leaves


@pytest.fixture
def blocked(nakadi: Nakadi) -> Iterator[Any]:
    """Blocks an event type for consumers until the test has ended."""
    paths: list[str] = []

    def block(created: EventType) -> None:
        paths.append(f"/settings/blacklist/CONSUMER_ET/{created.name}")
        assert nakadi.http.put(paths[-1]).status_code == 204

    yield block
    for path in paths:
        assert nakadi.http.delete(path).status_code == 204


def test_who_is_blocked_cannot_read(nakadi: Nakadi, blocked: Any) -> None:
    """4.2, 7; EventStreamReadingAT.whenReadEventsForBlockedConsumerThen403: 200, 403, 200."""
    created = nakadi.create()
    created.publish({"foo": "a"})
    assert created.events(1) == [{"foo": "a"}]
    blocked(created)
    problem(created.get("/events"), 403)
    assert nakadi.http.delete(f"/settings/blacklist/CONSUMER_ET/{created.name}").status_code == 204
    assert created.events(1) == [{"foo": "a"}]


def test_who_is_blocked_on_the_way_is_cut_off(nakadi: Nakadi, blocked: Any) -> None:
    """4.2, 4.3, 7; EventStreamReadingAT.whenReadEventsConsumerIsBlocked: silently."""
    created = nakadi.create()
    with created.streaming(batch_flush_timeout=30) as answer:
        began_at, lines = time.monotonic(), answer.iter_lines()
        created.publish({"foo": "a"})
        assert json.loads(next(lines))["events"] == [{"foo": "a"}]
        blocked(created)
        assert list(lines) == []
        assert time.monotonic() - began_at < 28


def test_much_that_waits_is_sent_before_its_time(strict: Nakadi) -> None:
    """0.1, 4.2; EventStreamReadingAT.whenMemoryOverflowEventsDumped: a line before the flush, which is at 30 s."""
    created = strict.create()
    event = {"foo": "x" * 1_000}
    created.publish(*[event] * 50)
    began_at = time.monotonic()
    with created.streaming(created.begin(1), batch_limit=1_000, batch_flush_timeout=30, stream_timeout=60) as answer:
        lines = answer.iter_lines()
        found = json.loads(next(lines))["events"]
    assert time.monotonic() - began_at < 28
    assert STREAM_BYTES / 1_100 < len(found) <= 50
