"""Once `penstock restored` has been run, every cursor from before the restore is refused, however far it had come."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import pytest

from penstock.cli.restored import restored
from penstock.errors import CursorExpired
from penstock.hub.hub import Hub
from penstock.hub.log.read import WantedPartition
from penstock.testing.live_hub import live_hub
from tests.nakadi import Nakadi, problem
from tests.promises.backup import Backup
from tests.promises.scene import NAME, create, event, hub_on, until
from tests.reading import open_settled
from tests.served import client_of
from tests.subscribing import filled


def put_back(url: str, backup: Backup) -> None:
    """Put a backup back, and say so."""
    backup.put_back()
    restored(url, yes=True)


def publish(hub: Hub, count: int) -> None:
    hub.log.publish(NAME, [event({"n": n}) for n in range(count)])


def cursor_at(hub: Hub, cursor: str) -> str:
    """Return the cursor of partition 0 that *cursor* stands for."""
    return open_settled(hub, NAME, 1, [WantedPartition("cursor0", 0, cursor)], 0).tracks[0].cursor


@contextmanager
def serving(url: str) -> Iterator[httpx2.Client]:
    """Serve a hub while the block runs, and end it so that its database can be copied."""
    with live_hub(url) as live, client_of(live) as http:
        yield http
        live.stop()


@pytest.mark.parametrize("is_known", [True, False], ids=["feed in the backup", "feed not in the backup"])
def test_cursor_into_events_that_the_backup_lacks_is_refused(url: str, is_known: bool) -> None:
    with hub_on(url) as hub:
        if is_known:
            create(hub)
            publish(hub, 3)
    backup = Backup(url)
    with hub_on(url) as hub:
        if not is_known:
            create(hub)
            publish(hub, 3)
        publish(hub, 2)
        far = cursor_at(hub, "_last")
    put_back(url, backup)

    with hub_on(url) as hub:
        if not is_known:
            create(hub)
            publish(hub, 3)
        publish(hub, 7)

        with pytest.raises(CursorExpired):
            cursor_at(hub, far)
        assert cursor_at(hub, "_last").endswith("-10")


def test_cursor_from_between_two_restores_of_the_same_backup_is_refused(url: str) -> None:
    with hub_on(url) as hub:
        create(hub)
        publish(hub, 3)
    first, again = Backup(url), Backup(url, "again")
    put_back(url, first)
    with hub_on(url) as hub:
        publish(hub, 2)
        far = cursor_at(hub, "_last")
    second = int(time.time())
    until(lambda: int(time.time()) > second, "the clock goes on")
    put_back(url, again)

    with hub_on(url) as hub:
        publish(hub, 7)

        with pytest.raises(CursorExpired):
            cursor_at(hub, far)


def test_subscription_goes_on_from_its_position_in_the_backup_and_refuses_later_cursors(migrated_url: str) -> None:
    with serving(migrated_url) as http:
        subscription = filled(Nakadi(http), 4)
        with subscription.stream() as consumer:
            done = consumer.batch()
            consumer.done(done)
            assert http.post(f"{subscription.path}/streams/{consumer.id}/release").status_code == 204
    backup = Backup(migrated_url)
    with serving(migrated_url) as http:
        subscription.http = http
        with subscription.stream() as consumer:
            lost, left = consumer.batches(2)
            consumer.done(lost)
            assert http.post(f"{subscription.path}/streams/{consumer.id}/release").status_code == 204
    put_back(migrated_url, backup)

    with serving(migrated_url) as http:
        subscription.http = http
        [position] = subscription.committed()
        epoch, _, number = position.rpartition("-")
        assert (epoch > "001-0001", number) == (True, done.offset[-18:])
        with subscription.stream() as consumer:
            again = consumer.batch()
            assert (again.numbers, again.offset) == (lost.numbers, f"{epoch}-{lost.offset[-18:]}")
            for before in (lost, left):
                problem(consumer.commit(before), 422)
            consumer.done(again)
        assert subscription.committed() == [again.offset]


def test_cursor_from_before_a_restore_is_refused_by_a_recreated_feed(hub: Hub, url: str) -> None:
    before = cursor_at(hub, "_first")
    restored(url, yes=True)
    hub.registry.delete(NAME)
    create(hub)

    with pytest.raises(CursorExpired):
        cursor_at(hub, before)
