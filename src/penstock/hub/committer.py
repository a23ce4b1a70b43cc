"""Group commit: one thread per process appends all queued requests in one transaction, with one fsync.

docs/decisions/group-commit.md gives the reasons.

Invariants:
    A future gets its result after the commit, never before.
    Locks are taken in one order: outbox, event types, batches, producers, heads, each kind sorted.
    Waiting outbox rows of an event type are appended before what is published to it.
    A request that fails leaves the results of the others in its group unchanged.
    A group holds at most one request of a producer: each is judged by what the one before has stored.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import compress
from typing import Final

from penstock.core.producers import MODULUS
from penstock.core.registry.event_type import StoredFeed
from penstock.errors import HubStopped, InsideTransaction, OutboxBacklog, OutcomeUnknown, PenstockError, Unavailable
from penstock.hub.background import Background, Clock
from penstock.hub.batches.ledger import BatchTurns, record_piece
from penstock.hub.log.outbox import MOVE_ROWS, NONE_MOVED, Backlog, MovedRows, RowGoneError, reject_row, take_rows
from penstock.hub.log.publish import Prepared, Unpublishable, find_refusal, prepare_or_refuse
from penstock.hub.log.request import Published, Request, Result, append_rows, is_stale, lock_heads
from penstock.hub.producers.sequencing import (
    StaleError,
    Verdict,
    _appended,
    _batch,
    _Judge,
    _recorded,
    counts_toward_limit,
    find_excess,
)
from penstock.storage.opening import Opening
from penstock.storage.producers import ProducerKey
from penstock.storage.store import Store, Tx


def judge(tx: Tx, requests: Sequence[Request], moved: Iterable[Prepared], modulus: int = MODULUS) -> Sequence[Verdict]:
    """Return what becomes of each of *requests*, having locked the batches and the producers of those that have some.

    *moved* goes into the log with them: where any has, the event types of all are locked before that.

    Raises:
        StaleError: the event types of some are not what they were.
    """
    keys = [request.producer_key for request in requests]
    wanted = sorted(key for key in keys if key is not None)
    pieces = [request.piece for request in requests if request.piece is not None]
    if not (wanted or pieces):
        return [Verdict(request, _appendable(request)) for request in requests]
    going = [*moved, *(request.ready for request in requests if isinstance(request.ready, Prepared))]
    partition_ids = {number for number, _ in wanted}.union(*(batch.partition_ids for batch in going))
    turns = BatchTurns(tx, pieces, sorted(partition_ids))
    producers = tx.producers.lock(wanted, sorted(partition_ids)) if wanted else {}
    missed = [request for request, key in zip(requests, keys, strict=True) if key and key not in producers]
    if missed:
        raise StaleError(missed)
    begun: Counter[int] = Counter()
    verdicts = []
    for request, key in zip(requests, keys, strict=True):
        if key is None:
            verdicts.append(_plain(request, turns))
            continue
        verdict = _Judge(tx, request, key, producers[key], modulus).verdict()
        if verdict.taking is not None and not counts_toward_limit(producers[key]):
            error = find_excess(tx, verdict.taking.stamped.who, key[0], begun[key[0]])
            verdict = Verdict(request, told=error) if error else verdict
            begun[key[0]] += 1
        verdicts.append(verdict)
    return verdicts


def record(
    tx: Tx, verdicts: Iterable[Verdict], results: Iterable[Published | None], now: int, modulus: int = MODULUS
) -> list[Result]:
    """Record what was appended, with *results*, of producers and of staged batches; return what each publisher is told.

    Raises:
        StaleError: another hub has heard of a producer first.
    """
    told: list[Result] = []
    batches = []
    for verdict, published in zip(verdicts, results, strict=True):
        if verdict.taking is None or published is None:
            if verdict.request.piece is not None and verdict.appends is not None and published is not None:
                record_piece(tx, verdict.request.piece, verdict.appends, published, now)
            told.append(published or verdict.told)
            continue
        producer_id = _recorded(tx, verdict.taking, now)
        if producer_id is None:
            raise StaleError([verdict.request])
        batches.append(_batch(producer_id, verdict.taking, published))
        told.append(published._replace(produced=_appended(verdict.taking, published, modulus)))
    if batches:
        tx.producers.append(batches, now)
    return told


def _plain(request: Request, turns: BatchTurns) -> Verdict:
    """Return what becomes of one that is not stamped."""
    if request.piece is not None and not turns.take(request.piece):
        return Verdict(request)
    if isinstance(request.ready, Unpublishable):
        return Verdict(request, told=request.ready.error)
    return Verdict(request, request.ready)


def _appendable(request: Request) -> Prepared | None:
    """Return what is to be appended of one that is not stamped."""
    assert not isinstance(request.ready, Unpublishable)
    return request.ready


GROUP_EVENTS_MAX: Final = 20_000
MOVE_SECONDS_MAX: Final = 5.0
STALE_MAX: Final = 10
_STOPPED: Final = "the hub was stopped in the middle of a commit"


class _FullError(Exception):
    """The transaction was filled by the outbox of one event type, of which more waits; nothing else was appended."""

    def __init__(self, left: Backlog) -> None:
        self.left = left


class Committer:
    """Appends for one process, up to *group_events_max* events in one transaction; one request is never divided."""

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
        """Make a committer; *load* looks an event type up, *appended* is told the next offsets after each commit.

        The numbers of idempotent producers are counted modulo *modulus*.
        """
        self._store = store
        self._clock = clock
        self._load = load
        self._appended = appended
        self._group_events_max = group_events_max
        self._modulus = modulus
        self._queue: deque[Request] = deque()
        self._group: Sequence[Request] = ()
        self._committing = False
        self._wake = threading.Condition()
        self._stopping = False
        self._given_up = False
        self._thread = Background("penstock-committer", self._run)

    def submit(self, request: Request) -> "Future[Published | None]":
        """Queue *request* and return at once.

        Raises:
            HubStopped: the hub is shutting down.
        """
        with self._wake:
            if self._stopping:
                raise HubStopped(retry_after=1)
            self._thread.start()
            self._queue.append(request)
            self._wake.notify()
        return request.future

    def stop(self, timeout: float | None = None) -> bool:
        """Append what is queued, then end; tell whether it has ended.

        When *timeout* is over, all who wait are told that the hub has stopped, and nothing of theirs will be stored;
        only what is in the middle of its commit is told that nobody knows. None waits for as long as it takes.
        """
        with self._wake:
            self._stopping = True
            self._wake.notify()
        if self._thread.ended(timeout):
            return True
        with self._wake:
            self._given_up = True
            queued, begun, committing = list(self._queue), self._group, self._committing
            self._queue.clear()
        _fail(queued, HubStopped(retry_after=1))
        _fail(begun, OutcomeUnknown(reason=_STOPPED) if committing else HubStopped(retry_after=1))
        return False

    @property
    def _ended(self) -> bool:
        return self._stopping and not self._queue

    def _run(self) -> None:
        while not self._ended:
            self._commit(self._next_group())

    def _next_group(self) -> list[Request]:
        with self._wake:
            self._group, self._committing = (), False
            while not self._queue and not self._stopping:
                self._wake.wait()
            group, events = [], 0
            producers: set[ProducerKey] = set()
            while self._queue and events < self._group_events_max and self._queue[0].producer_key not in producers:
                request = self._queue.popleft()
                if request.take_up():
                    group.append(request)
                    events += len(request.handed.events)
                    producers.update(key for key in [request.producer_key] if key)
            self._group = group
            return group

    def _proceed(self, *, committing: bool) -> None:
        """Note how far the group is, unless it was told already that nothing of it will be stored.

        It counts as committing until the next one begins, so that between its commit and the telling nobody is told
        otherwise.
        """
        with self._wake:
            if self._given_up:
                raise HubStopped(retry_after=1)
            self._committing = committing

    def _commit(self, requests: Iterable[Request]) -> None:
        group = [request for request in requests if not request.future.done()]  # Who was told is not stored after that.
        if not group:
            return
        try:
            results = self._settled(group)
        except _FullError as full:  # Nobody waits for another event type's outbox.
            waits = [request.name == full.left.name and not request.moved for request in group]
            self._commit(request for request, waiting in zip(group, waits, strict=True) if not waiting)
            self._put_off(compress(group, waits), full.left)
        except InsideTransaction as error:
            _fail([request for request in group if request.direct], error)
            self._commit(request for request in group if not request.direct)
        except (Unavailable, OutcomeUnknown) as error:
            _fail(group, error)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is handed to the request that it concerns
            if len(group) == 1:
                group[0].fail(error)
                return
            for request in group:
                self._commit([request])
        else:
            for request, result in results:
                request.tell(result)

    def _put_off(self, group: Iterable[Request], left: Backlog) -> None:
        """Queue requests again: more of what their outbox had before them has to be moved first.

        They go behind those of other event types, and before those of their own, which came after them.
        """
        now = time.monotonic()
        again = []
        for request in group:
            if request.moves_to is None:
                request.moves_to, request.moves_until = left.last, now + MOVE_SECONDS_MAX
            request.moved = left.moved_to >= request.moves_to
            if now > request.moves_until and not request.moved:
                request.fail(OutboxBacklog(event_type=request.name, seconds=MOVE_SECONDS_MAX, retry_after=1))
            else:
                again.append(request)
        with self._wake:
            others = [each for each in self._queue if each.name != left.name]
            behind = [each for each in self._queue if each.name == left.name]
            self._queue = deque([*others, *again, *behind])

    def _settled(self, group: list[Request]) -> list[tuple[Request, Result]]:
        """Append *group* in one transaction, preparing again what its event type has left behind meanwhile."""
        for _ in range(STALE_MAX):
            try:
                results = self._append(group)
            except StaleError as found:
                group = self._refreshed(group, found.requests)
            else:
                if results is not None:
                    return list(zip(group, results, strict=True))
            if not group:
                return []
        raise Unavailable(reason="the event type keeps changing", retry_after=1)

    def _append(self, group: list[Request]) -> list[Result] | None:
        """Append in one transaction; None when the log refused what was to be moved with it, which was moved first."""
        names = sorted({request.name for request in group if not request.moved})
        moved_any = False
        self._proceed(committing=False)
        try:
            patient = not any(request.direct for request in group)
            with self._store.write(patient=patient, opening=_opening(names, group)) as tx:
                moved = take_rows(tx, names, self._clock) if tx.opened is None else NONE_MOVED
                moved_any = bool(moved.batches)
                requests = [] if moved.left else group
                verdicts = judge(tx, requests, moved.batches, self._modulus)
                batches = [*moved.batches, *(verdict.appends for verdict in verdicts)]
                heads = lock_heads(tx, batches) if tx.opened is None else tx.opened
                stale = [each.request for each in verdicts if each.appends and is_stale(each.appends, heads)]
                if stale or any(is_stale(batch, heads) for batch in moved.batches):
                    raise StaleError(stale)
                now = self._clock()
                results = append_rows(tx, batches, heads, now)[len(moved.batches) :]
                told = record(tx, verdicts, results, now, self._modulus)
                self._proceed(committing=True)
        except (StaleError, Unavailable, InsideTransaction, OutcomeUnknown):
            raise
        except Exception:
            if not moved_any:
                raise
            self._move_apart(names)
            return None
        self._appended({partition_id: head.next_offset for partition_id, head in heads.items()})
        if moved.left:
            raise _FullError(moved.left)
        return told

    def _move_apart(self, names: Sequence[str]) -> None:
        """Move about a transaction's worth of rows, fewer at a time until the one at fault is alone, and reject it."""
        left, rows_max = MOVE_ROWS, MOVE_ROWS // 2
        for _ in range(MOVE_ROWS):  # Where all are at fault, too, others have their turn some time.
            with self._store.read() as tx:
                waiting = sorted(tx.outbox.waiting(names))
            if not waiting or left <= 0:
                return
            with suppress(StaleError, RowGoneError):  # Another hub was there between two looks: look again.
                moved = self._move_some(waiting[0], rows_max)
                left -= moved
                rows_max = min(MOVE_ROWS, 2 * rows_max) if moved else max(1, rows_max // 2)

    def _move_some(self, name: str, rows_max: int) -> int:
        """Move up to *rows_max* rows; return how many, 0 where the log refused them: a single one is rejected then."""
        moved = MovedRows([], None, [])
        try:
            with self._store.write() as tx:
                moved = take_rows(tx, [name], self._clock, rows_max)
                heads = lock_heads(tx, moved.batches)
                if any(is_stale(batch, heads) for batch in moved.batches):
                    raise StaleError([])
                append_rows(tx, moved.batches, heads, self._clock())
        except (StaleError, Unavailable, InsideTransaction, OutcomeUnknown):
            raise
        except Exception as error:
            if not moved.row_ids:
                raise
            if len(moved.row_ids) == 1:
                with self._store.write() as tx:
                    reject_row(tx, name, moved.row_ids[0], f"the log refused it: {error}", self._clock)
            return 0
        self._appended({partition_id: head.next_offset for partition_id, head in heads.items()})
        return max(1, len(moved.row_ids))

    def _refreshed(self, group: list[Request], stale: Iterable[Request]) -> list[Request]:
        """Make the stale ones ready again by what the event types are now; those that no longer fit are told so."""
        left = list(group)
        for request in stale:
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


def _opening(names: Sequence[str], group: Sequence[Request]) -> Opening | None:
    """Return what is asked for first to append *group*; None: it locks other things before the heads."""
    prepared = [request.ready for request in group if isinstance(request.ready, Prepared) and not request.is_exact]
    if len(prepared) < len(group):
        return None
    return Opening(names, sorted({partition_id for each in prepared for partition_id in each.partition_ids}))


def _fail(group: Iterable[Request], error: BaseException) -> None:
    for request in group:
        request.fail(error)
