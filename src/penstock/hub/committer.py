"""Group commit: one thread per process appends all queued requests in one transaction, with one fsync.

docs/decisions/group-commit.md gives the reasons.

Invariants:
    A future gets its result after the commit, never before.
    Locks are taken in one order: outbox, event types, batches, producers, heads, each kind sorted.
    Waiting outbox rows of an event type are appended before events that are published to it.
    A request that fails leaves the results of the others in its group unchanged.
    A group holds at most one request of a producer, since a request is judged by the events stored before it.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import compress
from typing import Final

from penstock.core.producers import MODULUS
from penstock.core.registry.event_type import StoredFeed
from penstock.errors import HubUnavailable, OutcomeUnknown, PenstockError, Unavailable, WrongTransaction
from penstock.hub.background import Background, Clock
from penstock.hub.batches.ledger import BatchTurns, record_piece
from penstock.hub.log.outbox import MOVE_ROWS, NONE_MOVED, MovedRows, RowGoneError, RowsLeft, reject_row, take_rows
from penstock.hub.log.publish import (
    AppendResult,
    Prepared,
    PublishRequest,
    RequestResult,
    Unpublishable,
    Volume,
    append_rows,
    find_refusal,
    is_stale,
    lock_heads,
    prepare_or_refuse,
)
from penstock.hub.producers.sequencing import (
    StaleError,
    Verdict,
    counts_toward_limit,
    find_excess,
    judge_batch,
    make_batch_row,
    make_result,
    record_producer,
)
from penstock.storage.producers import ProducerKey
from penstock.storage.store import AppendPlan, Store, Tx


def judge(
    tx: Tx, requests: Sequence[PublishRequest], moved: Iterable[Prepared], modulus: int = MODULUS
) -> Sequence[Verdict]:
    """Decide about each of *requests*, after locking their staged batches and producers.

    The outbox rows *moved* are appended in the same transaction. Event types are locked before batches and producers.

    Raises:
        StaleError: the event types of some requests have changed.
    """
    keys = [request.producer_key for request in requests]
    wanted = sorted(key for key in keys if key is not None)
    pieces = [request.piece for request in requests if request.piece is not None]
    if not (wanted or pieces):
        return [Verdict(request, _require_prepared(request)) for request in requests]
    going = [*moved, *(request.ready for request in requests if isinstance(request.ready, Prepared))]
    partition_ids = {number for number, _ in wanted}.union(*(batch.partition_ids for batch in going))
    turns = BatchTurns(tx, pieces, sorted(partition_ids))
    producers = tx.producers.find(wanted, lock=sorted(partition_ids)) if wanted else {}
    missed = [request for request, key in zip(requests, keys, strict=True) if key and key not in producers]
    if missed:
        raise StaleError(missed)
    new_producers: Counter[int] = Counter()
    verdicts = []
    for request, key in zip(requests, keys, strict=True):
        if key is None:
            verdicts.append(_judge_plain(request, turns))
            continue
        verdict = judge_batch(tx, request, key, producers[key], modulus)
        if verdict.reservation is not None and not counts_toward_limit(producers[key]):
            error = find_excess(tx, verdict.reservation.stamped.who, key[0], new_producers[key[0]])
            verdict = Verdict(request, result=error) if error else verdict
            new_producers[key[0]] += 1
        verdicts.append(verdict)
    return verdicts


def record(
    tx: Tx, verdicts: Iterable[Verdict], results: Iterable[AppendResult | None], now: int, modulus: int = MODULUS
) -> list[RequestResult]:
    """Record the appended batches of producers and of uploads; return the result of each request.

    Raises:
        StaleError: another hub has inserted a producer first.
    """
    answers: list[RequestResult] = []
    batches = []
    for verdict, published in zip(verdicts, results, strict=True):
        if verdict.reservation is None or published is None:
            if verdict.request.piece is not None and verdict.appends is not None and published is not None:
                record_piece(tx, verdict.request.piece, verdict.appends, published, now)
            answers.append(published or verdict.result)
            continue
        producer_id = record_producer(tx, verdict.reservation, now)
        if producer_id is None:
            raise StaleError([verdict.request])
        batches.append(make_batch_row(producer_id, verdict.reservation, published))
        answers.append(published._replace(produced=make_result(verdict.reservation, published, modulus)))
    if batches:
        tx.producers.append_batches(batches, now)
    return answers


def _judge_plain(request: PublishRequest, turns: BatchTurns) -> Verdict:
    """Decide about a request without sequence numbers."""
    if request.piece is not None and not turns.take(request.piece):
        return Verdict(request)
    if isinstance(request.ready, Unpublishable):
        return Verdict(request, result=request.ready.error)
    return Verdict(request, request.ready)


def _require_prepared(request: PublishRequest) -> Prepared | None:
    assert not isinstance(request.ready, Unpublishable)
    return request.ready


GROUP_EVENTS_MAX: Final = 20_000
MOVE_TIMEOUT: Final = 5.0
STALE_MAX: Final = 10
TIMED_EVENTS: Final = 100
"""From this number of events on, a request gets the time for which it has kept the committer busy."""
VOLUMES_MAX: Final = 500
"""Maximum number of event types with counters of their own."""
OTHERS: Final = "(others)"
"""The name under which events of all other event types are counted; no event type has it."""
_NOTHING: Final = Volume(0, 0)
_STOPPED: Final = "the hub was stopped in the middle of a commit"


class _FullError(Exception):
    """The outbox of one event type has filled the transaction, and more rows wait; nothing else was appended."""

    def __init__(self, left: RowsLeft) -> None:
        self.left = left


class Committer:
    """Appends for one process: up to *group_events_max* events a transaction; a request is never divided."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        load: Callable[[str], StoredFeed],
        appended: Callable[[dict[int, int]], object],
        *,
        group_events_max: int = GROUP_EVENTS_MAX,
        modulus: int = MODULUS,
    ) -> None:
        """Make a committer.

        *load* returns the current definition of an event type. *appended* is called with the next offsets by partition
        id after each commit. Sequence numbers of idempotent producers are counted modulo *modulus*.
        """
        self._store = store
        self._clock = clock
        self._load = load
        self._appended = appended
        self._group_events_max = group_events_max
        self._modulus = modulus
        self._queue: deque[PublishRequest] = deque()
        self._group: Sequence[PublishRequest] = ()
        self._committing = False
        self._volumes: dict[str, Volume] = {}
        self._wake = threading.Condition()
        self._stopping = False
        self._given_up = False
        self._thread = Background("penstock-committer", self._run)

    def submit(self, request: PublishRequest) -> "Future[AppendResult | None]":
        """Queue *request* and return at once.

        Raises:
            HubUnavailable: the hub is shutting down.
        """
        with self._wake:
            if self._stopping:
                raise HubUnavailable.of("hub-stopped", retry_after=1)
            self._thread.start()
            self._queue.append(request)
            self._wake.notify()
        return request.future

    @property
    def queued(self) -> int:
        """The number of requests that wait for the next commit."""
        return len(self._queue)

    def volumes(self) -> Mapping[str, Volume]:
        """Return how much was appended and committed since the process began, by event type.

        Events of event types beyond the first `VOLUMES_MAX` are counted under `OTHERS`.
        """
        return dict(self._volumes)

    def stop(self, timeout: float | None = None) -> bool:
        """Append all queued requests, then end; return whether the thread has ended.

        When *timeout* is over, queued requests fail with HubUnavailable and will not be stored;
        requests in the middle of a commit fail with OutcomeUnknown. None waits without limit.
        """
        with self._wake:
            self._stopping = True
            self._wake.notify()
        if self._thread.wait_for_end(timeout):
            return True
        with self._wake:
            self._given_up = True
            queued, begun, committing = list(self._queue), self._group, self._committing
            self._queue.clear()
        _fail(queued, HubUnavailable.of("hub-stopped", retry_after=1))
        _fail(begun, OutcomeUnknown(reason=_STOPPED) if committing else HubUnavailable.of("hub-stopped", retry_after=1))
        return False

    @property
    def _ended(self) -> bool:
        return self._stopping and not self._queue

    def _run(self) -> None:
        while not self._ended:
            self._commit(self._take_group())

    def _take_group(self) -> list[PublishRequest]:
        with self._wake:
            self._group, self._committing = (), False
            while not self._queue and not self._stopping:
                self._wake.wait()
            group, events = [], 0
            producers: set[ProducerKey] = set()
            while self._queue and events < self._group_events_max and self._queue[0].producer_key not in producers:
                request = self._queue.popleft()
                if request.start():
                    group.append(request)
                    events += request.events
                    producers.update(key for key in [request.producer_key] if key)
            self._group = group
            return group

    def _proceed(self, *, committing: bool) -> None:
        """Record whether the group is committing; raise HubUnavailable if `stop` has already failed its requests.

        The group counts as committing until the next one begins, so that a group that has committed is never reported
        as not stored.
        """
        with self._wake:
            if self._given_up:
                raise HubUnavailable.of("hub-stopped", retry_after=1)
            self._committing = committing

    def _commit(self, requests: Iterable[PublishRequest]) -> None:
        group = [
            request for request in requests if not request.future.done()
        ]  # A request that has failed is not stored later.
        if not group:
            return
        started = time.perf_counter()
        try:
            results = self._append_retrying(group)
        except _FullError as full:  # Other event types do not wait for this outbox.
            waits = [request.name == full.left.name and not request.moved for request in group]
            self._commit(request for request, waiting in zip(group, waits, strict=True) if not waiting)
            self._put_off(compress(group, waits), full.left)
        except WrongTransaction as error:
            _fail([request for request in group if request.direct], error)
            self._commit(request for request in group if not request.direct)
        except (Unavailable, OutcomeUnknown) as error:
            _fail(group, error)
        except Exception as error:  # noqa: BLE001 - it fails the request that it concerns
            if len(group) == 1:
                group[0].fail(error)
                return
            for request in group:
                self._commit([request])
        else:
            _tell_seconds(results, time.perf_counter() - started)
            for request, result in results:
                request.resolve(result)

    def _put_off(self, group: Iterable[PublishRequest], left: RowsLeft) -> None:
        """Queue requests again, because outbox rows that precede them have to be moved first.

        They go after the requests of other event types, and before later requests of their own event type.
        """
        now = time.monotonic()
        again = []
        for request in group:
            if request.moves_to is None:
                request.moves_to, request.moves_until = left.last, now + MOVE_TIMEOUT
            request.moved = left.moved_to >= request.moves_to
            if now > request.moves_until and not request.moved:
                request.fail(
                    HubUnavailable.of("outbox-backlog", event_type=request.name, seconds=MOVE_TIMEOUT, retry_after=1)
                )
            else:
                again.append(request)
        with self._wake:
            others = [each for each in self._queue if each.name != left.name]
            behind = [each for each in self._queue if each.name == left.name]
            self._queue = deque([*others, *again, *behind])

    def _append_retrying(self, group: list[PublishRequest]) -> list[tuple[PublishRequest, RequestResult]]:
        """Append *group* in one transaction; prepare requests again whose event type has changed meanwhile."""
        for _ in range(STALE_MAX):
            try:
                results = self._append(group)
            except StaleError as found:
                group = self._refresh(group, found.requests)
            else:
                if results is not None:
                    return list(zip(group, results, strict=True))
            if not group:
                return []
        raise Unavailable(reason="the event type keeps changing", retry_after=1)

    def _append(self, group: list[PublishRequest]) -> list[RequestResult] | None:
        """Append in one transaction; return None if the log refused an outbox row, which was then moved separately."""
        names = sorted({request.name for request in group if not request.moved})
        moved_any = False
        self._proceed(committing=False)
        try:
            patient = not any(request.direct for request in group)
            with self._store.write(patient=patient, plan=_plan_append(names, group)) as tx:
                moved = take_rows(tx, names, self._clock) if tx.locked_heads is None else NONE_MOVED
                moved_any = bool(moved.batches)
                requests = [] if moved.left else group
                verdicts = judge(tx, requests, moved.batches, self._modulus)
                batches = [*moved.batches, *(verdict.appends for verdict in verdicts)]
                heads = lock_heads(tx, batches) if tx.locked_heads is None else tx.locked_heads
                stale = [each.request for each in verdicts if each.appends and is_stale(each.appends, heads)]
                if stale or any(is_stale(batch, heads) for batch in moved.batches):
                    raise StaleError(stale)
                now = self._clock()
                results = append_rows(tx, batches, heads, now)[len(moved.batches) :]
                answers = record(tx, verdicts, results, now, self._modulus)
                self._proceed(committing=True)
        except (StaleError, Unavailable, WrongTransaction, OutcomeUnknown):
            raise
        except Exception:
            if not moved_any:
                raise
            self._move_apart(names)
            return None
        self._count(batches)
        self._appended({partition_id: head.next_offset for partition_id, head in heads.items()})
        if moved.left:
            raise _FullError(moved.left)
        return answers

    def _count(self, batches: Iterable[Prepared | None]) -> None:
        for batch in batches:
            if batch is not None:
                name = batch.feed.name
                if name not in self._volumes and len(self._volumes) >= VOLUMES_MAX:
                    name = OTHERS
                before = self._volumes.get(name, _NOTHING)
                size = sum(len(row[3]) for rows in batch.rows.values() for row in rows)
                self._volumes[name] = Volume(before.events + batch.events, before.bytes + size)

    def _move_apart(self, names: Sequence[str]) -> None:
        """Move up to `MOVE_ROWS` outbox rows in ever smaller transactions, until the faulty row is alone; reject it."""
        left, rows_max = MOVE_ROWS, MOVE_ROWS // 2
        for _ in range(MOVE_ROWS):  # Bounded, so that other event types get their turn even if every row is faulty.
            with self._store.read() as tx:
                waiting = sorted(tx.outbox.find_waiting(names))
            if not waiting or left <= 0:
                return
            with suppress(StaleError, RowGoneError):  # Another hub has moved rows meanwhile: look again.
                moved = self._move_some(waiting[0], rows_max)
                left -= moved
                rows_max = min(MOVE_ROWS, 2 * rows_max) if moved else max(1, rows_max // 2)

    def _move_some(self, name: str, rows_max: int) -> int:
        """Move up to *rows_max* rows and return how many; if the log refused them return 0, and reject a single row."""
        moved = MovedRows([], None, [])
        try:
            with self._store.write() as tx:
                moved = take_rows(tx, [name], self._clock, rows_max)
                heads = lock_heads(tx, moved.batches)
                if any(is_stale(batch, heads) for batch in moved.batches):
                    raise StaleError([])
                append_rows(tx, moved.batches, heads, self._clock())
        except (StaleError, Unavailable, WrongTransaction, OutcomeUnknown):
            raise
        except Exception as error:
            if not moved.row_ids:
                raise
            if len(moved.row_ids) == 1:
                with self._store.write() as tx:
                    reject_row(tx, name, moved.row_ids[0], f"the log refused it: {error}", self._clock)
            return 0
        self._count(moved.batches)
        self._appended({partition_id: head.next_offset for partition_id, head in heads.items()})
        return max(1, len(moved.row_ids))

    def _refresh(self, group: list[PublishRequest], stale: Iterable[PublishRequest]) -> list[PublishRequest]:
        """Prepare *stale* requests again with the current event types; fail those that are no longer valid."""
        left = list(group)
        for request in stale:
            if request.piece is not None:
                request.resolve(None)  # Whoever publishes the batch reads its chunks again.
                left.remove(request)
                continue
            try:
                found = prepare_or_refuse(
                    self._load(request.name), request.handed, self._clock(), exact=request.is_exact
                )
                error = find_refusal(found, exact=request.is_exact)
            except PenstockError as raised:
                error = raised
            if error is None:
                request.ready = found
            else:
                request.fail(error)
                left.remove(request)
        return left


def _plan_append(names: Sequence[str], group: Sequence[PublishRequest]) -> AppendPlan | None:
    """Return the opening of a transaction that appends *group*; None if it has other locks to take first."""
    prepared = [request.ready for request in group if isinstance(request.ready, Prepared) and not request.is_exact]
    if len(prepared) < len(group):
        return None
    return AppendPlan(names, sorted({partition_id for each in prepared for partition_id in each.partition_ids}))


def _tell_seconds(results: list[tuple[PublishRequest, RequestResult]], seconds: float) -> None:
    """Set in the results of requests with many events which part they had in the *seconds* of their transaction."""
    total = sum(request.events for request, _ in results)
    if total < TIMED_EVENTS:
        return
    for index, (request, result) in enumerate(results):
        if isinstance(result, AppendResult) and result.events >= TIMED_EVENTS:
            results[index] = request, result._replace(seconds=seconds * result.events / total)


def _fail(group: Iterable[PublishRequest], error: BaseException) -> None:
    for request in group:
        request.fail(error)
