import json

from penstock.core.registry.event_type import EventType
from penstock.storage.registry import read_feed
from penstock.testing.factories import a_business_event, an_event_type


def stored(name: str, **definition: object) -> tuple[EventType, str]:
    event_type = EventType.parse(an_event_type(name, partition_count=3, **definition))
    return event_type, json.dumps(event_type.definition)


def test_row_is_read_as_a_feed() -> None:
    event_type, definition = stored("order.placed", category="Business", owner="Käthe")

    feed = read_feed((7, 2, 5, definition, 11, 12, "[30,4,5]"))

    assert (feed.id, feed.epoch, feed.revision, feed.created_at, feed.updated_at) == (7, 2, 5, 11, 12)
    assert feed.event_type == event_type
    assert feed.partition_ids == (30, 4, 5), "in the order of their numbers, whatever the store's own are"


def test_partition_count_is_the_number_of_stored_partitions() -> None:
    feed = read_feed((1, 1, 1, stored("a")[1], 0, 0, "[1,2]"))

    assert (feed.partition_count, feed.event_type.partition_count) == (2, 2)


def test_event_type_of_the_first_version_allows_every_object() -> None:
    old = '{"name":"a","category":"Business","owner":"us","schema":{"type":"json_schema","schema":"{"}}'

    feed = read_feed((1, 1, 1, old, 0, 0, "[1,2]"))

    assert (feed.event_type.category, feed.event_type.compatibility_mode) == ("business", "none")
    assert feed.event_type.definition["owner"] == "us"
    assert feed.event_type.validator.find_first_invalid([a_business_event()]) is None
