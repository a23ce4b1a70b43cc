"""Commits of subscriptions: who may commit what, all cursors of a request or none, and what follows from it."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from penstock.core.subscriptions.tokens import ParkedSpan, make_parked_token, make_token
from penstock.errors import (
    CommitRefused,
    DatabaseUnavailable,
    HubUnavailable,
    StreamNotFound,
    SubscriptionNotFound,
)
from penstock.hub.subscriptions.commits import CommitNotice, CursorCommit, CursorCommitter
from penstock.storage import Store, open_store
from penstock.testing.clock import START_AT, VirtualClock
from tests.failing import has_code
from tests.store_contract.database import together
from tests.unit.hub.forwarding import ForwardingStore, Gate, fail_at, lose_answer
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
"""Everything up to here was sent to the streams of the hub under test."""


class Scene:
    """One hub's commits, with a stream of one subscription of two partitions."""

    def __init__(self, store: Store, *, partitions: int = 2) -> None:
        self.store = store
        self.forwarding = ForwardingStore(store)
        self.sub = subscribed(store, partitions)
        self.sessions = sessions_of(store)
        session = open_stream(self.sessions, self.sub).session
        self.stream, self.secret = session.id, session.secret
        self.sent = {self.stream: SENT}
        """How far the streams of this hub were sent each of their partitions."""
        self.moved: list[CommitNotice] = []
        self.commits = self.make_commits(self.forwarding)

    def make_commits(self, store: Any, *, strict: bool = False) -> CursorCommitter:
        def was_sent(session: str, _: object, position: int) -> bool | None:
            return position <= self.sent[session] if session in self.sent else None

        return CursorCommitter(store, VirtualClock(), self.sessions, was_sent, self.moved.append, strict=strict)

    def submit(self, *cursors: CursorCommit, stream: str | None = None, **how: Any) -> Future[Sequence[bool]]:
        return self.commits.submit(self.sub, stream or self.stream, cursors, **how)

    def commit(self, *cursors: CursorCommit, stream: str | None = None, **how: Any) -> list[bool]:
        return list(self.submit(*cursors, stream=stream, **how).result(300))

    def end(self, **sent: int) -> None:
        """End the stream; it may commit for another minute, and more, what it was sent of p0, p1 and so on."""
        self.sessions.end(self.sub, self.stream, an_end(hold_seconds=6000, **sent))

    @property
    def offsets(self) -> list[int]:
        return read_offsets(self.store, self.sub)


@pytest.fixture
def scene(store: Store) -> Iterator[Scene]:
    scene = Scene(store)
    yield scene
    assert scene.commits.stop(300)


def make_strict(scene: Scene) -> None:
    scene.commits.stop()
    scene.commits = scene.make_commits(scene.forwarding, strict=True)


def hand_over(scene: Scene) -> tuple[str, tuple[str, int]]:
    """Let another stream have one of the partitions; return it, and the partition."""
    second = open_stream(scene.sessions, scene.sub).session.id
    scene.sessions.hand_over(scene.sub, scene.stream, [P, Q])
    return second, next(slot.place for slot in read_slots(scene.store, scene.sub) if slot.owner == second)


TAKEN = "another stream has it by now"


def test_each_cursor_is_answered_with_whether_it_moved_its_position(scene: Scene) -> None:
    """Cursors that go back and forth are applied in the order of the request, as in Nakadi."""
    cursors = [(P, 11), (P, 11), (P, 6), (Q, 8), (P, 12), (Q, 8), (Q, 9), (P, 1)]

    assert scene.commit(*(CursorCommit(*each) for each in cursors)) == [
        True,
        False,
        False,
        True,
        True,
        False,
        True,
        False,
    ]

    assert scene.offsets == [12, 9]
    assert [slot.committed_at for slot in read_slots(scene.store, scene.sub)] == [START_AT, START_AT]


def test_moved_positions_are_announced_with_their_revision(scene: Scene) -> None:
    before = scene.sessions.snapshot(scene.sub).subscription.revision

    scene.commit(CursorCommit(P, 3), CursorCommit(P, 5), CursorCommit(Q, 2))
    scene.commit(CursorCommit(P, 5), CursorCommit(Q, 1))
    scene.commit(CursorCommit(Q, 4))

    assert scene.moved == [
        CommitNotice(scene.sub, before + 1, {P: 5, Q: 2}, is_reassigned=False),
        CommitNotice(scene.sub, before + 2, {Q: 4}, is_reassigned=False),
    ]
    assert scene.sessions.snapshot(scene.sub).subscription.revision == before + 2


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (CursorCommit(Q, SENT + 1), "this stream was not sent it yet"),
        (CursorCommit(("nothing", 0), 1), "not one of this subscription"),
        (CursorCommit((P[0], 2), 1), "not one of this subscription"),
    ],
    ids=["not sent", "another event type", "no such partition"],
)
def test_one_refused_cursor_refuses_all_of_its_request(scene: Scene, wrong: CursorCommit, reason: str) -> None:
    with pytest.raises(CommitRefused, match=reason) as refused:
        scene.commit(CursorCommit(P, 5), wrong)

    fields = refused.value.fields
    assert (fields["event_type"], fields["partition"]) == (wrong.place[0], str(wrong.place[1]))
    assert fields["offset"] == wrong.position - 1
    assert (scene.offsets, scene.moved) == ([0, 0], [])


# What may be committed


def test_unsent_event_is_refused_unless_its_token_proves_that_it_was_sent(scene: Scene) -> None:
    own, far = scene.secret, SENT + 7
    wrong = [None, "", "é", make_token(own, P, far + 1), make_token(own, Q, far), make_token(b"another", P, far)]
    for token in wrong:
        with pytest.raises(CommitRefused, match="this stream was not sent it yet"):
            scene.commit(CursorCommit(P, far, token))
    for token in (make_parked_token(b"another", ParkedSpan(1, far)), "parked-1-0-x"):
        for position in (1, far):
            with pytest.raises(CommitRefused, match="of parked events, and not of this stream"):
                scene.commit(CursorCommit(P, position, token))

    assert scene.commit(CursorCommit(P, far, make_token(own, P, far))) == [True]
    assert scene.commit(CursorCommit(P, far, None)) == [False], "a repeated commit does no harm"


def test_stream_of_another_hub_proves_by_token_that_it_was_sent_an_event(scene: Scene) -> None:
    scene.sent.clear()

    with pytest.raises(CommitRefused, match="its cursor_token does not prove that it was sent"):
        scene.commit(CursorCommit(P, 5))

    assert scene.commit(CursorCommit(P, 5, make_token(scene.secret, P, 5))) == [True]


@pytest.mark.parametrize("how", ["strict", "trusted"])
def test_strict_hub_and_trusted_request_commit_unsent_events(scene: Scene, how: str) -> None:
    if how == "strict":
        make_strict(scene)

    assert scene.commit(CursorCommit(P, 1 << 60), is_trusted=how == "trusted") == [True]
    assert scene.offsets == [1 << 60, 0]


@pytest.mark.parametrize("is_strict", [False, True], ids=["by default", "strictly"])
def test_partition_of_another_stream_or_of_none_cannot_be_committed(scene: Scene, *, is_strict: bool) -> None:
    if is_strict:
        make_strict(scene)
    second, theirs = hand_over(scene)

    with pytest.raises(CommitRefused, match=TAKEN):
        scene.commit(CursorCommit(theirs, 1), is_trusted=True)
    scene.sessions.end(scene.sub, second, an_end(hold_seconds=60, **{f"p{theirs[1]}": 7}))
    scene.end(**{f"p{1 - theirs[1]}": 7})
    with scene.store.write() as tx:
        free = [slot._replace(owner=None) for slot in tx.subscriptions.list_slots(scene.sub) if slot.place == theirs]
        tx.subscriptions.put_slots(scene.sub, free)
    with pytest.raises(CommitRefused, match="this stream does not have it"):
        scene.commit(CursorCommit(theirs, 1))


@pytest.mark.parametrize("is_strict", [False, True], ids=["by default", "strictly"])
def test_repeated_commit_moves_nothing_of_a_partition_that_another_stream_has(scene: Scene, *, is_strict: bool) -> None:
    """The answer to the first one was lost. Nakadi refuses it."""
    if is_strict:
        make_strict(scene)
    scene.commit(CursorCommit(P, 7), CursorCommit(Q, 7))
    second, theirs = hand_over(scene)
    scene.sent[second] = SENT
    before = read_slots(scene.store, scene.sub), list(scene.moved)

    if is_strict:
        with pytest.raises(CommitRefused, match=TAKEN):
            scene.commit(CursorCommit(theirs, 7))
    else:
        assert scene.commit(CursorCommit(theirs, 7), CursorCommit(theirs, 3)) == [False, False]
    assert (read_slots(scene.store, scene.sub), scene.moved) == before

    assert scene.commit(CursorCommit(theirs, 9), stream=second) == [True]
    with pytest.raises(CommitRefused, match=TAKEN):
        scene.commit(CursorCommit(theirs, 10))


def test_unknown_stream_or_subscription_cannot_commit(scene: Scene) -> None:
    other = open_stream(scene.sessions, subscribe(scene.store, "other")).session.id

    for wrong in ("nobody", other):
        with pytest.raises(StreamNotFound, match=wrong):
            scene.commit(CursorCommit(P, 1), stream=wrong)
    with pytest.raises(SubscriptionNotFound, match="nobody"):
        scene.commits.submit("nobody", scene.stream, [CursorCommit(P, 1)]).result(300)


def test_ended_stream_commits_sent_events_until_its_time_is_over(scene: Scene) -> None:
    scene.sent.clear()
    scene.end(p0=7, p1=9)
    let_time_pass(scene.store.url, 5000)
    with pytest.raises(CommitRefused):
        scene.commit(CursorCommit(P, 8))
    assert scene.commit(CursorCommit(P, 3)) == [True]

    let_time_pass(scene.store.url, 1001)

    with pytest.raises(StreamNotFound):
        scene.commit(CursorCommit(P, 4))
    assert scene.offsets == [3, 0]


def test_stream_of_a_lost_hub_commits_partitions_that_no_other_stream_has(scene: Scene) -> None:
    lose_hub(scene.store.url)
    direct = open_stream(sessions_of(scene.store, "other"), scene.sub, Q).session.id
    assert read_owners(scene.store, scene.sub) == [scene.stream, direct]

    assert scene.commit(CursorCommit(P, 3)) == [True]
    with pytest.raises(CommitRefused, match=TAKEN):
        scene.commit(CursorCommit(Q, 3))


# What follows from a commit


def test_ended_stream_releases_each_partition_once_it_is_committed(scene: Scene) -> None:
    first = scene.stream
    scene.end(p0=7, p1=9)
    assert [slot.failed for slot in read_slots(scene.store, scene.sub)] == [1, 1]
    second = open_stream(scene.sessions, scene.sub).session.id

    owners = []
    for cursor in (CursorCommit(P, 6), CursorCommit(P, 7), CursorCommit(Q, 9)):
        scene.commit(cursor)
        owners.append(read_owners(scene.store, scene.sub))

    assert owners == [[first, first], [second, first], [second, second]]
    assert [slot.failed for slot in read_slots(scene.store, scene.sub)] == [0, 0], "it was committed in time"
    assert [each.id for each in scene.sessions.snapshot(scene.sub).sessions] == [second]
    assert [each.is_reassigned for each in scene.moved] == [False, True, True]
    with pytest.raises(StreamNotFound):
        scene.commit(CursorCommit(Q, 10))


def test_commit_resets_the_failures_of_its_own_partition(scene: Scene) -> None:
    with scene.store.write() as tx:
        tx.subscriptions.put_slots(
            scene.sub, [slot._replace(failed=2) for slot in tx.subscriptions.list_slots(scene.sub)]
        )

    scene.commit(CursorCommit(P, 1))

    assert [slot.failed for slot in read_slots(scene.store, scene.sub)] == [0, 2]


def test_parked_events_are_acknowledged_by_their_token_and_move_no_position(scene: Scene) -> None:
    with scene.store.write() as tx:
        for key, at in (("a", 3), ("a", 5), ("b", 4)):
            tx.subscriptions.park(scene.sub, P, key, at, attempts=2, at=START_AT)
        a, b = tx.subscriptions.list_parked(scene.sub)

    assert scene.commit(CursorCommit(P, 90, make_parked_token(scene.secret, ParkedSpan(a.id, 3)))) == [True]

    assert scene.offsets == [0, 0]
    assert [(each.id, each.first) for each in scene.sessions.snapshot(scene.sub).parked] == [(a.id, 5), (b.id, 4)]
    assert [each.is_reassigned for each in scene.moved] == [True]


# Many at once


def wait_in_write(scene: Scene) -> Gate:
    """Submit a commit and hold its transaction: later commits queue behind it."""
    gate = scene.forwarding.at_write = Gate()
    scene.submit(CursorCommit(P, 1))
    gate.await_write()
    return gate


def test_queued_commits_share_a_transaction_and_each_has_its_own_answer(scene: Scene) -> None:
    other = subscribe(scene.store, "other")
    theirs = open_stream(scene.sessions, other).session.id
    scene.sent[theirs] = SENT

    gate = wait_in_write(scene)
    cancelled, *answers = [
        scene.submit(CursorCommit(P, 2), CursorCommit(Q, 2)),
        scene.commits.submit(other, theirs, [CursorCommit(P, 4)]),
        scene.submit(CursorCommit(P, 3), CursorCommit(Q, SENT + 1)),
        scene.commits.submit("nobody", "x", [CursorCommit(P, 1)]),
        scene.submit(CursorCommit(P, 9), stream="x"),
        scene.submit(CursorCommit(P, 2), CursorCommit(Q, 5)),
    ]
    assert cancelled.cancel()
    gate.open()

    results: list[Any] = [each.exception(300) or each.result() for each in answers]
    assert (results[0], results[4]) == ([True], [True, True])
    assert [type(each) for each in results[1:4]] == [CommitRefused, SubscriptionNotFound, StreamNotFound]
    assert scene.forwarding.writes == 2
    assert (scene.offsets, read_offsets(scene.store, other)) == ([2, 5], [4, 0])


def test_concurrent_commits_for_many_subscriptions_never_deadlock(either_store: Store, migrated_url: str) -> None:
    scene, second = Scene(either_store, partitions=1), open_store(migrated_url)
    others = CursorCommitter(second, VirtualClock(), sessions_of(second, "other"), lambda *_: True, lambda _: None)
    hubs = [scene.commits, others]
    streams = {scene.sub: scene.stream}
    for n in range(4):
        sub = subscribe(either_store, f"group {n}")
        streams[sub] = open_stream(scene.sessions, sub).session.id
    scene.sent = dict.fromkeys(streams.values(), SENT)
    committers, positions = 4, range(1, 6)

    def commit(at: int) -> list[Future[Sequence[bool]]]:
        order = sorted(streams.items(), reverse=at < 2)
        return [
            hubs[at % 2].submit(sub, stream, [CursorCommit(P, each)]) for each in positions for sub, stream in order
        ]

    answers = together(*(partial(commit, at) for at in range(committers)))
    moved = [each.result(300) for submitted in answers for each in submitted]

    assert sum(is_moved for [is_moved] in moved) >= len(streams)
    assert [read_offsets(either_store, sub) for sub in streams] == [[positions[-1]]] * len(streams)
    for each in hubs:
        assert each.stop(300)
    second.close()


# When it fails


def test_commit_with_an_unknown_outcome_can_be_repeated(scene: Scene) -> None:
    scene.forwarding.after_commit = lose_answer
    with pytest.raises(DatabaseUnavailable, match="the connection broke"):
        scene.commit(CursorCommit(P, 3))
    scene.forwarding.after_commit = lambda: None

    assert scene.moved == [], "it is not known if it has moved"
    assert scene.commit(CursorCommit(P, 3)) == [False]


def test_commits_during_an_outage_fail_and_later_ones_do_not(scene: Scene) -> None:
    scene.forwarding.at_write = fail_at(1)

    with pytest.raises(DatabaseUnavailable, match="away"):
        scene.commit(CursorCommit(P, 3))
    assert scene.commit(CursorCommit(P, 3)) == [True]


def test_commit_that_breaks_its_transaction_fails_alone(scene: Scene) -> None:
    gate = wait_in_write(scene)

    bad = scene.submit(CursorCommit(P, 1 << 70), is_trusted=True)
    good = scene.submit(CursorCommit(Q, 3))
    gate.open()

    assert good.result(300) == [True]
    assert bad.exception(300) is not None
    assert scene.offsets == [1, 3]


def test_stop_commits_the_queue_and_refuses_later_commits(scene: Scene) -> None:
    gate = wait_in_write(scene)
    queued = scene.submit(CursorCommit(P, 2))

    assert not scene.commits.stop(0.0)
    with pytest.raises(HubUnavailable, check=has_code("hub-stopped")):
        scene.submit(CursorCommit(P, 3))
    gate.open()

    assert scene.commits.stop(300)
    assert queued.result(0) == [True]
