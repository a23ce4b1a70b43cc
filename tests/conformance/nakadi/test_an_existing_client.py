"""A client that others have written for Nakadi (pyNakadi) uses a hub as it is."""

import json

import pytest
from pyNakadi import NakadiClient, NakadiException, NakadiStream

from tests.nakadi import EventType, Nakadi, business, json_schema, offset, statistic

AT_BEGIN = {"partition": "0", "offset": "BEGIN"}


@pytest.fixture
def created(nakadi: Nakadi, client: NakadiClient) -> EventType:
    definition = nakadi.definition(
        category="business", enrichment_strategies=["metadata_enrichment"], default_statistic=statistic(1)
    )
    assert client.create_event_type(definition)
    return EventType(nakadi.http, definition["name"])


def test_it_creates_shows_changes_and_lists_event_types(client: NakadiClient, created: EventType) -> None:
    shown = client.get_event_type(created.name)
    schema = {"properties": {"foo": {"type": "string"}, "bar": {"type": "string"}}}
    assert client.update_event_type(created.name, shown | {"schema": json_schema(schema)})
    changed = client.get_event_type(created.name)
    assert changed["schema"]["version"] == "1.1.0"
    assert changed in client.get_event_types()


def test_it_deletes_event_types(client: NakadiClient, created: EventType) -> None:
    assert client.delete_event_type(created.name)
    with pytest.raises(NakadiException) as error:
        client.get_event_type(created.name)
    assert error.value.code == 404


def test_it_publishes_and_asks_where_partitions_end(client: NakadiClient, created: EventType) -> None:
    assert client.post_events(created.name, [business(foo="a"), business(foo="b")])
    partition = client.get_event_type_partition(created.name, 0)
    assert partition["newest_available_offset"] == offset(1)
    assert client.get_event_type_partitions(created.name) == [partition]
    pair = {"initial_cursor": AT_BEGIN, "final_cursor": {"partition": "0", "offset": offset(1)}}
    assert client.get_event_type_cursor_distances(created.name, [pair]) == [pair | {"distance": 2}]


def test_it_is_told_what_is_wrong_with_an_event(client: NakadiClient, created: EventType) -> None:
    with pytest.raises(NakadiException) as error:
        client.post_events(created.name, [business(foo=1)])
    assert error.value.code == 422
    assert "#/foo: expected type: String, found: Integer" in error.value.msg


def test_it_reads_batches_from_the_socket(client: NakadiClient, created: EventType) -> None:
    """It takes the chunks apart by itself, from the moment at which the headers have come.

    The path by which it asks for this stream is wrong (no event type is in it); what reads is its own.
    """
    limits = {"batch_limit": "3", "batch_flush_timeout": "20", "stream_limit": "5"}
    headers = {"X-nakadi-cursors": json.dumps([AT_BEGIN]), "Accept-Encoding": None}
    url = f"{client.nakadi_url}{created.path}/events"
    with client.session.get(url, params=limits, headers=headers, stream=True) as answer:
        assert answer.status_code == 200
        stream = NakadiStream(answer)
        for wanted in ([0, 1, 2], [3, 4]):
            client.post_events(created.name, [business(foo=str(number)) for number in wanted])
            batch = json.loads(next(stream))
            assert batch["cursor"] == {"partition": "0", "offset": offset(wanted[-1])}
            assert [event["foo"] for event in batch["events"]] == [str(number) for number in wanted]
