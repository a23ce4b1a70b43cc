"""Requests for feeds and consumer groups: the parameters of a query, ZeroEventHub v1, FeedAPI v2, and their lines."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.core.events.event import EVENTS_MAX, PIECE_BYTES
from penstock.core.groups.groups import GroupReset, PositionCommit, ResetTarget
from penstock.errors import (
    BadCursor,
    BadParameter,
    BadPartitionCount,
    EventTooLarge,
    Invalid,
    InvalidEvent,
    PenstockError,
    RequestTooLarge,
    StaleToken,
)
from penstock.wire.groups import ConsumerGroup, parse_after, parse_commit, parse_kind, parse_reset
from penstock.wire.log import feedapi
from penstock.wire.log.zeroeventhub import (
    LINE_BYTES_MAX,
    PAGE_SIZE_MAX,
    checkpoint_line,
    event_line,
    line_frame,
    page_size,
    parse_lines,
    parse_read,
    publish_response,
)
from penstock.wire.query import Query, make_printable, parse_headers, parse_kinds
from tests.failing import has_code


def query(text: str) -> Query:
    return Query(text.encode())


# Parameters of any query.

READERS: dict[str, Callable[[Query], Any]] = {
    "text": lambda query: query.find_text("a"),
    "integer": lambda query: query.read_integer("a", 5, low=0, high=9),
    "seconds": lambda query: query.read_seconds("a", cut_at=60),
    "flag": lambda query: query.read_flag("a"),
    "cursor": lambda query: query.read_cursor("a"),
    "kinds": parse_kinds,
}
READ: list[tuple[str, str, Any]] = [
    ("text", "a=%25C3%C3%A9+x", "%C3é x"), ("text", "a=", ""), ("text", "b=1", None),
    ("integer", "a=0", 0), ("integer", "a=9", 9), ("integer", "a=007", 7), ("integer", "", 5),
    *(("seconds", f"a={text}", value) for text, value in [
        ("0", 0), ("1.5", 1.5), ("60", 60), ("61", 60), (".5", 0.5), ("1e9", 60),
    ]),
    *(("flag", f"a={text}", True) for text in ("1", "true", "TRUE")),
    *(("flag", f"a={text}", False) for text in ("0", "False")),
    ("kinds", "", None), ("kinds", "event-types=A;b;;%20C%20", ({"a", "b", "c"}, False)),
    ("kinds", "skip-event-types=A", ({"a"}, True)), ("kinds", "event-types=%C3%85", ({"Å"}, False)),
    ("kinds", "event-types=a,b", ({"a,b"}, False)),
]  # fmt: skip
REFUSED: list[tuple[str, type[PenstockError], list[str]]] = [
    ("text", BadParameter, ["a=1&a=1"]),
    ("integer", BadParameter,
     [f"a={text}" for text in ("", "10", "-1", "1.0", "x", "%2B1", " 1", "1e0", "%D9%A1", "9" * 40, "%FF")]),
    ("seconds", BadParameter, [f"a={text}" for text in ("", "-1", "nan", "inf", "Infinity", "1e400", "1_0", "%201", ".",
     "x", "-inf", "%D9%A1", "1s")]),
    ("flag", BadParameter, [f"a={text}" for text in ("", "yes", "2", "%FF")]),
    ("cursor", BadCursor, [f"a={text}" for text in ("", "%00", "%C3%A9", "%FF", "%0A", "x" * 8_193)]),
    ("kinds", BadParameter, [*(f"event-types={text}"
     for text in ("", ";", "%00", "%FF", "a&skip-event-types=b", "a&event-types=b")), "skip-event-types=%20"]),
]  # fmt: skip


def test_parameter_is_read() -> None:
    for reader, text, value in READ:
        assert READERS[reader](query(text)) == value


@pytest.mark.parametrize(("reader", "kind", "texts"), REFUSED, ids=[row[0] for row in REFUSED])
def test_wrong_parameter_is_named(reader: str, kind: type[PenstockError], texts: list[str]) -> None:
    for text in texts:
        with pytest.raises(kind) as refused:
            READERS[reader](query(text))
        if reader != "kinds":
            assert refused.value.parameter == "a"
        if reader == "integer":
            assert refused.value.allowed == "a whole number from 0 to 9"


def test_query_lists_its_names_and_missing_numbers_and_repeated_parameters_are_named() -> None:
    assert not query("")
    assert query("a=")
    assert list(query("a=1&b=2&a=3").list_names()) == ["a", "b", "a"]

    with pytest.raises(BadParameter) as refused:
        query("").read_integer("a", None, low=0, high=9)
    assert refused.value.value is None
    with pytest.raises(BadParameter, match="one value"):
        query("%C3%A9=1&%C3%A9=1").find_text("é")


@given(st.binary(max_size=60))
def test_any_bytes_of_a_query_are_read_or_refused_with_a_writable_error(raw: bytes) -> None:
    asked = Query(raw.replace(b"#", b""))
    reads: list[Callable[[str], Any]] = [asked.find_text, asked.read_cursor, asked.read_flag]
    reads += [lambda name: asked.read_integer(name, 1, low=0, high=9), lambda name: asked.read_seconds(name, cut_at=9)]
    for name in asked.list_names():
        for read in reads:
            try:
                read(name)
            except Invalid as error:
                json.dumps(error.fields).encode()
                make_printable(error.detail).encode()


def test_headers_are_none_some_or_all() -> None:
    found = {"a": "1", "b": "2"}

    assert [parse_headers(query(text)) for text in ("", "headers=", "headers=,%20,")] == [None] * 3
    for text, chosen in (("headers=b,%20x", {"b": "2"}), ("headers=x,_all", found)):
        choice = parse_headers(query(text))
        assert choice is not None
        assert choice.of(found) == chosen


# ZeroEventHub.


def read(text: str) -> Any:
    return parse_read(query(text))


def test_request_of_zeroeventhub_has_defaults() -> None:
    found = read("n=4&cursor3=x&cursor0=_first")
    assert (found.n, found.cursors, found.resume) == (4, {3: "x", 0: "_first"}, ())
    assert (found.page_size, found.headers, found.kinds, found.cursorset, found.wait_seconds) == (
        1_000,
        None,
        None,
        None,
        0.0,
    )
    found = read("n=4&cursor0=x&pagesizehint=5&headers=a&event-types=b&cursorset=me&store_cursor=1&wait=3")
    assert (found.page_size, found.cursorset, found.wait_seconds, found.kinds) == (5, "me", 3.0, ({"b"}, False))
    assert read("n=4096&cursor4095=x").cursors == {4_095: "x"}
    assert read("n=4&cursorset=a&resume=3,0,3").resume == (0, 3)


def test_partition_count_and_page_size_hint_are_limited() -> None:
    rows: list[tuple[str, int]] = [
        ("0", 0), ("1", 1), ("100000", 100_000), ("100001", PAGE_SIZE_MAX), ("9" * 18, PAGE_SIZE_MAX),
    ]  # fmt: skip
    for hint, size in rows:
        assert page_size(query(f"pagesizehint={hint}")) == size

    for n in [0, 32_769, 10**18 - 1]:
        with pytest.raises(BadPartitionCount) as refused:
            read(f"n={n}")
        assert refused.value.n == n


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("cursor0=x", None),
        ("n=&cursor0=x", ""),
        ("n=-1", "-1"),
        ("n=abc", "abc"),
        ("n=1.0", "1.0"),
        ("n=%D9%A3", "٣"),
        ("n=" + "9" * 5_000, "9" * 80),
        ("n=1%FF", "1\\udcff"),
    ],
)
def test_partition_count_that_is_no_number_is_named_with_its_value(text: str, n: str | None) -> None:
    with pytest.raises(BadParameter) as refused:
        read(text)
    assert (refused.value.parameter, refused.value.value) == ("n", n)


@pytest.mark.parametrize(
    ("text", "parameter"),
    [
        ("n=4", "cursor0"),
        ("n=4&cursor4=x", "cursor4"),
        ("n=4&cursor00=x", "cursor00"),
        ("n=4&cursor=x", "cursor"),
        ("n=4&resume=0", "resume"),
        ("n=4&resume=0&cursorset=a&cursor0=x", "resume"),
        ("n=4&resume=4&cursorset=a", "resume"),
        ("n=4&store_cursor=1&cursor0=x", "store_cursor"),
        ("n=4&cursor0=x&cursorset=", "cursorset"),
    ],
)
def test_wrong_parameter_of_zeroeventhub_is_named(text: str, parameter: str) -> None:
    with pytest.raises(BadParameter) as refused:
        read(text)
    assert refused.value.parameter == parameter
    if text in ("n=4&cursor4=x", "n=4&resume=4&cursorset=a"):
        assert refused.value.n == 4


def test_lines_of_zeroeventhub_are_json() -> None:
    before, between, after = line_frame(3)
    datas = [b'{"a":1}', b"{}", b'{"b":"}"}']
    framed = (before + between.join(data.decode() for data in datas) + after).encode()
    assert framed == b"".join(event_line(3, {}, data) for data in datas)
    assert [json.loads(line) for line in framed.splitlines()][2] == {"partition": 3, "data": {"b": "}"}}
    line = event_line(1, {"a": "x\n\u2028"}, b"{}")
    assert line.count(b"\n") == 1
    assert json.loads(line) == {"partition": 1, "headers": {"a": "x\n\u2028"}, "data": {}}
    assert json.loads(checkpoint_line(1, "c")) == {"partition": 1, "cursor": "c"}
    assert list(publish_response(3, {10: "a", 2: "b"})["cursors"]) == ["2", "10"]


LINES = st.sampled_from(
    [b'{"data":{"a":1}}', b'{"cursor":"x"}', b"", b" \t", b'{"data":{},"key":"k"}', b'{"partition":0,"cursor":"x"}']
)


@given(st.lists(LINES, max_size=6), st.sampled_from([b"\n", b"\r\n"]), st.booleans())
def test_published_events_are_found_with_the_numbers_of_their_lines(
    lines: list[bytes], end: bytes, is_ended: bool
) -> None:
    body = end.join(lines) + (end if is_ended and lines else b"")
    events, numbers = parse_lines(body)
    expected = [number for number, line in enumerate(lines, 1) if b"data" in line]
    assert list(numbers) == expected
    assert [bytes(event.data) for event in events] == [
        b'{"a":1}' if b'"a"' in lines[number - 1] else b"{}" for number in expected
    ]


BAD = [
    b"{}", b'{"data":{},"some\xff":1}', b"{", b"[]", b'{"data":1}}', b'{"data":\n{}}', b'{"data":{"a":\n1}}',
    b'{"data":{}} {"data":{}}', b'{"data":{},"key":1}', b"\xff",
]  # fmt: skip


@given(st.lists(LINES, max_size=4), st.lists(LINES, max_size=4), st.sampled_from(BAD))
def test_first_wrong_line_is_named(before: list[bytes], after: list[bytes], bad: bytes) -> None:
    with pytest.raises(InvalidEvent) as refused:
        parse_lines(b"\n".join([*before, bad, *after]))
    assert refused.value.line == len(before) + 1


MEMBERS = [
    ('"data"', '{"a":1}'),
    ('"data"', '{"data":{"data":2},"key":"k"}'),
    ('"d\\u0061ta"', "{}"),
    ('"key"', '"k"'),
    ('"key"', "null"),
    ('"headers"', '{"a":"b","c":"d"}'),
    ('"headers"', '{ "a" : "b", "c" : "d" }'),
    ('"partition"', "0"),
    ('"cursor"', '""'),
    ('"more"', '[{"key":"k"}]'),
]
SPACES = st.sampled_from(["", "", " ", "\t "])


@given(st.lists(st.sampled_from(MEMBERS), max_size=5), SPACES, SPACES, st.integers(0, 2))
def test_member_of_a_line_is_not_repeated(
    members: list[tuple[str, str]], after_colon: str, after_comma: str, others: int
) -> None:
    assume(members.count(MEMBERS[-1]) < 2)  # What is not known means nothing, however often it stands there.
    given = [('"data"', "{}"), *members]
    line = "{" + f",{after_comma}".join(f"{name}:{after_colon}{value}" for name, value in given) + "}"
    names = [json.loads(name) for name, _ in given]
    body = "\n".join(['{"data":{}}'] * others + [line]).encode()

    if len(set(names)) == len(names):
        assert len(parse_lines(body)[0]) == others + 1
    else:
        with pytest.raises(InvalidEvent, match="stands twice") as raised:
            parse_lines(body)
        assert raised.value.line == others + 1


@pytest.mark.parametrize(
    "line",
    [
        b'{"data":{},"headers":{"a":"","a":""}}',
        b'{"data":{},"headers":{"":"","":""}}',
        b'{"data":{"a":"\x01"},"data":{}}',
        b'{"data":{"a":"\xff"},"data":{}}',
        b'{"data":{"a":' + b"1" * 5_000 + b'},"data":{}}',
        b'{"data":' + b'{"a":' * 5_000 + b"1" + b"}" * 5_000 + b',"data":{}}',
        b'{"cursor":"a","cursor":"b"}',
    ],
)
def test_repeated_member_is_found_whatever_stands_before_it(line: bytes) -> None:
    for body in (line, b'{"data":{}}\n' + line, b'{"cursor":"x"}\n' + line):
        with pytest.raises(InvalidEvent) as refused:
            parse_lines(body)
        assert refused.value.line == body.count(b"\n") + 1


def test_body_has_a_limited_number_of_lines() -> None:
    assert len(parse_lines(b'{"data":{}}\n' * EVENTS_MAX)[0]) == EVENTS_MAX
    with pytest.raises(RequestTooLarge, check=has_code("too-many-events"), match="250000"):
        parse_lines(b'{"data":{}}\n' * (EVENTS_MAX + 1))


# FeedAPI.


def test_request_of_feedapi_has_defaults() -> None:
    found = feedapi.parse_read(query("token=1-4&partition=3&cursor=_first"))
    assert (found.token, found.partition, found.cursor, found.until) == ("1-4", 3, "_first", None)
    assert (found.page_size, found.headers, found.kinds, found.wait_seconds) == (1_000, None, None, 0.0)


@pytest.mark.parametrize(
    ("text", "kind", "parameter"),
    [
        ("partition=3&cursor=_first", BadParameter, "token"),
        ("token=1-4&cursor=_first", BadParameter, "partition"),
        ("token=1-4&partition=3", BadParameter, "cursor"),
        ("token=1-4&partition=3&cursor=%FF_first", BadCursor, "cursor"),
        ("token=1-4&partition=3&cursor=_first&until=%FFx", BadCursor, "until"),
    ],
)
def test_wrong_parameter_of_feedapi_is_named(text: str, kind: type[PenstockError], parameter: str) -> None:
    with pytest.raises(kind) as refused:
        feedapi.parse_read(query(text))
    assert refused.value.parameter == parameter


def test_token_is_the_epoch_and_the_partition_count() -> None:
    feedapi.check_token("2-4", 2, 4)
    for token in ("1-4", "2-5", "", "2-4 ", "\udcff"):
        with pytest.raises(StaleToken) as refused:
            feedapi.check_token(token, 2, 4)
        json.dumps(refused.value.fields).encode()
        assert refused.value.current == "2-4"


def test_discovery_and_lines_of_feedapi_are_json() -> None:
    found = feedapi.discovery(1, 3, exactly_once=True)
    assert found == {"token": "1-3", "partitions": [{"id": "0"}, {"id": "1"}, {"id": "2"}], "exactlyOnce": True}
    before, between, after = feedapi.LINE_FRAME
    framed = (before + between.join(["{}", '{"a":1}']) + after).encode()
    assert framed == feedapi.event_line({}, b"{}") + feedapi.event_line({}, b'{"a":1}')
    assert json.loads(feedapi.event_line({"h": "\n"}, b"{}")) == {"headers": {"h": "\n"}, "data": {}}
    assert json.loads(feedapi.checkpoint_line("c")) == {"cursor": "c"}


# Consumer groups.


def test_commit_may_expect_a_position() -> None:
    place = {"event_type": "order.placed", "partition": 3, "offset": 7}
    items = [place, place | {"expected": None}, place | {"expected": 0, "slice": "2/1", "epoch": 4}]

    found = parse_commit({"kind": "spark", "items": items})

    assert found.kind == "spark"
    assert found.commits == [
        PositionCommit("order.placed", 3, 7),
        PositionCommit("order.placed", 3, 7, is_conditional=True),
        PositionCommit("order.placed", 3, 7, "2/1", 4, is_conditional=True, expected=0),
    ]


def test_reset_is_of_all_or_of_the_named_positions() -> None:
    everything = parse_reset({"to": "2026-11-20T10:00:00.000001+01:00", "dry_run": True})
    items = [
        {"event_type": "a", "to": "earliest"},
        {"event_type": "b", "partition": 0, "slice": "", "offset": 0},
        {"event_type": "c", "partition": 1, "to": "1h"},
    ]

    assert everything == ([GroupReset(ResetTarget(datetime(2026, 11, 20, 9, 0, 0, 1, tzinfo=UTC)))], None, True)
    resets = [
        GroupReset(ResetTarget("earliest"), "a"),
        GroupReset(ResetTarget(offset=0), "b", 0, ""),
        GroupReset(ResetTarget(timedelta(hours=1)), "c", 1),
    ]
    assert parse_reset({"items": items, "reason": "größer"}) == (resets, "größer", False)


def test_wrong_reset_is_refused_with_the_members_allowed() -> None:
    rows: list[Any] = [None, 7, [], {"to": "latest", "offset": 7}, {"items": {}}, {"dry_run": 1, "to": "latest"}]
    rows += [{"at": "2026-11-20T10:00:00Z"}]
    for body in rows:
        with pytest.raises(BadParameter) as refused:
            parse_reset(body)

        assert "dry_run" in refused.value.allowed


def test_groups_are_listed_by_kind_and_from_a_name_on_and_shown_without_unknown_members() -> None:
    assert (parse_kind(query("")), parse_after(query(""))) == (None, "")
    assert (parse_kind(query("kind=spark")), parse_after(query("after=a%2Fb"))) == ("spark", "a/b")
    with pytest.raises(BadParameter, match="cursorset, subscription, processor, spark"):
        parse_kind(query("kind=Spark"))
    with pytest.raises(BadParameter):
        parse_after(query("after=gr%C3%BCn"))

    members = {"name": "a", "kind": "b", "event_types": ["c"], "gap": 7, "lag_seconds": 1}
    group = ConsumerGroup(name="a", kind="b", event_types=["c"], gap=7, lag_seconds=1)

    assert msgspec.to_builtins(group) == members
    assert "consumer_group" in msgspec.to_builtins(msgspec.structs.replace(group, consumer_group="default"))
    assert msgspec.json.decode(json.dumps(members | {"mood": "good"}), type=ConsumerGroup) == group


@pytest.mark.parametrize("form", [b'{"data":{"n":%d}}\n', b'{ "data" : {"n":%d} }\n'], ids=["plain", "spaced"])
def test_large_body_is_parsed_in_pieces_with_the_numbers_of_its_lines(form: bytes) -> None:
    count = 3 * PIECE_BYTES // len(form)
    large = b'{"data":{"text":"%b"}}\n' % (b"x" * PIECE_BYTES)
    lines = [form % number for number in range(count)]
    lines[count // 2] = large

    events, numbers = parse_lines(b"".join(lines) + b"\n" + lines[0].rstrip())

    assert [*numbers] == [*range(1, count + 1), count + 2]
    assert bytes(events[count - 1].data) == b'{"n":%d}' % (count - 1)
    with pytest.raises(InvalidEvent) as refused:
        parse_lines(b"".join([*lines, b"{}\n", *lines]))
    assert refused.value.line == count + 1


def test_line_of_more_than_two_mebibytes_is_refused_unread() -> None:
    for line in (b"[" * (LINE_BYTES_MAX + 1), b'{"data":{"a":"' + b"x" * LINE_BYTES_MAX + b'"}}'):
        with pytest.raises(EventTooLarge, match=f"line 2: the event has {len(line)} bytes"):
            parse_lines(b'{"data":{}}\n' + line + b'\n{"data":{}}\n')
