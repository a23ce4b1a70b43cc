import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.core.proof import ParkedSpan, parked_token_of, token_of
from penstock.errors import (
    CommitRefused,
    DatabaseUnavailable,
    HubStopped,
    OutcomeUnknown,
    StreamNotFound,
    SubscriptionNotFound,
)
from penstock.hub.commits import Commit, Commits, Moved
from penstock.hub.sessions import Opened
from penstock.storage import Store, open_store
from penstock.storage.opening import Opening
from penstock.storage.store import Tx
from penstock.testing.clock import START_AT, VirtualClock
from tests.unit.hub.forwarding import ForwardingStore, Gate
from tests.unit.hub.subscribing import (
    P,
    Q,
    an_end,
    let_time_pass,
    lose_hub,
    open_stream,
    read_offsets,
    read_owners,
    read_slots,
    sessions_of,
    subscribe,
    subscribed,
)

SENT = 100
"""So far was everything sent to the streams of the hub under test."""


class Scene:
    """One hub's commits, with a stream of one subscription."""

    def __init__(self, store: Any, *, strict: bool = False, partitions: int = 2) -> None:
        self.store = store
        self.id = subscribed(store, partitions)
        self.sessions = sessions_of(store)
        self.stream = open_stream(self.sessions, self.id)
        self.known: dict[str, int] = {self.stream.session.id: SENT}
        """How far the streams of this hub were sent each of their partitions."""
        self.moved: list[Moved] = []
        self.commits = self.committer(store, strict=strict)

    def committer(self, store: Any, *, strict: bool = False) -> Commits:
        def was_sent(session: str, _: object, position: int) -> bool | None:
            return position <= self.known[session] if session in self.known else None

        return Commits(store, VirtualClock(), self.sessions, was_sent, self.moved.append, strict=strict)

    def commit(self, *cursors: Commit, stream: Opened | None = None, **how: Any) -> list[bool]:
        asked = self.commits.submit(self.id, (stream or self.stream).session.id, cursors, **how)
        return list(asked.result(300))


@pytest.fixture
def scene(store: Store) -> Iterator[Scene]:
    scene = Scene(store)
    yield scene
    scene.commits.stop()


def test_each_cursor_is_told_whether_it_has_moved_its_position(scene: Scene) -> None:
    """The vector of the digest, 5.4: cursors that go back and forth are applied in their order."""
    given = [(P, 11), (P, 11), (P, 6), (Q, 8), (P, 12), (Q, 8), (Q, 9), (P, 1)]

    assert scene.commit(*(Commit(*each) for each in given)) == [True, False, False, True, True, False, True, False]

    assert read_offsets(scene.store, scene.id) == [12, 9]
    assert [slot.committed_at for slot in read_slots(scene.store, scene.id)] == [START_AT, START_AT]


def test_what_has_moved_is_told_with_its_revision(scene: Scene) -> None:
    before = scene.sessions.look(scene.id).subscription.revision

    scene.commit(Commit(P, 3), Commit(P, 5), Commit(Q, 2))
    scene.commit(Commit(P, 5), Commit(Q, 1))
    scene.commit(Commit(Q, 4))

    assert scene.moved == [
        Moved(scene.id, before + 1, {P: 5, Q: 2}, shared_out=False),
        Moved(scene.id, before + 2, {Q: 4}, shared_out=False),
    ]
    assert scene.sessions.look(scene.id).subscription.revision == before + 2, "what moves nothing is no news"


def test_all_cursors_of_a_request_are_committed_or_none(scene: Scene) -> None:
    foreign = "not one of this subscription"
    for wrong, told in [
        (Commit(Q, SENT + 1), "this stream was not sent it yet"),
        (Commit(("nothing", 0), 1), foreign),
        (Commit((P[0], 2), 1), foreign),
    ]:
        with pytest.raises(CommitRefused, match=told) as refused:
            scene.commit(Commit(P, 5), wrong)
        fields = refused.value.fields
        assert (fields["event_type"], fields["partition"]) == (wrong.place[0], str(wrong.place[1]))
        assert fields["offset"] == wrong.position - 1

    assert read_offsets(scene.store, scene.id) == [0, 0]
    assert scene.moved == []


# What may be committed


def test_what_was_not_sent_is_refused_unless_its_token_proves_it(scene: Scene) -> None:
    own, far = scene.stream.session.secret, SENT + 7
    wrong = [None, "", "é", token_of(own, P, far + 1), token_of(own, Q, far), token_of(b"another", P, far)]
    for token in wrong:
        with pytest.raises(CommitRefused, match="this stream was not sent it yet"):
            scene.commit(Commit(P, far, token))
    for token in (parked_token_of(b"another", ParkedSpan(1, far)), "parked-1-0-x"):
        for position in (1, far):
            with pytest.raises(CommitRefused, match="of parked events, and not of this stream"):
                scene.commit(Commit(P, position, token))

    assert scene.commit(Commit(P, far, token_of(own, P, far))) == [True]
    assert scene.commit(Commit(P, far, None)) == [False], "what is committed already does no harm"


def test_streams_of_other_hubs_prove_what_they_were_sent(scene: Scene) -> None:
    scene.known.clear()
    own = scene.stream.session.secret

    with pytest.raises(CommitRefused, match="its cursor_token does not prove that it was sent"):
        scene.commit(Commit(P, 5))

    assert scene.commit(Commit(P, 5, token_of(own, P, 5))) == [True]


def test_of_a_stream_that_has_ended_it_is_known_how_far_it_was_sent(scene: Scene) -> None:
    scene.known.clear()
    scene.sessions.end(scene.id, scene.stream.session.id, an_end(hold_s=60, p0=7, p1=9))

    with pytest.raises(CommitRefused):
        scene.commit(Commit(P, 8))
    assert scene.commit(Commit(P, 6)) == [True]


@pytest.mark.parametrize("how", ["strict", "trusted"])
def test_a_strict_hub_and_a_hub_itself_commit_what_was_not_sent(store: Store, how: str) -> None:
    scene = Scene(store, strict=how == "strict")

    assert scene.commit(Commit(P, 1 << 60), trusted=how == "trusted") == [True]

    assert read_offsets(store, scene.id) == [1 << 60, 0]
    scene.commits.stop()


@pytest.mark.parametrize("is_strict", [False, True], ids=["by default", "strictly"])
def test_partitions_of_others_and_of_nobody_cannot_be_committed(store: Store, *, is_strict: bool) -> None:
    scene = Scene(store, strict=is_strict)
    second = open_stream(scene.sessions, scene.id)
    scene.sessions.release(scene.id, scene.stream.session.id, [P, Q])
    theirs = next(slot.place for slot in read_slots(store, scene.id) if slot.owner == second.session.id)

    with pytest.raises(CommitRefused, match="another stream has it by now"):
        scene.commit(Commit(theirs, 1), trusted=True)
    scene.sessions.end(scene.id, second.session.id, an_end(hold_s=60, **{f"p{theirs[1]}": 7}))
    scene.sessions.end(scene.id, scene.stream.session.id, an_end(hold_s=60, **{f"p{1 - theirs[1]}": 7}))
    with store.write() as tx:
        free = [slot._replace(owner=None) for slot in tx.subscriptions.slots(scene.id) if slot.place == theirs]
        tx.subscriptions.put(scene.id, free)
    with pytest.raises(CommitRefused, match="this stream does not have it"):
        scene.commit(Commit(theirs, 1))
    scene.commits.stop()


@pytest.mark.parametrize("is_strict", [False, True], ids=["by default", "strictly"])
def test_a_commit_that_is_made_again_moves_nothing_of_a_partition_that_another_stream_has_by_now(
    store: Store, *, is_strict: bool
) -> None:
    """The answer to the first one was lost. Nakadi refuses it."""
    scene = Scene(store, strict=is_strict)
    scene.commit(Commit(P, 7), Commit(Q, 7))
    second = open_stream(scene.sessions, scene.id)
    scene.known[second.session.id] = SENT
    scene.sessions.release(scene.id, scene.stream.session.id, [P, Q])
    theirs = next(slot.place for slot in read_slots(store, scene.id) if slot.owner == second.session.id)
    before = read_slots(store, scene.id), list(scene.moved)

    if is_strict:
        with pytest.raises(CommitRefused, match="another stream has it by now"):
            scene.commit(Commit(theirs, 7))
    else:
        assert scene.commit(Commit(theirs, 7), Commit(theirs, 3)) == [False, False]
    assert (read_slots(store, scene.id), scene.moved) == before

    assert scene.commit(Commit(theirs, 9), stream=second) == [True]
    with pytest.raises(CommitRefused, match="another stream has it by now"):
        scene.commit(Commit(theirs, 10))
    scene.commits.stop()


def test_who_is_not_there_cannot_commit(scene: Scene) -> None:
    other = open_stream(scene.sessions, subscribe(scene.store, "other"))

    for wrong in ("nobody", other.session.id):
        with pytest.raises(StreamNotFound, match=wrong):
            scene.commits.submit(scene.id, wrong, [Commit(P, 1)]).result(300)
    with pytest.raises(SubscriptionNotFound, match="nobody"):
        scene.commits.submit("nobody", scene.stream.session.id, [Commit(P, 1)]).result(300)


def test_a_stream_that_has_ended_may_commit_until_its_time_is_over(scene: Scene) -> None:
    scene.sessions.end(scene.id, scene.stream.session.id, an_end(hold_s=60, p0=7, p1=9))
    let_time_pass(scene.store.url, 59)
    assert scene.commit(Commit(P, 3)) == [True]

    let_time_pass(scene.store.url, 2)

    with pytest.raises(StreamNotFound):
        scene.commit(Commit(P, 4))
    assert read_offsets(scene.store, scene.id) == [3, 0]


def test_a_stream_whose_hub_is_gone_may_commit_what_nobody_else_has(scene: Scene) -> None:
    lose_hub(scene.store.url)
    direct = open_stream(sessions_of(scene.store, "other"), scene.id, Q).session.id
    assert read_owners(scene.store, scene.id) == [scene.stream.session.id, direct]

    assert scene.commit(Commit(P, 3)) == [True]
    with pytest.raises(CommitRefused, match="another stream has it by now"):
        scene.commit(Commit(Q, 3))


# What follows from a commit


def test_what_has_ended_lets_go_of_each_partition_once_it_is_committed(scene: Scene) -> None:
    first = scene.stream.session.id
    scene.sessions.end(scene.id, first, an_end(hold_s=60, p0=7, p1=9))
    second = open_stream(scene.sessions, scene.id).session.id
    assert read_owners(scene.store, scene.id) == [first, first]

    scene.commit(Commit(P, 6))
    assert read_owners(scene.store, scene.id) == [first, first]
    scene.commit(Commit(P, 7))
    assert read_owners(scene.store, scene.id) == [second, first]
    scene.commit(Commit(Q, 9))

    assert read_owners(scene.store, scene.id) == [second, second]
    assert [each.id for each in scene.sessions.look(scene.id).sessions] == [second]
    assert [each.shared_out for each in scene.moved] == [False, True, True]
    with pytest.raises(StreamNotFound):
        scene.commit(Commit(Q, 10))


def test_what_is_committed_in_time_has_not_failed(scene: Scene) -> None:
    """Though its stream had ended before, which counted as a failure of all that it left."""
    scene.sessions.end(scene.id, scene.stream.session.id, an_end(hold_s=60, p0=7, p1=9))
    assert [slot.failed for slot in read_slots(scene.store, scene.id)] == [1, 1]

    scene.commit(Commit(P, 7))

    assert [(slot.owner is None, slot.failed) for slot in read_slots(scene.store, scene.id)] == [(True, 0), (False, 1)]


def test_a_commit_forgets_what_has_failed_of_its_own_partition(store: Store) -> None:
    scene = Scene(store)
    with store.write() as tx:
        tx.subscriptions.put(scene.id, [slot._replace(failed=2) for slot in tx.subscriptions.slots(scene.id)])

    scene.commit(Commit(P, 1))

    assert [slot.failed for slot in read_slots(store, scene.id)] == [0, 2]
    scene.commits.stop()


def test_parked_events_are_acknowledged_by_their_token_and_move_no_position(scene: Scene) -> None:
    with scene.store.write() as tx:
        for key, at in (("a", 3), ("a", 5), ("b", 4)):
            tx.parked.park(scene.id, P, key, at, attempts=2, at=START_AT)
        a, b = tx.parked.list(scene.id)
    token = parked_token_of(scene.stream.session.secret, ParkedSpan(a.id, 3))

    assert scene.commit(Commit(P, 90, token)) == [True]

    assert read_offsets(scene.store, scene.id) == [0, 0]
    assert [(each.id, each.first) for each in scene.sessions.look(scene.id).parked] == [(a.id, 5), (b.id, 4)]
    assert [each.shared_out for each in scene.moved] == [True]


# Many at once


def test_what_queues_is_committed_in_one_transaction_and_each_is_told_its_own(store: Store) -> None:
    forwarding, gate = ForwardingStore(store), Gate()
    scene = Scene(store)
    forwarding.at_write = gate
    commits = scene.committer(forwarding)
    other = subscribe(store, "other")
    theirs = open_stream(scene.sessions, other)
    scene.known[theirs.session.id] = SENT

    first = commits.submit(scene.id, scene.stream.session.id, [Commit(P, 1)])
    gate.await_write()
    asked = [
        commits.submit(scene.id, scene.stream.session.id, [Commit(P, 2), Commit(Q, 2)]),
        commits.submit(other, theirs.session.id, [Commit(P, 4)]),
        commits.submit(scene.id, scene.stream.session.id, [Commit(P, 3), Commit(Q, SENT + 1)]),
        commits.submit("nobody", "x", [Commit(P, 1)]),
        commits.submit(scene.id, "x", [Commit(P, 9)]),
        commits.submit(scene.id, scene.stream.session.id, [Commit(P, 2), Commit(Q, 5)]),
    ]
    assert asked[0].cancel(), "who is gone is not waited for"
    gate.open()

    assert first.result(300) == [True]
    told = [each.exception(60) or each.result() for each in asked[1:]]
    assert told[0] == [True]
    assert [type(each) for each in told[1:4]] == [CommitRefused, SubscriptionNotFound, StreamNotFound]
    assert told[4] == [True, True]
    assert forwarding.writes == 2
    assert (read_offsets(store, scene.id), read_offsets(store, other)) == ([2, 5], [4, 0])
    commits.stop()


def test_many_who_commit_for_many_subscriptions_at_once_never_deadlock(either_store: Store, migrated_url: str) -> None:
    first = Scene(either_store, partitions=1)
    second_store = open_store(migrated_url)
    hubs = [first.commits, Commits(second_store, VirtualClock(), sessions_of(second_store, "other"), lambda *_: True,
                                   lambda _: None)]  # fmt: skip
    streams = {first.id: first.stream.session.id}
    for n in range(5):
        sub = subscribe(either_store, f"group {n}")
        streams[sub] = open_stream(first.sessions, sub).session.id
    first.known = dict.fromkeys(streams.values(), SENT)
    go = threading.Barrier(8)

    def commit(at: int) -> list["Future[Any]"]:
        go.wait()
        order = sorted(streams.items(), reverse=at % 4 < 2)
        return [
            hubs[at % 2].submit(sub, stream, [Commit(P, position)]) for position in range(1, 9) for sub, stream in order
        ]

    with ThreadPoolExecutor(8) as threads:
        told = [each.result(300) for done in threads.map(commit, range(8)) for each in done]

    assert sum(moved for [moved] in told) >= len(streams)
    assert [read_offsets(either_store, sub) for sub in streams] == [[8]] * len(streams)
    for each in hubs:
        each.stop()
    second_store.close()


# When it fails


class Breaking(ForwardingStore):
    """Loses the connection while it commits, as often as it is told."""

    broken = 0

    @contextmanager
    def write(self, *, patient: bool = True, opening: Opening | None = None) -> Iterator[Tx]:
        with super().write(patient=patient, opening=opening) as tx:
            yield tx
        if self.broken:
            self.broken -= 1
            raise OutcomeUnknown(reason="the connection broke")


def test_a_commit_whose_end_is_not_known_can_be_repeated(store: Store) -> None:
    scene, breaking = Scene(store), Breaking(store)
    breaking.broken = 1
    commits = scene.committer(breaking)

    with pytest.raises(DatabaseUnavailable, match="the connection broke"):
        commits.submit(scene.id, scene.stream.session.id, [Commit(P, 3)]).result(300)

    assert scene.moved == [], "it is not known whether it has moved"
    assert commits.submit(scene.id, scene.stream.session.id, [Commit(P, 3)]).result(300) == [False]
    commits.stop()


def test_a_database_that_is_away_is_told_to_all_and_the_next_ones_are_committed(store: Store) -> None:
    scene, forwarding = Scene(store), ForwardingStore(store)

    def away(number: int) -> None:
        if number == 1:
            raise DatabaseUnavailable(reason="away", retry_after=1)

    forwarding.at_write = away
    commits, own = scene.committer(forwarding), scene.stream.session.id

    with pytest.raises(DatabaseUnavailable, match="away"):
        commits.submit(scene.id, own, [Commit(P, 3)]).result(300)
    assert commits.submit(scene.id, own, [Commit(P, 3)]).result(300) == [True]
    commits.stop()


def test_whoever_brings_down_a_transaction_is_found_and_the_others_are_committed(store: Store) -> None:
    scene, forwarding, gate = Scene(store), ForwardingStore(store), Gate()
    forwarding.at_write = gate
    commits = scene.committer(forwarding)
    commits.submit(scene.id, scene.stream.session.id, [Commit(P, 1)])
    gate.await_write()
    own = scene.stream.session.id

    bad = commits.submit(scene.id, own, [Commit(P, 1 << 70)], trusted=True)
    good = commits.submit(scene.id, own, [Commit(Q, 3)])
    gate.open()

    assert good.result(300) == [True]
    assert bad.exception(60) is not None
    assert read_offsets(store, scene.id) == [1, 3]
    commits.stop()


def test_what_is_queued_is_committed_before_the_end_and_nothing_is_taken_afterwards(store: Store) -> None:
    scene, forwarding, gate = Scene(store), ForwardingStore(store), Gate()
    forwarding.at_write = gate
    commits = scene.committer(forwarding)
    own = scene.stream.session.id
    asked = [commits.submit(scene.id, own, [Commit(P, each)]) for each in (1, 2)]
    gate.await_write()

    assert not commits.stop(0.0)
    with pytest.raises(HubStopped):
        commits.submit(scene.id, scene.stream.session.id, [Commit(P, 3)])
    gate.open()

    assert commits.stop(60)
    assert [each.result(0) for each in asked] == [[True], [True]]
