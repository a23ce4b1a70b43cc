"""The outbox in PostgreSQL, where transactions commit in another order than they take their ids.

Each row stores the id of the transaction that inserted it. A look is a snapshot: it sees all transactions below its
xmax except those that were still running. The next look asks only for rows of transactions at or above that xmax, and
of those that were running then. So no row that commits late is lost, and an empty outbox costs the same however many
dead rows a long transaction keeps from being vacuumed. docs/decisions/outbox-snapshots.md gives the reasons.

Invariants:
    A transaction that takes rows of an event type holds its lock until it ends.
    An event type that is not waiting has no row left that the last look could see: its next rows come after that look.
    A snapshot is drained only after the transaction that took all its rows has committed.
    A crash of the database voids all earlier looks: PostgreSQL reuses the ids of transactions that were not on disk.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import psycopg

from penstock.storage.log.events import PartitionHead
from penstock.storage.log.outbox import (
    OutboxCount,
    OutboxRepository,
    OutboxRow,
    RejectedRow,
    TakenRows,
    select_rejected,
)
from penstock.storage.postgres import POSTGRES
from penstock.storage.postgres.history import PrimaryHistory
from penstock.storage.store import AppendPlan

_sql: Final = POSTGRES.statements
_LOCK_CLASS: Final = 0x70656E73


class OutboxSnapshot(NamedTuple):
    """Snapshot of a look: it saw transactions below *xmax* except those *running*. Ids are 64-bit, kept as text."""

    xmax: str
    running: list[str]


_NOTHING: Final = OutboxSnapshot("0", [])


class PendingLook(NamedTuple):
    """Look that has begun; other connections may look before it ends."""

    since: OutboxSnapshot
    """Snapshot whose rows the look skips."""
    moment: tuple[int, int]


class OutboxLooks:
    """Looks of this process at the outbox, shared by its connections."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._number = 0
        self.seen = _NOTHING
        self.drained: dict[str, OutboxSnapshot] = {}
        self._found: dict[str, int] = {}
        self._crashes = 0

    def begin(self) -> PendingLook:
        """Begin a look: it asks for the rows that its `since` could not see, while others may look too."""
        with self._guard:
            return PendingLook(self.seen, self.moment)

    def finish(self, look: PendingLook, snapshot: OutboxSnapshot, names: Sequence[str]) -> set[str] | None:
        """End a look that found rows of *names*, and return the event types that wait.

        Where another look has ended since it began, that one decides what the next look skips. Return None if the
        database has crashed meanwhile, which makes the look void: the next one sees all rows.
        """
        with self._guard:
            crashes, number = look.moment
            if crashes != self._crashes:
                return None
            if int(snapshot.xmax) < int(look.since.xmax):
                self._forget()
                return None
            if number == self._number:
                self._record(snapshot, names)
            return {*self._found, *names}

    def find_waiting(self) -> list[str]:
        """Return the event types that have undrained rows, by the looks that have ended."""
        with self._guard:
            return list(self._found)

    def oldest(self) -> OutboxSnapshot:
        """Return a snapshot that saw none of the rows that still wait."""
        with self._guard:
            each = [self.seen, *(self.drained.get(name, _NOTHING) for name in self._found)]
        return OutboxSnapshot(
            min((look.xmax for look in each), key=int), sorted({xid for look in each for xid in look.running})
        )

    @property
    def moment(self) -> tuple[int, int]:
        """Number of crashes, and number of the last look."""
        return self._crashes, self._number

    def forget(self) -> None:
        """Forget all looks, since the database may have crashed; the next look sees all rows."""
        with self._guard:
            self._forget()

    def drain(self, name: str, snapshot: OutboxSnapshot, moment: tuple[int, int]) -> None:
        """Record that all rows of *name* that *snapshot* saw are in the log; the snapshot is younger than *moment*."""
        crashes, number = moment
        with self._guard:
            if crashes != self._crashes:
                return
            self.drained[name] = snapshot
            if self._found.get(name, number + 1) <= number:
                del self._found[name]

    def _record(self, snapshot: OutboxSnapshot, names: Sequence[str]) -> None:
        self._number += 1
        before, self.seen = self.seen, snapshot
        for name in names:
            if name not in self._found and int(self.drained.get(name, _NOTHING).xmax) < int(before.xmax):
                self.drained[name] = before
        self._found.update(dict.fromkeys(names, self._number))

    def _forget(self) -> None:
        self._crashes += 1
        self.seen = _NOTHING
        self.drained.clear()


class PostgresOutbox(OutboxRepository):
    """The outbox in PostgreSQL."""

    def __init__(
        self,
        connection: "psycopg.Connection[tuple[Any, ...]]",
        looks: OutboxLooks,
        after_commit: list[Callable[[], None]],
        history: PrimaryHistory,
    ) -> None:
        self._connection = connection
        self._looks = looks
        self._after_commit = after_commit
        self._history = history

    def find_waiting(self, names: Iterable[str] | None) -> Sequence[str]:
        """Return which event types have waiting rows."""
        return self.find_waiting_and_heads(names, [])[0]

    def find_waiting_and_heads(
        self, names: Iterable[str] | None, partition_ids: Sequence[int]
    ) -> tuple[Sequence[str], dict[int, PartitionHead]]:
        """Return which event types have waiting rows, and heads read after that."""
        waiting, rows = None, []
        while waiting is None:
            look = self._looks.begin()
            given = {**look.since._asdict(), "ids": list(partition_ids)}
            rows = self._connection.execute(_sql["outbox_look"], given).fetchall()
            waiting = self._finish(look, rows)
        return sorted(waiting if names is None else waiting.intersection(names)), self._note_heads(rows)

    def begin_append(self, plan: AppendPlan) -> dict[int, PartitionHead] | None:
        """Begin a transaction, look at the outbox and lock the heads of *plan*, all in one exchange with the database.

        Return the heads; None if rows wait in the outbox, whose lock comes before those of heads. The transaction has
        begun and holds no lock then.
        """
        look = self._looks.begin()
        given = {**look.since._asdict(), "ids": list(plan.partition_ids)}
        with psycopg.ClientCursor(self._connection) as cursor:
            cursor.execute(_sql["begin_append"], given)
            cursor.nextset()
            rows = cursor.fetchall()
        waiting = self._finish(look, rows)
        if waiting is None:
            waiting = {*self.find_waiting(None)}
        if waiting.isdisjoint(plan.event_types):
            return self._note_heads(rows)
        self._connection.execute(f"ROLLBACK;\n{_sql['begin']}")
        return None

    def take(self, name: str, rows_max: int, bytes_max: int) -> TakenRows:
        """Remove the first rows of one event type and return them."""
        self._connection.execute(_sql["outbox_lock"], {"class": _LOCK_CLASS, "name": name})
        moment = self._looks.moment
        drained = self._looks.drained.get(name, _NOTHING)
        found = self._run_planned("outbox_take", name=name, rows=rows_max, bytes=bytes_max, **drained._asdict())
        xmax, running, last = found[0][:3]
        taken = TakenRows(sorted(OutboxRow(*row[3:]) for row in found if row[3] is not None), last)
        if not taken.more:
            self._after_commit.append(lambda: self._looks.drain(name, OutboxSnapshot(xmax, running), moment))
        return taken

    def count(self, limit: int) -> OutboxCount:
        """Return how many rows wait and how many were rejected."""
        ((waiting, since),) = self._run_planned("outbox_count", limit=limit, **self._looks.oldest()._asdict())
        ((rejected,),) = self._connection.execute(_sql["rejected_count"], {"limit": limit}).fetchall()
        return OutboxCount(waiting, rejected, since)

    def reject(self, rows: Sequence[tuple[OutboxRow, str]], at: int) -> None:
        """Record rows that cannot be published."""
        with self._connection.cursor() as cursor:
            cursor.executemany(_sql["rejected_add"], [(*row[1:], at, reason) for row, reason in rows])

    def find_rejected(self, *, ids: Sequence[int] | None = None, event_type: str | None = None) -> Sequence[int]:
        """Return the ids of rejected rows, sorted."""
        return [row_id for (row_id,) in self._run("rejected_find", ids, event_type).fetchall()]

    def list_rejected(
        self,
        limit: int,
        *,
        newest: bool = True,
        ids: Sequence[int] | None = None,
        event_type: str | None = None,
        after: int | None = None,
    ) -> Sequence[RejectedRow]:
        """Return the newest or oldest rejected rows."""
        rows = self._run("rejected_list", ids, event_type, limit=limit, newest=newest, after=after).fetchall()
        return [RejectedRow(*row) for row in rows]

    def retry_rejected(self, *, ids: Sequence[int] | None = None, event_type: str | None = None) -> int:
        """Put rejected rows back into the outbox."""
        return self._run("rejected_retry", ids, event_type).rowcount

    def delete_rejected(self, *, ids: Sequence[int] | None = None, event_type: str | None = None) -> int:
        """Delete rejected rows."""
        return self._run("rejected_delete", ids, event_type).rowcount

    def expire_rejected(self, before: int, rows: int) -> int:
        """Delete rows that were rejected long ago."""
        return self._connection.execute(_sql["rejected_expire"], {"before": before, "rows": rows}).rowcount

    def _finish(self, look: PendingLook, rows: Sequence[Any]) -> set[str] | None:
        xmax, running, found = rows[0][:3]
        return self._looks.finish(look, OutboxSnapshot(xmax, running), found)

    def _note_heads(self, rows: Sequence[Any]) -> dict[int, PartitionHead]:
        return self._history.note(row[3:] for row in rows if row[3] is not None)

    def _run(
        self, statement_name: str, ids: Sequence[int] | None, event_type: str | None, **given: Any
    ) -> "psycopg.Cursor[tuple[Any, ...]]":
        return self._connection.execute(_sql[statement_name], given | select_rejected(ids, event_type))

    def _run_planned(self, statement_name: str, /, **given: Any) -> list[Any]:
        """Run a statement whose file first sets how it is planned; both go out in one exchange."""
        with psycopg.ClientCursor(self._connection) as cursor:
            cursor.execute(_sql[statement_name], given)
            cursor.nextset()
            return cursor.fetchall()
