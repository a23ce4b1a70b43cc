"""Once `penstock restored` has been run, no cursor from before the restore is taken, however far it had come."""

import json
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from penstock.cli.restored import restored
from penstock.core.stream_rules import Rules
from penstock.core.subscription import completed_subscription
from penstock.errors import CursorExpired, StreamNotFound
from penstock.hub.commits import Commit
from penstock.hub.hub import Hub
from penstock.hub.read import Wanted
from penstock.storage import open_store
from penstock.testing.factories import a_new_event, an_event_type
from penstock.testing.live_hub import live_hub
from tests.nakadi import Nakadi, problem
from tests.served import client_of
from tests.subscribing import filled

NAME = "order.placed"
RULES = Rules(max_uncommitted=9, batch_limit=1, flush_s=30, commit_s=60, bytes_max=1 << 20)


def hub_on(url: str) -> Hub:
    store = open_store(url)
    store.migrate()
    return Hub(store)


def publish(hub: Hub, count: int) -> None:
    hub.publish(NAME, [a_new_event({"n": n}) for n in range(count)])


def cursor_at(hub: Hub, cursor: str) -> str:
    """Return the cursor of partition 0 that *cursor* stands for."""
    return hub.open(NAME, 1, [Wanted("cursor0", 0, cursor)], 0).tracks[0].cursor


def consume(hub: Hub, subscription: str, numbers: list[int]) -> int:
    """Have events of these numbers come first, and commit them; return the epoch of their cursors."""
    stream = hub.streams.open(subscription, frozenset(), RULES, hub.watch())
    sent = [batch for batches in stream.step() for batch in batches][: len(numbers)]
    assert [json.loads(batch.events[0])["n"] for batch in sent] == numbers
    commit = Commit((NAME, 0), sent[-1].position)
    assert hub.streams.commit(subscription, stream.session_id, [commit]).result(300) == [True]
    epoch = hub.streams.look(subscription).slots[0].epoch
    stream.end("enough")
    stream.close()
    with suppress(StreamNotFound):  # It has left nothing.
        hub.streams.give_back(subscription, stream.session_id)
    return epoch


def back_up(directory: Path) -> None:
    shutil.copy(directory / "hub.db", directory / "backup.db")


def put_back(url: str, directory: Path) -> Hub:
    """Put the backup back in place of all that there is, say so, and return a hub on it."""
    for rest in directory.glob("hub.db*"):
        rest.unlink()
    shutil.copy(directory / "backup.db", directory / "hub.db")
    restored(url)
    return hub_on(url)


def test_a_cursor_into_what_the_backup_lacks_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/hub.db"
    hub = hub_on(url)
    hub.create_event_type(an_event_type(NAME))
    publish(hub, 3)
    hub.stop()
    back_up(tmp_path)
    hub = hub_on(url)
    publish(hub, 2)
    far = cursor_at(hub, "_last")
    hub.stop()

    hub = put_back(url, tmp_path)
    publish(hub, 7)

    with pytest.raises(CursorExpired):
        cursor_at(hub, far)
    assert cursor_at(hub, "_last").endswith("-10")
    hub.stop()


def test_it_holds_for_feeds_of_which_the_backup_knows_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/hub.db"
    hub_on(url).stop()
    back_up(tmp_path)
    hub = hub_on(url)
    hub.create_event_type(an_event_type(NAME))
    publish(hub, 5)
    far = cursor_at(hub, "_last")
    hub.stop()

    hub = put_back(url, tmp_path)
    hub.create_event_type(an_event_type(NAME))
    publish(hub, 7)

    with pytest.raises(CursorExpired):
        cursor_at(hub, far)
    hub.stop()


def test_a_subscription_goes_on_from_where_it_stood_in_the_backup(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/hub.db"
    hub = hub_on(url)
    hub.create_event_type(an_event_type(NAME))
    publish(hub, 3)
    made, _ = hub.subscriptions.create(
        completed_subscription({"owning_application": "shop", "event_types": [NAME], "read_from": "begin"})
    )
    consume(hub, made.id, [0, 1])
    hub.stop()
    back_up(tmp_path)
    hub = hub_on(url)
    publish(hub, 2)
    before = consume(hub, made.id, [2, 0, 1])
    hub.stop()

    hub = put_back(url, tmp_path)
    publish(hub, 2)

    assert consume(hub, made.id, [2, 0, 1]) > before
    hub.stop()


def test_a_subscription_takes_no_cursor_from_before_and_stays_where_it_is(database_url: str) -> None:
    with live_hub(database_url) as live, client_of(live) as http:
        subscription = filled(Nakadi(http), 4)
        with subscription.stream() as consumer:
            done, left = consumer.batches(2)
            consumer.done(done)
            assert http.post(f"{subscription.path}/streams/{consumer.id}/release").status_code == 204
    restored(database_url)

    with live_hub(database_url) as live, client_of(live) as http:
        subscription.http = http
        [stands] = subscription.committed()
        epoch, _, number = stands.rpartition("-")
        assert (epoch > "001-0001", number) == (True, done.offset[-18:])
        with subscription.stream() as consumer:
            again = consumer.batch()
            assert (again.numbers, again.offset) == (left.numbers, f"{epoch}-{left.offset[-18:]}")
            problem(consumer.commit(left), 422)
            consumer.done(again)
        assert subscription.committed() == [again.offset]


def test_it_holds_for_feeds_that_are_made_afterwards(database_url: str) -> None:
    hub = hub_on(database_url)
    hub.create_event_type(an_event_type(NAME))
    before = cursor_at(hub, "_first")
    restored(database_url)
    hub.delete_event_type(NAME)
    hub.create_event_type(an_event_type(NAME))

    with pytest.raises(CursorExpired):
        cursor_at(hub, before)
    hub.stop()
