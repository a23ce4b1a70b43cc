import json
from collections.abc import Sequence
from typing import Any

import pytest

from penstock.core.event import NewEvent
from penstock.core.event_type import Feed
from penstock.errors import EventTooLarge, InvalidEvent, PartitionRefused
from penstock.hub import publish
from penstock.hub.publish import Handed, Prepared, parse_headers
from penstock.testing.clock import START_AT
from penstock.testing.factories import a_business_event, a_data_event, a_new_event, an_event
from tests.unit.hub.feeds import NAME, a_feed

COUNT = 16


def prepare(feed: Feed, events: Sequence[NewEvent], at: int, **how: Any) -> Prepared:
    return publish.prepare(feed, Handed(events, **how), at)


def placed(prepared: Prepared) -> dict[int, list[str | None]]:
    """Return the keys of what was prepared, by partition number."""
    return {partition: [row[0] for row in rows] for partition, rows in prepared.rows.items()}


def only(prepared: Prepared) -> Any:
    """Return the one row that was prepared: key, kind, headers, data."""
    ((row,),) = prepared.rows.values()
    return row


def hashed(fields: list[str], **definition: Any) -> Any:
    return a_feed(COUNT, partition_strategy="hash", partition_key_fields=fields, **definition)


def test_events_keep_their_order_within_a_partition() -> None:
    feed = a_feed(2, partition_strategy="user_defined")
    events = [a_new_event({"n": n}, partition=n % 2) for n in range(6)]

    prepared = prepare(feed, events, START_AT)

    assert prepared.events == 6
    assert {each: [row[3] for row in rows] for each, rows in prepared.rows.items()} == {
        0: [b'{"n":0}', b'{"n":2}', b'{"n":4}'],
        1: [b'{"n":1}', b'{"n":3}', b'{"n":5}'],
    }
    assert prepared.partition_ids == [100, 101]


def test_all_or_none_are_prepared_and_the_guilty_one_is_called_by_its_line() -> None:
    events = [a_new_event(), a_new_event(b"[]"), a_new_event(b"{")]

    with pytest.raises(InvalidEvent) as counted:
        prepare(a_feed(), events[:2], START_AT)
    with pytest.raises(InvalidEvent) as given:
        prepare(a_feed(), events[:2], START_AT, lines=[4, 9])

    assert (counted.value.fields["line"], given.value.fields["line"]) == (2, 9)


@pytest.mark.parametrize(
    ("accompaniment", "refusal"),
    [
        ({"data": b'{"x":"%b"}' % (b"x" * 999_000)}, EventTooLarge),
        ({"key": "a\nb"}, InvalidEvent),
        ({"headers": {"ce_partitionkey": "a\nb"}}, InvalidEvent),
        ({"headers": {"": "x"}}, InvalidEvent),
        ({"headers": {"ce_type": ""}}, InvalidEvent),
        ({"headers": {"ce_type": "a\x00"}}, InvalidEvent),
        ({"partition": 2}, PartitionRefused),
    ],
)
def test_whatever_is_wrong_names_its_line(accompaniment: dict[str, Any], refusal: type[InvalidEvent]) -> None:
    bad = NewEvent.of(**({"data": b"{}", "partition": 0} | accompaniment))
    feed = a_feed(2, partition_strategy="user_defined")

    with pytest.raises(refusal) as told:
        prepare(feed, [a_new_event(partition=1), bad], START_AT, lines=[1, 5])

    assert told.value.fields["line"] == 5


class TestKind:
    def test_an_event_that_says_none_has_none(self) -> None:
        assert only(prepare(a_feed(), [a_new_event()], START_AT))[1] is None

    def test_a_header_says_it(self) -> None:
        assert only(prepare(a_feed(), [a_new_event(headers={"ce_type": "paid"})], START_AT))[1] == "paid"

    def test_a_data_event_says_it_unless_a_header_does(self) -> None:
        feed, change = a_feed(category="data"), a_data_event(data_type="customer")

        assert only(prepare(feed, [a_new_event(change)], START_AT))[1] == "customer"
        assert only(prepare(feed, [a_new_event(change, headers={"h": "1"})], START_AT))[1] == "customer"
        assert only(prepare(feed, [a_new_event(change, headers={"ce_type": "paid"})], START_AT))[1] == "paid"

    def test_a_member_of_that_name_says_nothing_in_other_categories(self) -> None:
        assert only(prepare(a_feed(), [a_new_event({"data_type": "customer"})], START_AT))[1] is None

    def test_the_event_types_own_name_is_not_written_down(self) -> None:
        assert only(prepare(a_feed(), [a_new_event(headers={"ce_type": NAME})], START_AT))[1] is None


def test_own_headers_are_kept_as_json() -> None:
    headers = {"h": 'a "ü"', "ce_type": "paid"}

    kept = only(prepare(a_feed(), [a_new_event(headers=headers)], START_AT))[2]

    assert json.loads(kept) == headers
    assert only(prepare(a_feed(), [a_new_event(headers={})], START_AT))[2] is None


def test_an_undefined_event_stays_byte_for_byte_but_for_its_line_ends() -> None:
    written = b'{ "metadata" : { "eid" : 1 },\r\n\t"n" : 1.0 }'

    assert only(prepare(a_feed(), [a_new_event(written)], START_AT))[3] == b'{ "metadata" : { "eid" : 1 },\t"n" : 1.0 }'


@pytest.mark.parametrize("category", ["business", "data"])
def test_metadata_is_completed_with_place_and_time(category: str) -> None:
    event = a_business_event(7) if category == "business" else a_data_event(7)
    feed = a_feed(12, category=category, partition_strategy="user_defined")

    data = json.loads(only(prepare(feed, [a_new_event(event, partition=10)], START_AT))[3])

    added = {name: data["metadata"][name] for name in ("event_type", "partition", "received_at")}
    assert added == {"event_type": NAME, "partition": "10", "received_at": "2023-11-14T22:13:20.000Z"}
    assert data["metadata"].items() >= event["metadata"].items()


def test_an_event_that_lacks_the_shape_of_its_category_is_refused() -> None:
    for category in ("business", "data"):
        with pytest.raises(InvalidEvent, match=r"line 1: [^$]*required key \[metadata\] not found"):
            prepare(a_feed(category=category), [a_new_event(an_event())], START_AT)


@pytest.mark.parametrize("text", ["[]", "x", '{"a":1}', '{"a":null}', "", "null"])
def test_headers_of_an_outbox_row_are_an_object_of_strings_or_refused(text: str) -> None:
    with pytest.raises(InvalidEvent, match="not a JSON object of strings"):
        parse_headers(text)


def test_a_header_that_stands_twice_in_an_outbox_row_is_refused() -> None:
    with pytest.raises(InvalidEvent, match="'a' stands twice"):
        parse_headers('{"a":"1","a":"2"}')


def test_headers_of_an_outbox_row_are_read() -> None:
    assert parse_headers('{ "a" : "1" }') == {"a": "1"}
    assert parse_headers('{"a":"1","b":"ü"}') == {"a": "1", "b": "ü"}
    assert parse_headers("{}") == {}
    assert parse_headers(None) is None
