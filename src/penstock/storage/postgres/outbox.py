"""The outbox in PostgreSQL, where transactions commit in another order than they take their ids.

Each row stores the id of the transaction that inserted it. A look is a snapshot: it sees all transactions below its
xmax except those that were still running. The next look asks only for rows of transactions at or above that xmax, and
of those that were running then. So no row that commits late is lost, and an empty outbox costs the same however many
dead rows a long transaction keeps from being vacuumed. docs/decisions/outbox-snapshots.md gives the reasons.

Invariants:
    Whoever takes rows of an event type holds its lock until the transaction ends.
    An event type that is not waiting has no row left that the last look could see: its next rows lie after that look.
    A snapshot counts as drained only after the transaction that took all it saw has committed.
    A crash of the database voids all looks before it: PostgreSQL reuses the ids of transactions that were not on disk.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final, NamedTuple

import psycopg

from penstock.storage.outbox import OutboxRow, Taken
from penstock.storage.statements import statement

_sql: Final[Any] = partial(statement, __package__)
_LOCK_CLASS: Final = 0x70656E73


class Snapshot(NamedTuple):
    """What a look could see: the transactions below *xmax* but those *running* (as texts; they are 64 bits wide)."""

    xmax: str
    running: list[str]


_NOTHING: Final = Snapshot("0", [])


class Asked(NamedTuple):
    """A look that is begun: others may look before it ends."""

    since: Snapshot
    """What it need not see."""
    moment: tuple[int, int]


class Looks:
    """What this process has seen of the outbox, shared by its connections."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._number = 0
        self.seen = _NOTHING
        self.drained: dict[str, Snapshot] = {}
        self._found: dict[str, int] = {}
        self._crashes = 0

    def looking(self) -> AbstractContextManager[bool]:
        """Let one look at a time."""
        return self._guard

    def found(self, snapshot: Snapshot, names: Sequence[str]) -> None:
        """Record a look, while looking."""
        self._number += 1
        before, self.seen = self.seen, snapshot
        for name in names:
            if name not in self._found and int(self.drained.get(name, _NOTHING).xmax) < int(before.xmax):
                self.drained[name] = before
        self._found.update(dict.fromkeys(names, self._number))

    def asking(self) -> Asked:
        """Begin a look, after which others may look, too."""
        with self._guard:
            return Asked(self.seen, self.moment)

    def follows(self, asked: Asked, snapshot: Snapshot, names: Sequence[str]) -> set[str] | None:
        """Record the look that was begun as *asked*, and return the event types that wait.

        None: there was another meanwhile, or a crash, so that this one counts for nothing.
        """
        with self._guard:
            if asked.moment != self.moment or not self.goes_on(snapshot):
                return None
            self.found(snapshot, names)
            return {*self._found}

    def waiting(self) -> list[str]:
        """Return the event types that had rows and were not drained since, while looking."""
        return list(self._found)

    def behind(self) -> Snapshot:
        """Return a snapshot that saw no row that still waits."""
        with self._guard:
            each = [self.seen, *(self.drained.get(name, _NOTHING) for name in self._found)]
        return Snapshot(
            min((look.xmax for look in each), key=int), sorted({xid for look in each for xid in look.running})
        )

    @property
    def moment(self) -> tuple[int, int]:
        """How often all was forgotten, and the number of the last look."""
        return self._crashes, self._number

    def forget(self) -> None:
        """Forget all looks: the database may have crashed. The next look sees everything."""
        with self._guard:
            self._forget()

    def goes_on(self, snapshot: Snapshot) -> bool:
        """Tell, while looking, whether *snapshot* can follow the last one; if not, forget that."""
        if int(snapshot.xmax) >= int(self.seen.xmax):
            return True
        self._forget()
        return False

    def drain(self, name: str, snapshot: Snapshot, moment: tuple[int, int]) -> None:
        """Record that all that *snapshot* saw of *name* is in the log; it was taken after *moment*."""
        crashes, number = moment
        with self._guard:
            if crashes != self._crashes:
                return
            self.drained[name] = snapshot
            if self._found.get(name, number + 1) <= number:
                del self._found[name]

    def _forget(self) -> None:
        self._crashes += 1
        self.seen = _NOTHING
        self.drained.clear()


class PostgresOutbox:
    """See `penstock.storage.outbox.Outbox`."""

    def __init__(
        self,
        connection: "psycopg.Connection[tuple[Any, ...]]",
        looks: Looks,
        after_commit: list[Callable[[], None]],
    ) -> None:
        self._connection = connection
        self._looks = looks
        self._after_commit = after_commit

    def waiting(self, names: Iterable[str] | None) -> Sequence[str]:
        """See `Outbox.waiting`."""
        looks = self._looks
        with looks.looking():
            snapshot, found = self._look()
            if not looks.goes_on(snapshot):
                snapshot, found = self._look()
            looks.found(snapshot, found)
            waiting = looks.waiting()
        return waiting if names is None else [name for name in names if name in waiting]

    def asking(self) -> Asked:
        """Begin a look that goes out together with other statements."""
        return self._looks.asking()

    def waiting_after(self, asked: Asked, snapshot: Snapshot, found: Sequence[str]) -> set[str]:
        """Return the event types that have rows, after a look; where it counts for nothing, there is another."""
        waiting = self._looks.follows(asked, snapshot, found)
        return {*self.waiting(None)} if waiting is None else waiting

    def count(self, limit: int) -> int:
        """See `Outbox.count`."""
        ((found,),) = self._planned("outbox_count", limit=limit, **self._looks.behind()._asdict())
        return int(found)

    def take(self, name: str, rows_max: int, bytes_max: int) -> Taken:
        """See `Outbox.take`."""
        self._one("outbox_lock", **{"class": _LOCK_CLASS, "name": name})
        moment = self._looks.moment
        drained = self._looks.drained.get(name, _NOTHING)
        found = self._planned("outbox_take", name=name, rows=rows_max, bytes=bytes_max, **drained._asdict())
        xmax, running, last = found[0][:3]
        taken = Taken(sorted(OutboxRow(*row[3:]) for row in found if row[3] is not None), last)
        if not taken.more:
            self._after_commit.append(lambda: self._looks.drain(name, Snapshot(xmax, running), moment))
        return taken

    def _look(self) -> tuple[Snapshot, list[str]]:
        ((xmax, running, found),) = self._planned("outbox_look", **self._looks.seen._asdict())
        return Snapshot(xmax, running), found

    def _planned(self, statement_name: str, /, **given: Any) -> list[Any]:
        """Run a statement with what it says first of how it is to be planned: both go out together."""
        with psycopg.ClientCursor(self._connection) as cursor:
            cursor.execute(_sql(statement_name), given)
            cursor.nextset()
            return cursor.fetchall()

    def _one(self, statement_name: str, /, **given: Any) -> Any:
        return self._connection.execute(_sql(statement_name), given).fetchone()
