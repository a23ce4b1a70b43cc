from penstock.core.event_type import EventType
from penstock.storage.feed_row import feed_of
from penstock.testing.factories import an_event_type


def test_a_row_is_read_as_the_feed_that_it_tells_of() -> None:
    definition = '{"name":"order.placed","category":"Business","owner":"Käthe","partition_count":3}'

    feed = feed_of((7, 2, 5, definition, 11, 12, "[30,4,5]"))

    assert (feed.id, feed.epoch, feed.revision, feed.created_at, feed.updated_at) == (7, 2, 5, 11, 12)
    assert feed.event_type == EventType.parse(
        an_event_type("order.placed", category="Business", owner="Käthe", partition_count=3)
    )
    assert feed.partition_ids == (30, 4, 5), "in the order of their numbers, whatever the store's own are"


def test_the_partitions_are_those_that_there_are_whatever_the_definition_says() -> None:
    feed = feed_of((1, 1, 1, '{"name":"a","category":"undefined","partition_count":9}', 0, 0, "[1,2]"))

    assert feed.partition_count == 2
