"""Commits cursors: one thread a process takes what consumers have queued, in one transaction and with one fsync.

Invariants:
    A consumer is told only what is on disk.
    A position never goes back, and nobody moves it but the stream that has its partition.
    All cursors of a request are looked at before any of them is committed.
"""

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from penstock.core.subscriptions.assignment import FeedPartition
from penstock.core.subscriptions.tokens import ParkedSpan, is_parked_token, is_valid_token, read_parked_token
from penstock.errors import (
    CommitRefused,
    DatabaseUnavailable,
    HubStopped,
    OutcomeUnknown,
    PenstockError,
    StreamNotFound,
    SubscriptionNotFound,
    Unavailable,
)
from penstock.hub.background import Background, Clock
from penstock.hub.subscriptions.sessions import Sessions, may_commit
from penstock.storage.store import Store, Tx
from penstock.storage.subscriptions import StoredSession, StoredSlot, StoredSubscription

Told = Sequence[bool] | PenstockError
"""Of each cursor whether it has moved a position; or why nothing was committed."""


class Commit(NamedTuple):
    """A cursor that a consumer commits."""

    place: FeedPartition
    position: int
    """The offset wanted next."""
    token: str | None = None
    """Given back as it came with the batch."""


class Request(NamedTuple):
    """What a consumer commits at once."""

    subscription: str
    stream: str
    commits: Sequence[Commit]
    trusted: bool
    """Whether it is the hub's own, which knows what it has sent."""
    future: "Future[Sequence[bool]]"


class Moved(NamedTuple):
    """What a transaction has done to one subscription."""

    subscription: str
    revision: int
    offsets: Mapping[FeedPartition, int]
    shared_out: bool
    """Whether partitions have changed hands, or parked events are gone, too."""


class Commits:
    """The commits of one process."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        sessions: Sessions,
        was_sent: Callable[[str, FeedPartition, int], bool | None],
        moved: Callable[[Moved], object],
        *,
        strict: bool = False,
    ) -> None:
        """Make a committer of cursors.

        *was_sent* tells whether a stream was sent everything of a partition up to there; None where this process does
        not send it. *moved* is told of each subscription after the commit. *strict*: take what was never sent, too.
        """
        self._store = store
        self._clock = clock
        self._sessions = sessions
        self._was_sent = was_sent
        self._moved = moved
        self._strict = strict
        self._queue: deque[Request] = deque()
        self._wake = threading.Condition()
        self._stopping = False
        self._thread = Background("penstock-commits", self._run)

    def submit(
        self, subscription: str, stream: str, commits: Sequence[Commit], *, trusted: bool = False
    ) -> "Future[Sequence[bool]]":
        """Queue cursors and return at once; the future is told of each whether it has moved its position.

        It is told these errors, and nothing is committed then:
            SubscriptionNotFound, StreamNotFound: there is no such stream, or its time to commit is over.
            CommitRefused: a cursor is not the stream's to commit, or was not sent to it.
            DatabaseUnavailable: it may have been committed; to do it again does no harm.

        Raises:
            HubStopped: the hub is shutting down.
        """
        future: Future[Sequence[bool]] = Future()
        with self._wake:
            if self._stopping:
                raise HubStopped(retry_after=1)
            self._thread.start()
            self._queue.append(Request(subscription, stream, commits, trusted, future))
            self._wake.notify()
        return future

    def stop(self, timeout: float | None = None) -> bool:
        """Commit what is queued, then end; tell whether that was within *timeout*."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        return self._thread.ended(timeout)

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._queue and not self._stopping:
                    self._wake.wait()
                if not self._queue:
                    return
                group = list(self._queue)
                self._queue.clear()
            self._commit([each for each in group if each.future.set_running_or_notify_cancel()])

    def _commit(self, group: Sequence[Request]) -> None:
        told: list[tuple[Request, Told]] = []
        try:
            with self._store.write() as tx:
                asked = _by_subscription(group)
                # All of them before anything else is locked: who hands over one of them may lock the dead letters.
                locked = [tx.subscriptions.find(subscription_id, lock=True) for subscription_id, _ in asked]
                done = [self._committed(tx, *each, found, told) for each, found in zip(asked, locked, strict=True)]
        except OutcomeUnknown as error:
            _fail(group, DatabaseUnavailable(reason=error.reason, retry_after=1))
        except Unavailable as error:
            _fail(group, error)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is handed to the request that it concerns
            if len(group) == 1:
                _fail(group, error)
                return
            for request in group:
                self._commit([request])
        else:
            for moved in done:
                if moved is not None:
                    self._moved(moved)
            for request, result in told:
                if isinstance(result, PenstockError):
                    request.future.set_exception(result)
                else:
                    request.future.set_result(result)

    def _committed(
        self,
        tx: Tx,
        subscription_id: str,
        requests: Sequence[Request],
        subscription: StoredSubscription | None,
        told: list[tuple[Request, Told]],
    ) -> Moved | None:
        """Commit what is asked for one subscription, which is locked; add what each is told."""
        if subscription is None:
            told += [(each, SubscriptionNotFound(subscription=subscription_id)) for each in requests]
            return None
        work = _Work(tx, subscription, self._was_sent, strict=self._strict)
        for request in requests:
            try:
                told.append((request, work.commit(request)))
            except (StreamNotFound, CommitRefused) as error:
                told.append((request, error))
        if not work.offsets and not work.acknowledged:
            return None
        shared_out = work.store(self._clock(), self._sessions)
        return Moved(subscription_id, tx.subscriptions.revise(subscription_id), work.offsets, shared_out)


class _Work:
    """The commits of one subscription, which is locked."""

    def __init__(
        self,
        tx: Tx,
        subscription: StoredSubscription,
        was_sent: Callable[[str, FeedPartition, int], bool | None],
        *,
        strict: bool,
    ) -> None:
        self._tx = tx
        self._subscription = subscription
        self._was_sent = was_sent
        self._strict = strict
        self._now = tx.now()
        self._sessions = {each.id: each for each in tx.subscriptions.list_sessions(subscription.id)}
        self._slots = {each.place: each for each in tx.subscriptions.list_slots(subscription.id)}
        self.offsets: dict[FeedPartition, int] = {}
        self.acknowledged: list[ParkedSpan] = []

    def commit(self, request: Request) -> Sequence[bool]:
        """Take a request's cursors, all or none."""
        session = self._sessions.get(request.stream)
        if session is None or not may_commit(session, self._now):
            raise StreamNotFound(stream=request.stream)
        spans = [_span(each, session) for each in request.commits]
        for each, span in zip(request.commits, spans, strict=True):
            if span is None:
                self._check(each, session, trusted=request.trusted)
        return [
            self._acknowledge(span) if span else self._move(each)
            for each, span in zip(request.commits, spans, strict=True)
        ]

    def store(self, now: int, sessions: Sessions) -> bool:
        """Store what has moved; tell whether partitions have changed hands, or parked events are gone."""
        tx, subscription_id = self._tx, self._subscription.id
        changed = [self._slots[place] for place in self.offsets]
        tx.groups.put(subscription_id, [slot._replace(offset=self._offset(slot)).position for slot in changed], now)
        tx.subscriptions.put_slots(subscription_id, [slot._replace(failed=0) for slot in changed if slot.failed])
        done = self._done()
        last: dict[int, int] = {}
        for span in self.acknowledged:
            last[span.parked_id] = max(span.last, last.get(span.parked_id, span.last))
        tx.subscriptions.acknowledge_parked(last)
        if done:
            free = [slot._replace(owner=None, sent=None, failed=0) for slot in done]
            tx.subscriptions.put_slots(subscription_id, free)
            sessions.settle(tx, self._subscription, self._now)
        return bool(done or self.acknowledged)

    def _done(self) -> Sequence[StoredSlot]:
        """Return what streams that have ended have committed in full: neither events nor keys sent again are left."""
        if not self.acknowledged and all(self._slots[place].sent is None for place in self.offsets):
            return ()
        answered = {span.parked_id for span in self.acknowledged}
        parked = self._tx.subscriptions.list_parked(self._subscription.id, counted=False)
        places = {*self.offsets, *(each.place for each in parked if each.id in answered)}
        left = {each.place for each in parked if each.is_retried and each.id not in answered}
        slots = [self._slots[place] for place in sorted(places - left)]
        return [slot for slot in slots if slot.sent is not None and self._offset(slot) >= slot.sent]

    def _check(self, commit: Commit, session: StoredSession, *, trusted: bool) -> None:
        slot = self._slots.get(commit.place)
        if slot is None:
            raise _refused(commit, "it is not one of this subscription")
        if commit.position <= self._offset(slot) and not self._strict:
            return  # It is committed, whoever has it by now: the answer that said so may have been lost.
        if slot.owner != session.id:
            raise _refused(commit, "another stream has it by now" if slot.owner else "this stream does not have it")
        if trusted or self._strict:
            return
        if commit.token and is_valid_token(commit.token, session.secret, commit.place, commit.position):
            return
        known = self._was_sent(session.id, commit.place, commit.position)
        if known is None and slot.sent is not None:
            known = commit.position <= slot.sent
        if not known:
            unproven = "its cursor_token does not prove that it was sent"
            reason = "this stream was not sent it yet" if known is False else unproven
            raise _refused(commit, reason)

    def _offset(self, slot: StoredSlot) -> int:
        return self.offsets.get(slot.place, slot.offset)

    def _move(self, commit: Commit) -> bool:
        if commit.position <= self._offset(self._slots[commit.place]):
            return False
        self.offsets[commit.place] = commit.position
        return True

    def _acknowledge(self, span: ParkedSpan) -> bool:
        self.acknowledged.append(span)
        return True


def _span(commit: Commit, session: StoredSession) -> ParkedSpan | None:
    """Return the parked events that a cursor is of; None: it is of others."""
    if commit.token is None or not is_parked_token(commit.token):
        return None
    span = read_parked_token(commit.token, session.secret)
    if span is None:
        raise _refused(commit, "its cursor_token is of parked events, and not of this stream")
    return span


def _refused(commit: Commit, reason: str) -> CommitRefused:
    event_type, partition = commit.place
    return CommitRefused(event_type=event_type, partition=str(partition), offset=commit.position - 1, reason=reason)


def _by_subscription(group: Iterable[Request]) -> Sequence[tuple[str, Sequence[Request]]]:
    """Return requests by subscription, in the order in which these are locked."""
    found: dict[str, list[Request]] = defaultdict(list)
    for request in group:
        found[request.subscription].append(request)
    return sorted(found.items())


def _fail(group: Iterable[Request], error: Any) -> None:
    for request in group:
        request.future.set_exception(error)
