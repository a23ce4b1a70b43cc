"""Commits cursors: one thread a process takes all queued requests, in one transaction and with one fsync.

docs/decisions/group-commit.md gives the reasons.

Invariants:
    A consumer gets its answer after the commit.
    A position never goes back, and only the stream that owns the partition moves it.
    All cursors of a request are checked before any of them is committed.
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
    HubUnavailable,
    OutcomeUnknown,
    PenstockError,
    StreamNotFound,
    SubscriptionNotFound,
    Unavailable,
)
from penstock.hub.background import Background, Clock
from penstock.hub.subscriptions.sessions import Sessions, can_commit
from penstock.storage.store import Store, Tx
from penstock.storage.subscriptions import StoredSession, StoredSlot, StoredSubscription

CommitResult = Sequence[bool] | PenstockError
"""For each cursor, True if it has moved a position; or the error, if nothing was committed."""


class CursorCommit(NamedTuple):
    """A cursor that a consumer commits."""

    place: FeedPartition
    position: int
    """The offset wanted next."""
    token: str | None = None
    """The cursor token that came with the batch."""


class QueuedCommit(NamedTuple):
    """The cursors that a consumer commits at once: all or none."""

    subscription: str
    stream: str
    commits: Sequence[CursorCommit]
    is_trusted: bool
    """True if the hub itself commits: it knows the events that it has sent, and needs no proof."""
    future: "Future[Sequence[bool]]"


class CommitNotice(NamedTuple):
    """The changes of one transaction to one subscription."""

    subscription: str
    revision: int
    offsets: Mapping[FeedPartition, int]
    is_reassigned: bool
    """True if partitions have changed owners too, or parked events were acknowledged."""


class CursorCommitter:
    """The committer of one process: one thread, which starts with the first request."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        sessions: Sessions,
        has_sent: Callable[[str, FeedPartition, int], bool | None],
        notify: Callable[[CommitNotice], object],
        *,
        strict: bool = False,
    ) -> None:
        """Prepare a committer.

        Args:
            store: where positions are kept.
            clock: the time of a commit.
            sessions: rebalances partitions whose owners have ended and committed everything.
            has_sent: returns whether a stream has sent everything of a partition below an offset; None if another
                process sends the stream.
            notify: called for each subscription after the commit.
            strict: accept cursors that were never sent, as Nakadi does.
        """
        self._store = store
        self._clock = clock
        self._sessions = sessions
        self._has_sent = has_sent
        self._notify = notify
        self._strict = strict
        self._queue: deque[QueuedCommit] = deque()
        self._wake = threading.Condition()
        self._stopping = False
        self._thread = Background("penstock-commits", self._run)

    def submit(
        self, subscription: str, stream: str, commits: Sequence[CursorCommit], *, is_trusted: bool = False
    ) -> "Future[Sequence[bool]]":
        """Queue cursors and return at once; the future holds for each whether it has moved its position.

        The future holds an error if nothing was committed:
            SubscriptionNotFound, StreamNotFound: there is no such stream, or its commit timeout is over.
            CommitRefused: the stream does not own a cursor's partition, or the cursor was not sent to it.
            DatabaseUnavailable: the cursors may have been committed; committing them again is harmless.

        Raises:
            HubUnavailable: the hub is shutting down.
        """
        future: Future[Sequence[bool]] = Future()
        with self._wake:
            if self._stopping:
                raise HubUnavailable.of("hub-stopped", retry_after=1)
            self._thread.start()
            self._queue.append(QueuedCommit(subscription, stream, commits, is_trusted, future))
            self._wake.notify()
        return future

    def stop(self, timeout: float | None = None) -> bool:
        """Commit all queued requests and stop; return whether that took no longer than *timeout*."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        return self._thread.wait_for_end(timeout)

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

    def _commit(self, group: Sequence[QueuedCommit]) -> None:
        results: list[tuple[QueuedCommit, CommitResult]] = []
        try:
            with self._store.write() as tx:
                requests = _group_by_subscription(group)
                # All subscriptions before anything else: a rebalance of one may lock the dead letters.
                locked = [tx.subscriptions.find(subscription_id, lock=True) for subscription_id, _ in requests]
                notices = [
                    self._commit_subscription(tx, *each, subscription, results)
                    for each, subscription in zip(requests, locked, strict=True)
                ]
        except OutcomeUnknown as error:
            _fail(group, DatabaseUnavailable(reason=error.reason, retry_after=1))
        except Unavailable as error:
            _fail(group, error)
        except Exception as error:  # noqa: BLE001 - any error goes to the request that it concerns
            if len(group) == 1:
                _fail(group, error)
                return
            for request in group:
                self._commit([request])
        else:
            for notice in filter(None, notices):
                self._notify(notice)
            for request, result in results:
                if isinstance(result, PenstockError):
                    request.future.set_exception(result)
                else:
                    request.future.set_result(result)

    def _commit_subscription(
        self,
        tx: Tx,
        subscription_id: str,
        requests: Sequence[QueuedCommit],
        subscription: StoredSubscription | None,
        results: list[tuple[QueuedCommit, CommitResult]],
    ) -> CommitNotice | None:
        """Commit the requests for one locked subscription, and add the result of each to *results*."""
        if subscription is None:
            results += [(each, SubscriptionNotFound(subscription=subscription_id)) for each in requests]
            return None
        work = _SubscriptionCommits(tx, subscription, self._has_sent, strict=self._strict)
        for request in requests:
            try:
                results.append((request, work.commit(request)))
            except (StreamNotFound, CommitRefused) as error:
                results.append((request, error))
        if not work.offsets and not work.acknowledged:
            return None
        is_reassigned = work.store(self._clock(), self._sessions)
        return CommitNotice(subscription_id, tx.subscriptions.revise(subscription_id), work.offsets, is_reassigned)


class _SubscriptionCommits:
    """The commits to one locked subscription, in one transaction."""

    def __init__(
        self,
        tx: Tx,
        subscription: StoredSubscription,
        has_sent: Callable[[str, FeedPartition, int], bool | None],
        *,
        strict: bool,
    ) -> None:
        self._tx = tx
        self._subscription = subscription
        self._has_sent = has_sent
        self._strict = strict
        self._now = tx.now()
        self._sessions = {each.id: each for each in tx.subscriptions.list_sessions(subscription.id)}
        self._slots = {each.place: each for each in tx.subscriptions.list_slots(subscription.id)}
        self.offsets: dict[FeedPartition, int] = {}
        self.acknowledged: list[ParkedSpan] = []

    def commit(self, request: QueuedCommit) -> Sequence[bool]:
        """Accept all cursors of a request, or none; return for each whether it moves its position."""
        session = self._sessions.get(request.stream)
        if session is None or not can_commit(session, self._now):
            raise StreamNotFound(stream=request.stream)
        spans = [_read_span(each, session) for each in request.commits]
        for each, span in zip(request.commits, spans, strict=True):
            if span is None:
                self._check(each, session, is_trusted=request.is_trusted)
        return [
            self._acknowledge(span) if span else self._move(each)
            for each, span in zip(request.commits, spans, strict=True)
        ]

    def store(self, now: int, sessions: Sessions) -> bool:
        """Store the new positions; return whether partitions changed owners or parked events are acknowledged."""
        tx, subscription_id = self._tx, self._subscription.id
        changed = [self._slots[place] for place in self.offsets]
        tx.groups.put(subscription_id, [slot._replace(offset=self._offset(slot)).position for slot in changed], now)
        tx.subscriptions.put_slots(subscription_id, [slot._replace(failed=0) for slot in changed if slot.failed])
        done = self._find_done_slots()
        last: dict[int, int] = {}
        for span in self.acknowledged:
            last[span.parked_id] = max(span.last, last.get(span.parked_id, span.last))
        tx.subscriptions.acknowledge_parked(last)
        if done:
            free = [slot._replace(owner=None, sent=None, failed=0) for slot in done]
            tx.subscriptions.put_slots(subscription_id, free)
            sessions.rebalance(tx, self._subscription, self._now)
        return bool(done or self.acknowledged)

    def _find_done_slots(self) -> Sequence[StoredSlot]:
        """Return the partitions of ended streams that are committed in full, resent parked events included."""
        if not self.acknowledged and all(self._slots[place].sent is None for place in self.offsets):
            return ()
        acknowledged_ids = {span.parked_id for span in self.acknowledged}
        parked = self._tx.subscriptions.list_parked(self._subscription.id, counted=False)
        places = {*self.offsets, *(each.place for each in parked if each.id in acknowledged_ids)}
        left = {each.place for each in parked if each.is_retried and each.id not in acknowledged_ids}
        slots = [self._slots[place] for place in sorted(places - left)]
        return [slot for slot in slots if slot.sent is not None and self._offset(slot) >= slot.sent]

    def _check(self, commit: CursorCommit, session: StoredSession, *, is_trusted: bool) -> None:
        slot = self._slots.get(commit.place)
        if slot is None:
            raise _refuse(commit, "it is not one of this subscription")
        if commit.position <= self._offset(slot) and not self._strict:
            return  # Committed already, by any owner: the reply to that commit may have been lost.
        if slot.owner != session.id:
            raise _refuse(commit, "another stream has it by now" if slot.owner else "this stream does not have it")
        if is_trusted or self._strict:
            return
        if commit.token and is_valid_token(commit.token, session.secret, commit.place, commit.position):
            return
        was_sent = self._has_sent(session.id, commit.place, commit.position)
        if was_sent is None and slot.sent is not None:
            was_sent = commit.position <= slot.sent
        if not was_sent:
            unproven = "its cursor_token does not prove that it was sent"
            reason = "this stream was not sent it yet" if was_sent is False else unproven
            raise _refuse(commit, reason)

    def _offset(self, slot: StoredSlot) -> int:
        return self.offsets.get(slot.place, slot.offset)

    def _move(self, commit: CursorCommit) -> bool:
        if commit.position <= self._offset(self._slots[commit.place]):
            return False
        self.offsets[commit.place] = commit.position
        return True

    def _acknowledge(self, span: ParkedSpan) -> bool:
        self.acknowledged.append(span)
        return True


def _read_span(commit: CursorCommit, session: StoredSession) -> ParkedSpan | None:
    """Return the parked events that a cursor acknowledges; None: it is a cursor of the partition."""
    if commit.token is None or not is_parked_token(commit.token):
        return None
    span = read_parked_token(commit.token, session.secret)
    if span is None:
        raise _refuse(commit, "its cursor_token is of parked events, and not of this stream")
    return span


def _refuse(commit: CursorCommit, reason: str) -> CommitRefused:
    event_type, partition = commit.place
    return CommitRefused(event_type=event_type, partition=str(partition), offset=commit.position - 1, reason=reason)


def _group_by_subscription(group: Iterable[QueuedCommit]) -> Sequence[tuple[str, Sequence[QueuedCommit]]]:
    """Return the requests of each subscription, in the order in which subscriptions are locked."""
    requests: dict[str, list[QueuedCommit]] = defaultdict(list)
    for request in group:
        requests[request.subscription].append(request)
    return sorted(requests.items())


def _fail(group: Iterable[QueuedCommit], error: Any) -> None:
    for request in group:
        request.future.set_exception(error)
