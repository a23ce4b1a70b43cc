"""Once `penstock restored` has been run, no cursor from before the restore is taken, however far it had come."""

import shutil
from pathlib import Path

import pytest

from penstock.cli.restored import restored
from penstock.errors import CursorExpired
from penstock.hub.hub import Hub
from penstock.hub.read import Wanted
from penstock.storage import open_store
from penstock.testing.factories import a_new_event, an_event_type

NAME = "order.placed"


def hub_on(url: str) -> Hub:
    store = open_store(url)
    store.migrate()
    return Hub(store)


def publish(hub: Hub, count: int) -> None:
    hub.publish(NAME, [a_new_event({"n": n}) for n in range(count)])


def cursor_at(hub: Hub, cursor: str) -> str:
    """Return the cursor of partition 0 that *cursor* stands for."""
    return hub.open(NAME, 1, [Wanted("cursor0", 0, cursor)], 0).tracks[0].cursor


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
