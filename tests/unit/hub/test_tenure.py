"""What a stream may still be sent once the lease of its hub was over."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.core.assignment import Place
from penstock.errors import DatabaseUnavailable
from penstock.hub.look import LEASE_S
from penstock.hub.reasons import DELETED, TIME_OVER
from penstock.hub.sessions import Opened
from penstock.hub.stream_parts import Parts
from penstock.hub.tenure import Tenure
from penstock.storage import Store
from tests.unit.hub.forwarding import ForwardingStore
from tests.unit.hub.subscribing import P, Played, Q, lose_hub, open_stream, subscribed


class Scene:
    """One stream of a hub, its right to two partitions, and another hub."""

    def __init__(self, store: ForwardingStore, url: str) -> None:
        self.store = store
        self.url = url
        self.sub = subscribed(store)
        self.hub = Played(store)
        self.other = Played(store, "other")
        self.hub.live.renew()
        self.opened = open_stream(self.hub.sessions, self.sub)
        self.extended = 0
        self.tenure = self._tenure(self.opened)
        self.tenure.look()

    def _tenure(self, begun: Opened) -> Tenure:
        hub = self.hub
        parts = Parts(hub.store, hub.reader, hub.hub.watch(), hub.live, hub.sessions, hub.commits)
        return Tenure(parts, begun, hub.live.lapses, lambda: None, self._extend)

    def _extend(self) -> None:
        self.extended += 1

    def interrupted(self, *, stale: bool = False) -> str | None:
        return self.tenure.interrupted(stale=stale)

    def lapse(self, *, taken: tuple[Place, ...] = ()) -> None:
        """Let the hub's lease be over, and begin anew; others may have *taken* partitions meanwhile."""
        self.hub.now += LEASE_S
        if taken:
            lose_hub(self.url)
            self.other.stream(self.sub, *taken)
        self.hub.live.renew()


@pytest.fixture
def scene(forwarding: ForwardingStore, store: Store) -> Iterator[Scene]:
    scene = Scene(forwarding, store.url)
    yield scene
    scene.hub.stop()
    scene.other.stop()


def test_it_is_certain_for_as_long_as_the_lease_holds(scene: Scene) -> None:
    assert scene.tenure.certain
    assert scene.interrupted() is None

    scene.hub.now += LEASE_S

    assert not scene.tenure.certain
    assert scene.interrupted() is None, "nobody knows yet"
    assert not scene.tenure.certain


def test_after_a_lapse_it_is_certain_again_once_it_is_known_whose_the_partitions_are(scene: Scene) -> None:
    scene.lapse()
    assert not scene.tenure.certain

    assert scene.interrupted() is None

    assert scene.tenure.certain


@pytest.mark.parametrize("taken", [(P, Q), (P,), (Q,)])
def test_it_ends_where_others_have_taken_any_of_what_it_had(scene: Scene, taken: tuple[Place, ...]) -> None:
    scene.lapse(taken=taken)

    assert scene.interrupted() == TIME_OVER
    assert not scene.tenure.certain


def test_it_ends_where_what_it_had_was_taken_and_has_come_back(scene: Scene) -> None:
    """Others may have been sent, and have committed, what it was about to be sent."""
    scene.hub.now += LEASE_S
    lose_hub(scene.url)
    theirs = scene.other.stream(scene.sub, P)
    scene.hub.live.renew()
    theirs.end("left")
    theirs.close()

    assert scene.interrupted() == TIME_OVER


def test_a_lapse_while_it_looks_leaves_it_uncertain(scene: Scene) -> None:
    scene.lapse()
    scene.store.at_write = lambda _: setattr(scene.hub.live, "lapses", scene.hub.live.lapses + 1)

    assert scene.interrupted() is None
    assert not scene.tenure.certain
    scene.tenure.look()
    assert not scene.tenure.certain

    scene.store.at_write = lambda _: None
    assert scene.interrupted() is None
    assert scene.tenure.certain


def test_who_shares_them_out_at_this_moment_is_waited_for(scene: Scene) -> None:
    scene.lapse()
    with ThreadPoolExecutor(1) as pool:
        with scene.store.write() as tx:
            tx.subscriptions.lock(scene.sub)
            asked = pool.submit(scene.interrupted)
            with pytest.raises(TimeoutError):
                asked.result(0.2)
            tx.subscriptions.close([scene.opened.session.id])
        assert asked.result(300) == TIME_OVER


def test_without_a_lapse_nobody_is_waited_for_and_nothing_asked_unless_something_has_changed(scene: Scene) -> None:
    def never(_: int) -> None:
        raise AssertionError("the store was asked")

    scene.store.at_write = never
    assert scene.interrupted(stale=True) is None
    scene.store.at_read = never
    assert scene.interrupted() is None


def test_it_is_told_once_that_its_lease_was_extended(scene: Scene) -> None:
    scene.hub.sessions.extend(scene.sub, scene.opened.session.id)

    assert [scene.interrupted(stale=True) for _ in range(2)] == [None, None]

    assert scene.extended == 1
    scene.hub.sessions.extend(scene.sub, scene.opened.session.id)
    scene.tenure.look()
    assert scene.interrupted(stale=True) is None
    assert scene.extended == 1, "who looks finds that by itself"


def test_it_ends_with_its_subscription(scene: Scene) -> None:
    scene.lapse()
    with scene.store.write() as tx:
        tx.subscriptions.delete(scene.sub)

    assert scene.interrupted() == DELETED


def test_while_nobody_can_be_asked_nothing_is_certain(scene: Scene) -> None:
    scene.lapse()

    def away(_: int) -> None:
        raise DatabaseUnavailable(reason="away", retry_after=1)

    scene.store.at_write = away
    assert scene.interrupted() is None
    assert not scene.tenure.certain
    with pytest.raises(DatabaseUnavailable):
        scene.tenure.look()
    assert not scene.tenure.certain
