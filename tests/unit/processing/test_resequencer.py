"""Events are held back until their parents have come, or have been given up."""

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client import Page
from penstock.errors import EventUnusable
from penstock.processing.history import Resequencer, sort_by_parents
from penstock.testing.factories import a_feed_event
from tests.failing import has_code
from tests.unit.processing.test_history import graphs, names, step


def page(cursor: int, *events: dict[str, Any]) -> Page:
    return Page([a_feed_event(event) for event in events], {0: str(cursor)}, {0: str(cursor - 1)})


def test_event_waits_for_its_parents() -> None:
    held = Resequencer[Any]()

    assert names(held.take([step("c", "b"), step("x"), step("b", "a")]).events) == "x"
    assert names(held.events) == "cb"
    history = held.take([step("y"), step("a")])

    assert names(history.events) == "yabc"
    assert (history.missing, held.events) == ({}, [])


def test_parents_released_before_are_known() -> None:
    held = Resequencer[Any](remembered=2)
    held.take([step("a"), step("b"), step("c")])

    assert names(held.take([step("d", "b", "c")]).events) == "d"
    assert names(held.take([step("e", "b")]).events) == ""  # That is longer ago than is remembered,
    assert held.find_unknown_parents([step("f", "d", "g"), step("g", "b")]) == {"b"}
    assert names(held.take([], known=["b"]).events) == "e"  # and can be said.


def test_case_of_known_uuids_is_ignored() -> None:
    parent = str(uuid.uuid4())

    assert len(Resequencer[Any]().take([step("a", parent)], known=[parent.upper()]).events) == 1


def test_repeat_is_passed_over() -> None:
    held = Resequencer[Any]()
    held.take([step("a"), step("c", "b"), step("c", "b")])

    assert names(held.take([step("a"), step("c", "b")]).events) == ""
    assert names(held.take([step("b")]).events) == "bc"


def test_event_is_released_without_its_parents_after_so_many_others() -> None:
    held = Resequencer[Any](limit=3)
    held.take([step("c", "x", "a", "y"), step("a")])

    assert names(held.take([step("p")]).events) == "p"
    history = held.take([step("q")])

    assert names(history.events) == "cq"
    assert history.missing == {"c": ("x", "y")}
    assert names(held.take([step("x")]).events) == "x"


def test_late_events_are_ordered_as_far_as_possible() -> None:
    held = Resequencer[Any](limit=5)
    held.take([step("c", "b"), step("b", "x"), step("d", "z", "c")])
    history = held.take([step("1"), step("2"), step("3"), step("4"), step("z", "w")])

    assert names(history.events) == "bc1234d"
    assert history.missing == {"b": ("x",), "d": ("z",)}
    assert names(held.events) == "z"  # It came later, and may wait on.


def test_events_of_a_quiet_feed_are_held_until_the_rest_is_requested() -> None:
    held = Resequencer[Any](limit=2)
    held.take(page(1, step("a"), step("c", "b")))
    held.take(page(2, step("d")))
    for cursor in range(3, 9):
        assert held.take(page(cursor)).events == []
    assert names([event.data for event in held.events]) == "c"
    assert held.take_cursors() == Page()

    history = held.release_all()

    assert (names([event.data for event in history.events]), history.missing) == ("c", {"c": ("b",)})
    assert held.take_cursors() == Page((), {0: "8"}, {0: "0"})
    assert names(held.take([step("c", "b"), step("b"), step("e", "b", "c")]).events) == "be"


def test_circle_is_named_and_nothing_is_taken() -> None:
    held = Resequencer[Any]()
    held.take([step("a", "b"), step("b", "c")])

    with pytest.raises(EventUnusable, check=has_code("order-unknown"), match="a after b after c after a"):
        held.take([step("x"), step("c", "a")])

    assert names(held.events) == "ab"
    assert names(held.take([step("x"), step("c")]).events) == "xcba"


def test_event_without_an_id_is_named_and_nothing_is_taken() -> None:
    held = Resequencer[Any]()

    with pytest.raises(EventUnusable, check=has_code("eid-missing"), match="event 1 of the batch"):
        held.take([step("a", "b"), {}])

    assert held.events == []


def test_cursor_is_settled_when_all_events_before_it_are_released() -> None:
    held = Resequencer[Any]()

    held.take(page(1, step("a")))
    assert held.take_cursors() == Page((), {0: "1"}, {0: "0"})
    held.take(page(2, step("b"), step("d", "c")))
    held.take(page(3, step("e")))
    assert held.take_cursors() == Page()
    held.take(page(4, step("c"), step("g", "f")))
    assert held.take_cursors() == Page((), {0: "3"}, {0: "1"})
    held.take(page(5, step("f")))
    assert held.take_cursors() == Page((), {0: "5"}, {0: "3"})


def test_partitions_that_take_over_are_settled_from_their_beginning() -> None:
    held = Resequencer[Any]()
    held.take(Page([], {0: "1", 1: "1"}, {0: "0"}))
    held.take(Page([], {1: "2"}, {1: "1"}))

    assert held.take_cursors() == Page((), {0: "1", 1: "2"}, {0: "0", 1: "1"})


def test_feeds_are_settled_each_by_itself() -> None:
    held = Resequencer[Any]()
    held.take(page(1, step("b", "a")), feed="order.paid")
    held.take(page(7, step("x")), feed="order.placed")

    assert held.take_cursors("order.paid") == Page()
    assert held.take_cursors("order.placed").cursors == {0: "7"}
    assert held.take_cursors("order.shipped") == Page()
    held.take(page(8, step("a")), feed="order.placed")
    assert held.take_cursors("order.paid").cursors == {0: "1"}


@given(graphs(), st.integers(1, 5))
def test_events_taken_in_parts_are_released_as_from_the_whole(parents: dict[str, list[str]], size: int) -> None:
    whole = {eid: [each for each in named if each in parents] for eid, named in parents.items()}
    events = [step(eid, *named) for eid, named in whole.items()]
    held = Resequencer[Any]()

    out = [each for start in range(0, len(events), size) for each in held.take(events[start : start + size]).events]

    assert out == sort_by_parents(events).events
    assert held.events == []


@given(graphs(), st.integers(1, 5), st.integers(1, 8))
def test_all_events_are_released_once_with_a_note_of_missing_parents(
    parents: dict[str, list[str]], size: int, limit: int
) -> None:
    events = [step(eid, *named) for eid, named in parents.items()]
    held = Resequencer[Any](limit)
    parts = [held.take(events[start : start + size]) for start in range(0, len(events), size)]
    assert len(held.events) <= limit
    parts.append(held.release_all())

    out = [event["metadata"]["eid"] for part in parts for event in part.events]
    assert sorted(out) == sorted(parents)
    missing = {eid: set(named) for part in parts for eid, named in part.missing.items()}
    for place, eid in enumerate(out):
        assert set(parents[eid]) - set(out[:place]) == missing.get(eid, set())
