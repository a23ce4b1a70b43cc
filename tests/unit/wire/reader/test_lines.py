import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ConnectionLost, MalformedAnswer
from penstock.wire.reader.lines import OF_FEED, Line, LineReader


def read(*chunks: bytes) -> list[Line]:
    reader = LineReader("http://s/feed", OF_FEED)
    return [line for chunk in chunks for line in reader.feed(chunk)] + reader.finish()


def shown(lines: list[Line]) -> list[tuple[object, bytes, object]]:
    return [(line.partition, bytes(line.data), line.cursor) for line in lines]


@given(st.binary(max_size=40), st.lists(st.integers(0, 400), max_size=8))
def test_it_does_not_matter_how_the_network_cuts_the_bytes(text: bytes, cuts: list[int]) -> None:
    data = json.dumps({"text": text.hex(), "more": ["\n", "é"]}, ensure_ascii=False)
    body = f'{{"partition":0,"data":{data}}}\n\n{{"partition":1,"data":"{text.hex()}"}}\n{{"cursor":"7"}}'.encode()
    places = sorted({0, len(body), *(cut for cut in cuts if cut < len(body))})

    lines = read(*(body[begin:end] for begin, end in pairwise(places)))

    assert shown(lines) == [(0, data.encode(), None), (1, json.dumps(text.hex()).encode(), None), (None, b"", "7")]


def test_what_an_event_holds_is_handed_on_byte_for_byte() -> None:
    [line] = read(b'{"data": {"n": 1.50, "\\u0061": [ ] } }\n')

    assert line.is_event
    assert bytes(line.data) == b'{"n": 1.50, "\\u0061": [ ] }'


def test_lines_of_unknown_kinds_stop_nothing_whatever_they_hold() -> None:
    lines = read(b'{"heartbeat":1}\n{"partition":["x"],"headers":3}\n{}\n{"cursor":null}\n')

    assert len(lines) == 4
    assert not any(line.is_event or line.cursor for line in lines)


def test_carriage_returns_and_a_byte_order_mark_are_no_part_of_a_line() -> None:
    assert shown(read(b'\xef\xbb\xbf{"cursor":"1"}\r\n{"cursor":"2"}\r\n')) == [(None, b"", "1"), (None, b"", "2")]


@pytest.mark.parametrize("bad", [b"[1]", b"null", b'{"data":}', b'{"data":{"a":1}', b"<html>", b'{"cursor":"\xff"}'])
def test_a_line_that_is_no_object_is_named_by_its_number(bad: bytes) -> None:
    good = b'{"data":{}}\n'

    with pytest.raises(MalformedAnswer, match="line 4 "):
        read(good * 2, good + bad + b"\n" + good)


def test_an_answer_that_ends_in_the_middle_of_a_line_has_broken_off() -> None:
    with pytest.raises(ConnectionLost, match="middle of a line"):
        read(b'{"data":{}}\n{"data":{"a"')


def test_a_long_line_is_put_together_once() -> None:
    chunks = [b'{"data":{"text":"', *[b"x" * 65_536] * 64, b'"}}\n']

    [line] = read(*chunks)

    assert len(bytes(line.data)) == 64 * 65_536 + len('{"text":""}')
