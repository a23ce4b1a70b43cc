"""A consumer that fails now and then reads a real feed with repeats, and with events before their parents."""

import random
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from penstock.client import Client, CursorTable
from penstock.processing.duplicates import Duplicates
from penstock.processing.history import Resequencer, group_events, sort_by_parents
from penstock.testing.factories import a_business_event
from penstock.testing.live_hub import live_hub
from tests.exhaustive import examples
from tests.processing.conftest import Connect

PARTITIONS = 4
ORDERS = examples(20, 60)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client of a live hub."""
    with live_hub(f"sqlite:///{tmp_path_factory.mktemp('hub')}/hub.db") as hub, Client(hub.url) as client:
        yield client


@pytest.fixture
def chance() -> random.Random:
    """Chance, whose seed is shown when the test fails."""
    seed = random.randrange(2**32)
    print("seed", seed)  # noqa: T201
    return random.Random(seed)


def test_processes_are_put_in_order_by_their_parents_while_they_are_read(
    client: Client, connect: Connect, chance: random.Random
) -> None:
    name = f"order.processed-{uuid4().hex}"
    client.create_event_type(name, category="business", partition_count=PARTITIONS)
    steps = [
        a_business_event(order, step=step, metadata=family(order, step)) for order in range(ORDERS) for step in range(6)
    ]
    came = steps + chance.choices(steps, k=50)
    chance.shuffle(came)
    client.publish(name, came)
    held = Resequencer[Any]()

    with connect() as connection:
        Duplicates(connection, name, "copy").create()
        CursorTable(connection).create()
        connection.execute("CREATE TABLE done (place integer PRIMARY KEY, number integer, step integer)")
        connection.commit()
        feed, place = client.feed(name), 0
        cursors = feed.cursors()
        at_end = False
        while not at_end:
            page = feed.read(cursors, page_size_hint=30)
            duplicates = Duplicates(connection, name, "copy")
            history = held.take(page, known=duplicates.seen(held.find_unknown_parents(page.events)))
            assert history.missing == {}
            begun_at = place
            for event in duplicates.fresh(history.events):
                connection.execute(f"INSERT INTO done VALUES ({place}, {event.data['order_id']}, {event.data['step']})")
                place += 1
            CursorTable(connection).advance(name, "copy", held.take_cursors())
            if chance.random() < 0.3:
                connection.rollback()
                place = begun_at
                held = Resequencer()
                cursors = CursorTable(connection).load(name, "copy") or feed.cursors()
            else:
                connection.commit()
                cursors, at_end = page.cursors, not page.events
        done = connection.execute("SELECT number, step FROM done ORDER BY place").fetchall()

    for order in range(ORDERS):
        assert sorted(step for number, step in done if number == order) == list(range(6))
        places = {step: done.index((order, step)) for step in range(6)}
        assert all(places[parent] < places[step] for step in places for parent in parents(step))
    whole = group_events(came, ["order_id"])
    assert all(len(sort_by_parents(events).events) == 6 for events in whole.values())


def parents(step: int) -> list[int]:
    return [] if step == 0 else [0] if step < 3 else [1, 2] if step == 3 else [step - 1]


def family(order: int, step: int) -> dict[str, Any]:
    def eid(number: int) -> str:
        return str(UUID(int=10_000 * order + number))

    return {"eid": eid(step), "parent_eids": [eid(parent) for parent in parents(step)]}
