"""Data changes that come in any order, any number of times, to any worker, end in one state: `Latest`."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import EventUnusable
from penstock.processing.changes import Change, Changes, LastChange
from penstock.processing.latest import Latest
from penstock.testing.factories import a_data_event, a_feed_event
from tests.exhaustive import examples
from tests.promises.consumer_database import connections

CHANGES = Changes("product.changed", entity=["data.id"], order_by=["data.version"])
_consumers = (f"consumer {number}" for number in count())


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def workers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Any]]:
    """Connections of two workers of one consumer to its database."""
    with connections(request, tmp_path_factory, 2) as workers:
        Latest(workers[0], CHANGES, "any").create()
        table = "CREATE TABLE product (consumer text, id integer, version integer, PRIMARY KEY (consumer, id))"
        workers[0].execute(table)
        workers[0].commit()
        yield workers


def history(entity: int, steps: list[str]) -> list[dict[str, Any]]:
    """A valid history: what is created is updated, shown and deleted, and created again, by growing versions."""
    changes = []
    exists, version = False, 0
    for step in steps:
        if exists:
            operation = step
            version += step != "S"  # What is only shown has not changed since.
        else:
            operation, version = "C", version + 1
        exists = operation != "D"
        changes.append(a_data_event(data_op=operation) | {"data": {"id": entity, "version": version}})
    return changes


def in_order(changes: list[dict[str, Any]]) -> dict[int, int]:
    """The state after the changes, applied in order once."""
    state = {}
    for change in changes:
        if change["data_op"] == "D":
            del state[change["data"]["id"]]
        else:
            state[change["data"]["id"]] = change["data"]["version"]
    return state


@st.composite
def deliveries(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[tuple[list[dict[str, Any]], int, bool]]]:
    """Changes in order; and batches of them in any, with repeats, for one of two workers, who may be cut off."""
    steps = st.lists(st.sampled_from("UUSD"), max_size=8)
    changes = [change for entity in range(3) for change in history(entity, draw(steps))]
    repeats = draw(st.lists(st.sampled_from(changes), max_size=8)) if changes else []
    came = draw(st.permutations(changes + repeats))
    size = draw(st.integers(1, 6))
    batches = [came[start : start + size] for start in range(0, len(came), size)]
    return changes, [(batch, draw(st.integers(0, 1)), draw(st.booleans())) for batch in batches]


@settings(max_examples=examples(20, 200))
@given(deliveries())
def test_state_after_deliveries_in_any_order_is_that_of_the_right_order(workers: list[Any], deliveries: Any) -> None:
    changes, batches = deliveries
    consumer = next(_consumers)

    for batch, worker, is_cut_off in batches:
        connection = workers[worker]
        if is_cut_off:
            apply(connection, consumer, batch)
            connection.rollback()
        apply(connection, consumer, batch)
        connection.commit()

    rows = workers[0].execute(f"SELECT id, version FROM product WHERE consumer = '{consumer}'").fetchall()
    workers[0].rollback()
    assert dict(rows) == in_order(changes)


def apply(connection: Any, consumer: str, batch: list[dict[str, Any]]) -> None:
    for change in Latest(connection, CHANGES, consumer).newest([a_feed_event(event) for event in batch]):
        connection.execute(f"DELETE FROM product WHERE consumer = '{consumer}' AND id = {change.entity}")
        if not change.deletes:
            connection.execute(f"INSERT INTO product VALUES ('{consumer}', {change.entity}, {change.order})")


@settings(max_examples=examples(20, 200))
@given(deliveries())
def test_newest_by_known_versions_ends_in_the_state_of_the_right_order(deliveries: Any) -> None:
    changes, batches = deliveries
    versions: dict[int, int] = {}
    deleted: set[int] = set()

    for batch, _, _ in batches:
        known = {entity: versions[entity] for entity in CHANGES.entities(batch) if entity in versions}
        for change in CHANGES.newest(batch, known):
            versions[change.entity] = change.order
            (deleted.add if change.deletes else deleted.discard)(change.entity)

    assert {entity: version for entity, version in versions.items() if entity not in deleted} == in_order(changes)


KEYS = [
    *("9", "10", "010", "1a", "v9", "", 9, 9.5, 2**53),
    *("2026-10-25T02:30:00+0200", "2026-10-25T02:10:00+0100", "2026-10-25T01:10Z", "2026-10-25 01:10:00.50z"),
    *("2026-10-25T02:10:00", "2026-10-25T02:20"),
]
"""Ordering keys of all kinds; few, so that those of one kind and equal ones come together often."""


@st.composite
def arrivals(draw: st.DrawFn) -> list[list[list[dict[str, Any]]]]:
    """Changes of one entity, by whatever keys, in two orders of arrival, each in batches."""
    keys = st.sampled_from(draw(st.sampled_from([KEYS, KEYS[:3], KEYS[:6], KEYS[6:9], KEYS[9:13], KEYS[9:]])))
    changes = [
        a_data_event(data_op=operation) | {"data": {"id": 1, "version": key}}
        for key, operation in draw(st.lists(st.tuples(keys, st.sampled_from("UUD")), min_size=1, max_size=5))
    ]
    size = draw(st.integers(1, 3))
    orders = [draw(st.permutations(changes)) for _ in range(2)]
    return [[came[start : start + size] for start in range(0, len(came), size)] for came in orders]


@settings(max_examples=examples(40, 400))
@given(arrivals())
def test_order_of_arrival_changes_nothing_for_keys_of_any_kind(workers: list[Any], arrivals: Any) -> None:
    one, other = (last_change(workers[0], batches) for batches in arrivals)

    assert (one is None) == (other is None), "refused in one order of arrival, and not in the other"
    if one and other:
        assert one.deletes == other.deletes
        assert CHANGES.newest([one.event], {1: LastChange(other.order, other.deletes)}) == []
        assert CHANGES.newest([other.event], {1: LastChange(one.order, one.deletes)}) == []


def last_change(connection: Any, batches: list[list[dict[str, Any]]]) -> Change[Any] | None:
    """Return the change that took effect last, batch after batch; None where one was refused."""
    latest = Latest(connection, CHANGES, next(_consumers))
    last: Change[Any] | None = None
    try:
        for batch in batches:
            last = next(iter(latest.newest(batch)), last)
            connection.commit()
    except EventUnusable:
        connection.rollback()
        return None
    return last
