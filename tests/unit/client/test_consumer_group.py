import msgspec

from penstock.client.consumer_group import ConsumerGroup


def test_a_group_with_more_than_is_known_here_is_understood() -> None:
    found = msgspec.json.decode(b'{"name":"a","kind":"b","event_types":["c"],"gap":7}', type=ConsumerGroup)

    assert found == ConsumerGroup("a", "b", ["c"])
