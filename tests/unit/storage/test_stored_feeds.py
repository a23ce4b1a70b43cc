from penstock.storage.registry import read_feed
from penstock.testing.factories import a_business_event


def test_event_type_of_the_first_version_allows_every_object() -> None:
    old = '{"name":"a","category":"Business","owner":"us","schema":{"type":"json_schema","schema":"{"}}'

    feed = read_feed((1, 1, 1, old, 0, 0, "[1,2]"))

    assert (feed.event_type.category, feed.event_type.compatibility_mode) == ("business", "none")
    assert feed.event_type.definition["owner"] == "us"
    assert feed.event_type.validator.find_first_invalid([a_business_event()]) is None
