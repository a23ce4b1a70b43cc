"""A client that others have written for Nakadi (pyNakadi) consumes a subscription, unchanged."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyNakadi import NakadiClient, NakadiException, NakadiStream

from tests.nakadi import BEFORE_FIRST, EventType, Nakadi, offset
from tests.served import until
from tests.subscribing import definition, numbered, put


@pytest.fixture
def created(nakadi: Nakadi) -> EventType:
    return numbered(nakadi)


@contextmanager
def streaming(client: NakadiClient, subscription_id: str, **parameters: Any) -> Iterator[NakadiStream]:
    """Stream what is published from now on.

    The client takes the chunks apart by itself, from the moment at which it has read the headers: a batch that had come
    together with them, since the client was slow, would be lost to it until the commit timeout.
    """
    stream = client.get_subscription_events_stream(subscription_id, **parameters)
    try:
        yield stream
    finally:
        stream.sock.close()
        stream.close()
        stream.response.close()


def test_it_consumes_and_commits(client: NakadiClient, created: EventType) -> None:
    found = client.create_subscription(definition(created, read_from="begin"))
    with streaming(client, found["id"], batch_limit=2, batch_flush_timeout=1, max_uncommitted_events=10) as stream:
        put(created, 0, 1, 2)
        batches = [batch(stream) for _ in range(2)]
        assert [[event["n"] for event in each["events"]] for each in batches] == [[0, 1], [2]]
        keep_alive = json.loads(next(stream))
        assert set(keep_alive) == {"cursor"}
        cursors = [each["cursor"] for each in batches]
        assert client.commit_subscription_cursors(found["id"], stream.get_stream_id(), cursors)
    [cursor] = client.get_subscription_cursors(found["id"])["items"]
    assert cursor["offset"] == offset(2)
    until(lambda: not stats(client, found)["stream_id"])
    with streaming(client, found["id"]) as stream:
        put(created, 3)
        assert batch(stream)["events"][0]["n"] == 3


def batch(stream: NakadiStream) -> dict[str, Any]:
    """The next line with events."""
    while "events" not in (line := json.loads(next(stream))):
        pass
    found: dict[str, Any] = line
    return found


def stats(client: NakadiClient, subscription: dict[str, Any]) -> dict[str, Any]:
    [item] = client.get_subscription_stats(subscription["id"], show_time_lag=True)["items"]
    partition: dict[str, Any] = item["partitions"][0]
    return partition


def test_it_asks_how_far_it_is_and_resets(client: NakadiClient, created: EventType) -> None:
    found = client.create_subscription(definition(created, read_from="begin"))
    put(created, 0, 1, 2)
    cursor = {"event_type": created.name, "partition": "0", "offset": offset(1)}
    assert client.reset_subscription_cursors(found["id"], [cursor])
    assert (stats(client, found)["unconsumed_events"], stats(client, found)["state"]) == (1, "unassigned")
    assert client.reset_subscription_cursors(found["id"], [cursor | {"offset": "BEGIN"}])
    [cursor] = client.get_subscription_cursors(found["id"])["items"]
    assert cursor["offset"] == BEFORE_FIRST


def test_it_creates_lists_and_deletes(client: NakadiClient, created: EventType) -> None:
    given = definition(created, owning_application=f"app.{created.name}")
    status, found = client.create_subscription_v2(given)
    assert (status, client.create_subscription_v2(given)) == (201, (200, found))
    assert client.get_subscription(found["id"]) == found
    owner = given["owning_application"]
    page = client.get_subscriptions(owning_application=owner, event_type=[created.name], limit=1)
    assert page["items"] == [found]
    following = client.get_next_subscriptions(page)
    assert following["items"] == []
    assert client.get_prev_subscriptions(following)["items"] == [found]
    client.delete_subscription(found["id"])  # It returns nothing where all is well.
    with pytest.raises(NakadiException) as error:
        client.get_subscription(found["id"])
    assert error.value.code == 404


def test_it_is_told_that_there_is_no_room(client: NakadiClient, created: EventType) -> None:
    found = client.create_subscription(definition(created))
    with streaming(client, found["id"]):
        with pytest.raises(NakadiException) as error:
            client.get_subscription_events_stream(found["id"])
        assert error.value.code == 409
        assert "No free slots for streaming available" in error.value.msg
