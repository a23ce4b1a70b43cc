"""Server-sent events: their framing, their ids, and the parameters of a stream."""

import json
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as some

from penstock.core.log.cursor import FeedCursor, FeedView, feed_mark, join_cursors, split_cursors
from penstock.errors import BadCursor, BadParameter, BadPartitionCount
from penstock.wire.log.server_sent_events import (
    event_messages,
    first_message,
    parse_v1,
    parse_v2,
    position_message,
    problem_message,
    unnamed_messages,
)
from penstock.wire.query import Query
from tests.messages import Message, parse

FRAME = (b"1-a-1-2-1-0-", b"_9")


def query(**given: object) -> Query:
    return Query(urlencode({name.replace("_types", "-types"): value for name, value in given.items()}).encode())


def cursors(n: int, count: int, *partitions: int) -> list[FeedCursor]:
    views = [FeedView(n, partition, count) for partition in partitions]
    return [FeedCursor(feed_mark("a"), 1, view, tuple(10 + each for each in view.physical)) for view in views]


@given(some.text(min_size=1), some.dictionaries(some.text(), some.text()))
def test_message_holds_its_event_and_kind_whatever_they_contain(kind: str, event: dict[str, str]) -> None:
    data = json.dumps(event, ensure_ascii=False).encode()
    text = event_messages(FRAME, [(7, kind.encode(), data), (8, None, b"{}")], default_kind=b"a.b").decode()
    shown = kind.replace("\r", " ").replace("\n", " ").replace("\0", " ")
    assert parse(text) == [Message("1-a-1-2-1-0-8_9", shown, data.decode()), Message("1-a-1-2-1-0-9_9", "a.b", "{}")]
    assert parse(unnamed_messages(FRAME, [(7, data)]).decode()) == [
        Message("1-a-1-2-1-0-8_9", "message", data.decode())
    ]


def test_no_event_has_the_name_of_the_message_that_ends_a_stream() -> None:
    kept = event_messages(FRAME, [(7, b"penstock-problem", b"{}")], default_kind=b"a")
    assert parse(kept.decode()) == [Message("1-a-1-2-1-0-8_9", "message", "{}")]
    assert parse(problem_message({"detail": "a\nb"}).decode()) == [
        Message("", "penstock-problem", '{"detail":"a\\nb"}')
    ]


def test_message_without_data_moves_the_reader_alone() -> None:
    text = (first_message("one", 1.5) + position_message("two")).decode()
    assert parse(text) == [Message("one", "message", ""), Message("two", "message", "")]


@pytest.mark.parametrize(("n", "count"), [(1, 4), (2, 4), (4, 4), (8, 4), (1, 1)])
def test_joined_cursors_are_split_into_the_same(n: int, count: int) -> None:
    for partitions in (range(n), range(n - 1, n)):
        taken = cursors(n, count, *partitions)
        expected = {each.view.partition: each.encode() for each in taken}
        assert split_cursors(join_cursors(taken), partitions, "id") == expected


@pytest.mark.parametrize("text", ["a.b", ".", "1-a-1-4-4-0-9.", "1-a-1-4-4-0-9.2-1"])
def test_joined_cursors_without_a_partition_that_is_read_are_refused(text: str) -> None:
    with pytest.raises(BadCursor, match="does not have partition"):
        split_cursors(text, [0, 1], "Last-Event-ID")


def test_stream_without_cursors_reads_all_partitions_from_their_ends() -> None:
    asked, options = parse_v1(query(), None)
    assert (asked.n, asked.cursors, options) == (1, {0: "_last"}, (None, 50.0, False, False))
    assert parse_v1(query(n=2), None)[0].cursors == {0: "_last", 1: "_last"}
    assert parse_v1(query(n=2, cursor1="_first"), None)[0].cursors == {1: "_first"}
    asked, options = parse_v1(query(heartbeat="9999", unnamed=1, details=1, event_types="A"), None)
    assert (asked.kinds, options) == ((frozenset({"a"}), False), (None, 600.0, True, True))
    assert parse_v2(query(token="1-2", partition=1), None)[0].cursor == "_last"


def test_last_event_id_goes_before_its_parameter_and_that_before_cursors() -> None:
    taken = cursors(2, 2, 0, 1)
    last, expected = join_cursors(taken), {at: each.encode() for at, each in enumerate(taken)}
    given = {"n": 2, "cursor0": "_first", "cursor1": "_first"}
    for asked in (parse_v1(query(**given), last), parse_v1(query(**given, **{"last-event-id": "_last"}), last)):
        assert (asked[0].cursors, asked[1].id_parameter) == (expected, "Last-Event-ID")
    by_parameter = parse_v1(query(**given, **{"last-event-id": last}), "")
    assert (by_parameter[0].cursors, by_parameter[1].id_parameter) == (expected, "last-event-id")
    of_one, _ = parse_v2(query(token="1-2", partition=1, cursor="_first"), last)
    assert of_one.cursor == expected[1]


@pytest.mark.parametrize(
    "wrong",
    [
        *({"n": 300}, {"heartbeat": 0.5}, {"heartbeat": "soon"}, {"unnamed": "yes"}, {"until0": "_last"}),
        *({"headers": "_all"}, {"cursorset": "a"}, {"resume": "0"}, {"store_cursor": 1}),
    ],
    ids=str,
)
def test_parameter_that_a_stream_cannot_obey_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(BadParameter) as refused:
        parse_v1(query(**wrong), None)
    assert refused.value.fields["parameter"] == next(iter(wrong))


def test_n_and_ids_that_no_feed_has_are_refused() -> None:
    with pytest.raises(BadPartitionCount):
        parse_v1(query(n=0), None)
    for last in ("grün", "x" * 8_193):
        with pytest.raises(BadCursor, match="Last-Event-ID"):
            parse_v1(query(), last)
    with pytest.raises(BadParameter, match="token"):
        parse_v2(query(partition=0), None)
