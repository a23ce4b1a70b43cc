"""ZeroEventHub v1 on the wire."""

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.core.event import EVENTS_MAX
from penstock.errors import BadParameter, BadPartitionCount, InvalidEvent, TooManyEvents
from penstock.wire.query import Query
from penstock.wire.zeroeventhub import (
    PAGE_SIZE_MAX,
    checkpoint_line,
    event_line,
    line_frame,
    page_size,
    parse_lines,
    parse_read,
    published,
)


def asked(text: str) -> Any:
    return parse_read(Query(text.encode()))


def test_a_request_is_read_with_its_defaults() -> None:
    found = asked("n=4&cursor3=x&cursor0=_first")
    assert (found.n, found.cursors, found.resume) == (4, {3: "x", 0: "_first"}, ())
    assert (found.page_size, found.headers, found.kinds) == (1_000, None, None)
    assert (found.cursorset, found.wait_s) == (None, 0.0)


def test_a_request_says_everything_it_can() -> None:
    found = asked("n=4&cursor0=x&pagesizehint=5&headers=a&event-types=b&cursorset=me&store_cursor=1&wait=3")
    assert (found.page_size, found.cursorset, found.wait_s) == (5, "me", 3.0)
    assert found.kinds == ({"b"}, False)


@pytest.mark.parametrize(
    ("hint", "size"), [("0", 0), ("1", 1), ("100000", 100_000), ("100001", PAGE_SIZE_MAX), ("9" * 18, PAGE_SIZE_MAX)]
)
def test_the_hint_is_cut(hint: str, size: int) -> None:
    assert page_size(Query(f"pagesizehint={hint}".encode())) == size


def test_an_n_that_this_feed_may_not_have_is_left_to_who_knows_it() -> None:
    assert asked("n=4096&cursor4095=x").cursors == {4_095: "x"}


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
def test_an_n_that_is_no_number_is_told_as_it_was_given(text: str, n: str | None) -> None:
    with pytest.raises(BadParameter) as raised:
        asked(text)
    assert (raised.value.fields["parameter"], raised.value.fields["value"]) == ("n", n)


@pytest.mark.parametrize("n", [0, 32_769, 10**18 - 1])
def test_an_n_that_no_feed_can_have_comes_before_what_else_is_wrong(n: int) -> None:
    with pytest.raises(BadPartitionCount) as raised:
        asked(f"n={n}")
    assert raised.value.fields["n"] == n


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
def test_what_is_wrong_is_named(text: str, parameter: str) -> None:
    with pytest.raises(BadParameter) as raised:
        asked(text)
    assert raised.value.fields["parameter"] == parameter


@pytest.mark.parametrize("text", ["n=4&cursor4=x", "n=4&resume=4&cursorset=a"])
def test_what_does_not_fit_n_is_told_with_n(text: str) -> None:
    with pytest.raises(BadParameter) as raised:
        asked(text)
    assert raised.value.fields["n"] == 4


def test_resumed_partitions_are_sorted_and_each_is_taken_once() -> None:
    assert asked("n=4&cursorset=a&resume=3,0,3").resume == (0, 3)


def test_framed_lines_are_those_of_single_events() -> None:
    before, between, after = line_frame(3)
    datas = [b'{"a":1}', b"{}", b'{"b":"}"}']
    framed = (before + between.join(data.decode() for data in datas) + after).encode()
    assert framed == b"".join(event_line(3, {}, data) for data in datas)
    assert [json.loads(line) for line in framed.splitlines()][2] == {"partition": 3, "data": {"b": "}"}}


def test_a_line_with_headers_and_a_checkpoint_are_json_on_one_line() -> None:
    line = event_line(1, {"a": "x\n\u2028"}, b"{}")
    assert line.count(b"\n") == 1
    assert json.loads(line) == {"partition": 1, "headers": {"a": "x\n\u2028"}, "data": {}}
    assert json.loads(checkpoint_line(1, "c")) == {"partition": 1, "cursor": "c"}


LINES = st.sampled_from(
    [b'{"data":{"a":1}}', b'{"cursor":"x"}', b"", b" \t", b'{"data":{},"key":"k"}', b'{"partition":0,"cursor":"x"}']
)


@given(st.lists(LINES, max_size=6), st.sampled_from([b"\n", b"\r\n"]), st.booleans())
def test_events_are_found_with_the_numbers_of_their_lines(lines: list[bytes], end: bytes, ended: bool) -> None:
    body = end.join(lines) + (end if ended and lines else b"")
    events, numbers = parse_lines(body)
    expected = [number for number, line in enumerate(lines, 1) if b"data" in line]
    assert list(numbers) == expected
    assert [bytes(event.data) for event in events] == [
        b'{"a":1}' if b'"a"' in lines[number - 1] else b"{}" for number in expected
    ]


BAD = st.sampled_from(
    [
        b"{}",
        b'{"data":{},"some\xff":1}',
        b"{",
        b"[]",
        b'{"data":1}}',
        b'{"data":\n{}}',
        b'{"data":{"a":\n1}}',
        b'{"data":{}} {"data":{}}',
        b'{"data":{},"key":1}',
        b"\xff",
    ]
)


@given(st.lists(LINES, max_size=4), st.lists(LINES, max_size=4), BAD)
def test_the_first_line_that_is_none_is_named(before: list[bytes], after: list[bytes], bad: bytes) -> None:
    with pytest.raises(InvalidEvent) as raised:
        parse_lines(b"\n".join([*before, bad, *after]))
    assert raised.value.fields["line"] == len(before) + 1


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
def test_a_member_stands_once_in_a_line(
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
        assert raised.value.fields["line"] == others + 1


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
def test_whatever_stands_twice_is_found(line: bytes) -> None:
    for body in (line, b'{"data":{}}\n' + line, b'{"cursor":"x"}\n' + line):
        with pytest.raises(InvalidEvent) as raised:
            parse_lines(body)
        assert raised.value.fields["line"] == body.count(b"\n") + 1


def test_the_answer_to_a_publish_is_sorted_by_partition() -> None:
    assert list(published(3, {10: "a", 2: "b"})["cursors"]) == ["2", "10"]


def test_more_lines_than_may_be_are_refused() -> None:
    assert len(parse_lines(b'{"data":{}}\n' * EVENTS_MAX)[0]) == EVENTS_MAX
    with pytest.raises(TooManyEvents, match="250000"):
        parse_lines(b'{"data":{}}\n' * (EVENTS_MAX + 1))
