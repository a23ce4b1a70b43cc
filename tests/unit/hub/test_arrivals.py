"""What a stream knows of its partitions' ends, and what wakes it."""

from collections.abc import Iterator

import pytest

from penstock.errors import EventTypeNotFound
from penstock.hub.arrivals import Arrivals
from tests.unit.hub.feeds import NAME, created
from tests.unit.hub.forwarding import ForwardingStore
from tests.unit.hub.subscribing import P, Played, Q


@pytest.fixture
def hub(forwarding: ForwardingStore) -> Iterator[Played]:
    played = Played(forwarding)
    created(forwarding, partition_count=2)
    yield played
    played.stop()


@pytest.fixture
def woken() -> list[str]:
    return []


@pytest.fixture
def arrivals(hub: Played, woken: list[str]) -> Iterator[Arrivals]:
    found = Arrivals(hub.store, hub.hub.watch(), lambda: woken.append("woken"))
    yield found
    found.cancel()


def test_all_partitions_of_an_event_type_are_loaded(hub: Played, arrivals: Arrivals) -> None:
    hub.publish(1, 2)

    assert arrivals.load([]) == {}
    assert {place: head.next_offset for place, head in arrivals.load([Q]).items()} == {P: 2, Q: 0}
    assert arrivals.feed(NAME).name == NAME
    with pytest.raises(EventTypeNotFound):
        arrivals.load([("none", 0)])


def test_it_is_woken_for_what_it_has_and_only_once(hub: Played, arrivals: Arrivals, woken: list[str]) -> None:
    arrivals.load([P])
    arrivals.begin(P, 0)
    arrivals.wait()
    assert (arrivals.end(P), arrivals.end(Q)) == (0, 0)

    hub.publish(1, partition=1)
    assert woken == []
    hub.publish(1, 2)
    assert woken == ["woken"]
    assert hub.hub.watch().appended({arrivals.feed(NAME).partition_ids[0]: 2}) == 0, "the poller finds it once more"
    assert woken == ["woken"]
    assert arrivals.end(P) == 0, "it has yet to take note"
    arrivals.note()
    assert (arrivals.end(P), arrivals.end(Q)) == (2, 0)

    arrivals.remove(P)
    arrivals.begin(Q, 1)
    arrivals.wait()
    hub.publish(3)
    assert woken == ["woken"]
    hub.publish(2, partition=1)
    arrivals.note()
    assert (arrivals.end(P), arrivals.end(Q), len(woken)) == (0, 2, 2)

    arrivals.cancel()
    hub.publish(4)
    hub.publish(5, partition=1)
    assert len(woken) == 2


def test_what_it_knows_does_not_go_back(hub: Played, arrivals: Arrivals) -> None:
    arrivals.load([P])
    arrivals.begin(P, 0)
    arrivals.wait()
    hub.publish(1)
    arrivals.begin(P, 7)
    arrivals.note()
    assert arrivals.end(P) == 7
