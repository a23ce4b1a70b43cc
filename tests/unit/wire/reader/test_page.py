import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from penstock.core.event_decoder import EventDecoder
from penstock.errors import ConnectionLost, EventUnfit, MalformedAnswer
from penstock.wire.reader.page import Page, PageReader


def read(body: str, cursors: Mapping[int, str], partition: int | None = None) -> Page:
    reader = PageReader("http://s/feed", cursors, partition=partition)
    reader.feed(body.encode())
    return reader.finish()


def event(partition: int, number: int) -> str:
    return f'{{"partition":{partition},"data":{{"n":{number}}}}}\n'


def cursor(partition: int, text: str) -> str:
    return f'{{"partition":{partition},"cursor":"{text}"}}\n'


def test_a_page_holds_its_events_and_all_cursors_that_lead_on() -> None:
    page = read(event(0, 1) + cursor(0, "a") + event(0, 2) + cursor(0, "b"), {0: "_first", 1: "y"})

    assert [each.data for each in page.events] == [{"n": 1}, {"n": 2}]
    assert page.cursors == {0: "b", 1: "y"}
    assert page.since == {0: "_first", 1: "y"}


def test_events_after_the_last_cursor_of_their_partition_are_left_for_the_next_page() -> None:
    body = event(0, 1) + event(1, 2) + cursor(0, "a") + event(0, 3) + event(1, 4) + cursor(1, "b") + event(0, 5)

    page = read(body, {0: "_first", 1: "_first"})

    assert [(each.partition, each.data["n"]) for each in page.events] == [(0, 1), (1, 2), (1, 4)]
    assert page.cursors == {0: "a", 1: "b"}


def test_events_without_any_cursor_after_them_are_an_error_and_not_an_endless_loop() -> None:
    with pytest.raises(MalformedAnswer, match="2 events, but no cursor"):
        read(cursor(0, "a") + event(0, 1) + event(0, 2), {0: "a"})


def test_an_empty_answer_leaves_the_cursors_where_they_are() -> None:
    assert read("", {3: "x"}) == Page([], {3: "x"}, {3: "x"})


def test_lines_of_feedapi_are_of_the_partition_that_was_asked_for() -> None:
    page = read('{"data":{"n":1}}\n{"cursor":"z"}\n', {7: "_first"}, partition=7)

    assert [each.partition for each in page.events] == [7]
    assert page.cursors == {7: "z"}


@pytest.mark.parametrize(
    "line",
    [
        event(5, 1),
        cursor(5, "a"),
        '{"data":{}}',
        '{"partition":"0","data":{}}',
        '{"partition":true,"data":{}}',
        '{"partition":0,"cursor":7}',
        '{"partition":0,"headers":[],"data":{}}',
    ],
)
def test_a_line_that_breaks_the_protocol_is_refused(line: str) -> None:
    with pytest.raises(MalformedAnswer):
        read(line, {0: "_first"})


def test_an_event_is_decoded_once_and_only_when_it_is_asked_for() -> None:
    raw = '{"n": 1.50}'
    page = read(f'{{"partition":0,"headers":{{"ce_id":"7"}},"data":{raw}}}\n{cursor(0, "a")}', {0: "_first"})
    [only] = page.events

    assert only.raw == raw.encode()
    assert only.data == {"n": 1.5}
    assert only.data is only.data
    assert only.headers == {"ce_id": "7"}
    assert repr(only) == "FeedEvent(partition=0, raw=b'{\"n\": 1.50}')"


def test_events_can_be_sent_to_another_process() -> None:
    [event_read] = read(event(0, 7) + cursor(0, "a"), {0: "_first"}).events

    copies = [pickle.loads(pickle.dumps(event_read)) for _ in range(2) if event_read.data]

    assert [(copy.partition, copy.data, copy.raw) for copy in copies] == [(0, {"n": 7}, b'{"n":7}')] * 2


def test_text_that_a_feed_carries_is_handed_over_as_it_is() -> None:
    page = read('{"data":"AAEC\\n"}\n{"cursor":"a"}\n', {0: "_first"}, partition=0)

    assert page.events[0].data == "AAEC\n"
    assert page.events[0].raw == b'"AAEC\\n"'


def test_a_page_can_be_cut_where_every_event_has_its_cursor() -> None:
    reader = PageReader("http://s/feed", {0: "_first"})

    reader.feed(event(0, 1).encode())
    assert not reader.is_closed
    reader.feed((cursor(0, "a") + '{"partition":0,"da').encode())
    assert reader.is_closed

    assert reader.cut().cursors == {0: "a"}
    with pytest.raises(ConnectionLost):
        reader.finish()


@dataclass
class Numbered:
    n: int


def typed(body: str, cursors: Mapping[int, str], kind: Any = Numbered) -> Page[Any]:
    reader = PageReader("http://s/feed?n=2", cursors, decoder=EventDecoder(kind, "http://s/feed"))
    reader.feed(body.encode())
    return reader.finish()


def test_events_become_instances_of_the_type_when_they_are_asked_for() -> None:
    [only] = typed(event(0, 7) + cursor(0, "a"), {0: "_first"}).events

    assert only.data == Numbered(7)
    assert only.data is only.data
    assert only.raw == b'{"n":7}'


def test_an_event_that_does_not_fit_is_told_with_its_place_and_what_is_wrong() -> None:
    body = (
        event(0, 1)
        + cursor(0, "a")
        + event(1, 2)
        + event(0, 3)
        + '{"partition":0,"data":{"n":"x","metadata":{"eid":"e-7"}}}\n'
        + event(0, 4)
        + cursor(0, "b")
        + cursor(1, "c")
    )
    page = typed(body, {0: "_first", 1: "_first"})

    with pytest.raises(EventUnfit) as caught:
        page.events[3].data  # noqa: B018 - it is decoded now

    assert caught.value.fields | {"told": ""} == {
        "feed": "http://s/feed",
        "partition": 0,
        "cursor": "a",
        "place": 2,
        "eid": "e-7",
        "type": "Numbered",
        "member": "#/n",
        "reason": "expected `int`, got `str`",
        "told": "",
    }
    assert str(caught.value).startswith(
        "event 2 after cursor 'a' in partition 0 of http://s/feed (eid e-7) is no Numbered: #/n expected `int`, "
    )
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_an_event_that_does_not_fit_costs_neither_the_others_nor_the_cursors() -> None:
    page = typed(event(0, 1) + '{"partition":0,"data":{}}\n' + event(0, 3) + cursor(0, "b"), {0: "_first"})

    read, passed_over = [], []
    for each in page.events:
        try:
            read.append(each.data.n)
        except EventUnfit:
            passed_over.append(each.raw)

    assert (read, passed_over) == ([1, 3], [b"{}"])
    assert page.cursors == {0: "b"}


def test_an_event_without_a_cursor_before_it_is_told_by_its_place_in_the_page() -> None:
    reader = PageReader("http://s/feed", {}, asked=[0], decoder=EventDecoder(Numbered))
    reader.feed(('{"partition":0,"data":{}}\n' + cursor(0, "b")).encode())
    [only] = reader.finish().events

    with pytest.raises(EventUnfit, match="event 1 of its page in partition 0"):
        only.data  # noqa: B018


def test_text_fits_no_type() -> None:
    reader = PageReader("http://s/feed", {0: "_first"}, partition=0, decoder=EventDecoder(Numbered))
    reader.feed(b'{"data":"AAEC"}\n{"cursor":"a"}\n')
    [only] = reader.finish().events

    with pytest.raises(EventUnfit, match="expected `object`, got `str`"):
        only.data  # noqa: B018
    assert only.metadata == {}


def test_typed_events_can_be_sent_to_another_process() -> None:
    page = typed(event(0, 7) + cursor(0, "a"), {0: "_first"})

    [copy] = pickle.loads(pickle.dumps(page)).events

    assert (copy.partition, copy.data, copy.raw) == (0, Numbered(7), b'{"n":7}')


@pytest.mark.parametrize("kind", [None, Numbered])
@pytest.mark.parametrize(
    ("data", "metadata"),
    [
        ('{"n":1,"metadata":{"eid":"e","flow_id":"f"}}', {"eid": "e", "flow_id": "f"}),
        ('{"n":1}', {}),
        ('{"n":1,"metadata":"mine"}', {}),
        ('{"n":1,"metadata":null}', {}),
    ],
)
def test_metadata_can_be_had_whatever_the_type(kind: Any, data: str, metadata: dict[str, str]) -> None:
    body = f'{{"partition":0,"data":{data}}}\n{cursor(0, "a")}'
    page = read(body, {0: "_first"}) if kind is None else typed(body, {0: "_first"}, kind)

    assert page.events[0].metadata == metadata
