import pickle
from collections.abc import Mapping

import pytest

from penstock.client.page import Page, PageReader
from penstock.errors import ConnectionLost, MalformedAnswer


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
