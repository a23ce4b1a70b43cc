"""Which change was applied last to each entity is remembered in the consumer's own database."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from penstock.errors import EventUnusable, WrongTransaction
from penstock.processing.changes import Changes
from penstock.processing.latest import Latest
from penstock.testing.clock import VirtualClock
from penstock.testing.factories import a_data_event
from tests.failing import has_code

CHANGES = Changes("order.changed", entity=["data.order_id"], order_by=["data.version"])


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        Latest(connection, CHANGES, "search").create()
        yield connection


@pytest.fixture
def latest(connection: sqlite3.Connection) -> Latest:
    return Latest(connection, CHANGES, "search")


def change(order: Any, version: Any, data_op: str = "U") -> dict[str, Any]:
    return a_data_event(data_op=data_op, version=version) | {"data": {"order_id": order, "version": version}}


def apply(latest: Latest, *events: dict[str, Any]) -> list[tuple[Any, Any, bool]]:
    return [(each.entity, each.order, each.deletes) for each in latest.newest(events)]


def test_newest_change_of_each_entity_takes_effect_once(latest: Latest) -> None:
    assert apply(latest, change(1, 9), change(2, 1), change(1, 10)) == [(1, 10, False), (2, 1, False)]
    assert apply(latest, change(1, 9), change(1, 10), change(2, 2)) == [(2, 2, False)]
    assert apply(latest) == []


def test_deletions_are_remembered(latest: Latest) -> None:
    assert apply(latest, change(1, 5, "D"), change(1, 4)) == [(1, 5, True)]
    assert apply(latest, change(1, 5, "D"), change(1, 5), change(1, 4, "C")) == []
    assert apply(latest, change(1, 6, "C")) == [(1, 6, False)]
    assert apply(latest, change(1, 6, "D")) == [(1, 6, True)]


def test_deletions_can_be_forgotten_after_a_while(connection: sqlite3.Connection) -> None:
    clock = VirtualClock()
    latest = Latest(connection, CHANGES, "search", clock=clock)
    latest.newest([change(1, 5, "D"), change(2, 5)])
    clock.advance(seconds=60)
    latest.newest([change(3, 5, "D")])

    latest.forget_deleted(60)
    assert apply(latest, change(1, 4)) == []
    clock.advance(microseconds=1)
    latest.forget_deleted(60)

    assert apply(latest, change(1, 4), change(2, 4), change(3, 4)) == [(1, 4, False)]


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (2**63, 2**63 + 1), ("9", "10"), (0.1, 0.2), ("ø", "ø "), (-1, 0),
        ("2026-10-25T02:30:00+0200", "2026-10-25T02:10:00+0100"),
    ],
    ids=["large", "digits", "fractions", "text", "negative", "moments"],
)  # fmt: skip
def test_keys_are_kept_with_their_types(latest: Latest, earlier: Any, later: Any) -> None:
    assert apply(latest, change(1, earlier)) == [(1, earlier, False)]
    assert apply(latest, change(1, later)) == [(1, later, False)]
    assert apply(latest, change(1, later), change(1, earlier)) == []


def test_entities_of_different_types_are_different(latest: Latest) -> None:
    assert len(latest.newest([change(7, 1), change("7", 1), change('["7"]', 1), change("\0", 1)])) == 4
    assert latest.newest([change("7", 1), change("\0", 1)]) == []


def test_entities_and_keys_of_several_fields_are_kept(connection: sqlite3.Connection) -> None:
    changes = Changes("order.changed", entity=["data.shop", "data.order_id"], order_by=["data.epoch", "data.version"])
    latest = Latest(connection, changes, "search")
    events = [a_data_event(7, shop="de", epoch=epoch, version=version) for epoch, version in ((1, 9), (2, 1))]

    assert apply(latest, events[0]) == [(("de", 7), (1, 9), False)]
    assert apply(latest, events[1]) == [(("de", 7), (2, 1), False)]
    assert apply(latest, *events) == []


def test_consumers_and_feeds_remember_each_for_themselves(connection: sqlite3.Connection) -> None:
    other = Changes("parcel.changed", entity=["data.order_id"], order_by=["data.version"])
    Latest(connection, CHANGES, "search").newest([change(1, 1)])

    assert apply(Latest(connection, CHANGES, "mail"), change(1, 1))
    assert apply(Latest(connection, other, "search"), change(1, 1))


def test_all_can_be_forgotten(latest: Latest) -> None:
    latest.newest([change(1, 1)])
    latest.forget()

    assert apply(latest, change(1, 1)) == [(1, 1, False)]


def test_malformed_event_is_refused_before_anything_is_written(connection: sqlite3.Connection) -> None:
    with pytest.raises(EventUnusable, check=has_code("order-unknown"), match="event 1 of the batch"):
        Latest(connection, CHANGES, "search").newest([change(1, 1), change(2, None)])

    assert not connection.in_transaction


def test_key_that_cannot_be_compared_with_the_last_is_named(latest: Latest) -> None:
    latest.newest([change(1, "5")])

    for other in (6, "6a", "2026-01-01T12:00Z"):
        with pytest.raises(
            EventUnusable,
            check=has_code("order-unknown"),
            match=rf"event 1 of the batch.*\[{other!r}\] cannot be compared with \['5'\]",
        ):
            latest.newest([change(2, 1), change(1, other)])


def test_entity_name_has_a_maximum_length(latest: Latest) -> None:
    assert latest.newest([change("x" * 1_020, 1)])
    with pytest.raises(EventUnusable, check=has_code("order-unknown"), match="has 1025 bytes, more than the 1024"):
        latest.newest([change("x" * 1_021, 1)])


def test_nothing_is_remembered_outside_a_transaction(connection: sqlite3.Connection) -> None:
    connection.isolation_level = None

    with pytest.raises(WrongTransaction, check=has_code("outside-transaction")):
        Latest(connection, CHANGES, "search").newest([change(1, 1)])
