"""Histories are put in order by their ordering key, or by the parents that events name."""

import random
from graphlib import TopologicalSorter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import EventUnusable
from penstock.processing.history import group_events, sort_by_parents, sort_events, sort_topologically
from penstock.testing.factories import a_business_event, a_data_event, a_feed_event
from tests.failing import has_code


def step(name: str, *parents: str) -> dict[str, Any]:
    return a_business_event(metadata={"eid": name, "parent_eids": list(parents)})


def names(events: list[Any]) -> str:
    return "".join(event["metadata"]["eid"] for event in events)


def test_events_are_grouped_by_their_subject() -> None:
    events = [a_feed_event(a_data_event(version, shop=shop)) for shop, version in ((7, 3), (8, 2), (7, 1))]

    groups = group_events(events, ["data.shop"])

    assert groups == {7: [events[0], events[2]], 8: [events[1]]}
    assert sort_events(groups[7], ["data.order_id"]) == [events[2], events[0]]


def test_group_of_several_fields_is_a_tuple() -> None:
    assert list(group_events([{"a": 1, "b": "x"}], ["a", "b"])) == [(1, "x")]


def test_event_without_a_subject_is_named() -> None:
    with pytest.raises(
        EventUnusable, check=has_code("order-unknown"), match=r"event 1 of the batch.*order_id is missing"
    ):
        group_events([{"order_id": 1}, {}], ["order_id"])


def test_events_without_an_id_are_ordered_too() -> None:
    assert sort_events([{"n": 2, "x": 1}, {"n": 1}, {"n": 2, "x": 2}], ["n"]) == [
        {"n": 1},
        {"n": 2, "x": 1},
        {"n": 2, "x": 2},
    ]


def test_event_without_its_ordering_key_is_named_by_its_place_in_the_batch() -> None:
    events = [a_data_event(1, version=1), a_data_event(1, version=1), a_data_event(2)]

    with pytest.raises(
        EventUnusable, check=has_code("order-unknown"), match=r"event 2 of the batch.*data\.version is missing"
    ):
        sort_events(events, ["data.version"])


@pytest.mark.parametrize(
    ("came", "ordered"),
    [
        ([step("c", "b"), step("b", "a"), step("a")], "abc"),
        ([step("a"), step("c"), step("b")], "acb"),
        ([step("d", "b", "c"), step("c", "a"), step("b", "a"), step("a")], "acbd"),
        ([step("c", "a"), step("b"), step("a")], "bac"),
        ([step("a"), step("a"), step("b", "a"), step("a")], "ab"),
        ([step("b", "a", "a"), step("a")], "ab"),
        ([], ""),
    ],
    ids=["backwards", "concurrent", "diamond", "as early as it can", "repeats", "parent twice", "nothing"],
)
def test_parents_come_first_and_the_rest_in_its_order(came: list[Any], ordered: str) -> None:
    history = sort_by_parents(came)

    assert names(history.events) == ordered
    assert history.missing == {}


def test_missing_parent_is_reported() -> None:
    history = sort_by_parents([step("d", "c", "x", "y"), step("c", "z"), step("a")])

    assert names(history.events) == "cda"
    assert history.missing == {"d": ("x", "y"), "c": ("z",)}


@pytest.mark.parametrize(
    ("events", "told"),
    [
        ([step("a", "a")], "a after a"),
        ([step("x"), step("a", "b"), step("b", "c"), step("c", "a"), step("d", "a")], "a after b after c after a"),
        ([step("d", "a"), step("a", "x", "b"), step("b", "a")], "a after b after a"),
    ],
    ids=["itself", "three", "with a tail"],
)
def test_circle_is_named(events: list[Any], told: str) -> None:
    with pytest.raises(EventUnusable, check=has_code("order-unknown")) as raised:
        sort_by_parents(events)

    assert raised.value.detail.endswith(f"it comes after itself: {told}")
    assert raised.value.eid == "a"


def test_history_by_parents_needs_ids() -> None:
    with pytest.raises(EventUnusable, check=has_code("eid-missing"), match="event 1 of the batch"):
        sort_by_parents([step("a"), {"n": 1}])


def test_long_chain_is_ordered_without_recursion() -> None:
    chain = [step("0"), *(step(str(n), str(n - 1)) for n in range(1, 5_000))]

    assert sort_by_parents(chain[::-1]).events == chain


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, list[str]]:
    """Events by the ids of their parents, in the order in which they come; parents can be absent."""
    count = draw(st.integers(0, 12))
    parents = {n: draw(st.lists(st.integers(0, n - 1), max_size=3, unique=True)) if n else [] for n in range(count)}
    came = draw(st.permutations(range(count)))
    gone = draw(st.sets(st.integers(0, count), max_size=2))
    return {str(n): [str(parent) for parent in parents[n]] for n in came if n not in gone}


def reference(parents: dict[str, list[str]]) -> list[str]:
    """The same by the standard library: of those that are ready, the one that came first."""
    places = {eid: place for place, eid in enumerate(parents)}
    sorter = TopologicalSorter({eid: [each for each in named if each in parents] for eid, named in parents.items()})
    sorter.prepare()
    ready: set[str] = set()
    order = []
    while sorter.is_active():
        ready.update(sorter.get_ready())
        first = min(ready, key=places.__getitem__)
        ready.remove(first)
        order.append(first)
        sorter.done(first)
    return order


@given(graphs())
def test_history_is_in_the_order_of_the_standard_library(parents: dict[str, list[str]]) -> None:
    history = sort_by_parents([step(eid, *named) for eid, named in parents.items()])

    assert [event["metadata"]["eid"] for event in history.events] == reference(parents)
    absent = {eid: tuple(each for each in named if each not in parents) for eid, named in parents.items()}
    assert history.missing == {eid: named for eid, named in absent.items() if named}


@given(graphs())
def test_events_waiting_for_missing_parents_are_left_out(parents: dict[str, list[str]]) -> None:
    order = sort_topologically(parents)

    done: set[str] = set()
    for eid in order:
        assert done.issuperset(parents[eid])
        done.add(eid)
    assert not any(done.issuperset(parents[eid]) for eid in parents.keys() - done)


@given(st.lists(st.integers(), unique=True), st.randoms())
def test_history_by_ordering_key_is_sorted(versions: list[int], chance: random.Random) -> None:
    events = [a_data_event(number, version=version) for number, version in enumerate(versions)]
    events += chance.choices(events, k=len(events)) if events else []
    chance.shuffle(events)

    assert [event["data"]["version"] for event in sort_events(events, ["data.version"])] == sorted(versions)
