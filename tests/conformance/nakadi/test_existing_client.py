"""Whole journeys: of Nakadi's own acceptance tests, and of pyNakadi, an independent client, unchanged."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyNakadi import NakadiClient, NakadiException, NakadiStream

from tests.conformance.nakadi.hubs import pick
from tests.nakadi import BEFORE_FIRST, EventType, Nakadi, business, json_schema, offset, statistic
from tests.served import until
from tests.subscribing import definition, numbered, put

AT_BEGIN = {"partition": "0", "offset": "BEGIN"}
FOO = '{ "type": "object", "properties": { "foo": { "type": "string" }, "bar": { "properties": { "baz": {} } } } }'
FOO_AND_MORE = FOO.replace('"baz": {}', '"baz": {}, "more": { "type": "string" }')


@pytest.mark.parametrize("hub", ["nakadi", "strict"])
def test_journey_of_a_user_of_the_low_level_interface(request: pytest.FixtureRequest, database: str, hub: str) -> None:
    """UserJourneyAT.userJourneyM1."""
    nakadi: Nakadi = request.getfixturevalue(hub)
    given = nakadi.definition(
        owning_application="stups_aruha-test-end2end-nakadi",
        audience="external-public",
        ordering_key_fields=["foo", "bar.baz"],
        ordering_instance_ids=["foo"],
        default_statistic=statistic(1),
        schema=json_schema(FOO),
    )
    http, created = nakadi.http, EventType(nakadi.http, given["name"])

    # An event type is created, shown, listed.
    answer = http.post("/event-types", json=given)
    assert (answer.status_code, answer.content) == (201, b"")
    shown = created.shown()
    kept = {name: value for name, value in given.items() if name not in ("schema", "options")}
    assert pick(shown, kept) == kept
    assert (shown["schema"]["version"], shown["schema"]["schema"]) == ("1.0.0", FOO)
    assert shown in http.get("/event-types").json()

    # It gets an optional property, and another owner.
    answer = http.put(created.path, json=given | {"owning_application": "my-app", "schema": json_schema(FOO_AND_MORE)})
    assert (answer.status_code, answer.content) == (200, b"")
    shown = created.shown()
    assert shown["owning_application"] == "my-app"
    assert (shown["schema"]["version"], shown["schema"]["schema"]) == ("1.1.0", FOO_AND_MORE)

    # Two events are published, counted, and read byte for byte.
    events = ['{"foo":"56781234-5678-5678-5678-567812345678"}', '{"foo":"9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d"}']
    for event in events:
        created.publish(f"[{event}]")
    first, second = offset(0), offset(1)
    partition = {"partition": "0", "oldest_available_offset": first, "newest_available_offset": second}
    assert created.get("/partitions/0").json() == partition
    assert created.partitions() == [partition]
    line = f'{{"cursor":{{"partition":"0","offset":"{second}"}},"events":[{",".join(events)}]}}\n'
    assert created.raw(2) == line

    # Cursors are compared.
    one, two = ({"partition": "0", "offset": each} for each in (first, second))
    pair = {"initial_cursor": one, "final_cursor": two}
    assert created.post("/cursor-distances", [pair]).json() == [pair | {"distance": 1}]
    assert created.post("/shifted-cursors", [one | {"shift": 1}, two | {"shift": -1}]).json() == [two, one]
    assert created.post("/cursors-lag", [one]).json() == [partition | {"unconsumed_events": 1}]


# pyNakadi


@pytest.fixture
def created(nakadi: Nakadi) -> EventType:
    return numbered(nakadi)


def test_client_creates_shows_changes_lists_and_deletes_event_types(client: NakadiClient, nakadi: Nakadi) -> None:
    given = nakadi.definition(category="business", enrichment_strategies=["metadata_enrichment"])
    assert client.create_event_type(given)
    shown = client.get_event_type(given["name"])
    schema = {"properties": {"foo": {"type": "string"}, "bar": {"type": "string"}}}
    assert client.update_event_type(given["name"], shown | {"schema": json_schema(schema)})
    changed = client.get_event_type(given["name"])
    assert changed["schema"]["version"] == "1.1.0"
    assert changed in client.get_event_types()
    with pytest.raises(NakadiException) as error:
        client.post_events(given["name"], [business(foo=1)])
    assert error.value.code == 422
    assert "#/foo: expected type: String, found: Integer" in error.value.msg
    assert client.delete_event_type(given["name"])
    with pytest.raises(NakadiException) as error:
        client.get_event_type(given["name"])
    assert error.value.code == 404


def test_client_publishes_and_finds_the_ends_of_partitions(client: NakadiClient, created: EventType) -> None:
    assert client.post_events(created.name, [business(n=number, meta={"partition": "0"}) for number in (0, 1)])
    partition = client.get_event_type_partition(created.name, 0)
    assert partition["newest_available_offset"] == offset(1)
    assert client.get_event_type_partitions(created.name) == [partition]
    pair = {"initial_cursor": AT_BEGIN, "final_cursor": {"partition": "0", "offset": offset(1)}}
    assert client.get_event_type_cursor_distances(created.name, [pair]) == [pair | {"distance": 2}]


def test_client_reads_batches_of_the_low_level_stream(client: NakadiClient, created: EventType) -> None:
    """It parses the chunks itself, from the moment at which the headers have come.

    The path by which it asks for this stream is wrong (no event type is in it); the parsing is its own.
    """
    limits = {"batch_limit": "3", "batch_flush_timeout": "20", "stream_limit": "5"}
    headers = {"X-nakadi-cursors": json.dumps([AT_BEGIN]), "Accept-Encoding": None}
    url = f"{client.nakadi_url}{created.path}/events"
    with client.session.get(url, params=limits, headers=headers, stream=True) as answer:
        assert answer.status_code == 200
        stream = NakadiStream(answer)
        for wanted in ([0, 1, 2], [3, 4]):
            put(created, *wanted)
            batch = json.loads(next(stream))
            assert batch["cursor"] == {"partition": "0", "offset": offset(wanted[-1])}
            assert [event["n"] for event in batch["events"]] == wanted


@contextmanager
def streaming(client: NakadiClient, subscription_id: str, **parameters: Any) -> Iterator[NakadiStream]:
    """Stream later events of a subscription.

    A batch that comes together with the headers would be lost to this client until the commit timeout.
    """
    stream = client.get_subscription_events_stream(subscription_id, **parameters)
    try:
        yield stream
    finally:
        stream.sock.close()
        stream.close()
        stream.response.close()


def next_batch(stream: NakadiStream) -> dict[str, Any]:
    while "events" not in (line := json.loads(next(stream))):
        pass
    found: dict[str, Any] = line
    return found


def stats(client: NakadiClient, subscription: dict[str, Any]) -> dict[str, Any]:
    [item] = client.get_subscription_stats(subscription["id"], show_time_lag=True)["items"]
    partition: dict[str, Any] = item["partitions"][0]
    return partition


def test_client_consumes_and_commits_a_subscription(client: NakadiClient, created: EventType) -> None:
    found = client.create_subscription(definition(created, read_from="begin"))
    with streaming(client, found["id"], batch_limit=2, batch_flush_timeout=1, max_uncommitted_events=10) as stream:
        with pytest.raises(NakadiException, match="No free slots for streaming available") as error:
            client.get_subscription_events_stream(found["id"])
        assert error.value.code == 409
        put(created, 0, 1, 2)
        batches = [next_batch(stream) for _ in range(2)]
        assert [[event["n"] for event in each["events"]] for each in batches] == [[0, 1], [2]]
        assert set(json.loads(next(stream))) == {"cursor"}
        assert client.commit_subscription_cursors(
            found["id"], stream.get_stream_id(), [each["cursor"] for each in batches]
        )
    [cursor] = client.get_subscription_cursors(found["id"])["items"]
    assert cursor["offset"] == offset(2)
    until(lambda: not stats(client, found)["stream_id"])
    with streaming(client, found["id"]) as stream:
        put(created, 3)
        assert next_batch(stream)["events"][0]["n"] == 3


def test_client_finds_its_lag_and_resets_cursors(client: NakadiClient, created: EventType) -> None:
    found = client.create_subscription(definition(created, read_from="begin"))
    put(created, 0, 1, 2)
    cursor = {"event_type": created.name, "partition": "0", "offset": offset(1)}
    assert client.reset_subscription_cursors(found["id"], [cursor])
    assert (stats(client, found)["unconsumed_events"], stats(client, found)["state"]) == (1, "unassigned")
    assert client.reset_subscription_cursors(found["id"], [cursor | {"offset": "BEGIN"}])
    [cursor] = client.get_subscription_cursors(found["id"])["items"]
    assert cursor["offset"] == BEFORE_FIRST


def test_client_creates_lists_and_deletes_subscriptions(client: NakadiClient, created: EventType) -> None:
    given = definition(created, owning_application=f"app.{created.name}")
    status, found = client.create_subscription_v2(given)
    assert (status, client.create_subscription_v2(given)) == (201, (200, found))
    assert client.get_subscription(found["id"]) == found
    page = client.get_subscriptions(owning_application=given["owning_application"], event_type=[created.name], limit=1)
    assert page["items"] == [found]
    following = client.get_next_subscriptions(page)
    assert following["items"] == []
    assert client.get_prev_subscriptions(following)["items"] == [found]
    client.delete_subscription(found["id"])  # It returns nothing on success.
    with pytest.raises(NakadiException) as error:
        client.get_subscription(found["id"])
    assert error.value.code == 404
