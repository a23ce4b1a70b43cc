"""Pages of feeds: lines however the network cuts them, events up to their cursors, and events of a type."""

import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.events.decoding import EventDecoder
from penstock.core.events.encoding import encode_event
from penstock.errors import ConnectionLost, EventUnusable, MalformedAnswer
from penstock.wire.log.reader.pages import OF_FEED, FeedLine, LineReader, Page, PageReader
from tests.failing import has_code

# Lines.


def read_lines(*chunks: bytes) -> list[FeedLine]:
    reader = LineReader("http://s/feed", OF_FEED)
    return [line for chunk in chunks for line in reader.feed(chunk)] + reader.finish()


def shown(lines: list[FeedLine]) -> list[tuple[object, bytes, object]]:
    return [(line.partition, bytes(line.data), line.cursor) for line in lines]


@given(st.binary(max_size=40), st.lists(st.integers(0, 400), max_size=8))
def test_lines_are_the_same_however_the_network_cuts_them(text: bytes, cuts: list[int]) -> None:
    data = json.dumps({"text": text.hex(), "more": ["\n", "é"]}, ensure_ascii=False)
    body = f'{{"partition":0,"data":{data}}}\n\n{{"partition":1,"data":"{text.hex()}"}}\n{{"cursor":"7"}}'.encode()
    places = sorted({0, len(body), *(cut for cut in cuts if cut < len(body))})

    lines = read_lines(*(body[begin:end] for begin, end in pairwise(places)))

    assert shown(lines) == [(0, data.encode(), None), (1, json.dumps(text.hex()).encode(), None), (None, b"", "7")]


def test_data_is_kept_byte_for_byte_and_what_is_around_it_is_ignored() -> None:
    [line] = read_lines(b'{"data": {"n": 1.50, "\\u0061": [ ] } }\n')

    assert bytes(line.data) == b'{"n": 1.50, "\\u0061": [ ] }'

    lines = read_lines(b'{"heartbeat":1}\n{"partition":["x"],"headers":3}\n{}\n{"cursor":null}\n')

    assert len(lines) == 4
    assert not any(bytes(line.data) or line.cursor for line in lines)

    lines = read_lines(b'\xef\xbb\xbf{"cursor":"1"}\r\n{"cursor":"2"}\r\n')

    assert shown(lines) == [(None, b"", "1"), (None, b"", "2")]


def test_line_other_than_an_object_is_refused_with_its_number() -> None:
    rows: list[bytes] = [b"[1]", b"null", b'{"data":}', b'{"data":{"a":1}', b"<html>", b'{"cursor":"\xff"}']
    for bad in rows:
        good = b'{"data":{}}\n'

        with pytest.raises(MalformedAnswer, match="line 4 "):
            read_lines(good * 2, good + bad + b"\n" + good)


def test_answer_that_ends_within_a_line_has_broken_off() -> None:
    with pytest.raises(ConnectionLost, match="middle of a line"):
        read_lines(b'{"data":{}}\n{"data":{"a"')


def test_line_of_many_chunks_is_put_together() -> None:
    [line] = read_lines(b'{"data":{"text":"', *[b"x" * 65_536] * 64, b'"}}\n')

    assert len(bytes(line.data)) == 64 * 65_536 + len('{"text":""}')


# Pages.


@dataclass
class Numbered:
    n: int


def read(body: str, cursors: Mapping[int, str], kind: Any = None, **how: Any) -> Page[Any]:
    decoder = None if kind is None else EventDecoder(kind, "http://s/feed")
    reader = PageReader("http://s/feed?n=2", cursors, decoder=decoder, **how)
    reader.feed(body.encode())
    return reader.finish()


def event(partition: int, number: int) -> str:
    return f'{{"partition":{partition},"data":{{"n":{number}}}}}\n'


def cursor(partition: int, text: str) -> str:
    return f'{{"partition":{partition},"cursor":"{text}"}}\n'


FIRST = {0: "_first"}


def test_page_has_the_events_before_the_last_cursor_of_each_partition() -> None:
    page = read(event(0, 1) + cursor(0, "a") + event(0, 2) + cursor(0, "b"), {0: "_first", 1: "y"})
    assert [each.data for each in page.events] == [{"n": 1}, {"n": 2}]
    assert page.cursors == {0: "b", 1: "y"}
    assert page.since == {0: "_first", 1: "y"}

    body = event(0, 1) + event(1, 2) + cursor(0, "a") + event(0, 3) + event(1, 4) + cursor(1, "b") + event(0, 5)
    page = read(body, {0: "_first", 1: "_first"})
    assert [(each.partition, each.data["n"]) for each in page.events] == [(0, 1), (1, 2), (1, 4)]
    assert page.cursors == {0: "a", 1: "b"}

    assert read("", {3: "x"}) == Page([], {3: "x"}, {3: "x"})


def test_events_without_any_cursor_after_them_are_an_error() -> None:
    with pytest.raises(MalformedAnswer, match="2 events, but no cursor"):
        read(cursor(0, "a") + event(0, 1) + event(0, 2), {0: "a"})


def test_lines_of_feedapi_are_of_the_requested_partition() -> None:
    page = read('{"data":{"n":1}}\n{"data":"AAEC\\n"}\n{"cursor":"z"}\n', {7: "_first"}, partition=7)

    assert [each.partition for each in page.events] == [7, 7]
    assert page.cursors == {7: "z"}
    assert (page.events[1].data, page.events[1].raw) == ("AAEC\n", b'"AAEC\\n"')


def test_line_that_breaks_the_protocol_is_refused() -> None:
    rows: list[str] = [
        event(5, 1), cursor(5, "a"), '{"data":{}}', '{"partition":"0","data":{}}', '{"partition":true,"data":{}}',
        '{"partition":0,"cursor":7}', '{"partition":0,"headers":[],"data":{}}',
    ]  # fmt: skip
    for line in rows:
        with pytest.raises(MalformedAnswer):
            read(line, FIRST)


def test_page_is_cut_where_every_event_has_its_cursor() -> None:
    reader = PageReader("http://s/feed", FIRST)

    reader.feed(event(0, 1).encode())
    assert not reader.is_closed
    reader.feed((cursor(0, "a") + '{"partition":0,"da').encode())
    assert reader.is_closed

    assert reader.cut().cursors == {0: "a"}
    with pytest.raises(ConnectionLost):
        reader.finish()


# Events.


def test_event_is_decoded_once_when_its_data_is_used() -> None:
    raw = '{"n": 1.50}'
    [only] = read(f'{{"partition":0,"headers":{{"ce_id":"7"}},"data":{raw}}}\n{cursor(0, "a")}', FIRST).events

    assert only.raw == raw.encode()
    assert only.data == {"n": 1.5}
    assert only.data is only.data
    assert only.headers == {"ce_id": "7"}
    assert repr(only) == "FeedEvent(partition=0, raw=b'{\"n\": 1.50}')"

    [typed] = read(event(0, 7) + cursor(0, "a"), FIRST, Numbered).events
    assert typed.data == Numbered(7)
    assert typed.data is typed.data
    assert typed.raw == b'{"n":7}'


@pytest.mark.parametrize(("kind", "data"), [(None, {"n": 7}), (Numbered, Numbered(7))])
def test_page_and_its_events_can_be_sent_to_another_process(kind: Any, data: Any) -> None:
    page = read(event(0, 7) + cursor(0, "a"), FIRST, kind)

    before = pickle.loads(pickle.dumps(page)).events[0]
    assert page.events[0].data == data
    after = pickle.loads(pickle.dumps(page.events[0]))
    for copy in (before, after):
        assert (copy.partition, copy.data, copy.raw) == (0, data, b'{"n":7}')


def test_event_keeps_its_details_in_another_process() -> None:
    lines = b'{"partition":0,"details":{"kind":"a","ends":[1],"received_at":[0],"offset":7}}\n'
    reader = PageReader("http://s/feed", FIRST, has_details=True)
    reader.feed(lines + (event(0, 7) + cursor(0, "a")).encode())
    [before] = reader.finish().events

    after = pickle.loads(pickle.dumps(before))

    assert (after.offset, after.kind, after.key) == (7, "a", None)
    assert after.received_at == before.received_at


def test_unfit_event_is_refused_with_its_place_and_the_member_at_fault() -> None:
    unfit = '{"partition":0,"data":{"n":"x","metadata":{"eid":"e-7"}}}\n'
    body = event(0, 1) + cursor(0, "a") + event(1, 2) + event(0, 3) + unfit + event(0, 4) + cursor(0, "b")
    page = read(body + cursor(1, "c"), {0: "_first", 1: "_first"}, Numbered)

    with pytest.raises(EventUnusable, check=has_code("event-unfit")) as caught:
        page.events[3].data  # noqa: B018 - it is decoded now

    assert caught.value.fields | {"event": ""} == {
        "feed": "http://s/feed", "partition": 0, "cursor": "a", "place": 2, "eid": "e-7", "type": "Numbered",
        "member": "#/n", "reason": "expected `int`, got `str`", "event": "",
    }  # fmt: skip
    assert str(caught.value).startswith(
        "event 2 after cursor 'a' in partition 0 of http://s/feed (eid e-7) is no Numbered: #/n expected `int`, "
    )
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_unfit_event_leaves_the_others_and_the_cursors_usable() -> None:
    page = read(event(0, 1) + '{"partition":0,"data":{}}\n' + event(0, 3) + cursor(0, "b"), FIRST, Numbered)

    fit, unfit = [], []
    for each in page.events:
        try:
            fit.append(each.data.n)
        except EventUnusable:
            unfit.append(each.raw)

    assert (fit, unfit) == ([1, 3], [b"{}"])
    assert page.cursors == {0: "b"}


def test_unfit_event_without_a_cursor_before_it_and_unfit_text_are_refused() -> None:
    [only] = read('{"partition":0,"data":{}}\n' + cursor(0, "b"), {}, Numbered, asked=[0]).events

    with pytest.raises(EventUnusable, check=has_code("event-unfit"), match="event 1 of its page in partition 0"):
        only.data  # noqa: B018

    [only] = read('{"data":"AAEC"}\n{"cursor":"a"}\n', FIRST, Numbered, partition=0).events

    with pytest.raises(EventUnusable, check=has_code("event-unfit"), match="expected `object`, got `str`"):
        only.data  # noqa: B018
    assert only.metadata == {}


def test_event_of_a_feed_is_not_published_by_mistake_for_its_data() -> None:
    for kind in (None, Numbered):
        [only] = read(event(0, 7) + cursor(0, "a"), FIRST, kind).events
        for _ in range(2):
            for wrong in (only, {"event": only}):
                with pytest.raises(TypeError, match="no form in JSON"):
                    encode_event(wrong)
            assert only.data is not None  # Decoded from here on.


def test_metadata_is_available_with_any_type() -> None:
    rows: list[tuple[str, dict[str, str]]] = [
        ('{"n":1,"metadata":{"eid":"e","flow_id":"f"}}', {"eid": "e", "flow_id": "f"}), ('{"n":1}', {}),
        ('{"n":1,"metadata":"mine"}', {}), ('{"n":1,"metadata":null}', {}),
    ]  # fmt: skip
    for data, metadata in rows:
        for kind in (None, Numbered):
            page = read(f'{{"partition":0,"data":{data}}}\n{cursor(0, "a")}', FIRST, kind)
            assert page.events[0].metadata == metadata
